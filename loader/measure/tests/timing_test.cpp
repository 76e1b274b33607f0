// SPDX-License-Identifier: Apache-2.0
#include "loader/measure/timing.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

namespace weightproof::measure {
namespace {

TEST(PhaseTimes, SumsOverThreads) {
  PhaseTimes times;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 1000; ++j) times.add(Phase::convert, std::chrono::nanoseconds(3));
      });
    }
  }
  EXPECT_EQ(times.of(Phase::convert), std::chrono::nanoseconds(12000));
  EXPECT_EQ(times.of(Phase::metadata), std::chrono::nanoseconds(0));
  {
    const PhaseTimes::Scope scope(times, Phase::metadata);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_GE(times.of(Phase::metadata), std::chrono::milliseconds(2));
  EXPECT_GE(times.total(), times.of(Phase::metadata));
}

TEST(PhaseTimes, EveryPhaseHasItsName) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < k_phase_count; ++i) names.insert(to_string(static_cast<Phase>(i)));
  EXPECT_EQ(names.size(), k_phase_count);
}

}  // namespace
}  // namespace weightproof::measure
