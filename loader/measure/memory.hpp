// SPDX-License-Identifier: Apache-2.0
// What the kernel says about the memory of this process, of its control group and of the machine (Linux). All figures
// are bytes. Nothing here throws: what cannot be read is a figure without a value, with the reason.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>

#include "loader/measure/figure.hpp"

namespace weightproof::measure {

/// Where the kernel's files are; tests point it at copies.
struct KernelFiles {
  std::filesystem::path proc = "/proc";
  std::filesystem::path cgroup = "/sys/fs/cgroup";
};

struct ProcessMemory {
  Figure peak_rss;   ///< VmHWM: file pages of mappings included
  Figure rss;        ///< VmRSS
  Figure rss_anon;   ///< what an out-of-memory killer counts
  Figure rss_file;   ///< page cache that is mapped
  Figure rss_shmem;  ///< shared memory
  Figure swap;       ///< VmSwap
};

/// One read of /proc/self/status.
ProcessMemory read_process_memory(const KernelFiles& files = {});

/// Proportional set size out of /proc/self/smaps_rollup, for sums over processes that share pages. Walks page tables:
/// never inside timed code.
struct SharedMemory {
  Figure pss;
  Figure pss_anon;
  Figure pss_file;
};
SharedMemory read_shared_memory(const KernelFiles& files = {});

/// Sets VmHWM back to the present VmRSS. Empty on success, else the reason.
std::string reset_peak_rss(const KernelFiles& files = {});

struct GroupMemory {
  int version = 0;  ///< 1 or 2; 0: no group was found
  Figure current;   ///< page cache that the group faulted in included
  Figure peak;      ///< since the group was made, or since its peak was last reset by somebody
  Figure limit;     ///< no value where there is none
  Figure anon;
  Figure file;
};
/// The memory control group of this process, version 1 or 2.
GroupMemory read_group_memory(const KernelFiles& files = {});

struct MachineMemory {
  Figure total;
  Figure available;  ///< MemAvailable
  Figure cached;
  Figure anon;  ///< AnonPages
};
MachineMemory read_machine_memory(const KernelFiles& files = {});

/// Page faults of this process so far (counts, not bytes).
struct PageFaults {
  Figure minor;
  Figure major;
};
PageFaults read_page_faults();

/// What a run did to memory: peaks while the watch ran, and the values before it.
struct MemoryReport {
  ProcessMemory before;
  ProcessMemory after;
  Figure peak_rss;       ///< VmHWM over the watched time
  Figure peak_rss_anon;  ///< largest sample of RssAnon; short spikes may be missed
  Figure cgroup_peak;
  Figure available_drop;  ///< MemAvailable before - smallest sample: on unified memory the only honest total
  Figure minor_faults;    ///< counts
  Figure major_faults;
  std::uint64_t samples = 0;

  /// Figures that a memory bound is judged by: the largest growth of VmHWM or RssAnon over `before`. No value, with
  /// both reasons, where neither was to be had: then the judgement fails rather than passes.
  Figure growth() const;
};

/// Resets the peak, samples on a thread of its own, and reports. One watch at a time: VmHWM belongs to the process.
class MemoryWatch {
 public:
  explicit MemoryWatch(std::chrono::microseconds interval = std::chrono::milliseconds(1), KernelFiles files = {});
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;
  ~MemoryWatch();

  /// Takes a sample now, at the edge of a phase.
  void sample();
  /// Ends the sampling. May be called once.
  MemoryReport finish();

 private:
  void run(const std::stop_token& stop);

  KernelFiles files_;
  std::chrono::microseconds interval_;
  MemoryReport report_;
  std::string reset_fault_;
  MachineMemory machine_before_;
  std::atomic<std::uint64_t> anon_peak_{0};
  std::atomic<std::uint64_t> available_least_{UINT64_MAX};
  std::atomic<std::uint64_t> samples_{0};
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace weightproof::measure
