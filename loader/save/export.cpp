// SPDX-License-Identifier: Apache-2.0
#include "loader/save/export.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "loader/core/error.hpp"
#include "loader/storage/file.hpp"

namespace weightproof::save {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t k_unfinished_max = 8;
constexpr std::string_view k_index_name = "model.safetensors.index.json";

// What is remembered of a window, to compare with what the file holds afterwards: against accidents, not against
// somebody who wants a collision.
std::uint64_t window_digest(std::span<const std::byte> bytes) {
  constexpr std::uint64_t multiplier = 0x9FB21C651E98DF25ULL;
  std::uint64_t lanes[4] = {0x243F6A8885A308D3ULL, 0x13198A2E03707344ULL, 0xA4093822299F31D0ULL, 0x082EFA98EC4E6C89ULL};
  const auto mix = [&](std::uint64_t& lane, std::uint64_t word) {
    lane = (lane ^ word) * multiplier;
    lane ^= lane >> 32;
  };
  std::size_t at = 0;
  for (; bytes.size() - at >= 32; at += 32) {
    std::uint64_t words[4];
    std::memcpy(words, bytes.data() + at, 32);
    for (int i = 0; i < 4; ++i) mix(lanes[i], words[i]);
  }
  for (; at < bytes.size(); ++at) mix(lanes[at % 4], std::to_integer<std::uint64_t>(bytes[at]) + 1);
  std::uint64_t digest = bytes.size();
  for (const std::uint64_t lane : lanes) mix(digest, lane);
  return digest;
}

struct PlannedFile {
  std::string name;
  storage::HeaderPlan header;
  std::vector<std::size_t> sources;  // per planned tensor: position in the list given
  std::uint64_t bytes() const { return header.bytes.size() + header.data_bytes; }
};

class Exporter {
 public:
  Exporter(std::span<const ExportTensor> tensors, ExportSource& source, const ExportOptions& options)
      : tensors_(tensors),
        source_(source),
        options_(options),
        calls_(options.calls != nullptr ? *options.calls : WriteCalls::system()) {}

  ExportResult run(const fs::path& target);

 private:
  void plan_by_size();
  void plan_by_layout();
  void plan_single(std::string name);
  PlannedFile plan_file(std::string name, std::vector<std::size_t> members, storage::HeaderStyle style,
                        const std::optional<storage::Metadata>& metadata) const;
  std::optional<PlannedFile> plan_kept_header(const FileLayout& layout) const;
  void require_distinct_names() const;
  WritableFile write_file(Staging& staging, const PlannedFile& file, std::vector<std::uint64_t>& digests);
  void verify_file(const Staging& staging, const PlannedFile& file, const std::vector<std::uint64_t>& digests);
  [[noreturn]] void report_difference(const storage::File& written, const PlannedFile& file, std::uint64_t offset,
                                      std::size_t bytes);
  void fill(const PlannedFile& file, std::uint64_t offset, std::span<std::byte> window) const;
  void for_each_window(const PlannedFile& file,
                       const std::function<void(std::uint64_t, std::span<std::byte>)>& work) const;
  void advance(std::uint64_t bytes);
  std::string index() const;

  std::span<const ExportTensor> tensors_;
  ExportSource& source_;
  const ExportOptions& options_;
  WriteCalls& calls_;
  std::unordered_map<std::string_view, std::size_t> positions_;
  std::vector<PlannedFile> files_;
  ExportResult result_;
  std::uint64_t total_work_ = 0;
  std::atomic<std::uint64_t> done_work_{0};
};

PlannedFile Exporter::plan_file(std::string name, std::vector<std::size_t> members, storage::HeaderStyle style,
                                const std::optional<storage::Metadata>& metadata) const {
  std::vector<storage::TensorSpec> specs;
  specs.reserve(members.size());
  for (const std::size_t member : members) {
    specs.push_back({tensors_[member].key, tensors_[member].dtype, tensors_[member].shape});
  }
  PlannedFile file;
  file.name = std::move(name);
  file.header = storage::plan_header(specs, metadata, style);
  for (const storage::PlannedTensor& planned : file.header.tensors) file.sources.push_back(members[planned.source]);
  return file;
}

void Exporter::plan_single(std::string name) {
  std::vector<std::size_t> members(tensors_.size());
  for (std::size_t i = 0; i < members.size(); ++i) members[i] = i;
  files_.push_back(plan_file(std::move(name), std::move(members), options_.style, options_.metadata));
}

void Exporter::plan_by_size() {
  std::vector<ShardItem> items;
  for (const ExportTensor& tensor : tensors_) {
    items.push_back({byte_count(tensor.shape, tensor.dtype).value_or(0), tensor.storage});
  }
  ShardList shards = split_by_hub_rule(items, options_.shard_bytes);
  if (shards.empty()) shards.emplace_back();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    files_.push_back(
        plan_file(shard_name(i + 1, shards.size()), std::move(shards[i]), options_.style, options_.metadata));
  }
  if (files_.size() > 1) result_.index_name = k_index_name;
}

// The header text of a layout counts only where it says what is to be written.
std::optional<PlannedFile> Exporter::plan_kept_header(const FileLayout& layout) const {
  const std::string& text = layout.header_text;
  if (text.empty()) return std::nullopt;
  std::uint64_t data_bytes = 0;
  for (const std::string& key : layout.keys) {
    const ExportTensor& tensor = tensors_[positions_.at(key)];
    data_bytes += byte_count(tensor.shape, tensor.dtype).value_or(0);
  }
  const storage::Header header = storage::scan_header(text, 8 + text.size() + data_bytes, layout.name, nullptr);
  if (header.error || header.tensors.size() != layout.keys.size()) return std::nullopt;
  PlannedFile file;
  file.name = layout.name;
  for (unsigned i = 0; i < 8; ++i)
    file.header.bytes += static_cast<char>(static_cast<unsigned char>(text.size() >> (8 * i)));
  file.header.bytes += text;
  file.header.data_bytes = data_bytes;
  std::vector<const storage::HeaderTensor*> order;
  for (const storage::HeaderTensor& tensor : header.tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
  });
  for (const storage::HeaderTensor* entry : order) {
    const auto position = positions_.find(entry->name);
    if (position == positions_.end()) return std::nullopt;
    const ExportTensor& tensor = tensors_[position->second];
    if (tensor.dtype != entry->dtype || tensor.shape != entry->shape) return std::nullopt;
    file.header.tensors.push_back({file.sources.size(), entry->begin, entry->end});
    file.sources.push_back(position->second);
  }
  return file;
}

void Exporter::plan_by_layout() {
  const SavedLayout& layout = *options_.layout;
  std::vector<bool> is_placed(tensors_.size(), false);
  const auto refuse = [](const std::string& key, const std::string& file, const std::string& what) {
    ErrorFacts facts;
    facts.file = file;
    facts.keys = {key};
    facts.hint = "the layout of another checkpoint fits only the same tensors; export without it";
    throw Error(ErrorCode::tensor_not_mapped, "tensor '" + key + "' " + what, std::move(facts));
  };
  for (const FileLayout& file : layout.files) {
    std::vector<std::size_t> members;
    for (const std::string& key : file.keys) {
      const auto position = positions_.find(key);
      if (position == positions_.end()) refuse(key, file.name, "of the layout is not among the tensors to be written");
      if (is_placed[position->second]) refuse(key, file.name, "stands twice in the layout");
      is_placed[position->second] = true;
      members.push_back(position->second);
    }
    std::optional<PlannedFile> kept = plan_kept_header(file);
    files_.push_back(kept ? std::move(*kept) : plan_file(file.name, std::move(members), file.style, file.metadata));
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!is_placed[i]) refuse(tensors_[i].key, {}, "has no place in the layout");
  }
  result_.index_name = layout.index_name;
}

void Exporter::require_distinct_names() const {
  std::vector<std::string_view> names;
  for (const PlannedFile& file : files_) names.push_back(file.name);
  if (!result_.index_name.empty()) names.push_back(result_.index_name);
  for (const CarriedFile& file : options_.carried) names.push_back(file.name);
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin == names.end()) return;
  throw Error(ErrorCode::usage, "the export would write '" + std::string(*twin) + "' twice");
}

void Exporter::fill(const PlannedFile& file, std::uint64_t offset, std::span<std::byte> window) const {
  const std::uint64_t header_bytes = file.header.bytes.size();
  std::size_t done = 0;
  if (offset < header_bytes) {
    done = static_cast<std::size_t>(std::min<std::uint64_t>(window.size(), header_bytes - offset));
    std::memcpy(window.data(), file.header.bytes.data() + offset, done);
  }
  if (done == window.size()) return;
  const std::uint64_t first = offset + done - header_bytes;  // in the data
  const auto& planned = file.header.tensors;
  std::size_t i = static_cast<std::size_t>(
      std::upper_bound(planned.begin(), planned.end(), first,
                       [](std::uint64_t at, const storage::PlannedTensor& tensor) { return at < tensor.end; }) -
      planned.begin());
  while (done < window.size()) {
    const storage::PlannedTensor& tensor = planned[i];
    const std::uint64_t at = offset + done - header_bytes;
    const std::size_t part = static_cast<std::size_t>(std::min<std::uint64_t>(window.size() - done, tensor.end - at));
    if (part != 0) source_.read(file.sources[i], at - tensor.begin, window.subspan(done, part));
    done += part;
    ++i;
  }
}

void Exporter::advance(std::uint64_t bytes) {
  const std::uint64_t done = done_work_.fetch_add(bytes) + bytes;
  if (options_.progress) options_.progress(done, total_work_);
}

// Runs `work` for each window of the file on the threads asked for, each with one buffer. The first failure stops the
// others and is thrown.
void Exporter::for_each_window(const PlannedFile& file,
                               const std::function<void(std::uint64_t, std::span<std::byte>)>& work) const {
  const std::uint64_t window_bytes = std::max<std::size_t>(1, options_.window_bytes);
  const std::uint64_t windows = (file.bytes() + window_bytes - 1) / window_bytes;
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> has_failed{false};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&] {
    try {
      std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(window_bytes, file.bytes())));
      for (std::uint64_t i = next++; i < windows && !has_failed.load(); i = next++) {
        if (options_.stop.stop_requested()) {
          throw Error(ErrorCode::load_failed_partial, "the export was stopped; nothing was published");
        }
        const std::uint64_t offset = i * window_bytes;
        const std::size_t bytes = static_cast<std::size_t>(std::min(window_bytes, file.bytes() - offset));
        work(offset, {buffer.data(), bytes});
      }
    } catch (...) {
      has_failed = true;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    const std::uint64_t count = std::min<std::uint64_t>(options_.threads, windows);
    for (std::uint64_t i = 1; i < count; ++i) {
      try {
        threads.emplace_back(run);
      } catch (const std::system_error&) {
        break;  // those that run do the work
      }
    }
    run();
  }
  if (failure) std::rethrow_exception(failure);
}

WritableFile Exporter::write_file(Staging& staging, const PlannedFile& file, std::vector<std::uint64_t>& digests) {
  const std::uint64_t window_bytes = std::max<std::size_t>(1, options_.window_bytes);
  digests.assign(static_cast<std::size_t>((file.bytes() + window_bytes - 1) / window_bytes), 0);
  WritableFile out = staging.create(file.name, file.bytes());
  for_each_window(file, [&](std::uint64_t offset, std::span<std::byte> window) {
    fill(file, offset, window);
    if (options_.is_verified) digests[static_cast<std::size_t>(offset / window_bytes)] = window_digest(window);
    out.write(offset, window);
    out.start_writeback(offset, window.size());
    advance(window.size());
  });
  result_.bytes_written += file.bytes();
  return out;
}

void Exporter::report_difference(const storage::File& written, const PlannedFile& file, std::uint64_t offset,
                                 std::size_t bytes) {
  std::vector<std::byte> expected(bytes);
  std::vector<std::byte> found(bytes);
  fill(file, offset, expected);
  written.read(offset, found);
  const auto [at, other] = std::mismatch(expected.begin(), expected.end(), found.begin());
  ErrorFacts facts;
  facts.file = file.name;
  facts.check = "value.roundtrip";
  facts.hint = "disk, memory or another writer changed the file; nothing was published";
  if (at == expected.end()) {
    facts.byte_offset = offset;
    throw Error(
        ErrorCode::export_verify_failed,
        "'" + file.name + "' read back differs from what was written, but equals its source now: the source changed",
        std::move(facts));
  }
  const std::uint64_t place = offset + static_cast<std::uint64_t>(at - expected.begin());
  facts.byte_offset = place;
  facts.expected = std::to_string(std::to_integer<unsigned>(*at));
  facts.actual = std::to_string(std::to_integer<unsigned>(*other));
  std::string where = "its header";
  if (place >= file.header.bytes.size()) {
    const std::uint64_t data_place = place - file.header.bytes.size();
    for (std::size_t i = 0; i < file.header.tensors.size(); ++i) {
      const storage::PlannedTensor& planned = file.header.tensors[i];
      if (data_place < planned.begin || data_place >= planned.end) continue;
      const ExportTensor& tensor = tensors_[file.sources[i]];
      const std::uint64_t element = (data_place - planned.begin) * 8 / bits_of(tensor.dtype);
      const Coordinate coordinate = coordinate_of(tensor.shape, element);
      facts.keys = {tensor.key};
      facts.coordinate.assign(coordinate.begin(), coordinate.end());
      where = "tensor '" + tensor.key + "' at " + to_string(coordinate);
    }
  }
  const std::string message = "'" + file.name + "' read back differs from what was written: byte " +
                              std::to_string(place) + " (" + where + ") is " + facts.actual + ", written was " +
                              facts.expected;
  throw Error(ErrorCode::export_verify_failed, message, std::move(facts));
}

void Exporter::verify_file(const Staging& staging, const PlannedFile& file, const std::vector<std::uint64_t>& digests) {
  const std::uint64_t window_bytes = std::max<std::size_t>(1, options_.window_bytes);
  const storage::File written = storage::File::open(staging.path() / file.name, file.name);
  if (written.size() != file.bytes()) {
    ErrorFacts facts;
    facts.file = file.name;
    facts.expected = std::to_string(file.bytes()) + " bytes";
    facts.actual = std::to_string(written.size()) + " bytes";
    throw Error(ErrorCode::export_verify_failed,
                "'" + file.name + "' has " + facts.actual + " after it was written, expected " + facts.expected,
                std::move(facts));
  }
  for_each_window(file, [&](std::uint64_t offset, std::span<std::byte> window) {
    written.read(offset, window);
    if (window_digest(window) != digests[static_cast<std::size_t>(offset / window_bytes)]) {
      report_difference(written, file, offset, window.size());
    }
    advance(window.size());
  });
  const storage::Header header = storage::read_header(written);
  if (header.error || header.tensors.size() != file.sources.size()) {
    ErrorFacts facts;
    facts.file = file.name;
    facts.actual = header.error ? header.error->what() : std::to_string(header.tensors.size()) + " tensors";
    throw Error(ErrorCode::export_verify_failed,
                "the header of '" + file.name + "' does not read back: " + facts.actual, std::move(facts));
  }
  result_.bytes_verified += file.bytes();
}

std::string Exporter::index() const {
  const SavedLayout* layout = options_.layout ? &*options_.layout : nullptr;
  if (layout != nullptr && !layout->index_text.empty() && layout->payload_bytes == result_.total_size) {
    return layout->index_text;
  }
  std::unordered_map<std::string_view, const std::string*> file_of;
  std::vector<std::pair<std::string, std::string>> map;
  for (const PlannedFile& file : files_) {
    for (const std::size_t source : file.sources) {
      map.emplace_back(tensors_[source].key, file.name);
      file_of.emplace(tensors_[source].key, &file.name);
    }
  }
  if (layout == nullptr) return storage::index_text(map, result_.total_size, result_.total_parameters);
  if (layout->index_keys.size() == map.size()) {
    std::vector<std::pair<std::string, std::string>> ordered;
    for (const std::string& key : layout->index_keys) {
      const auto file = file_of.find(key);
      if (file != file_of.end()) ordered.emplace_back(key, *file->second);
    }
    if (ordered.size() == map.size()) map = std::move(ordered);
  }
  return storage::index_text(map, result_.total_size, result_.total_parameters, layout->index_style);
}

ExportResult Exporter::run(const fs::path& target) {
  const bool is_file = target.filename().string().ends_with(".safetensors");
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (positions_.emplace(tensors_[i].key, i).second) continue;
    ErrorFacts facts;
    facts.keys = {tensors_[i].key};
    throw Error(ErrorCode::duplicate_key, "tensor '" + tensors_[i].key + "' is given twice", std::move(facts));
  }
  if (is_file) {
    if (options_.layout && options_.layout->files.size() == 1) {
      plan_by_layout();
      result_.index_name.clear();
      files_[0].name = target.filename().string();
    } else {
      plan_single(target.filename().string());
    }
  } else if (options_.layout) {
    plan_by_layout();
  } else {
    plan_by_size();
  }
  require_distinct_names();
  for (const PlannedFile& file : files_) {
    total_work_ += file.bytes() * (options_.is_verified ? 2 : 1);
    result_.total_size += file.header.data_bytes;
    result_.files.push_back({file.name, file.bytes(), file.sources.size()});
  }
  for (const ExportTensor& tensor : tensors_) result_.total_parameters += element_count(tensor.shape).value_or(0);

  Staging staging(target, options_.replace, calls_);
  std::deque<WritableFile> unfinished;  // on their way to the disk while the next ones are written
  const auto finish_first = [&] {
    unfinished.front().finish();
    unfinished.pop_front();
  };
  for (const PlannedFile& file : files_) {
    std::vector<std::uint64_t> digests;
    source_.begin_file(file.sources);
    unfinished.push_back(write_file(staging, file, digests));
    if (options_.is_verified) verify_file(staging, file, digests);
    if (unfinished.size() > k_unfinished_max) finish_first();
  }
  while (!unfinished.empty()) finish_first();
  if (is_file) {
    staging.publish_file(files_[0].name);
    return std::move(result_);
  }
  for (const CarriedFile& file : options_.carried) staging.write_text(file.name, file.text);
  // Last: a staging directory without it can not be taken for a checkpoint.
  if (!result_.index_name.empty()) staging.write_text(result_.index_name, index());
  staging.publish_directory();
  return std::move(result_);
}

}  // namespace

void MemorySource::read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> target) {
  WEIGHTPROOF_ASSERT(tensor < tensors_.size());
  WEIGHTPROOF_ASSERT(offset <= tensors_[tensor].size() && target.size() <= tensors_[tensor].size() - offset);
  std::memcpy(target.data(), tensors_[tensor].data() + offset, target.size());
}

CheckpointSource::CheckpointSource(const storage::Checkpoint& checkpoint) : checkpoint_(checkpoint) {
  for (std::uint32_t shard = 0; shard < checkpoint.shards.size(); ++shard) {
    storage::File file = storage::File::open(checkpoint.path_of(shard), checkpoint.shards[shard].name);
    if (checkpoint.shards[shard].header) file.require_identity(checkpoint.shards[shard].header->identity);
    files_.push_back(std::move(file));
  }
}

void CheckpointSource::read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> target) {
  const StoredTensor& row = checkpoint_.catalog.tensors()[tensor];
  files_[row.file].read(row.begin + offset, target);
}

std::vector<ExportTensor> CheckpointSource::tensors_of(const storage::Checkpoint& checkpoint) {
  std::vector<ExportTensor> tensors;
  for (const StoredTensor& row : checkpoint.catalog.tensors()) {
    if (!row.is_described) {
      ErrorFacts facts;
      facts.keys = {std::string(row.key)};
      throw Error(ErrorCode::tensor_not_mapped, "tensor '" + std::string(row.key) + "' is known by name alone",
                  std::move(facts));
    }
    tensors.push_back({std::string(row.key), row.dtype, row.shape});
  }
  return tensors;
}

ExportResult export_checkpoint(std::span<const ExportTensor> tensors, ExportSource& source, const fs::path& target,
                               const ExportOptions& options) {
  return Exporter(tensors, source, options).run(target);
}

}  // namespace weightproof::save
