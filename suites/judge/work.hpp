// SPDX-License-Identifier: Apache-2.0
// The directory that a run of judge works in, and what it notices of the files there.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/storage/file.hpp"

namespace weightproof::suites::judge {

/// Directory of one run: the caller's, or one that goes away.
class WorkDirectory {
 public:
  /// Made where it is not there. Throws Error(io_error) where it cannot be made or is not empty.
  explicit WorkDirectory(const std::filesystem::path& keep);
  ~WorkDirectory();
  WorkDirectory(const WorkDirectory&) = delete;
  WorkDirectory& operator=(const WorkDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }
  bool is_kept() const { return is_kept_; }

 private:
  [[noreturn]] void refuse(const std::string& why) const;
  std::filesystem::path path_;
  bool is_kept_;
};

/// Throws Error(io_error).
void write_text(const std::filesystem::path& path, std::string_view text);

/// Files of the checkpoint that a subject was given, to see that it left them alone. Sorted by name.
std::vector<std::pair<std::string, storage::FileIdentity>> identities(const std::filesystem::path& directory);

}  // namespace weightproof::suites::judge
