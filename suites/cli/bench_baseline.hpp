// SPDX-License-Identifier: Apache-2.0
// What a load is measured against: bare loops that move the same bytes and do nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace weightproof::suites::cli {

/// Anonymous memory in huge pages where there are any; touched beforehand or not yet.
class PlainMemory {
 public:
  PlainMemory(std::size_t bytes, bool is_touched);
  PlainMemory(const PlainMemory&) = delete;
  PlainMemory& operator=(const PlainMemory&) = delete;
  ~PlainMemory();
  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A range of one file.
struct PlainRange {
  std::filesystem::path path;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Reads all ranges one behind the other into `target` by reads of 4 MiB on `threads` threads. With `populates` each
/// thread has the kernel provide the pages of a piece before it reads into them. Throws io_error.
void plain_read(const std::vector<PlainRange>& ranges, std::byte* target, unsigned threads, bool populates);
void plain_copy(std::byte* target, const std::byte* source, std::size_t bytes, unsigned threads);

/// Runs a command to its end, its output thrown away. Nothing where it could not be run or failed.
struct PlainRun {
  double seconds = 0;
  std::uint64_t peak_bytes = 0;  ///< of its resident set
};
std::optional<PlainRun> plain_run(const std::vector<std::string>& words);

}  // namespace weightproof::suites::cli
