// SPDX-License-Identifier: Apache-2.0
#include "loader/exec/bench/baselines.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace weightproof::exec::bench {
namespace {

constexpr std::size_t k_piece = 4u << 20;
constexpr std::size_t k_huge = 2u << 20;
constexpr int k_populate_write = 23;

template <typename Work>
void on_threads(unsigned threads, std::size_t bytes, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (;;) {
      const std::size_t at = next.fetch_add(k_piece);
      if (at >= bytes) return;
      work(at, std::min(k_piece, bytes - at));
    }
  };
  std::vector<std::thread> pool;
  for (unsigned i = 1; i < threads; ++i) pool.emplace_back(run);
  run();
  for (std::thread& thread : pool) thread.join();
}

void read_all(int fd, std::uint64_t offset, std::byte* target, std::size_t bytes) {
  while (bytes != 0) {
    const ssize_t got = ::pread(fd, target, bytes, static_cast<off_t>(offset));
    if (got <= 0) std::abort();
    offset += static_cast<std::uint64_t>(got);
    target += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

int open_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) std::abort();
  return fd;
}

}  // namespace

Pages::Pages(std::size_t bytes, bool is_touched) : bytes_(bytes), mapped_(bytes + k_huge) {
  void* mapping = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) std::abort();
  mapping_ = static_cast<std::byte*>(mapping);
  data_ = mapping_ + (k_huge - reinterpret_cast<std::uintptr_t>(mapping) % k_huge) % k_huge;
  ::madvise(data_, bytes_, MADV_HUGEPAGE);
  if (is_touched) std::memset(data_, 1, bytes_);
}

Pages::~Pages() { ::munmap(mapping_, mapped_); }

void pread_pool(const std::string& path, std::uint64_t offset, std::byte* target, std::size_t bytes, unsigned threads) {
  const int fd = open_file(path);
  on_threads(threads, bytes,
             [&](std::size_t at, std::size_t length) { read_all(fd, offset + at, target + at, length); });
  ::close(fd);
}

void pread_pool_fresh(const std::string& path, std::uint64_t offset, const Pages& pages, unsigned threads) {
  const int fd = open_file(path);
  on_threads(threads, pages.size(), [&](std::size_t at, std::size_t length) {
    ::madvise(pages.data() + at, length, k_populate_write);
    read_all(fd, offset + at, pages.data() + at, length);
  });
  ::close(fd);
}

void memcpy_pool(std::byte* target, const std::byte* source, std::size_t bytes, unsigned threads) {
  on_threads(threads, bytes,
             [&](std::size_t at, std::size_t length) { std::memcpy(target + at, source + at, length); });
}

}  // namespace weightproof::exec::bench
