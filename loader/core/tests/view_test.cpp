// SPDX-License-Identifier: Apache-2.0
#include "loader/core/view.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "loader/core/error.hpp"

namespace weightproof {
namespace {

/// Storage indices of a view in view order.
std::vector<std::uint64_t> elements(const View& view) {
  std::vector<std::uint64_t> result;
  for (std::uint64_t i = 0; i < view.element_count(); ++i) {
    result.push_back(view.storage_index(coordinate_of(view.extents(), i)));
  }
  return result;
}

TEST(View, BasicOperations) {
  const View whole = View::whole({4, 6});
  EXPECT_TRUE(whole.is_contiguous());
  EXPECT_EQ(elements(whole.select(0, 2)), (std::vector<std::uint64_t>{12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(elements(whole.narrow(1, 4, 2).narrow(0, 1, 2)), (std::vector<std::uint64_t>{10, 11, 16, 17}));
  EXPECT_EQ(elements(whole.transpose(0, 1).select(0, 5)), (std::vector<std::uint64_t>{5, 11, 17, 23}));
  EXPECT_EQ(whole.permute({1, 0}), whole.transpose(0, 1));
  EXPECT_FALSE(whole.transpose(0, 1).is_contiguous());
  // Interleaved halves: gate is the even rows, up the odd ones.
  const View pairs = whole.unflatten(0, {2, 2});
  EXPECT_EQ(elements(pairs.select(1, 1).narrow(1, 0, 1)), (std::vector<std::uint64_t>{6, 18}));
  EXPECT_EQ(pairs.flatten(0, 2), whole);
  EXPECT_EQ(whole.flatten(0, 2).extents(), Extents{24});
  EXPECT_EQ(whole.unsqueeze(0).extents(), (Extents{1, 4, 6}));
  EXPECT_TRUE(whole.unsqueeze(2).is_contiguous());
  EXPECT_EQ(View::whole({}).element_count(), 1u);
  EXPECT_EQ(to_string(whole.narrow(0, 1, 2)), "{offset 6, extents [2,6], strides [6,1]}");
}

TEST(View, EmptyAxes) {
  const View whole = View::whole({3, 0, 2});
  EXPECT_EQ(whole.element_count(), 0u);
  EXPECT_TRUE(whole.is_contiguous());
  EXPECT_EQ(whole.flatten(0, 3).extents(), Extents{0});
  const View none = View::whole({4, 2}).narrow(0, 4, 0);
  EXPECT_EQ(none.element_count(), 0u);
  EXPECT_EQ(none.offset(), 0u) << "an empty view does not point behind its tensor";
  EXPECT_EQ(View::whole({0, 4}).unflatten(0, {0, 7}).extents(), (Extents{0, 7, 4}));
}

TEST(View, MisuseThrowsInternal) {
  const View whole = View::whole({4, 6});
  const auto code_of = [](auto operation) {
    try {
      operation();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::usage;
  };
  EXPECT_EQ(code_of([&] { whole.select(2, 0); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { whole.select(0, 4); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { whole.narrow(0, 3, 2); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { whole.narrow(0, 5, 0); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { whole.narrow(1, 1, UINT64_MAX); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { whole.permute({0, 0}); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { whole.permute({0}); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { whole.unflatten(1, {4, 2}); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { whole.unflatten(1, {1ull << 63, 2, 3}); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { whole.transpose(0, 1).flatten(0, 2); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { whole.narrow(1, 0, 3).flatten(0, 2); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { whole.flatten(1, 2); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { whole.flatten(0, 0); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { whole.unsqueeze(3); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { View::whole({UINT64_MAX, 2}); }), ErrorCode::internal);
}

/// Each operation against what it means for single elements.
TEST(View, AgreesWithElementwiseMeaning) {
  std::mt19937_64 random(20250101);
  for (int round = 0; round < 2000; ++round) {
    View view = View::whole({2 + random() % 3, 2 + random() % 3, 2 + random() % 3});
    for (int step = 0; step < 4; ++step) {
      const std::vector<std::uint64_t> before = elements(view);
      const Extents extents = view.extents();
      const unsigned axis = view.rank() == 0 ? 0 : static_cast<unsigned>(random() % view.rank());
      const auto at = [&](const Coordinate& c) { return before[linear_index(extents, c)]; };
      switch (view.rank() == 0 ? 4 : random() % 4) {
        case 0: {
          const std::uint64_t index = random() % extents[axis];
          const View next = view.select(axis, index);
          for (std::uint64_t i = 0; i < next.element_count(); ++i) {
            Coordinate c = coordinate_of(next.extents(), i);
            const std::uint64_t got = next.storage_index(c);
            c.insert(axis, index);
            ASSERT_EQ(got, at(c));
          }
          view = next;
          break;
        }
        case 1: {
          const std::uint64_t length = 1 + random() % extents[axis];
          const std::uint64_t start = random() % (extents[axis] - length + 1);
          const View next = view.narrow(axis, start, length);
          for (std::uint64_t i = 0; i < next.element_count(); ++i) {
            Coordinate c = coordinate_of(next.extents(), i);
            const std::uint64_t got = next.storage_index(c);
            c[axis] += start;
            ASSERT_EQ(got, at(c));
          }
          view = next;
          break;
        }
        case 2: {
          const unsigned other = static_cast<unsigned>(random() % view.rank());
          const View next = view.transpose(axis, other);
          for (std::uint64_t i = 0; i < next.element_count(); ++i) {
            Coordinate c = coordinate_of(next.extents(), i);
            const std::uint64_t got = next.storage_index(c);
            std::swap(c[axis], c[other]);
            ASSERT_EQ(got, at(c));
          }
          view = next;
          break;
        }
        case 3:
          if (view.rank() < limits::rank_max && extents[axis] % 2 == 0) {
            const View next = view.unflatten(axis, {2, extents[axis] / 2});
            ASSERT_EQ(elements(next), before) << "unflatten keeps the order";
            ASSERT_EQ(next.flatten(axis, 2), view);
            view = next;
          }
          break;
        default:
          break;
      }
      bool is_run = true;
      const std::vector<std::uint64_t> now = elements(view);
      for (std::size_t i = 1; i < now.size(); ++i) is_run = is_run && now[i] == now[i - 1] + 1;
      ASSERT_EQ(view.is_contiguous(), is_run) << to_string(view);
    }
  }
}

}  // namespace
}  // namespace weightproof
