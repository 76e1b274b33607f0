// SPDX-License-Identifier: Apache-2.0
// What this machine is, as far as a report or a bug report wants to know.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace weightproof::suites {

struct Machine {
  std::string system;        ///< "Linux 6.1.0 x86_64"
  std::string cpu;           ///< model name, or empty
  std::string cpu_features;  ///< those that kernels here may use
  unsigned threads = 0;
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> memory_available_bytes;
  std::optional<std::uint64_t> cgroup_limit_bytes;
  std::string gpu;         ///< names as the driver tells, or empty
  std::string gpu_reason;  ///< why there is none
  std::string compiler;
};
Machine describe_machine();

/// "ext4", "overlay", "nfs", or the number of a type that has no name here. Empty where it cannot be told.
std::string file_system_of(const std::filesystem::path& path);

/// UTC, "2026-01-31T12:00:00Z" and "2026-01-31".
std::string utc_now();
std::string utc_today();
std::string host_name();

}  // namespace weightproof::suites
