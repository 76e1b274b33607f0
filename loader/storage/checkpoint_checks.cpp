// SPDX-License-Identifier: Apache-2.0
// Index against headers, and headers against each other.
#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_map>
#include <utility>

#include "loader/core/limits.hpp"
#include "loader/storage/checkpoint_internal.hpp"
#include "loader/storage/header_internal.hpp"

namespace weightproof::storage::detail {
namespace {

constexpr std::size_t k_reported_max = 256;  // diagnostics of one check

const Header* sound_header(const Checkpoint& checkpoint, std::uint32_t shard) {
  const std::optional<Header>& header = checkpoint.shards[shard].header;
  return header && !header->error ? &*header : nullptr;
}

StoredTensor row_of(const Header& header, const HeaderTensor& tensor, std::uint32_t file) {
  StoredTensor row;
  row.key = tensor.name;
  row.shape = tensor.shape;
  row.begin = header.data_begin() + tensor.begin;
  row.bytes = tensor.end - tensor.begin;
  row.file = file;
  row.dtype = tensor.dtype;
  row.is_described = true;
  return row;
}

// Which of the files of the checkpoint hold a tensor, where more than one does.
struct Twin {
  std::uint32_t file = 0;
  const HeaderTensor* tensor = nullptr;
};

bool same_bytes(const Checkpoint& checkpoint, const Twin& a, const Twin& b, FileCalls& calls) {
  constexpr std::size_t window_bytes = 1024 * 1024;
  const Header& left = *checkpoint.shards[a.file].header;
  const Header& right = *checkpoint.shards[b.file].header;
  const File left_file = File::open(checkpoint.path_of(a.file), checkpoint.shards[a.file].name, calls);
  const File right_file = File::open(checkpoint.path_of(b.file), checkpoint.shards[b.file].name, calls);
  left_file.require_identity(left.identity);
  right_file.require_identity(right.identity);
  const std::uint64_t bytes = a.tensor->end - a.tensor->begin;
  std::vector<std::byte> left_window(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, window_bytes)));
  std::vector<std::byte> right_window(left_window.size());
  for (std::uint64_t done = 0; done < bytes;) {
    const std::size_t part = static_cast<std::size_t>(std::min<std::uint64_t>(bytes - done, left_window.size()));
    left_file.read(left.data_begin() + a.tensor->begin + done, {left_window.data(), part});
    right_file.read(right.data_begin() + b.tensor->begin + done, {right_window.data(), part});
    if (std::memcmp(left_window.data(), right_window.data(), part) != 0) return false;
    done += part;
  }
  return true;
}

void report_twins(Checkpoint& checkpoint, const Twin& kept, const Twin& other, FileCalls& calls) {
  const std::string& kept_name = checkpoint.shards[kept.file].name;
  const std::string& other_name = checkpoint.shards[other.file].name;
  ErrorFacts facts;
  facts.file = other_name;
  facts.keys.emplace_back(other.tensor->name);
  facts.expected = "one file per tensor";
  facts.actual = kept_name + " and " + other_name;
  const std::string start = "tensor " + shown_name(other.tensor->name) + " stands in " + shown_name(kept_name) +
                            " and in " + shown_name(other_name);
  if (!checkpoint.index) {
    facts.hint = "nothing says which of the two counts; remove one, or write an index";
    checkpoint.diagnostics.push_back(make_diagnostic("keys.duplicate_across_shards", Severity::fail, start,
                                                     std::move(facts), ErrorCode::duplicate_tensor));
    return;
  }
  facts.hint = "the index decides for " + kept_name + "; readers that open every file may take the other";
  std::string difference;
  if (kept.tensor->dtype != other.tensor->dtype || kept.tensor->shape != other.tensor->shape) {
    difference = "with other shape or dtype";
  } else {
    try {
      if (!same_bytes(checkpoint, kept, other, calls)) difference = "with differing bytes";
    } catch (const Error& error) {
      checkpoint.diagnostics.push_back(diagnostic_of(error));
      difference = "and the bytes could not be compared";
    }
  }
  if (difference.empty()) {
    checkpoint.diagnostics.push_back(
        make_diagnostic("keys.duplicate_across_shards", Severity::warn, start + " with equal bytes", std::move(facts)));
  } else {
    checkpoint.diagnostics.push_back(make_diagnostic("keys.duplicate_across_shards", Severity::fail,
                                                     start + ", " + difference, std::move(facts),
                                                     ErrorCode::duplicate_tensor));
  }
}

void report_unlisted(Checkpoint& checkpoint, std::uint32_t file, const KeyList& keys) {
  const bool is_allowed = checkpoint.options.allow_unexpected;
  ErrorFacts facts;
  facts.file = checkpoint.shards[file].name;
  facts.keys = keys.keys;
  facts.expected = "every tensor of a listed file in the index";
  facts.actual = std::to_string(keys.count) + " not listed";
  facts.hint = is_allowed ? "ignored as asked"
                          : "list them in the index, or have `weightproof verify --allow-unexpected` note them";
  checkpoint.diagnostics.push_back(make_diagnostic(
      "index.unlisted_tensor", is_allowed ? Severity::note : Severity::fail,
      std::to_string(keys.count) + (keys.count == 1 ? " tensor of " : " tensors of ") + shown_name(facts.file) +
          (keys.count == 1 ? " is" : " are") + " not in the index (" + names_text(keys) + ")",
      std::move(facts), is_allowed ? std::nullopt : std::optional(ErrorCode::index_incomplete)));
}

// Where a tensor that the index puts into a file without it was met instead.
using Elsewhere = std::unordered_map<std::string_view, std::uint32_t, NameHash>;

void report_unmapped(Checkpoint& checkpoint, std::uint32_t file, const KeyList& keys, const Elsewhere& elsewhere) {
  ErrorFacts facts;
  facts.file = checkpoint.shards[file].name;
  facts.keys = keys.keys;
  facts.expected = "every tensor that the index lists for the file";
  facts.actual = std::to_string(keys.count) + " not in its header";
  std::size_t found = 0;
  for (const std::string& key : keys.keys) {
    const auto place = elsewhere.find(key);
    if (place == elsewhere.end()) continue;
    if (++found > 5) break;
    facts.notes.push_back(shown_name(key) + " is in " + shown_name(checkpoint.shards[place->second].name));
  }
  std::string message = "the index lists " + std::to_string(keys.count) +
                        (keys.count == 1 ? " tensor for " : " tensors for ") + shown_name(facts.file) +
                        " that are not in it (" + names_text(keys) + ")";
  for (const std::string& note : facts.notes) message += "; " + note;
  facts.hint = found != 0 ? "write the index again from the shard headers"
                          : "the index names tensors that no file holds; fetch files and index of one revision";
  checkpoint.diagnostics.push_back(make_diagnostic("index.mapping", Severity::fail, std::move(message),
                                                   std::move(facts), ErrorCode::index_tensor_not_in_shard));
}

void report_chunks(Checkpoint& checkpoint) {
  std::vector<std::string> with;
  std::vector<std::string> without;
  for (const Shard& shard : checkpoint.shards) {
    if (!shard.header || shard.header->error) continue;
    const auto& metadata = shard.header->metadata;
    const bool has_info = std::any_of(metadata.begin(), metadata.end(),
                                      [](const auto& entry) { return entry.first == "DCP_SHARDING_INFO"; });
    (has_info ? with : without).push_back(shard.name);
  }
  if (with.empty() || checkpoint.kind == CheckpointKind::single_file) return;
  ErrorFacts facts;
  if (without.empty()) {
    facts.file = with[0];
    facts.hint = "consolidate the checkpoint with the tool that wrote it, then verify the result";
    checkpoint.diagnostics.push_back(make_diagnostic(
        "index.selection", Severity::fail,
        "the files hold chunks of tensors (they carry sharding metadata), which are recognised, not read",
        std::move(facts), ErrorCode::native_dcp_checkpoint));
    return;
  }
  facts.file = without[0];
  facts.expected = "sharding metadata in all files or in none";
  facts.actual = std::to_string(with.size()) + " with, " + std::to_string(without.size()) + " without";
  checkpoint.diagnostics.push_back(make_diagnostic("shard.info", Severity::fail,
                                                   "some files carry sharding metadata (" + shown_name(with[0]) +
                                                       "), others do not (" + shown_name(without[0]) + ")",
                                                   std::move(facts), ErrorCode::mixed_sharded_and_plain));
}

class CatalogMaker {
 public:
  CatalogMaker(Checkpoint& checkpoint, FileCalls& calls) : checkpoint_(checkpoint), calls_(calls) {}
  void make();

 private:
  void add_indexed();
  void add_plain();
  void take_twin(const Twin& kept, const Twin& other) {
    if (++twins_ <= k_reported_max) report_twins(checkpoint_, kept, other, calls_);
  }

  Checkpoint& checkpoint_;
  FileCalls& calls_;
  CatalogBuilder builder_;
  std::size_t twins_ = 0;
};

void CatalogMaker::add_plain() {
  for (std::uint32_t file = 0; file < checkpoint_.shards.size(); ++file) {
    const Header* header = sound_header(checkpoint_, file);
    if (header == nullptr) continue;
    builder_.keep_alive(header->text);
    for (const HeaderTensor& tensor : header->tensors) {
      const StoredTensor* kept = file == 0 ? nullptr : builder_.find(tensor.name);
      if (kept == nullptr) {
        builder_.add(row_of(*header, tensor, file));
        continue;
      }
      if (twins_ >= k_reported_max) continue;
      const Header& kept_header = *checkpoint_.shards[kept->file].header;
      const auto first = std::find_if(kept_header.tensors.begin(), kept_header.tensors.end(),
                                      [&](const HeaderTensor& other) { return other.name == tensor.name; });
      take_twin({kept->file, &*first}, {file, &tensor});
    }
  }
}

void CatalogMaker::add_indexed() {
  const Index& index = *checkpoint_.index;
  std::unordered_map<std::string_view, std::uint32_t, NameHash> listed;
  listed.reserve(index.weight_map.size());
  for (std::uint32_t i = 0; i < index.weight_map.size(); ++i) listed.emplace(index.weight_map[i].first, i);

  std::vector<const HeaderTensor*> met(index.weight_map.size(), nullptr);  // in the file the index says
  std::unordered_map<std::uint32_t, std::vector<Twin>> elsewhere;          // in another one
  std::vector<KeyList> unlisted(checkpoint_.shards.size());
  for (std::uint32_t file = 0; file < checkpoint_.shards.size(); ++file) {
    const Header* header = sound_header(checkpoint_, file);
    if (header == nullptr) continue;
    builder_.keep_alive(header->text);
    for (const HeaderTensor& tensor : header->tensors) {
      const auto row = listed.find(tensor.name);
      if (row == listed.end()) {
        unlisted[file].add(tensor.name, 0);
      } else if (index.weight_map[row->second].second == file) {
        met[row->second] = &tensor;
        builder_.add(row_of(*header, tensor, file));
      } else {
        elsewhere[row->second].push_back({file, &tensor});
      }
    }
  }
  std::vector<KeyList> unmapped(checkpoint_.shards.size());
  Elsewhere places;
  for (std::uint32_t i = 0; i < index.weight_map.size(); ++i) {
    if (met[i] != nullptr) continue;
    const auto& [key, file] = index.weight_map[i];
    StoredTensor row;
    row.key = key;
    row.file = file;
    builder_.add_copy(row);
    if (sound_header(checkpoint_, file) == nullptr) continue;
    unmapped[file].add(key, 0);
    const auto other = elsewhere.find(i);
    if (other != elsewhere.end()) places.emplace(key, other->second[0].file);
  }
  for (std::uint32_t file = 0; file < checkpoint_.shards.size(); ++file) {
    if (unmapped[file].count != 0) report_unmapped(checkpoint_, file, unmapped[file], places);
  }
  for (std::uint32_t file = 0; file < checkpoint_.shards.size(); ++file) {
    if (unlisted[file].count != 0) report_unlisted(checkpoint_, file, unlisted[file]);
  }
  for (std::uint32_t i = 0; i < index.weight_map.size(); ++i) {
    if (met[i] == nullptr) continue;
    const auto others = elsewhere.find(i);
    if (others == elsewhere.end()) continue;
    for (const Twin& other : others->second) take_twin({index.weight_map[i].second, met[i]}, other);
  }
}

void CatalogMaker::make() {
  std::size_t tensors = 0;
  for (std::uint32_t file = 0; file < checkpoint_.shards.size(); ++file) {
    builder_.add_file(checkpoint_.shards[file].name);
    const Header* header = sound_header(checkpoint_, file);
    if (header != nullptr) tensors += header->tensors.size();
  }
  if (tensors > limits::tensors_max) {
    ErrorFacts facts;
    facts.expected = "at most " + std::to_string(limits::tensors_max) + " tensors";
    facts.actual = std::to_string(tensors);
    checkpoint_.diagnostics.push_back(make_diagnostic(
        "format.limits", Severity::fail, "the files hold " + facts.actual + " tensors, " + facts.expected + " are read",
        std::move(facts), ErrorCode::limit_exceeded));
    return;
  }
  builder_.reserve(std::max(tensors, checkpoint_.index ? checkpoint_.index->weight_map.size() : 0));
  if (checkpoint_.index) {
    add_indexed();
  } else {
    add_plain();
  }
  report_chunks(checkpoint_);
  checkpoint_.catalog = std::move(builder_).finish();
}

std::string difference_text(std::uint64_t said, std::uint64_t counted) {
  return said > counted ? "+" + std::to_string(said - counted) : "-" + std::to_string(counted - said);
}

void warn_total(Checkpoint& checkpoint, const char* name, std::uint64_t said, std::uint64_t counted) {
  if (said == counted) return;
  ErrorFacts facts;
  facts.file = checkpoint.index->file;
  facts.expected = std::to_string(counted);
  facts.actual = std::to_string(said);
  facts.hint = "write the index again from the shard headers";
  checkpoint.diagnostics.push_back(make_diagnostic("index.total_size", Severity::warn,
                                                   std::string(name) + " is " + facts.actual + ", the headers sum to " +
                                                       facts.expected + " (off by " + difference_text(said, counted) +
                                                       ")",
                                                   std::move(facts)));
}

}  // namespace

void build_catalog(Checkpoint& checkpoint, FileCalls& calls) { CatalogMaker(checkpoint, calls).make(); }

void check_totals(Checkpoint& checkpoint) {
  if (!checkpoint.index) return;
  const Index& index = *checkpoint.index;
  const bool is_absent = !index.total_size && !index.total_size_float;
  const bool is_told = std::any_of(checkpoint.diagnostics.begin(), checkpoint.diagnostics.end(),
                                   [](const Diagnostic& found) { return found.check == "index.total_size"; });
  if ((is_absent && !is_told) || index.total_size == std::uint64_t{0}) {
    ErrorFacts facts;
    facts.file = index.file;
    checkpoint.diagnostics.push_back(make_diagnostic(
        "index.total_size", Severity::note,
        std::string("total_size is ") + (is_absent ? "absent" : "0") + ", so there is nothing to compare with",
        std::move(facts)));
  }
  // Without every header the sums are not known; what the config allows is another stage's question.
  for (std::uint32_t file = 0; file < checkpoint.shards.size(); ++file) {
    if (sound_header(checkpoint, file) == nullptr) return;
  }
  if (!checkpoint.catalog.is_described() || checkpoint.catalog.size() != index.weight_map.size()) return;
  std::uint64_t elements = 0;
  for (const StoredTensor& row : checkpoint.catalog.tensors()) elements += element_count(row.shape).value_or(0);
  if (index.total_size && *index.total_size != 0) {
    warn_total(checkpoint, "total_size", *index.total_size, checkpoint.catalog.bytes());
  }
  if (index.total_parameters && *index.total_parameters != 0) {
    warn_total(checkpoint, "total_parameters", *index.total_parameters, elements);
  }
}

void check_numbering(Checkpoint& checkpoint) {
  if (checkpoint.shards.size() < 2) return;
  std::set<std::uint64_t> numbers;
  std::string reason;
  std::string file;
  const auto note = [&](const Shard& shard, std::string why) {
    if (!reason.empty()) return;
    reason = std::move(why);
    file = shard.name;
  };
  const std::uint64_t count = checkpoint.shards.size();
  for (const Shard& shard : checkpoint.shards) {
    const std::optional<ShardNumber> number = shard_number(shard.name);
    if (!number) {
      note(shard, shown_name(shard.name) + " carries no number of the form -1-of-" + std::to_string(count));
    } else if (number->total != count) {
      note(shard, "the names say " + std::to_string(number->total) + " files, there are " + std::to_string(count));
    } else if (number->index == 0 || number->index > count) {
      note(shard, "number " + std::to_string(number->index) + " is outside 1 to " + std::to_string(count));
    } else if (!numbers.insert(number->index).second) {
      note(shard, "number " + std::to_string(number->index) + " stands twice");
    }
  }
  if (reason.empty()) return;
  ErrorFacts facts;
  facts.file = file;
  facts.expected = "numbers 1 to " + std::to_string(count);
  checkpoint.diagnostics.push_back(
      make_diagnostic("index.shard_numbering", Severity::note,
                      "the file names are no run 1 to " + std::to_string(count) + ": " + reason, std::move(facts)));
}

}  // namespace weightproof::storage::detail
