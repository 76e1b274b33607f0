// SPDX-License-Identifier: Apache-2.0
// A directory or file appears under its name whole or not at all: it is put together in a staging directory beside the
// target, made durable, and renamed. A process that dies leaves at most the staging directory, whose name says so.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace weightproof::save {

/// The system calls that writing uses, replaceable by tests that fail, or die in, the Nth of them. Thread-safe by
/// contract. All return -1 with errno as the system does.
class WriteCalls {
 public:
  virtual ~WriteCalls() = default;
  virtual int mkdir(const char* path, ::mode_t mode);
  virtual int open(const char* path, int flags, ::mode_t mode);
  virtual int fallocate(int fd, std::int64_t bytes);
  virtual std::int64_t pwrite(int fd, const void* buffer, std::size_t bytes, std::int64_t offset);
  virtual int fsync(int fd);
  virtual int close(int fd);
  /// `flags` of renameat2.
  virtual int rename(const char* from, const char* to, unsigned flags);
  static WriteCalls& system();
};

/// A new file that is written by offset, possibly by several threads at once. Errors: io_error.
class WritableFile {
 public:
  /// Fails where the file exists. `bytes` are reserved where the filesystem can, so that a full disk is met at once.
  static WritableFile create(const std::filesystem::path& path, std::string name, std::uint64_t bytes,
                             WriteCalls& calls);
  WritableFile(WritableFile&& other) noexcept;
  WritableFile& operator=(WritableFile&&) = delete;
  ~WritableFile();

  void write(std::uint64_t offset, std::span<const std::byte> bytes) const;
  /// Asks the system to begin with a range that was written: finish() then waits less. Only advice.
  void start_writeback(std::uint64_t offset, std::uint64_t bytes) const;
  /// Makes the content durable and closes.
  void finish();
  const std::string& name() const { return name_; }

 private:
  WritableFile(int fd, std::string name, WriteCalls& calls) : fd_(fd), name_(std::move(name)), calls_(&calls) {}
  int fd_ = -1;
  std::string name_;
  WriteCalls* calls_ = nullptr;
};

enum class Replace : std::uint8_t {
  never,     ///< target_exists where something stands under the name
  exchange,  ///< swapped with the new one in one step, then removed
};

/// The place in which a target is put together. Destroyed unpublished it removes itself with all it holds.
class Staging {
 public:
  /// Creates ".<name>.weightproof-staging-<process>-<number>" beside `target`. Errors: target_exists, io_error.
  Staging(std::filesystem::path target, Replace replace, WriteCalls& calls = WriteCalls::system());
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  const std::filesystem::path& path() const { return path_; }
  /// `name` may have directories in it, which are made; it may not leave the staging directory (usage).
  WritableFile create(std::string_view name, std::uint64_t bytes);
  /// Writes a small file whole, durably.
  void write_text(std::string_view name, std::string_view text);

  /// Makes directories durable, then gives the staging directory the target's name. Everything created must be
  /// finished.
  void publish_directory();
  /// The same for one file of it; the rest is removed.
  void publish_file(std::string_view name);

 private:
  void make_durable(const std::filesystem::path& directory, const std::string& name);
  void rename_to_target(const std::filesystem::path& from);
  void discard() noexcept;

  std::filesystem::path target_;
  std::filesystem::path path_;
  std::string name_;  // of the target, for messages
  Replace replace_;
  WriteCalls& calls_;
  bool is_published_ = false;
};

}  // namespace weightproof::save
