// SPDX-License-Identifier: Apache-2.0
// Which files are the checkpoint, and what they say: selection, index, headers, catalog, config. Weight bytes are not
// read here, but for one case: a tensor that stands in two files of an index is compared with its twin.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/catalog.hpp"
#include "loader/core/config.hpp"
#include "loader/core/diagnostic.hpp"
#include "loader/storage/header.hpp"

namespace weightproof::storage {

enum class CheckpointKind : std::uint8_t {
  single_file,  ///< one .safetensors file
  indexed,      ///< an index and the files it names
  shard_names,  ///< no index, a complete set model-i-of-N
  dcp_sharded,  ///< rank shards with sharding metadata: recognised, not read yet
  adapter       ///< PEFT directory
};
std::string_view to_string(CheckpointKind kind);

struct SelectionOptions {
  bool keys_only = false;         ///< config and index alone: shards need not exist, no header is read
  std::string revision;           ///< Hugging Face cache: refs/<revision> or a snapshot name; empty = refs/main
  std::string variant;            ///< "fp16": model.fp16.safetensors, model.safetensors.index.fp16.json
  bool allow_unexpected = false;  ///< tensors that the index does not list are noted instead of failing
  bool want_adapter = false;
  FileCalls* calls = nullptr;  ///< null: the system's
};

/// Part of the name of a directory in which an export is put together before it is published.
inline constexpr std::string_view k_staging_infix = ".weightproof-staging-";

/// Index file as read. `weight_map` keeps file order.
struct Index {
  std::string file;
  std::vector<std::pair<std::string, std::uint32_t>> weight_map;  ///< key -> position in Checkpoint::shards
  std::optional<std::uint64_t> total_size;                        ///< absent, or not an integer (see diagnostics)
  std::optional<double> total_size_float;                         ///< a float, as written
  std::optional<std::uint64_t> total_parameters;
  std::vector<std::pair<std::string, std::string>> other_metadata;  ///< key -> compact JSON
};

struct Shard {
  std::string name;              ///< relative to root
  std::optional<Header> header;  ///< not under keys_only, not for a file that is missing or unreadable
  bool exists = false;
};

/// Everything known without weight bytes. Malformed input ends as diagnostics with severity fail; whatever could be
/// read is there.
struct Checkpoint {
  std::filesystem::path root;  ///< directory all names are relative to
  std::string display_path;    ///< what the caller gave
  CheckpointKind kind = CheckpointKind::single_file;
  bool is_selected = false;  ///< false: selection failed, `diagnostics` say why, nothing else is set
  SelectionOptions options;
  std::optional<Index> index;
  std::vector<Shard> shards;        ///< selected files
  std::vector<std::string> strays;  ///< weight files beside the selected ones
  /// Over shards with a sound header, in file order; an index decides, so tensors that it does not list are left out,
  /// and what it lists without a sound header behind it (all, under keys_only) is a row of the name alone.
  Catalog catalog;
  std::optional<ConfigValue> config;  ///< config.json, if present and sound
  std::map<std::string, ConfigValue>
      companions;                       ///< generation_config.json, adapter_config.json, ... if present and sound
  std::vector<std::string> files;       ///< every directory entry (names), sorted
  std::vector<Diagnostic> diagnostics;  ///< all of selection, index, format and config checks, in a fixed order

  bool has_failures() const;
  /// Path of a selected file.
  std::filesystem::path path_of(std::uint32_t shard) const { return root / shards[shard].name; }
};

/// Selects and reads. Throws only where there is nothing to describe: a path that does not exist, or cannot be read
/// (io_error, no_checkpoint_found with check index.selection). Shards are opened on `threads` threads.
Checkpoint read_checkpoint(const std::filesystem::path& path, const SelectionOptions& options, unsigned threads = 1);

/// As read_checkpoint, but throws the first failing diagnostic: for verbs that need a sound checkpoint.
Checkpoint open_checkpoint(const std::filesystem::path& path, const SelectionOptions& options, unsigned threads = 1);

}  // namespace weightproof::storage
