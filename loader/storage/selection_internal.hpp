// SPDX-License-Identifier: Apache-2.0
// Which files are the checkpoint, from names alone; only an index file and, for rank shards, one header are opened.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "loader/storage/checkpoint.hpp"
#include "loader/storage/index_internal.hpp"

namespace weightproof::storage::detail {

struct Selection {
  bool is_selected = false;
  bool uses_config = true;  ///< false: one file of a larger checkpoint was asked for, its config speaks of the whole
  CheckpointKind kind = CheckpointKind::single_file;
  std::filesystem::path root;
  std::vector<std::string> files;  ///< directory entries, sorted
  std::optional<ParsedIndex> index;
  std::vector<std::string> shards;
  std::vector<bool> is_safe;  ///< per shard
  std::vector<std::string> strays;
  std::vector<Diagnostic> diagnostics;
};

/// Throws no_checkpoint_found for a path that does not exist, io_error for one that cannot be read.
Selection select_files(const std::filesystem::path& path, const SelectionOptions& options, FileCalls& calls);

/// Whole text of a small file. Throws io_error, limit_exceeded.
std::string read_text(const std::filesystem::path& path, const std::string& name, std::size_t bytes_max,
                      FileCalls& calls);

bool is_regular(const std::filesystem::path& path);

}  // namespace weightproof::storage::detail
