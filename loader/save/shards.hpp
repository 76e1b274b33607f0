// SPDX-License-Identifier: Apache-2.0
// Which tensor goes into which file of an export. Pure arithmetic on sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weightproof::save {

inline constexpr std::uint64_t k_shard_bytes_default = 5'000'000'000;  ///< decimal, as huggingface_hub

struct ShardItem {
  std::uint64_t bytes = 0;
  std::uint64_t storage = UINT64_MAX;  ///< equal values share one storage and one file; UINT64_MAX: alone
};

/// Positions of the items per file, files in the order of their numbers.
using ShardList = std::vector<std::vector<std::size_t>>;

/// The rule of huggingface_hub: in the given order, a file is closed where the next item would pass `bytes_max`; an
/// item larger than that gets a file of its own at once, numbered before the file still open.
ShardList split_by_hub_rule(std::span<const ShardItem> items, std::uint64_t bytes_max = k_shard_bytes_default);

/// The rule of a training framework's writer: an item larger than `bytes_max` closes the file before it and is followed
/// by a new one.
ShardList split_greedily(std::span<const ShardItem> items, std::uint64_t bytes_max);

/// `files` parts of as equal a count as possible, the first ones one item longer.
ShardList split_by_count(std::size_t items, std::size_t files);

/// "model-00001-of-00003.safetensors", `index` from 1; "model.safetensors" where there is only one file.
std::string shard_name(std::size_t index, std::size_t count);

}  // namespace weightproof::save
