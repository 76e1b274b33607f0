// SPDX-License-Identifier: Apache-2.0
#include "loader/measure/cache.hpp"

#include <gtest/gtest.h>

#include "loader/measure/tests/measure_testing.hpp"

namespace weightproof::measure {
namespace {

using testing::TemporaryDirectory;

Residency of(std::uint64_t resident, std::uint64_t total) { return {Figure::of(resident, "m"), total}; }

TEST(CacheClass, Edges) {
  EXPECT_EQ(of(0, 1000).cache_class(), CacheClass::cold);
  EXPECT_EQ(of(10, 1000).cache_class(), CacheClass::cold);
  EXPECT_EQ(of(11, 1000).cache_class(), CacheClass::mixed);
  EXPECT_EQ(of(989, 1000).cache_class(), CacheClass::mixed);
  EXPECT_EQ(of(990, 1000).cache_class(), CacheClass::warm);
  EXPECT_EQ(of(0, 0).cache_class(), CacheClass::warm);
  EXPECT_EQ((Residency{Figure::unavailable("m", "w"), 1000}.cache_class()), CacheClass::unknown);
  EXPECT_EQ(to_string(CacheClass::mixed), "mixed");
}

TEST(Residency, AFileJustWrittenIsWarmAndOneEvictedIsNot) {
  const TemporaryDirectory directory;
  constexpr std::uint64_t bytes = 3 * 1024 * 1024 + 5;
  directory.write("file", std::string(bytes, 'x'));
  const std::filesystem::path path = directory.path() / "file";
  const Residency written = read_residency(path);
  ASSERT_TRUE(written.resident.value.has_value()) << written.resident.why;
  EXPECT_EQ(written.total, bytes);
  EXPECT_EQ(written.cache_class(), CacheClass::warm);
  const Eviction eviction = evict(path);
  EXPECT_EQ(eviction.fault, "");
  if (eviction.left.cache_class() == CacheClass::warm) GTEST_SKIP() << "this filesystem keeps pages in memory";
  EXPECT_LT(*eviction.left.resident.value, bytes);
  EXPECT_EQ(warm(path), "");
  EXPECT_EQ(read_residency(path).cache_class(), CacheClass::warm);
}

TEST(Residency, SumsAndFaults) {
  const TemporaryDirectory directory;
  directory.write("a", std::string(5000, 'x'));
  directory.write("b", std::string(7000, 'x'));
  const std::vector<std::filesystem::path> good = {directory.path() / "a", directory.path() / "b"};
  EXPECT_EQ(read_residency(good).total, 12000U);
  const std::vector<std::filesystem::path> bad = {directory.path() / "a", directory.path() / "absent",
                                                  directory.path() / "b"};
  const Residency sum = read_residency(bad);
  EXPECT_FALSE(sum.resident.value.has_value());
  EXPECT_EQ(sum.resident.why, "No such file or directory");
  EXPECT_EQ(sum.cache_class(), CacheClass::unknown);
  EXPECT_EQ(read_residency(directory.path()).resident.why, "not a regular file");
  EXPECT_FALSE(warm(directory.path() / "absent").empty());
  EXPECT_FALSE(evict(directory.path() / "absent").fault.empty());
}

}  // namespace
}  // namespace weightproof::measure
