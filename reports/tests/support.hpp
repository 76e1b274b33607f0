// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

// Files and tools for the tests of this room.
namespace weightproof::reports::test {

/// A folder of its own that is removed at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(std::string_view name, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::filesystem::path& path);
/// Runs a shell command: exit status (-1 where it could not be run) and both outputs.
std::pair<int, std::string> run(const std::string& command);
/// Single-quoted for the shell.
std::string quoted(const std::filesystem::path& path);
/// Number of times a text occurs.
std::size_t count_of(std::string_view text, std::string_view part);
/// Whether a command is found.
bool have(const std::string& command);

/// Compares with a committed text under reports/tests/golden; WEIGHTPROOF_UPDATE_SNAPSHOTS=1 rewrites it. Returns a
/// diff-like message, empty where equal.
std::string golden_difference(std::string_view name, std::string_view text);

}  // namespace weightproof::reports::test
