// SPDX-License-Identifier: Apache-2.0
#include "loader/measure/memory.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace weightproof::measure {
namespace {

namespace fs = std::filesystem;

struct Text {
  std::string text;
  std::string fault;  // empty: `text` is valid
};

// Kernel files have no length; short ones are read whole.
Text read_text(const fs::path& path) {
  Text result;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    result.fault = std::generic_category().message(errno);
    return result;
  }
  std::array<char, 4096> buffer;
  for (;;) {
    const ::ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) result.fault = std::generic_category().message(errno);
    if (got <= 0 || result.text.size() > 1024 * 1024) break;
    result.text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(fd);
  return result;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  std::uint64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// Value of the line "Name:   123 kB".
std::optional<std::uint64_t> find_kilobytes(std::string_view text, std::string_view name) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    const std::optional<std::uint64_t> number = parse_number(line.substr(name.size() + 1));
    if (!number || *number > UINT64_MAX / 1024) return std::nullopt;
    return *number * 1024;
  }
  return std::nullopt;
}

Figure kilobytes(const Text& source, std::string_view name, std::string_view file) {
  std::string method = std::string(name) + " of " + std::string(file);
  if (!source.fault.empty()) return Figure::unavailable(std::move(method), source.fault);
  const std::optional<std::uint64_t> value = find_kilobytes(source.text, name);
  if (!value) return Figure::unavailable(std::move(method), "this kernel does not report it");
  return Figure::of(*value, std::move(method));
}

Figure whole_number(const fs::path& path, std::string method) {
  const Text source = read_text(path);
  if (!source.fault.empty()) return Figure::unavailable(std::move(method), source.fault);
  if (source.text.starts_with("max")) return Figure::unavailable(std::move(method), "no limit is set");
  const std::optional<std::uint64_t> value = parse_number(source.text);
  if (!value) return Figure::unavailable(std::move(method), "not a number");
  return Figure::of(*value, std::move(method));
}

// Line "name 123" of memory.stat.
Figure statistic(const Text& source, std::string_view name) {
  std::string method = std::string(name) + " of memory.stat";
  if (!source.fault.empty()) return Figure::unavailable(std::move(method), source.fault);
  std::size_t at = 0;
  while (at < source.text.size()) {
    const std::size_t end = std::min(source.text.find('\n', at), source.text.size());
    const std::string_view line = std::string_view(source.text).substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ' ') continue;
    if (const std::optional<std::uint64_t> value = parse_number(line.substr(name.size()))) {
      return Figure::of(*value, std::move(method));
    }
  }
  return Figure::unavailable(std::move(method), "not listed");
}

// Path of this process in the hierarchy `controller` ("" for version 2) out of /proc/self/cgroup; nothing if absent.
std::optional<std::string> group_path(std::string_view text, std::string_view controller) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool is_meant =
        controller.empty()
            ? controllers.empty()
            : ("," + std::string(controllers) + ",").find("," + std::string(controller) + ",") != std::string::npos;
    if (is_meant) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

// Inside a container the path of the host's hierarchy is not visible; then the group is what is mounted.
fs::path group_directory(const fs::path& mount, const std::string& path, const char* file) {
  const fs::path relative = fs::path(path).relative_path();
  std::error_code ignored;
  const bool is_safe =
      std::none_of(relative.begin(), relative.end(), [](const fs::path& part) { return part == ".."; });
  if (is_safe && fs::exists(mount / relative / file, ignored)) return mount / relative;
  return mount;
}

void raise(std::atomic<std::uint64_t>& peak, std::uint64_t value) {
  std::uint64_t seen = peak.load(std::memory_order_relaxed);
  while (value > seen && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

void lower(std::atomic<std::uint64_t>& least, std::uint64_t value) {
  std::uint64_t seen = least.load(std::memory_order_relaxed);
  while (value < seen && !least.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

Figure difference(const Figure& after, const Figure& before) {
  if (!after.value || !before.value) {
    return Figure::unavailable(after.method, after.value ? before.why : after.why);
  }
  return Figure::of(*after.value - std::min(*after.value, *before.value), after.method);
}

}  // namespace

ProcessMemory read_process_memory(const KernelFiles& files) {
  const Text status = read_text(files.proc / "self/status");
  constexpr std::string_view file = "/proc/self/status";
  ProcessMemory memory;
  memory.peak_rss = kilobytes(status, "VmHWM", file);
  memory.rss = kilobytes(status, "VmRSS", file);
  memory.rss_anon = kilobytes(status, "RssAnon", file);
  memory.rss_file = kilobytes(status, "RssFile", file);
  memory.rss_shmem = kilobytes(status, "RssShmem", file);
  memory.swap = kilobytes(status, "VmSwap", file);
  return memory;
}

SharedMemory read_shared_memory(const KernelFiles& files) {
  const Text rollup = read_text(files.proc / "self/smaps_rollup");
  constexpr std::string_view file = "/proc/self/smaps_rollup";
  return {kilobytes(rollup, "Pss", file), kilobytes(rollup, "Pss_Anon", file), kilobytes(rollup, "Pss_File", file)};
}

std::string reset_peak_rss(const KernelFiles& files) {
  const fs::path path = files.proc / "self/clear_refs";
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return "cannot open /proc/self/clear_refs: " + std::generic_category().message(errno);
  std::string fault;
  if (::write(fd, "5", 1) != 1) fault = "cannot reset the peak: " + std::generic_category().message(errno);
  ::close(fd);
  return fault;
}

GroupMemory read_group_memory(const KernelFiles& files) {
  GroupMemory memory;
  const Text groups = read_text(files.proc / "self/cgroup");
  const auto none = [&](const std::string& why) {
    for (Figure* figure : {&memory.current, &memory.peak, &memory.limit, &memory.anon, &memory.file}) {
      *figure = Figure::unavailable("memory control group", why);
    }
    return memory;
  };
  if (!groups.fault.empty()) return none("/proc/self/cgroup: " + groups.fault);
  std::error_code ignored;
  // A machine may carry both versions; the memory controller belongs to one of them.
  if (const std::optional<std::string> path = group_path(groups.text, "memory")) {
    const fs::path mount = files.cgroup / "memory";
    if (fs::exists(mount, ignored)) {
      const fs::path directory = group_directory(mount, *path, "memory.usage_in_bytes");
      memory.version = 1;
      memory.current = whole_number(directory / "memory.usage_in_bytes", "memory.usage_in_bytes (cgroup v1)");
      memory.peak = whole_number(directory / "memory.max_usage_in_bytes", "memory.max_usage_in_bytes (cgroup v1)");
      memory.limit = whole_number(directory / "memory.limit_in_bytes", "memory.limit_in_bytes (cgroup v1)");
      // "No limit" is written as a number near 2^63.
      if (memory.limit.value && *memory.limit.value > (std::uint64_t{1} << 62)) {
        memory.limit = Figure::unavailable(memory.limit.method, "no limit is set");
      }
      const Text statistics = read_text(directory / "memory.stat");
      memory.anon = statistic(statistics, "rss");
      memory.file = statistic(statistics, "cache");
      return memory;
    }
  }
  const std::optional<std::string> path = group_path(groups.text, "");
  if (!path) return none("this process is in no control group with a memory controller");
  const fs::path directory = group_directory(files.cgroup, *path, "memory.current");
  if (!fs::exists(directory / "memory.current", ignored)) {
    return none("the group of this process has no memory controller");
  }
  memory.version = 2;
  memory.current = whole_number(directory / "memory.current", "memory.current (cgroup v2)");
  memory.peak = whole_number(directory / "memory.peak", "memory.peak (cgroup v2)");
  memory.limit = whole_number(directory / "memory.max", "memory.max (cgroup v2)");
  const Text statistics = read_text(directory / "memory.stat");
  memory.anon = statistic(statistics, "anon");
  memory.file = statistic(statistics, "file");
  return memory;
}

MachineMemory read_machine_memory(const KernelFiles& files) {
  const Text info = read_text(files.proc / "meminfo");
  constexpr std::string_view file = "/proc/meminfo";
  return {kilobytes(info, "MemTotal", file), kilobytes(info, "MemAvailable", file), kilobytes(info, "Cached", file),
          kilobytes(info, "AnonPages", file)};
}

PageFaults read_page_faults() {
  struct ::rusage usage {};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) {
    const std::string why = std::generic_category().message(errno);
    return {Figure::unavailable("getrusage", why), Figure::unavailable("getrusage", why)};
  }
  return {Figure::of(static_cast<std::uint64_t>(usage.ru_minflt), "ru_minflt of getrusage"),
          Figure::of(static_cast<std::uint64_t>(usage.ru_majflt), "ru_majflt of getrusage")};
}

Figure MemoryReport::growth() const {
  const Figure by_peak = difference(peak_rss, before.rss);
  const Figure by_anon = difference(peak_rss_anon, before.rss_anon);
  if (by_peak.value && by_anon.value) {
    // The kernel's own peak misses nothing; the samples are a lower bound of it.
    return *by_peak.value >= *by_anon.value ? by_peak : by_anon;
  }
  if (by_peak.value) return by_peak;
  if (by_anon.value) return by_anon;
  return Figure::unavailable("VmHWM or RssAnon", "VmHWM: " + by_peak.why + "; RssAnon: " + by_anon.why);
}

MemoryWatch::MemoryWatch(std::chrono::microseconds interval, KernelFiles files)
    : files_(std::move(files)), interval_(interval) {
  reset_fault_ = reset_peak_rss(files_);
  report_.before = read_process_memory(files_);
  machine_before_ = read_machine_memory(files_);
  const PageFaults faults = read_page_faults();
  report_.minor_faults = faults.minor;
  report_.major_faults = faults.major;
  sample();
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  } catch (const std::system_error&) {
    // Without a thread the samples at the edges of phases remain.
  }
}

MemoryWatch::~MemoryWatch() = default;

void MemoryWatch::run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    sample();
    wake.wait_for(lock, stop, interval_, [] { return false; });
  }
}

void MemoryWatch::sample() {
  const ProcessMemory memory = read_process_memory(files_);
  if (memory.rss_anon.value) raise(anon_peak_, *memory.rss_anon.value);
  const std::uint64_t count = samples_.fetch_add(1, std::memory_order_relaxed);
  // The machine's figures cost more and change more slowly.
  if (count % 16 == 0) {
    const MachineMemory machine = read_machine_memory(files_);
    if (machine.available.value) lower(available_least_, *machine.available.value);
  }
}

MemoryReport MemoryWatch::finish() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  sample();
  report_.after = read_process_memory(files_);
  report_.samples = samples_.load();
  report_.peak_rss = report_.after.peak_rss;
  if (!reset_fault_.empty() && report_.peak_rss.value) {
    report_.peak_rss = Figure::unavailable(report_.peak_rss.method, reset_fault_);
  }
  if (report_.after.rss_anon.value) {
    report_.peak_rss_anon = Figure::of(anon_peak_.load(), "largest of " + std::to_string(report_.samples) +
                                                              " samples of RssAnon of /proc/self/status");
  } else {
    report_.peak_rss_anon = report_.after.rss_anon;
  }
  report_.cgroup_peak = read_group_memory(files_).peak;
  if (machine_before_.available.value && available_least_.load() != UINT64_MAX) {
    const std::uint64_t before = *machine_before_.available.value;
    report_.available_drop = Figure::of(before - std::min(before, available_least_.load()),
                                        "MemAvailable of /proc/meminfo before, less its smallest sample");
  } else {
    report_.available_drop = Figure::unavailable("MemAvailable of /proc/meminfo", machine_before_.available.why);
  }
  const PageFaults faults = read_page_faults();
  report_.minor_faults = difference(faults.minor, report_.minor_faults);
  report_.major_faults = difference(faults.major, report_.major_faults);
  return report_;
}

}  // namespace weightproof::measure
