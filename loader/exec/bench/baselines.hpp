// SPDX-License-Identifier: Apache-2.0
// What a load is measured against: bare loops that move the same bytes and do nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace weightproof::exec::bench {

/// Memory in huge pages, either touched beforehand or not yet.
class Pages {
 public:
  Pages(std::size_t bytes, bool is_touched);
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages();
  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::byte* mapping_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t mapped_ = 0;
};

/// Reads [offset, offset + bytes) of a file with pread of 4 MiB on `threads` threads, each taking the next piece.
void pread_pool(const std::string& path, std::uint64_t offset, std::byte* target, std::size_t bytes, unsigned threads);
/// The same into memory that was never touched, populated piece by piece by the thread that reads it.
void pread_pool_fresh(const std::string& path, std::uint64_t offset, const Pages& pages, unsigned threads);
/// Copies with as many threads.
void memcpy_pool(std::byte* target, const std::byte* source, std::size_t bytes, unsigned threads);

}  // namespace weightproof::exec::bench
