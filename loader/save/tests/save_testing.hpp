// SPDX-License-Identifier: Apache-2.0
// Helpers of this room's tests: a directory that goes away, tensors with known bytes, system calls that fail.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "loader/save/export.hpp"

namespace weightproof::save::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    static std::atomic<unsigned> count{0};
    path_ = std::filesystem::temp_directory_path() /
            ("weightproof_save_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  /// Names in it, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Every file below a directory with its bytes.
inline std::map<std::string, std::string> read_tree(const std::filesystem::path& path) {
  std::map<std::string, std::string> files;
  if (!std::filesystem::exists(path)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), path).string()] = read_file(entry.path());
  }
  return files;
}

/// Tensors whose bytes follow from their names.
class Model {
 public:
  void add(const std::string& key, DType dtype, const Shape& shape) {
    tensors.push_back({key, dtype, shape});
    const std::size_t bytes = static_cast<std::size_t>(byte_count(shape, dtype).value());
    std::string data(bytes, '\0');
    std::uint64_t state = 1469598103934665603ULL;
    for (const char c : key) state = (state ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    for (char& c : data) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      c = static_cast<char>(state >> 56);
    }
    bytes_.push_back(std::move(data));
  }
  MemorySource source() const {
    std::vector<std::span<const std::byte>> spans;
    for (const std::string& data : bytes_) spans.push_back(std::as_bytes(std::span<const char>(data)));
    return MemorySource(std::move(spans));
  }
  const std::string& bytes(std::size_t tensor) const { return bytes_[tensor]; }

  std::vector<ExportTensor> tensors;

 private:
  std::vector<std::string> bytes_;
};

inline Model small_model() {
  Model model;
  model.add("embed.weight", DType::bf16, {16, 8});
  model.add("layers.10.norm", DType::f32, {8});
  model.add("layers.2.norm", DType::f32, {8});
  model.add("mask", DType::bool8, {3});
  model.add("empty", DType::f16, {0, 4});
  model.add("scalar", DType::i64, {});
  return model;
}

/// Counts every call; the `fail_at`th fails with `fault`, or the process dies in front of it, or a write is cut short.
class TrickyCalls : public WriteCalls {
 public:
  enum class Kind : std::uint8_t { mkdir, open, fallocate, pwrite, fsync, close, rename, count };
  unsigned fail_at = 0;
  int fault = EIO;
  bool dies = false;
  std::size_t write_bytes_max = SIZE_MAX;
  std::atomic<unsigned> calls{0};

  int mkdir(const char* path, ::mode_t mode) override { return may() ? WriteCalls::mkdir(path, mode) : -1; }
  int open(const char* path, int flags, ::mode_t mode) override {
    return may() ? WriteCalls::open(path, flags, mode) : -1;
  }
  int fallocate(int fd, std::int64_t bytes) override { return may() ? WriteCalls::fallocate(fd, bytes) : -1; }
  std::int64_t pwrite(int fd, const void* buffer, std::size_t bytes, std::int64_t offset) override {
    return may() ? WriteCalls::pwrite(fd, buffer, std::min(bytes, write_bytes_max), offset) : -1;
  }
  int fsync(int) override { return may() ? 0 : -1; }  // what a power cut would lose is not tested, and this takes long
  int close(int fd) override {
    const bool is_allowed = may();
    const int outcome = WriteCalls::close(fd);  // a failed close has closed all the same
    return is_allowed ? outcome : -1;
  }
  int rename(const char* from, const char* to, unsigned flags) override {
    return may() ? WriteCalls::rename(from, to, flags) : -1;
  }

 private:
  bool may() {
    if (++calls != fail_at) return true;
    if (dies) ::kill(::getpid(), SIGKILL);
    errno = fault;
    return false;
  }
};

}  // namespace weightproof::save::testing
