// SPDX-License-Identifier: Apache-2.0
// Parts out of chunks of another layout: worked values, and all pairs of layouts against single elements.
#include "loader/plan/reshard.hpp"

#include <gtest/gtest.h>

#include <array>

#include "loader/core/error.hpp"
#include "loader/plan/placement.hpp"

namespace weightproof::plan {
namespace {

Box row(std::uint64_t begin, std::uint64_t end) { return {{begin}, {end - begin}}; }

std::vector<ReadItem> items_of(std::vector<Box> chunks, const Box& part) {
  return StoredChunks(std::move(chunks)).items(part, "w");
}
ReadItem item(std::size_t chunk, std::uint64_t storage, std::uint64_t target, std::uint64_t length) {
  return {chunk, {storage}, {target}, {length}};
}
using Items = std::vector<ReadItem>;

std::vector<Box> chunks_of(std::uint64_t n, std::uint32_t parts) {
  std::vector<Box> boxes;
  for (std::uint32_t i = 0; i < parts; ++i) boxes.push_back(row(chunk(n, parts, i).begin, chunk(n, parts, i).end));
  return boxes;
}

TEST(Reshard, WorkedValues) {
  EXPECT_EQ(items_of({row(0, 8), row(8, 16)}, row(4, 11)), (Items{item(0, 4, 0, 4), item(1, 0, 4, 3)}));
  // World 8 to 4 over 128, 4 to 8, and 4 to 3 over 120.
  EXPECT_EQ(items_of(chunks_of(128, 8), chunks_of(128, 4)[1]), (Items{item(2, 0, 0, 16), item(3, 0, 16, 16)}));
  EXPECT_EQ(items_of(chunks_of(128, 4), chunks_of(128, 8)[1]), Items{item(0, 16, 0, 16)});
  EXPECT_EQ(items_of(chunks_of(120, 4), chunks_of(120, 3)[1]), (Items{item(1, 10, 0, 20), item(2, 0, 20, 20)}));
  // Rows of [4,4] stored, columns wanted.
  EXPECT_EQ(items_of({{{0, 0}, {2, 4}}, {{2, 0}, {2, 4}}}, {{0, 2}, {4, 2}}),
            (Items{{0, {0, 2}, {0, 0}, {2, 2}}, {1, {0, 2}, {2, 0}, {2, 2}}}));
  EXPECT_EQ(items_of({{{}, {}}}, {{}, {}}), (Items{{0, {}, {}, {}}})) << "scalars always meet";
  EXPECT_EQ(items_of({row(0, 1), row(1, 1)}, row(0, 1)), Items{item(0, 0, 0, 1)}) << "empty chunks never do";
  EXPECT_TRUE(items_of({row(0, 1)}, row(1, 1)).empty());
}

TEST(Reshard, HolesAndOverlapsHaveTheirCoordinate) {
  try {
    items_of({row(0, 3), row(4, 8)}, row(2, 6));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::dest_not_covered);
    EXPECT_EQ(error.facts().coordinate, std::vector<std::uint64_t>{1});
    EXPECT_EQ(error.facts().keys, std::vector<std::string>{"w"});
  }
  try {
    items_of({row(0, 5), row(4, 8)}, row(0, 8));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::duplicate_destination);
    EXPECT_EQ(error.facts().coordinate, std::vector<std::uint64_t>{4});
  }
}

/// All parts of one placement of a [7, 5] tensor, elements numbered; grow, shrink, coprime, more ranks than rows.
TEST(Reshard, EveryLayoutFromEveryOther) {
  const Shape shape{7, 5};
  const auto layouts = [&] {
    std::vector<std::vector<Box>> all;
    for (const std::uint32_t rows : {1u, 2u, 3u, 7u, 9u}) {
      for (const std::uint32_t columns : {1u, 2u, 4u, 6u}) {
        std::vector<Box> parts;
        for (std::uint32_t r = 0; r < rows; ++r) {
          for (std::uint32_t c = 0; c < columns; ++c) {
            const Interval a = chunk(7, rows, r), b = chunk(5, columns, c);
            parts.push_back({{a.begin, b.begin}, {a.size(), b.size()}});
          }
        }
        all.push_back(std::move(parts));
      }
    }
    return all;
  }();
  for (const std::vector<Box>& stored : layouts) {
    const StoredChunks chunks(stored);
    for (const std::vector<Box>& wanted : layouts) {
      std::uint64_t elements = 0;
      for (const Box& part : wanted) {
        std::vector<std::uint64_t> filled(part.element_count(), UINT64_MAX);
        for (const ReadItem& item : chunks.items(part, "w")) {
          for (std::uint64_t i = 0; i < item.length[0]; ++i) {
            for (std::uint64_t j = 0; j < item.length[1]; ++j) {
              const Box& from = stored[item.chunk];
              const std::uint64_t global =
                  (from.start[0] + item.storage_offset[0] + i) * 5 + from.start[1] + item.storage_offset[1] + j;
              filled[(item.target_offset[0] + i) * part.length[1] + item.target_offset[1] + j] = global;
            }
          }
        }
        for (std::uint64_t i = 0; i < filled.size(); ++i) {
          EXPECT_EQ(filled[i], (part.start[0] + i / part.length[1]) * 5 + part.start[1] + i % part.length[1]);
        }
        elements += filled.size();
      }
      EXPECT_EQ(elements, 35u);
      ASSERT_FALSE(HasFailure());
    }
  }
}

}  // namespace
}  // namespace weightproof::plan
