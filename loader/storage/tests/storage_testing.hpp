// SPDX-License-Identifier: Apache-2.0
// Small helpers of this room's tests: a directory that goes away, and files made of a header text and zero bytes.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace weightproof::storage::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    static std::atomic<unsigned> count{0};
    path_ = std::filesystem::temp_directory_path() /
            ("weightproof_storage_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
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

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string length_bytes(std::uint64_t length) {
  std::string bytes(8, '\0');
  for (unsigned i = 0; i < 8; ++i) bytes[i] = static_cast<char>(static_cast<unsigned char>(length >> (8 * i)));
  return bytes;
}

/// Length, header text and data as one file.
inline std::string file_bytes(std::string_view header, std::string_view data) {
  return length_bytes(header.size()) + std::string(header) + std::string(data);
}

inline void write_tensors(const std::filesystem::path& path, std::string_view header, std::string_view data) {
  write_file(path, file_bytes(header, data));
}

/// Folder of real checkpoints, or nothing.
inline std::optional<std::filesystem::path> real_data() {
  const char* shared = std::getenv("WEIGHTPROOF_SHARED_DIR");
  if (shared == nullptr) return std::nullopt;
  const std::filesystem::path data = std::filesystem::path(shared) / "data";
  if (!std::filesystem::is_directory(data)) return std::nullopt;
  return data;
}

}  // namespace weightproof::storage::testing
