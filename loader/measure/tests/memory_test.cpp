// SPDX-License-Identifier: Apache-2.0
#include "loader/measure/memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "loader/measure/tests/measure_testing.hpp"

namespace weightproof::measure {
namespace {

using testing::TemporaryDirectory;

constexpr std::uint64_t k_mebibyte = 1024 * 1024;

KernelFiles files_in(const TemporaryDirectory& directory) {
  return {directory.path() / "proc", directory.path() / "cgroup"};
}

TEST(ProcessMemory, ReadsTheKernelsLines) {
  const TemporaryDirectory directory;
  directory.write("proc/self/status",
                  "Name:\tx\nVmPeak:\t  999 kB\nVmHWM:\t   120 kB\nVmRSS:\t   100 kB\nRssAnon:\t 60 kB\n"
                  "RssFile:\t 30 kB\nRssShmem:\t 10 kB\n");
  const ProcessMemory memory = read_process_memory(files_in(directory));
  EXPECT_EQ(memory.peak_rss, Figure::of(120 * 1024, "VmHWM of /proc/self/status"));
  EXPECT_EQ(memory.rss.value, 100U * 1024U);
  EXPECT_EQ(memory.rss_anon.value, 60U * 1024U);
  EXPECT_EQ(memory.rss_file.value, 30U * 1024U);
  EXPECT_EQ(memory.rss_shmem.value, 10U * 1024U);
  EXPECT_FALSE(memory.swap.value.has_value());
  EXPECT_EQ(memory.swap.why, "this kernel does not report it");
}

TEST(ProcessMemory, WhatIsNotThereHasAReason) {
  const TemporaryDirectory directory;
  const ProcessMemory memory = read_process_memory(files_in(directory));
  EXPECT_FALSE(memory.rss.value.has_value());
  EXPECT_EQ(memory.rss.why, "No such file or directory");
  EXPECT_FALSE(read_shared_memory(files_in(directory)).pss.value.has_value());
  EXPECT_FALSE(read_machine_memory(files_in(directory)).available.value.has_value());
  EXPECT_FALSE(reset_peak_rss(files_in(directory)).empty());
  EXPECT_EQ(read_group_memory(files_in(directory)).version, 0);
  EXPECT_FALSE(read_group_memory(files_in(directory)).peak.why.empty());
}

TEST(ProcessMemory, NumbersThatAreNone) {
  const TemporaryDirectory directory;
  directory.write("proc/self/status",
                  "VmRSS:\t many kB\nVmHWM:\t 99999999999999999999 kB\nRssAnon:\t 18446744073709551615 kB\n");
  const ProcessMemory memory = read_process_memory(files_in(directory));
  EXPECT_FALSE(memory.rss.value.has_value());
  EXPECT_FALSE(memory.peak_rss.value.has_value());
  EXPECT_FALSE(memory.rss_anon.value.has_value());
}

TEST(GroupMemory, VersionTwo) {
  const TemporaryDirectory directory;
  directory.write("proc/self/cgroup", "0::/user.slice/job\n");
  directory.write("cgroup/user.slice/job/memory.current", "1000\n");
  directory.write("cgroup/user.slice/job/memory.peak", "2000\n");
  directory.write("cgroup/user.slice/job/memory.max", "max\n");
  directory.write("cgroup/user.slice/job/memory.stat", "anon 300\nfile 400\nfile_mapped 5\n");
  const GroupMemory memory = read_group_memory(files_in(directory));
  EXPECT_EQ(memory.version, 2);
  EXPECT_EQ(memory.current.value, 1000U);
  EXPECT_EQ(memory.peak.value, 2000U);
  EXPECT_EQ(memory.limit.why, "no limit is set");
  EXPECT_EQ(memory.anon.value, 300U);
  EXPECT_EQ(memory.file.value, 400U);
}

TEST(GroupMemory, VersionTwoOfAnOldKernelHasNoPeak) {
  const TemporaryDirectory directory;
  directory.write("proc/self/cgroup", "0::/\n");
  directory.write("cgroup/memory.current", "1000\n");
  const GroupMemory memory = read_group_memory(files_in(directory));
  EXPECT_EQ(memory.version, 2);
  EXPECT_FALSE(memory.peak.value.has_value());
  EXPECT_FALSE(memory.peak.why.empty());
}

TEST(GroupMemory, VersionOneInsideAContainer) {
  const TemporaryDirectory directory;
  directory.write("proc/self/cgroup", "12:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/docker/abc\n");
  // The host's path is not visible inside.
  directory.write("cgroup/memory/memory.usage_in_bytes", "10\n");
  directory.write("cgroup/memory/memory.max_usage_in_bytes", "20\n");
  directory.write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  directory.write("cgroup/memory/memory.stat", "cache 7\nrss 8\n");
  const GroupMemory memory = read_group_memory(files_in(directory));
  EXPECT_EQ(memory.version, 1);
  EXPECT_EQ(memory.peak.value, 20U);
  EXPECT_FALSE(memory.limit.value.has_value());
  EXPECT_EQ(memory.anon.value, 8U);
  EXPECT_EQ(memory.file.value, 7U);
}

TEST(GroupMemory, PathsThatLeaveTheMountAreNotFollowed) {
  const TemporaryDirectory directory;
  directory.write("proc/self/cgroup", "0::/../outside\n");
  directory.write("outside/memory.current", "77\n");
  directory.write("cgroup/memory.current", "11\n");
  EXPECT_EQ(read_group_memory(files_in(directory)).current.value, 11U);
}

TEST(Growth, TakesTheLargerAndFailsOnlyWithoutBoth) {
  MemoryReport report;
  report.before.rss = Figure::of(100, "m");
  report.before.rss_anon = Figure::of(40, "m");
  report.peak_rss = Figure::of(130, "peak");
  report.peak_rss_anon = Figure::of(90, "anon");
  EXPECT_EQ(report.growth(), Figure::of(50, "anon"));
  report.peak_rss_anon = Figure::unavailable("anon", "no samples");
  EXPECT_EQ(report.growth(), Figure::of(30, "peak"));
  report.peak_rss = Figure::unavailable("peak", "no reset");
  const Figure none = report.growth();
  EXPECT_FALSE(none.value.has_value());
  EXPECT_NE(none.why.find("no reset"), std::string::npos);
  EXPECT_NE(none.why.find("no samples"), std::string::npos);
}

TEST(MemoryWatch, SeesAnAllocationThatIsGoneAtTheEnd) {
  if (!read_process_memory().rss_anon.value) GTEST_SKIP() << "this kernel does not report RssAnon";
  MemoryWatch watch;
  constexpr std::size_t bytes = 64 * k_mebibyte;
  void* block = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, bytes);
  watch.sample();
  ::munmap(block, bytes);
  const MemoryReport report = watch.finish();
  ASSERT_TRUE(report.growth().value.has_value()) << report.growth().why;
  EXPECT_GE(*report.growth().value, bytes - 4 * k_mebibyte);
  EXPECT_LE(*report.after.rss_anon.value, *report.before.rss_anon.value + 8 * k_mebibyte);
  EXPECT_GE(report.samples, 3U);
  ASSERT_TRUE(report.minor_faults.value.has_value());
  EXPECT_GT(*report.minor_faults.value, 0U);
}

TEST(MemoryWatch, AnEarlierPeakDoesNotCount) {
  if (!reset_peak_rss().empty()) GTEST_SKIP() << "the peak of this process cannot be reset";
  {
    std::string early(48 * k_mebibyte, 'x');
    ASSERT_EQ(early.back(), 'x');
  }
  MemoryWatch watch;
  const MemoryReport report = watch.finish();
  ASSERT_TRUE(report.growth().value.has_value());
  EXPECT_LT(*report.growth().value, 16 * k_mebibyte);
}

TEST(MemoryWatch, WithoutResetThePeakIsNotTaken) {
  const TemporaryDirectory directory;
  directory.write("proc/self/status", "VmHWM:\t 120 kB\nVmRSS:\t 100 kB\n");
  MemoryWatch watch(std::chrono::milliseconds(1), files_in(directory));
  const MemoryReport report = watch.finish();
  EXPECT_FALSE(report.peak_rss.value.has_value());
  EXPECT_NE(report.peak_rss.why.find("clear_refs"), std::string::npos);
  EXPECT_FALSE(report.growth().value.has_value());
}

}  // namespace
}  // namespace weightproof::measure
