// SPDX-License-Identifier: Apache-2.0
#include "suites/cli/bench_baseline.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include "loader/core/error.hpp"

namespace weightproof::suites::cli {
namespace {

constexpr std::size_t k_piece_bytes = 4U << 20U;
constexpr std::size_t k_huge_page_bytes = 2U << 20U;
constexpr int k_populate_write = 23;  // MADV_POPULATE_WRITE, where the headers are older than the kernel

struct Piece {
  int file = -1;
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
  std::size_t target = 0;
};

template <typename Work>
void on_threads(unsigned threads, std::size_t pieces, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next++; i < pieces; i = next++) {
      work(i);
    }
  };
  std::vector<std::jthread> pool;
  for (unsigned i = 1; i < threads; ++i) {
    pool.emplace_back(run);
  }
  run();
}

}  // namespace

PlainMemory::PlainMemory(std::size_t bytes, bool is_touched) : mapped_(bytes + k_huge_page_bytes), bytes_(bytes) {
  mapping_ = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    throw std::bad_alloc();
  }
  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  data_ = static_cast<std::byte*>(mapping_) + (k_huge_page_bytes - address % k_huge_page_bytes) % k_huge_page_bytes;
  ::madvise(data_, bytes_, MADV_HUGEPAGE);
  if (is_touched) {
    std::memset(data_, 1, bytes_);
  }
}

PlainMemory::~PlainMemory() { ::munmap(mapping_, mapped_); }

void plain_read(const std::vector<PlainRange>& ranges, std::byte* target, unsigned threads, bool populates) {
  std::vector<int> files;
  std::vector<Piece> pieces;
  std::size_t at = 0;
  for (const PlainRange& range : ranges) {
    files.push_back(::open(range.path.c_str(), O_RDONLY | O_CLOEXEC));
    for (std::uint64_t done = 0; done < range.bytes; done += k_piece_bytes) {
      const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(k_piece_bytes, range.bytes - done));
      pieces.push_back({files.back(), range.offset + done, bytes, at});
      at += bytes;
    }
  }
  std::atomic<bool> has_failed{false};
  on_threads(threads, pieces.size(), [&](std::size_t i) {
    const Piece& piece = pieces[i];
    if (populates) {
      ::madvise(target + piece.target, piece.bytes, k_populate_write);
    }
    for (std::size_t done = 0; done < piece.bytes;) {
      const ssize_t got = ::pread(piece.file, target + piece.target + done, piece.bytes - done,
                                  static_cast<off_t>(piece.offset + done));
      if (got <= 0) {
        has_failed = true;
        return;
      }
      done += static_cast<std::size_t>(got);
    }
  });
  for (const int file : files) {
    ::close(file);
  }
  if (has_failed) {
    throw Error(ErrorCode::io_error, "the file cannot be read to its end");
  }
}

void plain_copy(std::byte* target, const std::byte* source, std::size_t bytes, unsigned threads) {
  on_threads(threads, (bytes + k_piece_bytes - 1) / k_piece_bytes, [&](std::size_t i) {
    const std::size_t at = i * k_piece_bytes;
    std::memcpy(target + at, source + at, std::min(k_piece_bytes, bytes - at));
  });
}

std::optional<PlainRun> plain_run(const std::vector<std::string>& words) {
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  for (std::string& word : copies) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child < 0) {
    return std::nullopt;
  }
  if (child == 0) {
    const int nowhere = ::open("/dev/null", O_RDWR);
    ::dup2(nowhere, STDIN_FILENO);
    ::dup2(nowhere, STDOUT_FILENO);
    ::dup2(nowhere, STDERR_FILENO);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  rusage usage{};
  if (::wait4(child, &status, 0, &usage) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return std::nullopt;
  }
  PlainRun run;
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  run.peak_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  return run;
}

}  // namespace weightproof::suites::cli
