// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/scan.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <tuple>
#include <unordered_map>

namespace weightproof::suites {
namespace {

// One read: consecutive bytes of one file that hold whole small tensors, or a part of a large one.
struct Panel {
  std::uint32_t file;
  std::uint64_t begin;
  std::uint64_t end;
  std::size_t first_order;  // position in `order` of the first tensor that the panel touches
};

// A file while panels of it are outstanding.
struct OpenFile {
  std::mutex mutex;
  std::shared_ptr<storage::File> file;
  std::size_t panels_left = 0;
  std::optional<Error> error;
};

class Scan {
 public:
  Scan(const storage::Checkpoint& checkpoint, std::span<const std::uint32_t> tensors, const ScanOptions& options)
      : checkpoint_(checkpoint),
        rows_(checkpoint.catalog.tensors()),
        options_(options),
        files_(checkpoint.shards.size()) {
    order_.assign(tensors.begin(), tensors.end());
    std::sort(order_.begin(), order_.end(), [this](std::uint32_t a, std::uint32_t b) {
      const auto key = [this](std::uint32_t t) { return std::tuple(rows_[t].file, rows_[t].begin, rows_[t].bytes, t); };
      return key(a) < key(b);
    });
    plan_panels();
  }

  ScanResult run() {
    const auto workers =
        std::min<std::size_t>(std::max(1U, options_.threads), std::max<std::size_t>(1, panels_.size()));
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < workers; ++i) {
      threads.emplace_back([this] { work(); });
    }
    work();
    for (std::thread& thread : threads) {
      thread.join();
    }
    return finish();
  }

 private:
  void plan_panels() {
    const std::uint64_t cut = std::max<std::uint64_t>(k_cut_bytes, options_.read_bytes / k_cut_bytes * k_cut_bytes);
    Panel open{};
    bool is_open = false;
    const auto close = [&] {
      if (is_open) {
        panels_.push_back(open);
        ++files_[open.file].panels_left;
      }
      is_open = false;
    };
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const StoredTensor& row = rows_[order_[i]];
      total_bytes_ += row.bytes;
      const std::uint64_t end = row.begin + row.bytes;
      if (row.bytes == 0) {
        continue;  // nothing to read; finish() counts it
      }
      if (is_open &&
          (open.file != row.file || end - open.begin > cut || row.begin > open.end + limits::read_gap_bytes_max)) {
        close();
      }
      if (is_open) {
        open.end = std::max(open.end, end);
        continue;
      }
      std::uint64_t begin = row.begin;
      while (end - begin > cut) {
        panels_.push_back({row.file, begin, begin + cut, i});
        ++files_[row.file].panels_left;
        begin += cut;
      }
      open = {row.file, begin, end, i};
      is_open = true;
      if (begin != row.begin) {
        close();  // the rest of a large tensor stays alone: small ones are never cut
      }
    }
    close();
  }

  void work() {
    if (!keeps_subnormals()) {
      has_float_mode_fault_ = true;
    }
    std::vector<std::byte> buffer;
    while (true) {
      const std::size_t next = next_panel_.fetch_add(1);
      if (next >= panels_.size()) {
        return;
      }
      const Panel& panel = panels_[next];
      if (const auto file = acquire(panel.file)) {
        read_panel(panel, *file, buffer);
      }
      release(panel.file);
      if (options_.progress) {
        options_.progress(done_bytes_.load(), total_bytes_);
      }
    }
  }

  void read_panel(const Panel& panel, const storage::File& file, std::vector<std::byte>& buffer) {
    try {
      const auto size = static_cast<std::size_t>(panel.end - panel.begin);
      if (buffer.size() < size) {
        buffer.resize(size);
      }
      const std::span<std::byte> bytes(buffer.data(), size);
      file.read(panel.begin, bytes);
      ++reads_;
      done_bytes_ += size;
      for (std::size_t i = panel.first_order; i < order_.size(); ++i) {
        const StoredTensor& row = rows_[order_[i]];
        if (row.file != panel.file || row.begin >= panel.end) {
          break;
        }
        const std::uint64_t from = std::max(row.begin, panel.begin);
        const std::uint64_t to = std::min(row.begin + row.bytes, panel.end);
        if (from < to) {
          scan_piece(order_[i], row, from, bytes.subspan(from - panel.begin, to - from));
        }
      }
    } catch (Error& error) {
      fail(panel.file, std::move(error));
    } catch (const std::bad_alloc&) {
      fail(panel.file, Error(ErrorCode::alloc_failed, "no memory for a read buffer"));
    }
  }

  void scan_piece(std::uint32_t tensor, const StoredTensor& row, std::uint64_t from, std::span<const std::byte> bytes) {
    const std::uint64_t first = (from - row.begin) * 8 / bits_of(row.dtype);
    const bool is_whole = bytes.size() == row.bytes;
    const bool is_exact = is_whole && row.bytes * 8 / bits_of(row.dtype) <= k_exact_elements_max;
    const TileFacts facts = scan_tile(row.dtype, bytes, first, is_exact);
    if (is_whole) {
      conclude(tensor, row, facts);
      return;
    }
    const std::lock_guard lock(mutex_);
    Partial& partial = partial_[tensor];
    partial.facts.merge(facts);
    partial.bytes += bytes.size();
    if (partial.bytes == row.bytes) {
      const TileFacts whole = partial.facts;
      partial_.erase(tensor);
      conclude_locked(tensor, row, whole);
    }
  }

  void conclude(std::uint32_t tensor, const StoredTensor& row, const TileFacts& facts) {
    const std::lock_guard lock(mutex_);
    conclude_locked(tensor, row, facts);
  }

  void conclude_locked(std::uint32_t tensor, const StoredTensor& row, const TileFacts& facts) {
    ++result_.tensors;
    result_.elements += facts.elements;
    auto outlier = find_outlier(row.dtype, facts);
    const bool is_single_valued = facts.elements > 1 && facts.is_constant;
    const bool is_zero = facts.elements > 0 && facts.is_zero;
    if (facts.nan_count > 0 || facts.inf_count > 0 || facts.odd_bool_count > 0 || is_single_valued || is_zero ||
        outlier) {
      result_.notable.push_back({tensor, facts, outlier});
    }
  }

  std::shared_ptr<storage::File> acquire(std::uint32_t index) {
    OpenFile& slot = files_[index];
    const std::lock_guard lock(slot.mutex);
    if (slot.error) {
      return nullptr;
    }
    if (!slot.file) {
      const storage::Shard& shard = checkpoint_.shards[index];
      try {
        storage::FileCalls& calls = options_.calls != nullptr ? *options_.calls : storage::FileCalls::system();
        auto file = std::make_shared<storage::File>(storage::File::open(checkpoint_.path_of(index), shard.name, calls));
        if (shard.header) {
          file->require_identity(shard.header->identity);
        }
        slot.file = std::move(file);
      } catch (Error& error) {
        slot.error = std::move(error);
      }
    }
    return slot.file;
  }

  // After the last panel the file is compared once more with the one whose header was read.
  void release(std::uint32_t index) {
    OpenFile& slot = files_[index];
    const std::lock_guard lock(slot.mutex);
    if (--slot.panels_left > 0) {
      return;
    }
    slot.file.reset();
    const storage::Shard& shard = checkpoint_.shards[index];
    if (slot.error || !shard.header) {
      return;
    }
    try {
      if (storage::identity_of(checkpoint_.path_of(index), shard.name) != shard.header->identity) {
        ErrorFacts facts;
        facts.file = shard.name;
        facts.hint = "verify again when nothing writes to the checkpoint";
        slot.error = Error(ErrorCode::file_changed, shard.name + " changed while it was read", facts);
      }
    } catch (Error& error) {
      slot.error = std::move(error);
    }
  }

  void fail(std::uint32_t index, Error error) {
    OpenFile& slot = files_[index];
    const std::lock_guard lock(slot.mutex);
    if (!slot.error) {
      slot.error = std::move(error);
    }
  }

  ScanResult finish() {
    for (OpenFile& slot : files_) {
      if (slot.error) {
        result_.errors.push_back(*slot.error);
      }
    }
    std::uint64_t empty = 0;
    for (const std::uint32_t tensor : order_) {
      const StoredTensor& row = rows_[tensor];
      if (row.bytes == 0) {
        ++empty;
      } else if (files_[row.file].error) {
        result_.unread.push_back(tensor);
      }
    }
    // Facts of a file that failed half-way, or changed, are not facts about the checkpoint.
    std::erase_if(result_.notable,
                  [this](const NotableTensor& row) { return files_[rows_[row.tensor].file].error.has_value(); });
    result_.tensors = order_.size() - result_.unread.size();
    std::sort(result_.unread.begin(), result_.unread.end());
    std::sort(result_.notable.begin(), result_.notable.end(),
              [](const NotableTensor& a, const NotableTensor& b) { return a.tensor < b.tensor; });
    result_.bytes = done_bytes_;
    result_.reads = reads_;
    result_.has_float_mode_fault = has_float_mode_fault_;
    return std::move(result_);
  }

  struct Partial {
    TileFacts facts;
    std::uint64_t bytes = 0;
  };

  const storage::Checkpoint& checkpoint_;
  std::span<const StoredTensor> rows_;
  const ScanOptions& options_;
  std::vector<std::uint32_t> order_;  // tensors by file and offset
  std::vector<Panel> panels_;
  std::vector<OpenFile> files_;
  std::uint64_t total_bytes_ = 0;
  std::atomic<std::size_t> next_panel_{0};
  std::atomic<std::uint64_t> done_bytes_{0};
  std::atomic<std::uint64_t> reads_{0};
  std::atomic<bool> has_float_mode_fault_{false};
  std::mutex mutex_;  // guards result_ and partial_
  std::unordered_map<std::uint32_t, Partial> partial_;
  ScanResult result_;
};

}  // namespace

ScanResult scan_values(const storage::Checkpoint& checkpoint, std::span<const std::uint32_t> tensors,
                       const ScanOptions& options) {
  return Scan(checkpoint, tensors, options).run();
}

ByteComparison compare_ranges(const storage::File& a, std::uint64_t begin_a, const storage::File& b,
                              std::uint64_t begin_b, std::uint64_t bytes, std::size_t element_bytes) {
  ByteComparison out;
  out.bytes = bytes;
  const std::size_t step = limits::read_bytes_max / element_bytes * element_bytes;
  std::vector<std::byte> left(static_cast<std::size_t>(std::min<std::uint64_t>(step, bytes)));
  std::vector<std::byte> right(left.size());
  for (std::uint64_t at = 0; at < bytes; at += step) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(step, bytes - at));
    a.read(begin_a + at, std::span(left).first(size));
    b.read(begin_b + at, std::span(right).first(size));
    if (std::memcmp(left.data(), right.data(), size) == 0) {
      continue;
    }
    for (std::size_t i = 0; i < size; i += element_bytes) {
      if (std::memcmp(left.data() + i, right.data() + i, element_bytes) == 0) {
        continue;
      }
      if (!out.first_element) {
        out.first_element = (at + i) / element_bytes;
        out.first_a.assign(left.begin() + static_cast<std::ptrdiff_t>(i),
                           left.begin() + static_cast<std::ptrdiff_t>(i + element_bytes));
        out.first_b.assign(right.begin() + static_cast<std::ptrdiff_t>(i),
                           right.begin() + static_cast<std::ptrdiff_t>(i + element_bytes));
      }
      ++out.differing_elements;
    }
  }
  return out;
}

bool keeps_subnormals() {
  // Volatile: the machine has to do it, not the compiler.
  volatile float single = std::numeric_limits<float>::denorm_min();
  volatile double wide = std::numeric_limits<double>::denorm_min();
  volatile float single_least = std::numeric_limits<float>::min();
  volatile double wide_least = std::numeric_limits<double>::min();
  const float single_input = single * 1.0F;
  const double wide_input = wide * 1.0;
  const float single_result = single_least * 0.5F;
  const double wide_result = wide_least * 0.5;
  return single_input != 0 && wide_input != 0 && single_result != 0 && wide_result != 0;
}

unsigned thread_count(std::uint64_t asked) {
  constexpr std::uint64_t most = 256;
  const std::uint64_t wanted = asked == 0 ? std::thread::hardware_concurrency() : asked;
  return static_cast<unsigned>(std::clamp<std::uint64_t>(wanted, 1, most));
}

}  // namespace weightproof::suites
