// SPDX-License-Identifier: Apache-2.0
// Read-only files by byte range. Nothing is ever mapped: a file that shrinks gives an error, not a signal.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace weightproof::storage {

/// What tells whether a file is still the one whose header was read.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// The system calls that reading uses, replaceable by tests that fail or shorten the Nth of them. Thread-safe by
/// contract.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  virtual int open(const char* path, int flags);
  virtual std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset);
  virtual std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset);
  static FileCalls& system();
};

/// Owns a descriptor. Reads may run on several threads at once. Errors: io_error (with errno text; a path that is not a
/// regular file included), file_changed. All error texts use `name`, never the absolute path.
class File {
 public:
  File() = default;
  static File open(const std::filesystem::path& path, std::string name, FileCalls& calls = FileCalls::system());
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  std::uint64_t size() const { return identity_.size; }
  const FileIdentity& identity() const { return identity_; }
  const std::string& name() const { return name_; }
  int descriptor() const { return fd_; }

  /// Fills `target` from `offset`; EINTR and short reads are continued. A range that ends early is io_error with check
  /// io.short_read.
  void read(std::uint64_t offset, std::span<std::byte> target) const;
  /// Same, scattered over several buffers in order.
  void read_scattered(std::uint64_t offset, std::span<const std::span<std::byte>> targets) const;
  /// Throws file_changed (check io.stale) where device, inode, size or time differ from `expected`.
  void require_identity(const FileIdentity& expected) const;

 private:
  int fd_ = -1;
  FileIdentity identity_;
  std::string name_;
  FileCalls* calls_ = nullptr;
};

/// Identity of whatever `path` names now. Throws io_error.
FileIdentity identity_of(const std::filesystem::path& path, const std::string& name);

}  // namespace weightproof::storage
