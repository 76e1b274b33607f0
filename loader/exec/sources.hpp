// SPDX-License-Identifier: Apache-2.0
// The files of a load. Each is opened once, when its first byte is asked for, and must still be the file whose header
// was read.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loader/storage/checkpoint.hpp"
#include "loader/storage/file.hpp"

namespace weightproof::exec {

struct SourceFile {
  std::filesystem::path path;
  std::string name;                               ///< for messages, relative to the checkpoint
  std::optional<storage::FileIdentity> identity;  ///< when the header was read; empty: what is found when it is opened
};

/// Thread-safe. Serves any number of loads, one after the other or at once.
class SourceFiles {
 public:
  /// In the order of Catalog::files() of the plan.
  explicit SourceFiles(std::vector<SourceFile> files, storage::FileCalls& calls = storage::FileCalls::system());
  /// The files of checkpoints in the order in which plan::merge_sources() numbers them.
  static SourceFiles of(std::span<const storage::Checkpoint* const> checkpoints,
                        storage::FileCalls& calls = storage::FileCalls::system());
  SourceFiles(SourceFiles&&) noexcept;
  ~SourceFiles();

  std::size_t size() const { return count_; }
  /// Opens it the first time. Errors: io_error, file_changed.
  const storage::File& file(std::uint32_t index) const;
  /// Throws file_changed where an open file is no longer what it was when it was opened.
  void require_unchanged() const;
  std::uint64_t opens() const { return opens_.load(std::memory_order_relaxed); }

 private:
  struct Slot {
    SourceFile source;
    storage::File file;
    std::atomic<bool> is_open{false};
  };
  std::unique_ptr<Slot[]> slots_;
  std::size_t count_ = 0;
  storage::FileCalls* calls_;
  mutable std::mutex mutex_;
  mutable std::atomic<std::uint64_t> opens_{0};
};

}  // namespace weightproof::exec
