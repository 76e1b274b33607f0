// SPDX-License-Identifier: Apache-2.0
// Where a fixture goes: the directory appears with all its files or not at all.
#pragma once

#include <cstdint>
#include <filesystem>

namespace weightproof::suites::cli {

/// Files are put together under a staging name and take their place in publish(). Destroyed before that it removes
/// them, and the directories that it made above the target.
class FixtureTarget {
 public:
  /// Errors: usage where something stands under the name, io_error.
  explicit FixtureTarget(std::filesystem::path directory);
  FixtureTarget(const FixtureTarget&) = delete;
  FixtureTarget& operator=(const FixtureTarget&) = delete;
  ~FixtureTarget();

  /// An empty directory to write into.
  const std::filesystem::path& staging() const { return staging_; }
  /// Errors: io_error where less than `bytes` are free there.
  void require_space(std::uint64_t bytes) const;
  /// Errors: io_error.
  void publish();

 private:
  void remove_made() noexcept;

  std::filesystem::path directory_;  // absolute
  std::filesystem::path staging_;
  std::filesystem::path made_;  // topmost directory that did not exist before; empty: all did
  bool is_inside_ = false;      // the target was there, and empty: its files are moved up into it
  bool is_published_ = false;
};

}  // namespace weightproof::suites::cli
