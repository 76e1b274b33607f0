// SPDX-License-Identifier: Apache-2.0
#include "loader/save/shards.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "loader/core/error.hpp"

namespace weightproof::save {

ShardList split_by_hub_rule(std::span<const ShardItem> items, std::uint64_t bytes_max) {
  ShardList shards;
  std::vector<std::size_t> open;
  std::uint64_t open_bytes = 0;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> followers;  // by storage: all but the first
  std::unordered_map<std::uint64_t, std::size_t> first_of;                // by storage
  for (std::size_t i = 0; i < items.size(); ++i) {
    const ShardItem& item = items[i];
    if (item.storage != UINT64_MAX && !first_of.try_emplace(item.storage, i).second) {
      followers[item.storage].push_back(i);
      continue;
    }
    if (item.bytes > bytes_max) {
      shards.push_back({i});
      continue;
    }
    if (item.bytes > bytes_max - open_bytes) {
      shards.push_back(std::exchange(open, {}));
      open_bytes = 0;
    }
    open.push_back(i);
    open_bytes += item.bytes;
  }
  if (!open.empty()) shards.push_back(std::move(open));
  if (followers.empty()) return shards;
  for (std::vector<std::size_t>& shard : shards) {
    const std::vector<std::size_t> firsts = shard;
    for (const std::size_t first : firsts) {
      const auto found = items[first].storage == UINT64_MAX ? followers.end() : followers.find(items[first].storage);
      if (found != followers.end()) shard.insert(shard.end(), found->second.begin(), found->second.end());
    }
    std::sort(shard.begin(), shard.end());
  }
  return shards;
}

ShardList split_greedily(std::span<const ShardItem> items, std::uint64_t bytes_max) {
  ShardList shards;
  std::uint64_t open_bytes = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool fits = !shards.empty() && open_bytes <= bytes_max && items[i].bytes <= bytes_max - open_bytes;
    if (!fits) {
      shards.emplace_back();
      open_bytes = 0;
    }
    shards.back().push_back(i);
    open_bytes += items[i].bytes;
  }
  return shards;
}

ShardList split_by_count(std::size_t items, std::size_t files) {
  WEIGHTPROOF_ASSERT(files > 0);
  ShardList shards(files);
  std::size_t next = 0;
  for (std::size_t file = 0; file < files; ++file) {
    const std::size_t count = items / files + (file < items % files ? 1 : 0);
    for (std::size_t i = 0; i < count; ++i) shards[file].push_back(next++);
  }
  return shards;
}

std::string shard_name(std::size_t index, std::size_t count) {
  if (count == 1) return "model.safetensors";
  const auto padded = [](std::size_t number) {
    std::string text = std::to_string(number);
    if (text.size() < 5) text.insert(0, 5 - text.size(), '0');
    return text;
  };
  return "model-" + padded(index) + "-of-" + padded(count) + ".safetensors";
}

}  // namespace weightproof::save
