// SPDX-License-Identifier: Apache-2.0
#include "loader/storage/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "loader/core/error.hpp"

namespace weightproof::storage {
namespace {

constexpr int k_parts_max = 1024;  // IOV_MAX of Linux

std::string errno_text(int number) { return std::generic_category().message(number); }

FileIdentity identity_from(const struct ::stat& status) {
  FileIdentity identity;
  identity.device = static_cast<std::uint64_t>(status.st_dev);
  identity.inode = static_cast<std::uint64_t>(status.st_ino);
  identity.size = static_cast<std::uint64_t>(status.st_size);
  identity.mtime_ns = static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
  return identity;
}

[[noreturn]] void throw_io(const std::string& name, const std::string& what, int number) {
  ErrorFacts facts;
  facts.file = name;
  facts.actual = errno_text(number);
  throw Error(ErrorCode::io_error, "cannot " + what + " '" + name + "': " + errno_text(number), std::move(facts));
}

[[noreturn]] void throw_not_regular(const std::string& name, mode_t mode) {
  ErrorFacts facts;
  facts.file = name;
  facts.expected = "a regular file";
  facts.actual = S_ISDIR(mode) ? "a directory" : "a special file";
  throw Error(ErrorCode::io_error, "'" + name + "' is " + facts.actual + ", not a regular file", facts);
}

[[noreturn]] void throw_short_read(const std::string& name, std::uint64_t offset, std::uint64_t wanted,
                                   std::uint64_t done) {
  ErrorFacts facts;
  facts.file = name;
  facts.byte_offset = offset + done;
  facts.expected = std::to_string(wanted) + " bytes at offset " + std::to_string(offset);
  facts.actual = std::to_string(done) + " bytes";
  facts.check = "io.short_read";
  facts.hint = "the file is shorter than when its header was read; was it truncated or replaced meanwhile?";
  throw Error(ErrorCode::io_error,
              "'" + name + "' ends early: " + facts.actual + " of " + facts.expected + " could be read",
              std::move(facts));
}

}  // namespace

int FileCalls::open(const char* path, int flags) { return ::open(path, flags); }

std::int64_t FileCalls::pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) {
  return ::pread(fd, buffer, bytes, offset);
}

std::int64_t FileCalls::preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) {
  return ::preadv(fd, parts, count, offset);
}

FileCalls& FileCalls::system() {
  static FileCalls calls;
  return calls;
}

File File::open(const std::filesystem::path& path, std::string name, FileCalls& calls) {
  File file;
  file.name_ = std::move(name);
  file.calls_ = &calls;
  do {
    // Non-blocking, so that a named pipe in the place of a file cannot hang the process before it is refused.
    file.fd_ = calls.open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  } while (file.fd_ < 0 && errno == EINTR);
  if (file.fd_ < 0) throw_io(file.name_, "open", errno);
  struct ::stat status {};
  if (::fstat(file.fd_, &status) != 0) throw_io(file.name_, "examine", errno);
  if (!S_ISREG(status.st_mode)) throw_not_regular(file.name_, status.st_mode);
  file.identity_ = identity_from(status);
  return file;
}

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      identity_(other.identity_),
      name_(std::move(other.name_)),
      calls_(other.calls_) {}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
    identity_ = other.identity_;
    name_ = std::move(other.name_);
    calls_ = other.calls_;
  }
  return *this;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

void File::read(std::uint64_t offset, std::span<std::byte> target) const {
  std::size_t done = 0;
  while (done < target.size()) {
    const std::uint64_t at = offset + done;
    if (at < offset || at > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw_short_read(name_, offset, target.size(), done);
    }
    const std::int64_t got =
        calls_->pread(fd_, target.data() + done, target.size() - done, static_cast<std::int64_t>(at));
    if (got < 0) {
      if (errno == EINTR) continue;
      throw_io(name_, "read", errno);
    }
    if (got == 0) throw_short_read(name_, offset, target.size(), done);
    done += static_cast<std::size_t>(got);
  }
}

void File::read_scattered(std::uint64_t offset, std::span<const std::span<std::byte>> targets) const {
  std::uint64_t total = 0;
  for (const auto& target : targets) total += target.size();
  std::array<::iovec, k_parts_max> parts{};
  std::uint64_t done = 0;
  std::size_t first = 0;   // first target not yet full
  std::size_t inside = 0;  // bytes of it already read
  while (done < total) {
    int count = 0;
    for (std::size_t i = first; i < targets.size() && count < k_parts_max; ++i) {
      const std::size_t skip = i == first ? inside : 0;
      if (targets[i].size() == skip) continue;
      parts[static_cast<std::size_t>(count)] = {targets[i].data() + skip, targets[i].size() - skip};
      ++count;
    }
    const std::uint64_t at = offset + done;
    if (at < offset || at > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw_short_read(name_, offset, total, done);
    }
    const std::int64_t got = calls_->preadv(fd_, parts.data(), count, static_cast<std::int64_t>(at));
    if (got < 0) {
      if (errno == EINTR) continue;
      throw_io(name_, "read", errno);
    }
    if (got == 0) throw_short_read(name_, offset, total, done);
    done += static_cast<std::uint64_t>(got);
    std::uint64_t advance = static_cast<std::uint64_t>(got);
    while (advance > 0 || (first < targets.size() && targets[first].size() == inside)) {
      const std::size_t left = targets[first].size() - inside;
      if (advance < left) {
        inside += static_cast<std::size_t>(advance);
        break;
      }
      advance -= left;
      ++first;
      inside = 0;
    }
  }
}

void File::require_identity(const FileIdentity& expected) const {
  struct ::stat status {};
  if (::fstat(fd_, &status) != 0) throw_io(name_, "examine", errno);
  const FileIdentity now = identity_from(status);
  if (now == expected) return;
  ErrorFacts facts;
  facts.file = name_;
  facts.check = "io.stale";
  if (now.device != expected.device || now.inode != expected.inode) {
    facts.expected = "the file whose header was read";
    facts.actual = "another file under the same name";
  } else if (now.size != expected.size) {
    facts.expected = std::to_string(expected.size) + " bytes";
    facts.actual = std::to_string(now.size) + " bytes";
  } else {
    facts.expected = "unchanged modification time";
    facts.actual = "written to since its header was read";
  }
  facts.hint = "let the writer finish, then start again";
  throw Error(ErrorCode::file_changed,
              "'" + name_ + "' changed between header and data: " + facts.actual + ", expected " + facts.expected,
              std::move(facts));
}

FileIdentity identity_of(const std::filesystem::path& path, const std::string& name) {
  struct ::stat status {};
  if (::stat(path.c_str(), &status) != 0) throw_io(name, "examine", errno);
  if (!S_ISREG(status.st_mode)) throw_not_regular(name, status.st_mode);
  return identity_from(status);
}

}  // namespace weightproof::storage
