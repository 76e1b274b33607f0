// SPDX-License-Identifier: Apache-2.0
// Reading of the index file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/hash.hpp"
#include "loader/storage/checkpoint.hpp"

namespace weightproof::storage::detail {

/// For tables over names out of files: seeded, so that nobody can choose names that collide.
struct NameHash {
  std::size_t operator()(std::string_view name) const { return static_cast<std::size_t>(hash_text(name)); }
};

struct ParsedIndex {
  Index index;                          ///< positions refer to `shards`
  std::vector<std::string> shards;      ///< distinct file names, sorted
  std::vector<bool> is_safe;            ///< per shard: its name may be opened
  std::vector<Diagnostic> diagnostics;  ///< syntax, duplicates, paths, kinds of totals
  bool is_usable = false;               ///< false: nothing but `diagnostics` is set
};

/// `file` is the index file's name for messages. Never throws for bad input.
ParsedIndex parse_index(std::string_view text, const std::string& file);

/// Why a shard name must not be opened; empty if it may be.
std::string unsafe_path_reason(std::string_view name);

/// Numbers of "...-00001-of-00003.safetensors".
struct ShardNumber {
  std::uint64_t index = 0;
  std::uint64_t total = 0;
};
std::optional<ShardNumber> shard_number(std::string_view file_name);

Diagnostic make_diagnostic(const char* check, Severity severity, std::string message, ErrorFacts facts,
                           std::optional<ErrorCode> code = std::nullopt);

}  // namespace weightproof::storage::detail
