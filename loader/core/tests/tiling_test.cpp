// SPDX-License-Identifier: Apache-2.0
#include "loader/core/tiling.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

namespace weightproof {
namespace {

constexpr TilingOptions k_no_bitmap{.bitmap_elements_max = 0};

TilingVerdict prove(const Shape& shape, const std::vector<View>& views) {
  return prove_tiling(shape, views, k_no_bitmap);
}

/// Processor time: what else the machine does must not decide a test.
double seconds_of(const Shape& shape, const std::vector<View>& views) {
  double best = 1e9;
  for (int round = 0; round < 3; ++round) {
    const std::clock_t begin = std::clock();
    EXPECT_EQ(prove(shape, views).tiling, Tiling::exact);
    best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return best;
}

TEST(TilingProof, SimplestCases) {
  EXPECT_EQ(prove({4, 6}, {View::whole({4, 6})}).tiling, Tiling::exact);
  EXPECT_EQ(prove({}, {View::whole({})}).tiling, Tiling::exact) << "a scalar";
  EXPECT_EQ(prove({3, 0}, {}).tiling, Tiling::exact) << "nothing to cover";
  EXPECT_EQ(prove({3, 0}, {View::whole({3, 0})}).tiling, Tiling::exact);
  EXPECT_EQ(prove({4, 6}, {View::whole({4, 6}).transpose(0, 1)}).tiling, Tiling::exact) << "order is no matter";
  const TilingVerdict hole = prove({4, 6}, {});
  EXPECT_EQ(hole.tiling, Tiling::hole);
  EXPECT_EQ(hole.coordinate, (Coordinate{0, 0}));
  EXPECT_EQ(prove({4}, {View::whole({4}), View::whole({4}).narrow(0, 4, 0)}).tiling, Tiling::exact)
      << "an empty view covers nothing";
}

TEST(TilingProof, HoleAndOverlapAreLocated) {
  const View whole = View::whole({4, 6});
  TilingVerdict verdict = prove({4, 6}, {whole.narrow(1, 0, 3), whole.narrow(1, 4, 2)});
  EXPECT_EQ(verdict.tiling, Tiling::hole);
  EXPECT_EQ(verdict.coordinate, (Coordinate{0, 3}));

  verdict = prove(
      {4, 6}, {whole.narrow(0, 0, 2), whole.narrow(0, 2, 2).narrow(1, 0, 4), whole.narrow(0, 2, 2).narrow(1, 3, 3)});
  EXPECT_EQ(verdict.tiling, Tiling::overlap);
  EXPECT_EQ(verdict.coordinate, (Coordinate{2, 3}));
  EXPECT_EQ(verdict.first_view, 1u);
  EXPECT_EQ(verdict.second_view, 2u);

  verdict = prove({4, 6}, {whole, whole});
  EXPECT_EQ(verdict.tiling, Tiling::overlap);
  EXPECT_EQ(verdict.coordinate, (Coordinate{0, 0}));

  // Both faults: the first in row-major order is told.
  verdict = prove({4, 6}, {whole.narrow(0, 0, 2), whole.narrow(0, 1, 2)});
  EXPECT_EQ(verdict.tiling, Tiling::overlap);
  EXPECT_EQ(verdict.coordinate, (Coordinate{1, 0}));
  verdict = prove({4, 6}, {whole.narrow(0, 1, 2), whole.narrow(0, 2, 2)});
  EXPECT_EQ(verdict.tiling, Tiling::hole);
  EXPECT_EQ(verdict.coordinate, (Coordinate{0, 0}));
}

TEST(TilingProof, ViewsThatCannotBeAreRefusedWithTheReason) {
  TilingVerdict verdict = prove({4}, {View(2, {{3}, {1}})});
  EXPECT_EQ(verdict.tiling, Tiling::unprovable);
  EXPECT_NE(verdict.reason.find("view 0"), std::string::npos);
  EXPECT_NE(verdict.reason.find("leaves the tensor"), std::string::npos);
  verdict = prove({4}, {View(0, {{UINT64_MAX}, {UINT64_MAX}})});
  EXPECT_EQ(verdict.tiling, Tiling::unprovable);
  verdict = prove({4}, {View(UINT64_MAX, {{2}, {1}})});
  EXPECT_EQ(verdict.tiling, Tiling::unprovable);
  verdict = prove({UINT64_MAX, 2}, {});
  EXPECT_EQ(verdict.tiling, Tiling::unprovable);
  // A view that meets itself.
  verdict = prove({6}, {View(0, {{3}, {1}}), View(3, {{3}, {0}})});
  EXPECT_EQ(verdict.tiling, Tiling::overlap);
  EXPECT_EQ(verdict.coordinate, Coordinate{3});
  EXPECT_EQ(verdict.first_view, 1u);
  EXPECT_EQ(verdict.second_view, 1u);
  verdict = prove({6}, {View(0, {{1ull << 40, 1ull << 40}, {0, 0}})});
  EXPECT_EQ(verdict.tiling, Tiling::overlap) << "more coordinates than 64 bits count";
  verdict = prove({8}, {View(0, {{3, 2}, {2, 3}})});
  EXPECT_EQ(verdict.tiling, Tiling::unprovable) << "injective, but not nested";
  EXPECT_NE(verdict.reason.find("run into each other"), std::string::npos);
}

TEST(TilingProof, PinwheelIsDecidedByBoxes) {
  // No straight cut separates these five.
  const View whole = View::whole({3, 3});
  std::vector<View> views = {whole.narrow(0, 0, 1).narrow(1, 0, 2), whole.narrow(0, 0, 2).narrow(1, 2, 1),
                             whole.narrow(0, 2, 1).narrow(1, 1, 2), whole.narrow(0, 1, 2).narrow(1, 0, 1),
                             whole.narrow(0, 1, 1).narrow(1, 1, 1)};
  EXPECT_EQ(prove({3, 3}, views).tiling, Tiling::exact);
  views.pop_back();
  TilingVerdict verdict = prove({3, 3}, views);
  EXPECT_EQ(verdict.tiling, Tiling::hole);
  EXPECT_EQ(verdict.coordinate, (Coordinate{1, 1}));
  views.push_back(whole.narrow(0, 1, 1).narrow(1, 1, 2));
  verdict = prove({3, 3}, views);
  EXPECT_EQ(verdict.tiling, Tiling::overlap);
  EXPECT_EQ(verdict.coordinate, (Coordinate{1, 2}));
  EXPECT_EQ(verdict.first_view, 1u);
  EXPECT_EQ(verdict.second_view, 4u);
}

TEST(TilingProof, BitmapSettlesWhatTheProofLeaves) {
  const std::vector<View> views = {View(0, {{2, 2}, {2, 3}}), View(1, {{1}, {1}}), View(4, {{1}, {1}})};
  EXPECT_EQ(prove({6}, views).tiling, Tiling::unprovable);
  EXPECT_EQ(prove_tiling({6}, views).tiling, Tiling::exact);
  const TilingVerdict verdict = prove_tiling({6}, std::vector<View>{views[0], views[2]});
  EXPECT_EQ(verdict.tiling, Tiling::hole);
  EXPECT_EQ(verdict.coordinate, Coordinate{1});
  const TilingVerdict twice = prove_tiling({6}, std::vector<View>{views[0], views[1], views[2], views[1]});
  EXPECT_EQ(twice.tiling, Tiling::overlap);
  EXPECT_EQ(twice.first_view, 1u);
  EXPECT_EQ(twice.second_view, 3u);
  EXPECT_EQ(prove_tiling({6}, views, {.bitmap_elements_max = 5}).tiling, Tiling::unprovable);
}

/// Fused query, key, value rows: `groups` key-value heads, each served by `repeat` query heads; plain or interleaved
/// per group, the query regrouped from [repeat, group] order.
TEST(TilingProof, FusedQueryKeyValue) {
  constexpr std::uint64_t groups = 4, repeat = 3, head = 5, hidden = 7;
  constexpr std::uint64_t q = groups * repeat * head, kv = groups * head;
  const Shape shape = {q + 2 * kv, hidden};
  const View whole = View::whole(shape);
  const View query = whole.narrow(0, 0, q).unflatten(0, {groups, repeat, head}).permute({1, 0, 2, 3});
  EXPECT_EQ(prove(shape, {query, whole.narrow(0, q, kv), whole.narrow(0, q + kv, kv)}).tiling, Tiling::exact);
  const View grouped = whole.unflatten(0, {groups, repeat + 2, head});
  std::vector<View> interleaved = {grouped.narrow(1, 0, repeat), grouped.select(1, repeat),
                                   grouped.select(1, repeat + 1)};
  EXPECT_EQ(prove(shape, interleaved).tiling, Tiling::exact);
  // Rotary halves of the query interleaved, at odd offsets of the keys.
  std::vector<View> halves;
  for (std::uint64_t half = 0; half < 2; ++half) {
    halves.push_back(whole.narrow(0, 0, q).unflatten(0, {q / 2, 2}).select(1, half));
  }
  halves.push_back(whole.narrow(0, q, 3));
  halves.push_back(whole.narrow(0, q + 3, 2 * kv - 3).transpose(0, 1));
  EXPECT_EQ(prove(shape, halves).tiling, Tiling::exact);
  interleaved[1] = interleaved[2];
  const TilingVerdict verdict = prove(shape, interleaved);
  EXPECT_EQ(verdict.tiling, Tiling::hole);
  EXPECT_EQ(verdict.coordinate, (Coordinate{repeat * head, 0}));
}

TEST(TilingProof, DifferentChainsSideBySide) {
  // Column 0 is cut by rows modulo 2, column 1 by rows modulo 3: the strides do not divide each other.
  const Shape shape = {6, 2};
  const View whole = View::whole(shape);
  std::vector<View> views;
  for (std::uint64_t i = 0; i < 2; ++i) views.push_back(whole.narrow(1, 0, 1).unflatten(0, {3, 2}).select(1, i));
  for (std::uint64_t i = 0; i < 3; ++i) views.push_back(whole.narrow(1, 1, 1).unflatten(0, {2, 3}).select(1, i));
  EXPECT_EQ(prove(shape, views).tiling, Tiling::exact);
}

TEST(TilingProof, HugeExpertStack) {
  constexpr std::uint64_t experts = 256, hidden = 7168, inner = 2048;
  const Shape shape = {experts, hidden, 2 * inner};
  const View whole = View::whole(shape);
  for (const bool is_interleaved : {false, true}) {
    std::vector<View> views;
    for (std::uint64_t e = 0; e < experts; ++e) {
      const View expert = whole.select(0, e);
      for (std::uint64_t half = 0; half < 2; ++half) {
        const View part =
            is_interleaved ? expert.unflatten(1, {inner, 2}).select(2, half) : expert.narrow(1, half * inner, inner);
        views.push_back(part.transpose(0, 1));
      }
    }
    const double seconds = seconds_of(shape, views);
    RecordProperty(is_interleaved ? "interleaved_us" : "halves_us", static_cast<int>(seconds * 1e6));
    EXPECT_LT(seconds, 0.05);
    views[311] = views[310];
    const TilingVerdict verdict = prove(shape, views);
    EXPECT_EQ(verdict.tiling, Tiling::overlap);
    EXPECT_EQ(verdict.coordinate, (Coordinate{155, 0, 0}));
    EXPECT_EQ(verdict.first_view, 310u);
    EXPECT_EQ(verdict.second_view, 311u);
  }
}

TEST(TilingProof, ManyInterleavedViews) {
  const Shape shape = {4096, 512, 64};
  const View whole = View::whole(shape);
  std::vector<View> views;
  for (std::uint64_t i = 0; i < 512; ++i) views.push_back(whole.select(1, i));
  EXPECT_LT(seconds_of(shape, views), 0.02);
  views.erase(views.begin() + 300);
  const TilingVerdict verdict = prove(shape, views);
  EXPECT_EQ(verdict.tiling, Tiling::hole);
  EXPECT_EQ(verdict.coordinate, (Coordinate{0, 300, 0}));
}

TEST(TilingProof, NearlyLinearInViews) {
  const auto stack = [](std::uint64_t count) {
    const View whole = View::whole({count / 2, 64, 96});
    std::vector<View> views;
    for (std::uint64_t e = 0; e < count / 2; ++e) {
      views.push_back(whole.select(0, e).narrow(1, 0, 48).transpose(0, 1));
      views.push_back(whole.select(0, e).narrow(1, 48, 48).transpose(0, 1));
    }
    return views;
  };
  const auto columns = [](std::uint64_t count) {
    const View whole = View::whole({64, count, 3});
    std::vector<View> views;
    for (std::uint64_t i = 0; i < count; ++i) views.push_back(whole.select(1, (i * 7919) % count));
    return views;
  };
  const double stack_ratio = seconds_of({5000, 64, 96}, stack(10'000)) / seconds_of({500, 64, 96}, stack(1'000));
  const double column_ratio = seconds_of({64, 10'000, 3}, columns(10'000)) / seconds_of({64, 1'000, 3}, columns(1'000));
  std::printf("time of 10,000 views over 1,000: stack %.1f, columns %.1f\n", stack_ratio, column_ratio);
  // Ten times the views: far from the hundredfold that comparing pairs would take, with room for a busy machine.
  EXPECT_LT(stack_ratio, 40);
  EXPECT_LT(column_ratio, 40);
}

TEST(TilingProof, WorkIsCapped) {
  // Long strips that all meet: comparing pairs would be quadratic, so it is given up with a reason or found at once.
  std::vector<View> views;
  const Shape shape = {40'000, 40'000};
  const View whole = View::whole(shape);
  for (std::uint64_t i = 0; i < 20'000; ++i) views.push_back(whole.narrow(0, i, 20'000).narrow(1, i, 1));
  const std::clock_t begin = std::clock();
  const TilingVerdict verdict = prove(shape, views);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 20.0);
  EXPECT_EQ(verdict.tiling, Tiling::hole);
  EXPECT_EQ(verdict.coordinate, (Coordinate{0, 1}));
}

}  // namespace
}  // namespace weightproof
