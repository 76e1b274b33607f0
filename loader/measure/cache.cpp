// SPDX-License-Identifier: Apache-2.0
#include "loader/measure/cache.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

namespace weightproof::measure {
namespace {

constexpr std::string_view k_cachestat = "cachestat(2)";
constexpr std::string_view k_mincore = "mincore(2)";

std::string errno_text() { return std::generic_category().message(errno); }

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

std::uint64_t page_bytes() {
  static const std::uint64_t bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

// The system call is younger than the C library's headers may be: number and layout are the kernel's, on every
// architecture.
constexpr long k_cachestat_number = 451;

struct CacheRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // 0: to the end
};

struct CachePages {
  std::uint64_t cached = 0;
  std::uint64_t dirty = 0;
  std::uint64_t writeback = 0;
  std::uint64_t evicted = 0;
  std::uint64_t recently_evicted = 0;
};

bool ask_cachestat(int fd, std::uint64_t& pages) {
  CacheRange range;
  CachePages found;
  if (::syscall(k_cachestat_number, fd, &range, &found, 0U) != 0) return false;
  pages = found.cached;
  return true;
}

// mincore tells the truth only about files that the caller owns or may write.
bool may_ask_mincore(const std::filesystem::path& path, const struct ::stat& status) {
  return status.st_uid == ::geteuid() || ::access(path.c_str(), W_OK) == 0;
}

Figure ask_mincore(int fd, std::uint64_t total) {
  constexpr std::uint64_t window_bytes = 1024ULL * 1024 * 1024;
  std::uint64_t pages = 0;
  std::vector<unsigned char> flags;
  for (std::uint64_t offset = 0; offset < total; offset += window_bytes) {
    const std::size_t bytes = static_cast<std::size_t>(std::min(window_bytes, total - offset));
    void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, static_cast<::off_t>(offset));
    if (mapped == MAP_FAILED) return Figure::unavailable(std::string(k_mincore), errno_text());
    flags.assign((bytes + page_bytes() - 1) / page_bytes(), 0);
    const int outcome = ::mincore(mapped, bytes, flags.data());
    const std::string fault = outcome == 0 ? std::string() : errno_text();
    ::munmap(mapped, bytes);
    if (outcome != 0) return Figure::unavailable(std::string(k_mincore), fault);
    pages += static_cast<std::uint64_t>(
        std::count_if(flags.begin(), flags.end(), [](unsigned char flag) { return (flag & 1U) != 0; }));
  }
  return Figure::of(std::min(pages * page_bytes(), total), std::string(k_mincore));
}

}  // namespace

std::string_view to_string(CacheClass cache_class) {
  switch (cache_class) {
    case CacheClass::cold:
      return "cold";
    case CacheClass::mixed:
      return "mixed";
    case CacheClass::warm:
      return "warm";
    case CacheClass::unknown:
      return "unknown";
  }
  return "unknown";
}

CacheClass Residency::cache_class() const {
  if (!resident.value) return CacheClass::unknown;
  const double share = total == 0 ? 1.0 : static_cast<double>(*resident.value) / static_cast<double>(total);
  if (share >= 0.99) return CacheClass::warm;
  return share <= 0.01 ? CacheClass::cold : CacheClass::mixed;
}

Residency read_residency(const std::filesystem::path& path) {
  Residency residency;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct ::stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0) {
    residency.resident = Figure::unavailable(std::string(k_cachestat), errno_text());
    return residency;
  }
  if (!S_ISREG(status.st_mode)) {
    residency.resident = Figure::unavailable(std::string(k_cachestat), "not a regular file");
    return residency;
  }
  residency.total = static_cast<std::uint64_t>(status.st_size);
  std::uint64_t pages = 0;
  if (ask_cachestat(file.get(), pages)) {
    residency.resident = Figure::of(std::min(pages * page_bytes(), residency.total), std::string(k_cachestat));
  } else if (may_ask_mincore(path, status)) {
    residency.resident = ask_mincore(file.get(), residency.total);
  } else {
    residency.resident = Figure::unavailable(
        std::string(k_mincore), "this kernel has no cachestat(2) and answers mincore(2) only for files one may write");
  }
  return residency;
}

Residency read_residency(std::span<const std::filesystem::path> paths) {
  Residency sum;
  sum.resident = Figure::of(0, std::string(k_cachestat));
  for (const std::filesystem::path& path : paths) {
    const Residency one = read_residency(path);
    sum.total += one.total;
    if (!sum.resident.value) continue;
    if (one.resident.value) {
      sum.resident = Figure::of(*sum.resident.value + *one.resident.value, one.resident.method);
    } else {
      sum.resident = one.resident;
    }
  }
  return sum;
}

Eviction evict(const std::filesystem::path& path) {
  Eviction eviction;
  {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.is_open()) {
      eviction.fault = errno_text();
    } else {
      // Only clean pages can go. Large folios may need a second request.
      if (::fdatasync(file.get()) != 0) eviction.fault = errno_text();
      for (int round = 0; round < 2; ++round) {
        const int fault = ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
        if (fault != 0) eviction.fault = std::generic_category().message(fault);
      }
    }
  }
  eviction.left = read_residency(path);
  return eviction;
}

std::string warm(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return errno_text();
  std::vector<char> buffer(1024 * 1024);
  for (;;) {
    const ::ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_text();
    if (got == 0) return {};
  }
}

}  // namespace weightproof::measure
