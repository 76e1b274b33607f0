// SPDX-License-Identifier: Apache-2.0
#include "loader/save/publish.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "loader/core/error.hpp"
#include "loader/storage/checkpoint.hpp"

namespace weightproof::save {
namespace {

namespace fs = std::filesystem;

constexpr ::mode_t k_directory_mode = 0777;  // the process's mask applies
constexpr ::mode_t k_file_mode = 0666;

[[noreturn]] void throw_io(const std::string& name, const std::string& what, int number) {
  ErrorFacts facts;
  facts.file = name;
  facts.actual = std::generic_category().message(number);
  if (number == ENOSPC) facts.hint = "free some space, or export to another disk";
  const std::string message = "cannot " + what + " '" + name + "': " + facts.actual;
  throw Error(ErrorCode::io_error, message, std::move(facts));
}

[[noreturn]] void throw_exists(const std::string& name) {
  ErrorFacts facts;
  facts.file = name;
  facts.expected = "a name that is free";
  facts.hint = "choose another name, or remove what stands there";
  throw Error(ErrorCode::target_exists, "'" + name + "' exists already", std::move(facts));
}

bool has_entry(const fs::path& path) {
  struct ::stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

bool is_empty_directory(const fs::path& path) {
  std::error_code fault;
  return fs::is_directory(fs::symlink_status(path, fault)) && fs::is_empty(path, fault) && !fault;
}

}  // namespace

int WriteCalls::mkdir(const char* path, ::mode_t mode) { return ::mkdir(path, mode); }
int WriteCalls::open(const char* path, int flags, ::mode_t mode) { return ::open(path, flags, mode); }
int WriteCalls::fallocate(int fd, std::int64_t bytes) { return ::fallocate(fd, 0, 0, bytes); }
std::int64_t WriteCalls::pwrite(int fd, const void* buffer, std::size_t bytes, std::int64_t offset) {
  return ::pwrite(fd, buffer, bytes, offset);
}
int WriteCalls::fsync(int fd) { return ::fsync(fd); }
int WriteCalls::close(int fd) { return ::close(fd); }
int WriteCalls::rename(const char* from, const char* to, unsigned flags) {
  return ::renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
}
WriteCalls& WriteCalls::system() {
  static WriteCalls calls;
  return calls;
}

WritableFile WritableFile::create(const fs::path& path, std::string name, std::uint64_t bytes, WriteCalls& calls) {
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) throw_io(name, "write", EFBIG);
  int fd = -1;
  do {
    fd = calls.open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, k_file_mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) throw_io(name, "create", errno);
  WritableFile file(fd, std::move(name), calls);
  if (bytes != 0) {
    int outcome = 0;
    do {
      outcome = calls.fallocate(fd, static_cast<std::int64_t>(bytes));
    } while (outcome != 0 && errno == EINTR);
    // Filesystems that cannot reserve say so; then a full disk is met while writing.
    if (outcome != 0 && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) {
      throw_io(file.name_, "reserve space for", errno);
    }
  }
  return file;
}

WritableFile::WritableFile(WritableFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), name_(std::move(other.name_)), calls_(other.calls_) {}

WritableFile::~WritableFile() {
  if (fd_ >= 0) calls_->close(fd_);
}

void WritableFile::write(std::uint64_t offset, std::span<const std::byte> bytes) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const std::int64_t put =
        calls_->pwrite(fd_, bytes.data() + done, bytes.size() - done, static_cast<std::int64_t>(offset + done));
    if (put < 0) {
      if (errno == EINTR) continue;
      throw_io(name_, "write", errno);
    }
    if (put == 0) throw_io(name_, "write", ENOSPC);
    done += static_cast<std::size_t>(put);
  }
}

void WritableFile::start_writeback(std::uint64_t offset, std::uint64_t bytes) const {
  ::sync_file_range(fd_, static_cast<::off64_t>(offset), static_cast<::off64_t>(bytes), SYNC_FILE_RANGE_WRITE);
}

void WritableFile::finish() {
  int outcome = 0;
  do {
    outcome = calls_->fsync(fd_);
  } while (outcome != 0 && errno == EINTR);
  if (outcome != 0) throw_io(name_, "make durable", errno);
  // Errors of delayed writes may show only here; after a failed close the descriptor is gone all the same.
  const int fd = std::exchange(fd_, -1);
  if (calls_->close(fd) != 0 && errno != EINTR) throw_io(name_, "close", errno);
}

Staging::Staging(fs::path target, Replace replace, WriteCalls& calls)
    : target_(std::move(target)), replace_(replace), calls_(calls) {
  if (target_.filename().empty()) target_ = target_.parent_path();
  name_ = target_.filename().string();
  if (name_.empty() || name_ == "." || name_ == "..") {
    throw Error(ErrorCode::usage, "the target of an export needs a name of its own");
  }
  if (replace_ == Replace::never && has_entry(target_) && !is_empty_directory(target_)) throw_exists(name_);
  static std::atomic<unsigned> count{0};
  const fs::path parent = target_.parent_path();
  for (;;) {
    path_ = parent / ("." + name_ + std::string(storage::k_staging_infix) + std::to_string(::getpid()) + "-" +
                      std::to_string(count++));
    if (calls_.mkdir(path_.c_str(), k_directory_mode) == 0) return;
    if (errno != EEXIST) throw_io(name_, "create a staging directory for", errno);
  }
}

Staging::~Staging() {
  if (!is_published_) discard();
}

void Staging::discard() noexcept {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

WritableFile Staging::create(std::string_view name, std::uint64_t bytes) {
  const fs::path relative(name);
  bool is_safe = !name.empty() && relative.is_relative() && name.find('\0') == std::string_view::npos;
  for (const fs::path& part : relative) is_safe = is_safe && part != ".." && part != "." && !part.empty();
  if (!is_safe) {
    throw Error(ErrorCode::usage, "'" + std::string(name) + "' is no name of a file inside the export");
  }
  fs::path directory = path_;
  for (const fs::path& part : relative.parent_path()) {
    directory /= part;
    if (calls_.mkdir(directory.c_str(), k_directory_mode) != 0 && errno != EEXIST) {
      throw_io(std::string(name), "create the directory of", errno);
    }
  }
  return WritableFile::create(path_ / relative, std::string(name), bytes, calls_);
}

void Staging::write_text(std::string_view name, std::string_view text) {
  WritableFile file = create(name, text.size());
  file.write(0, std::as_bytes(std::span<const char>(text.data(), text.size())));
  file.finish();
}

void Staging::make_durable(const fs::path& directory, const std::string& name) {
  const int fd = calls_.open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0) throw_io(name, "open the directory of", errno);
  const int outcome = calls_.fsync(fd);
  const int fault = errno;
  calls_.close(fd);
  // Some filesystems have no such call for directories.
  if (outcome != 0 && fault != EINVAL) throw_io(name, "make the directory durable of", fault);
}

void Staging::rename_to_target(const fs::path& from) {
  if (replace_ == Replace::exchange && has_entry(target_)) {
    if (calls_.rename(from.c_str(), target_.c_str(), RENAME_EXCHANGE) != 0) {
      if (errno == EINVAL) {
        ErrorFacts facts;
        facts.file = name_;
        facts.hint = "this filesystem cannot exchange two names in one step; remove the old target first";
        throw Error(ErrorCode::io_error, "cannot replace '" + name_ + "' in one step", std::move(facts));
      }
      throw_io(name_, "publish", errno);
    }
    return;
  }
  if (calls_.rename(from.c_str(), target_.c_str(), RENAME_NOREPLACE) == 0) return;
  if (errno == EEXIST && !is_empty_directory(target_)) throw_exists(name_);
  if (errno != EEXIST && errno != EINVAL) throw_io(name_, "publish", errno);
  // A plain rename replaces an empty directory in one step, and fails on one with content. For files on filesystems
  // without the stricter call nothing safer is left than to look once more.
  if (has_entry(target_) && !is_empty_directory(target_)) throw_exists(name_);
  if (calls_.rename(from.c_str(), target_.c_str(), 0) != 0) {
    if (errno == EEXIST || errno == ENOTEMPTY) throw_exists(name_);
    throw_io(name_, "publish", errno);
  }
}

void Staging::publish_directory() {
  std::error_code fault;
  for (fs::recursive_directory_iterator entry(path_, fault); !fault && entry != fs::recursive_directory_iterator();
       entry.increment(fault)) {
    if (entry->is_directory(fault) && !fault) make_durable(entry->path(), entry->path().filename().string());
  }
  if (fault) throw_io(name_, "list the staging directory of", fault.value());
  make_durable(path_, name_);
  const bool is_exchange = replace_ == Replace::exchange && has_entry(target_);
  rename_to_target(path_);
  is_published_ = true;
  if (is_exchange) discard();  // the old content, now under the staging name
  make_durable(target_.parent_path(), name_);
}

void Staging::publish_file(std::string_view name) {
  const fs::path from = path_ / name;
  make_durable(path_, name_);
  rename_to_target(from);
  is_published_ = true;
  discard();
  make_durable(target_.parent_path(), name_);
}

}  // namespace weightproof::save
