// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/machine.hpp"

#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <thread>
#include <utility>

namespace weightproof::suites {
namespace {

// "MemTotal:   16316412 kB" -> bytes.
std::optional<std::uint64_t> memory_line(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(name + ":", 0) == 0) {
      unsigned long long kib = 0;
      if (std::sscanf(line.c_str() + name.size() + 1, "%llu", &kib) == 1) {
        return kib * 1024;
      }
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("model name", 0) == 0) {
      const std::size_t colon = line.find(':');
      return colon == std::string::npos ? std::string() : line.substr(line.find_first_not_of(' ', colon + 1));
    }
  }
  return {};
}

std::string cpu_features() {
  std::string out;
#if defined(__x86_64__)
  const auto add = [&out](bool has, const char* name) {
    if (has) {
      out += (out.empty() ? "" : " ") + std::string(name);
    }
  };
  add(__builtin_cpu_supports("sse4.2") != 0, "sse4.2");
  add(__builtin_cpu_supports("avx2") != 0, "avx2");
  add(__builtin_cpu_supports("avx512f") != 0, "avx512f");
  add(__builtin_cpu_supports("avx512bw") != 0, "avx512bw");
#elif defined(__aarch64__)
  out = "neon";
#endif
  return out;
}

}  // namespace

Machine describe_machine() {
  Machine out;
  utsname name{};
  if (::uname(&name) == 0) {
    out.system = std::string(name.sysname) + ' ' + name.release + ' ' + name.machine;
  }
  out.cpu = cpu_name();
  out.cpu_features = cpu_features();
  out.threads = std::thread::hardware_concurrency();
  out.memory_bytes = memory_line("MemTotal");
  out.memory_available_bytes = memory_line("MemAvailable");
  out.cgroup_limit_bytes = number_in("/sys/fs/cgroup/memory.max");
  if (!out.cgroup_limit_bytes) {
    out.cgroup_limit_bytes = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    if (out.memory_bytes && out.cgroup_limit_bytes && *out.cgroup_limit_bytes > *out.memory_bytes) {
      out.cgroup_limit_bytes.reset();  // version 1 writes a number near 2^63 for "none"
    }
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    std::ifstream file(entry.path() / "information");
    std::string line;
    while (std::getline(file, line)) {
      if (line.rfind("Model:", 0) == 0) {
        out.gpu += (out.gpu.empty() ? "" : ", ") + line.substr(line.find_first_not_of(" \t", 6));
      }
    }
  }
  if (out.gpu.empty()) {
    out.gpu_reason = "no NVIDIA driver on this machine";
  }
#if defined(__clang__)
  out.compiler = "clang " __clang_version__;
#elif defined(__GNUC__)
  out.compiler = "gcc " __VERSION__;
#endif
  return out;
}

std::string file_system_of(const std::filesystem::path& path) {
  constexpr std::array<std::pair<std::uint64_t, const char*>, 12> names = {{
      {0xEF53, "ext4"},
      {0x58465342, "xfs"},
      {0x9123683E, "btrfs"},
      {0x01021994, "tmpfs"},
      {0x794C7630, "overlay"},
      {0x6969, "nfs"},
      {0x65735546, "fuse"},
      {0x0BD00BD0, "lustre"},
      {0x2FC12FC1, "zfs"},
      {0xFF534D42, "cifs"},
      {0xFE534D42, "smb2"},
      {0x00C36400, "ceph"},
  }};
  struct statfs info {};
  if (::statfs(path.c_str(), &info) != 0) {
    return {};
  }
  const auto type = static_cast<std::uint64_t>(info.f_type) & 0xFFFFFFFFU;
  for (const auto& [number, name] : names) {
    if (number == type) {
      return name;
    }
  }
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(type));
  return text.data();
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string utc_today() { return utc_now().substr(0, 10); }

std::string host_name() {
  std::array<char, 256> text{};
  return ::gethostname(text.data(), text.size() - 1) == 0 ? std::string(text.data()) : std::string();
}

}  // namespace weightproof::suites
