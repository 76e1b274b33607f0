// SPDX-License-Identifier: Apache-2.0
#include "loader/save/shards.hpp"

#include <gtest/gtest.h>

namespace weightproof::save {
namespace {

std::vector<std::vector<std::uint64_t>> sizes(const ShardList& shards, const std::vector<std::uint64_t>& items) {
  std::vector<std::vector<std::uint64_t>> result;
  for (const auto& shard : shards) {
    result.emplace_back();
    for (const std::size_t item : shard) result.back().push_back(items[item]);
  }
  return result;
}

std::vector<ShardItem> items_of(const std::vector<std::uint64_t>& bytes) {
  std::vector<ShardItem> items;
  for (const std::uint64_t size : bytes) items.push_back({size});
  return items;
}

using Sizes = std::vector<std::vector<std::uint64_t>>;

TEST(HubRule, WorkedExample) {
  const std::vector<std::uint64_t> bytes = {6, 6, 2, 6, 2, 2};
  EXPECT_EQ(sizes(split_by_hub_rule(items_of(bytes), 10), bytes), (Sizes{{6}, {6, 2}, {6, 2, 2}}));
}

TEST(HubRule, AnOversizedItemIsNumberedBeforeTheOpenFile) {
  const std::vector<std::uint64_t> bytes = {4, 11, 5, 7};
  EXPECT_EQ(sizes(split_by_hub_rule(items_of(bytes), 10), bytes), (Sizes{{11}, {4, 5}, {7}}));
}

TEST(HubRule, ExactlyFullAndEmpty) {
  const std::vector<std::uint64_t> bytes = {5, 5, 10, 0, 1};
  EXPECT_EQ(sizes(split_by_hub_rule(items_of(bytes), 10), bytes), (Sizes{{5, 5}, {10, 0}, {1}}));
  EXPECT_TRUE(split_by_hub_rule({}, 10).empty());
  EXPECT_EQ(split_by_hub_rule(items_of({UINT64_MAX, UINT64_MAX}), UINT64_MAX).size(), 2U);
}

TEST(HubRule, SharedStorageStaysTogether) {
  const std::vector<ShardItem> items = {{6, 1}, {6}, {6, 1}, {2}};
  EXPECT_EQ(split_by_hub_rule(items, 10), (ShardList{{0, 2}, {1, 3}}));
}

TEST(GreedyRule, AnOversizedItemClosesTheFileBeforeIt) {
  const std::vector<std::uint64_t> bytes = {4, 11, 5, 5, 7};
  EXPECT_EQ(sizes(split_greedily(items_of(bytes), 10), bytes), (Sizes{{4}, {11}, {5, 5}, {7}}));
}

TEST(EqualSplit, FirstFilesTakeTheRest) {
  EXPECT_EQ(split_by_count(7, 3), (ShardList{{0, 1, 2}, {3, 4}, {5, 6}}));
  EXPECT_EQ(split_by_count(1, 2), (ShardList{{0}, {}}));
}

TEST(ShardName, PaddedToFiveDigits) {
  EXPECT_EQ(shard_name(1, 1), "model.safetensors");
  EXPECT_EQ(shard_name(2, 13), "model-00002-of-00013.safetensors");
  EXPECT_EQ(shard_name(123456, 200000), "model-123456-of-200000.safetensors");
}

}  // namespace
}  // namespace weightproof::save
