// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/counting_calls.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "loader/plan/all_ranks.hpp"
#include "loader/plan/decode_items.hpp"
#include "loader/plan/planner.hpp"

namespace weightproof::suites {
namespace {

/// Comparisons that may have to be read again: with a tensor that another request writes, which compares something
/// itself and so is read beside them. In the order of the requests.
std::vector<const plan::ScatterEntry*> late_comparisons(const plan::Plan& plan) {
  constexpr std::uint32_t k_none = UINT32_MAX;
  const auto is_compared = [&](const plan::ScatterEntry& entry) {
    return plan.moves()[entry.move].action == plan::Action::compare;
  };
  std::vector<std::pair<std::uint32_t, std::uint32_t>> writers(plan.tensors().size(), {k_none, 0});  // first, last
  const auto requests = plan.requests();
  for (std::uint32_t i = 0; i < requests.size(); ++i) {
    const auto entries = plan.entries_of(requests[i]);
    if (std::none_of(entries.begin(), entries.end(), is_compared)) {
      continue;
    }
    for (const plan::ScatterEntry& entry : entries) {
      auto& [first, last] = writers[plan.moves()[entry.move].tensor];
      if (!is_compared(entry)) {
        first = std::min(first, i);
        last = i;
      }
    }
  }
  std::vector<const plan::ScatterEntry*> late;
  for (std::uint32_t i = 0; i < requests.size(); ++i) {
    for (const plan::ScatterEntry& entry : plan.entries_of(requests[i])) {
      const auto& [first, last] = writers[plan.moves()[entry.move].tensor];
      if (is_compared(entry) && first != k_none && (first != i || last != i)) {
        late.push_back(&entry);
      }
    }
  }
  return late;
}

/// Calls `use(row, begin, end)` for every read of the plan: gaps, repeated companions and late comparisons included.
template <typename Use>
void for_each_planned_read(const plan::Plan& plan, const FileRows& rows, const Use& use) {
  for (const plan::ReadRequest& request : plan.requests()) {
    rows.for_each(request.file, request.offset, request.offset + request.bytes, use);
  }
  for (const plan::ScatterEntry* entry : late_comparisons(plan)) {
    use(plan.moves()[entry->move].row, entry->file_offset, entry->file_offset + entry->bytes);
  }
  const auto use_run = [&](const plan::DecodeSource& source, const codec::ByteRun& run) {
    const plan::Row row = source.rows[run.component];
    const std::uint64_t begin = plan.catalog().tensors()[row].begin + run.offset;
    use(row, begin, begin + run.bytes);
  };
  std::vector<codec::ByteRun> before;
  std::vector<codec::ByteRun> now;
  for (const std::uint32_t index : plan.decode_order()) {
    const plan::Move& move = plan.moves()[index];
    const plan::DecodeSource& source = plan.decodes()[move.decode];
    const auto is_weight = [&](const codec::ByteRun& run) {
      return source.codec->components()[run.component].role == codec::Role::weight;
    };
    const plan::DecodeGrid grid = plan::decode_grid(plan, move);
    for (std::uint64_t i = 0; i < grid.count; ++i) {
      if (i % plan::k_tiles_at_once == 0) {
        before.clear();
      }
      now.clear();
      source.codec->byte_runs(grid.tile(i), now);
      const auto companions = std::stable_partition(now.begin(), now.end(), is_weight);
      std::for_each(now.begin(), companions, [&](const codec::ByteRun& run) { use_run(source, run); });
      now.erase(now.begin(), companions);
      plan::for_each_new_companion(before, now,
                                   [&](const codec::ByteRun& run, std::uint64_t) { use_run(source, run); });
      before.swap(now);
    }
  }
  for (const std::uint32_t index : plan.whole_order()) {
    const plan::Move& move = plan.moves()[index];
    if (move.decode == k_no_id) {
      const StoredTensor& row = plan.catalog().tensors()[move.row];
      use(move.row, row.begin, row.begin + row.bytes);
      continue;
    }
    const plan::DecodeSource& source = plan.decodes()[move.decode];
    now.clear();
    source.codec->byte_runs(source.codec->align(Box::whole(source.codec->natural_shape())), now);
    std::for_each(now.begin(), now.end(), [&](const codec::ByteRun& run) { use_run(source, run); });
  }
}

/// Bytes of each row that some move takes, as often as moves take them.
std::vector<std::uint64_t> wanted_of(const plan::Plan& plan) {
  std::vector<std::uint64_t> wanted(plan.catalog().size(), 0);
  std::vector<codec::ByteRun> runs;
  for (const plan::Move& move : plan.moves()) {
    if (move.action == plan::Action::fill) {
      continue;
    }
    if (move.decode == k_no_id) {
      wanted[move.row] += (plan.source_view(move).element_count() * bits_of(move.source_dtype) + 7) / 8;
      continue;
    }
    const plan::DecodeSource& source = plan.decodes()[move.decode];
    runs.clear();
    source.codec->byte_runs(move.route == plan::Route::materialized
                                ? source.codec->align(Box::whole(source.codec->natural_shape()))
                                : plan::decode_grid(plan, move).whole,
                            runs);
    for (const codec::ByteRun& run : runs) {
      wanted[source.rows[run.component]] += run.bytes;
    }
  }
  return wanted;
}

/// From the first byte of each file's tensors to the last: what lies between them may be a tensor that is not in the
/// catalog, since another file has it too.
std::uint64_t stored_bytes(const Catalog& catalog) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ends(catalog.files().size(), {UINT64_MAX, 0});
  for (const StoredTensor& tensor : catalog.tensors()) {
    auto& [begin, end] = ends[tensor.file];
    begin = std::min(begin, tensor.begin);
    end = std::max(end, tensor.begin + tensor.bytes);
  }
  std::uint64_t bytes = 0;
  for (const auto& [begin, end] : ends) {
    bytes += end > begin ? end - begin : 0;
  }
  return bytes;
}

}  // namespace

std::uint64_t reads_bound(std::uint64_t wanted, std::uint64_t ranges, std::uint64_t bytes_per_range) {
  return wanted + wanted / 50 + ranges * bytes_per_range;
}

std::uint64_t reads_bound(const plan::Plan& plan, std::uint64_t gap_bytes_max) {
  const plan::RankFigures figures = plan::figures_of(plan);
  std::uint64_t again = 0;
  for (const plan::ScatterEntry* entry : late_comparisons(plan)) {
    again += entry->bytes;
  }
  const std::uint64_t bound = reads_bound(figures.wanted_bytes() + again, figures.ranges, gap_bytes_max);
  const bool has_requests_alone = plan.decode_order().empty() && plan.whole_order().empty();
  return has_requests_alone ? std::min(bound, reads_bound(stored_bytes(plan.catalog()) + again, 0, 0)) : bound;
}

std::string_view largest_of(const plan::Plan& plan) {
  const plan::PlannedTensor* found = &plan.tensors().front();
  for (const plan::PlannedTensor& tensor : plan.tensors()) {
    found = tensor.bytes > found->bytes ? &tensor : found;
  }
  return found->key;
}

FileRows::FileRows(const Catalog& catalog) : catalog_(&catalog), rows_(catalog.files().size()) {
  const auto tensors = catalog.tensors();
  for (plan::Row row = 0; row < tensors.size(); ++row) {
    if (tensors[row].bytes != 0) {
      rows_[tensors[row].file].push_back(row);
    }
  }
  for (std::vector<plan::Row>& rows : rows_) {
    std::sort(rows.begin(), rows.end(), [&](plan::Row a, plan::Row b) { return tensors[a].begin < tensors[b].begin; });
  }
}

std::size_t FileRows::first_behind(std::uint32_t file, std::uint64_t offset) const {
  const auto tensors = catalog_->tensors();
  const std::vector<plan::Row>& rows = rows_[file];
  const auto at = std::partition_point(
      rows.begin(), rows.end(), [&](plan::Row row) { return tensors[row].begin + tensors[row].bytes <= offset; });
  return static_cast<std::size_t>(at - rows.begin());
}

void CountingCalls::watch(const Catalog& catalog, const std::filesystem::path& root) {
  rows_ = FileRows(catalog);
  row_bytes_.assign(catalog.size(), 0);
  for (std::uint32_t file = 0; file < catalog.files().size(); ++file) {
    file_of_path_[(root / catalog.files()[file]).string()] = file;
  }
}

int CountingCalls::open(const char* path, int flags) {
  const int fd = inner_->open(path, flags);
  const auto file = file_of_path_.find(std::string_view(path));
  const std::lock_guard lock(mutex_);
  ++opens_;
  if (fd >= 0) {
    file_of_.erase(fd);  // whatever it stood for before
    if (file != file_of_path_.end()) {
      file_of_[fd] = file->second;
    }
  }
  return fd;
}

std::int64_t CountingCalls::pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) {
  return counted(fd, inner_->pread(fd, buffer, bytes, offset), offset);
}

std::int64_t CountingCalls::preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) {
  return counted(fd, inner_->preadv(fd, parts, count, offset), offset);
}

std::int64_t CountingCalls::counted(int fd, std::int64_t bytes, std::int64_t offset) {
  if (bytes <= 0) {
    return bytes;
  }
  const auto begin = static_cast<std::uint64_t>(offset);
  const std::uint64_t end = begin + static_cast<std::uint64_t>(bytes);
  const std::lock_guard lock(mutex_);
  bytes_ += end - begin;
  if (const auto file = file_of_.find(fd); file != file_of_.end()) {
    rows_.for_each(file->second, begin, end,
                   [&](plan::Row row, std::uint64_t from, std::uint64_t to) { row_bytes_[row] += to - from; });
  }
  return bytes;
}

void CountingCalls::start() {
  const std::lock_guard lock(mutex_);
  bytes_ = 0;
  std::fill(row_bytes_.begin(), row_bytes_.end(), 0);
}

std::uint64_t CountingCalls::opens() const {
  const std::lock_guard lock(mutex_);
  return opens_;
}

std::uint64_t CountingCalls::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::uint64_t CountingCalls::bytes_of(plan::Row row) const {
  const std::lock_guard lock(mutex_);
  return row_bytes_.at(row);
}

std::vector<std::string> CountingCalls::overread(const plan::Plan& plan, std::uint64_t bound) const {
  const std::lock_guard lock(mutex_);
  const std::vector<std::uint64_t>& counted = row_bytes_;
  std::uint64_t total = bytes_;
  std::vector<std::uint64_t> planned(counted.size(), 0);
  for_each_planned_read(plan, rows_,
                        [&](plan::Row row, std::uint64_t begin, std::uint64_t end) { planned[row] += end - begin; });
  std::vector<bool> is_named(counted.size(), false);
  for (plan::Row row = 0; row < counted.size(); ++row) {
    if (counted[row] > planned[row]) {
      is_named[row] = true;
      total -= counted[row] - planned[row];
    }
  }
  if (total > bound) {
    // The plan itself reads too much: of some tensors far more than it wants.
    const std::vector<std::uint64_t> wanted = wanted_of(plan);
    std::vector<plan::Row> order(counted.size());
    std::iota(order.begin(), order.end(), plan::Row{0});
    const auto excess = [&](plan::Row row) { return planned[row] - std::min(planned[row], wanted[row]); };
    std::stable_sort(order.begin(), order.end(), [&](plan::Row a, plan::Row b) { return excess(a) > excess(b); });
    for (const plan::Row row : order) {
      if (total <= bound || excess(row) == 0) {
        break;
      }
      is_named[row] = true;
      total -= std::min(total, excess(row));
    }
  }
  std::vector<std::string> keys;
  for (plan::Row row = 0; row < counted.size(); ++row) {
    if (is_named[row]) {
      keys.emplace_back(plan.catalog().tensors()[row].key);
    }
  }
  return keys;
}

}  // namespace weightproof::suites
