// SPDX-License-Identifier: Apache-2.0
#include "loader/core/shape.hpp"

#include <gtest/gtest.h>

#include "loader/core/box.hpp"
#include "loader/core/error.hpp"

namespace weightproof {
namespace {

constexpr std::uint64_t k_huge = UINT64_MAX;

TEST(Shape, ElementCountInAnyOrder) {
  EXPECT_EQ(element_count({}), 1u) << "a scalar is one element";
  EXPECT_EQ(element_count({3, 4}), 12u);
  EXPECT_EQ(element_count({3, 0, 4}), 0u);
  EXPECT_EQ(element_count({k_huge}), k_huge);
  EXPECT_EQ(element_count({k_huge, 2}), std::nullopt);
  EXPECT_EQ(element_count({0, k_huge, 2}), std::nullopt) << "zero does not absorb an overflow";
  EXPECT_EQ(element_count({k_huge, 2, 0}), std::nullopt);
  EXPECT_EQ(element_count({k_huge, 0}), 0u);
  EXPECT_EQ(element_count({1ull << 32, 1ull << 32}), std::nullopt);
}

TEST(Shape, ByteCount) {
  EXPECT_EQ(byte_count({}, DType::bf16), 2u);
  EXPECT_EQ(byte_count({4}, DType::f4), 2u);
  EXPECT_EQ(byte_count({3}, DType::f4), std::nullopt) << "ends inside a byte";
  EXPECT_EQ(byte_count({4}, DType::f6_e3m2), 3u);
  EXPECT_EQ(byte_count({0}, DType::f4), 0u);
  EXPECT_EQ(byte_count({2, 1ull << 63}, DType::i32), std::nullopt);
  EXPECT_EQ(byte_count({1ull << 60}, DType::i32), std::nullopt) << "bits overflow";
  EXPECT_EQ(byte_count({1ull << 58}, DType::i32), 1ull << 60);
}

TEST(Shape, StridesAndCoordinates) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Extents{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({2, 0, 4}), (Extents{4, 4, 1}));
  EXPECT_EQ(contiguous_strides({}), Extents());
  const Shape shape = {2, 3, 4};
  for (std::uint64_t i = 0; i < 24; ++i) EXPECT_EQ(linear_index(shape, coordinate_of(shape, i)), i);
  EXPECT_EQ(coordinate_of(shape, 23), (Coordinate{1, 2, 3}));
  EXPECT_EQ(coordinate_of({}, 0), Coordinate());
  EXPECT_EQ(to_string(Extents{4096, 2880}), "[4096,2880]");
  EXPECT_EQ(to_string(Extents()), "[]");
}

TEST(Shape, RankIsCapped) {
  Extents extents = {1, 2, 3, 4, 5, 6, 7};
  extents.push_back(8);
  EXPECT_EQ(extents.rank(), limits::rank_max);
  try {
    extents.push_back(9);
    FAIL() << "a ninth axis was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::limit_exceeded);
    EXPECT_EQ(error.check(), "format.limits");
  }
  EXPECT_THROW(extents.insert(0, 1), Error);
  EXPECT_THROW(Extents({1, 1, 1, 1, 1, 1, 1, 1, 1}), Error);
}

TEST(Shape, InsertErase) {
  Extents extents = {1, 2, 3};
  extents.insert(1, 9);
  EXPECT_EQ(extents, (Extents{1, 9, 2, 3}));
  extents.insert(4, 7);
  EXPECT_EQ(extents, (Extents{1, 9, 2, 3, 7}));
  extents.erase(0);
  extents.erase(3);
  EXPECT_EQ(extents, (Extents{9, 2, 3}));
  EXPECT_NE(extents, (Extents{9, 2}));
}

TEST(BoxAlgebra, Intersection) {
  const Box a{{0, 0}, {4, 4}};
  const Box b{{2, 3}, {4, 4}};
  EXPECT_EQ(a.intersect(b), (Box{{2, 3}, {2, 1}}));
  EXPECT_EQ(a.intersect(Box{{4, 0}, {1, 1}}), std::nullopt) << "touching boxes share nothing";
  EXPECT_EQ(a.intersect(Box{{1, 1}, {0, 2}}), std::nullopt) << "an empty box shares nothing";
  EXPECT_EQ((Box{}.intersect(Box{})), Box{}) << "scalars meet";
  EXPECT_EQ(a.element_count(), 16u);
  EXPECT_TRUE(b.contains({5, 6}));
  EXPECT_FALSE(b.contains({6, 6}));
  EXPECT_FALSE(b.contains({1, 3}));
  EXPECT_FALSE(b.contains({2}));
  EXPECT_TRUE((Box{{1}, {0}}.is_empty()));
  EXPECT_FALSE(Box{}.is_empty());
  EXPECT_EQ(Box::whole({3, 5}), (Box{{0, 0}, {3, 5}}));
  EXPECT_EQ(to_string(b), "[2:6,3:7]");
}

}  // namespace
}  // namespace weightproof
