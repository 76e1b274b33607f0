// SPDX-License-Identifier: Apache-2.0
// Reading by range: whole, short, interrupted, failed and changed.
#include "loader/storage/file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>

#include "loader/core/error.hpp"
#include "loader/storage/checkpoint.hpp"
#include "loader/storage/tests/storage_testing.hpp"

namespace weightproof::storage {
namespace {

using testing::TemporaryDirectory;
using testing::write_file;

std::span<std::byte> bytes_of(std::string& text) { return std::as_writable_bytes(std::span<char>(text)); }

/// Fails, interrupts or shortens the Nth read; 0: none.
class TrickyCalls : public FileCalls {
 public:
  unsigned fail_at = 0;
  unsigned interrupt_at = 0;
  std::size_t bytes_max = SIZE_MAX;
  unsigned reads = 0;

  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override {
    if (!may_read()) return -1;
    return FileCalls::pread(fd, buffer, std::min(bytes, bytes_max), offset);
  }
  std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) override {
    if (!may_read()) return -1;
    if (bytes_max == SIZE_MAX) return FileCalls::preadv(fd, parts, count, offset);
    return FileCalls::pread(fd, parts[0].iov_base, std::min(parts[0].iov_len, bytes_max), offset);
  }

 private:
  bool may_read() {
    ++reads;
    if (reads == fail_at) errno = EIO;
    if (reads == interrupt_at) errno = EINTR;
    return reads != fail_at && reads != interrupt_at;
  }
};

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override { write_file(directory_ / "data", "0123456789abcdef"); }
  File open(FileCalls& calls = FileCalls::system()) { return File::open(directory_ / "data", "data", calls); }
  TemporaryDirectory directory_;
};

void expect_error(const std::function<void()>& action, ErrorCode code, std::string_view check) {
  try {
    action();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(error.check(), check) << error.what();
    EXPECT_EQ(error.facts().file, "data");
  }
}

TEST_F(FileTest, RangesAndScatter) {
  const File file = open();
  EXPECT_EQ(file.size(), 16U);
  std::string part(4, ' ');
  file.read(10, bytes_of(part));
  EXPECT_EQ(part, "abcd");
  std::string a(3, ' ');
  std::string b(0, ' ');
  std::string c(5, ' ');
  const std::array<std::span<std::byte>, 3> targets = {bytes_of(a), bytes_of(b), bytes_of(c)};
  file.read_scattered(2, targets);
  EXPECT_EQ(a + c, "23456789");
  file.read(16, {});
  file.read_scattered(99, {});
}

TEST_F(FileTest, MoreScatteredPartsThanOneCallTakes) {
  std::string bytes(5000, ' ');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>('a' + i % 26);
  write_file(directory_ / "data", bytes);
  std::string target(5000, ' ');
  std::vector<std::span<std::byte>> parts;
  for (std::size_t i = 0; i < 5000; ++i) {
    parts.push_back(bytes_of(target).subspan(i, 1));
    if (i % 7 == 0) parts.push_back({});
  }
  open().read_scattered(0, parts);
  EXPECT_EQ(target, bytes);
  TrickyCalls calls;
  calls.bytes_max = 1;
  target.assign(5000, ' ');
  open(calls).read_scattered(0, parts);
  EXPECT_EQ(target, bytes);
}

TEST_F(FileTest, ShortReadsAndInterruptionsAreContinued) {
  TrickyCalls calls;
  calls.bytes_max = 3;
  calls.interrupt_at = 2;
  std::string all(16, ' ');
  open(calls).read(0, bytes_of(all));
  EXPECT_EQ(all, "0123456789abcdef");
  EXPECT_GE(calls.reads, 7U);
}

TEST_F(FileTest, RangesBeyondTheEnd) {
  std::string part(8, ' ');
  expect_error([&] { open().read(12, bytes_of(part)); }, ErrorCode::io_error, "io.short_read");
  const std::array<std::span<std::byte>, 1> targets = {bytes_of(part)};
  expect_error([&] { open().read_scattered(12, targets); }, ErrorCode::io_error, "io.short_read");
  expect_error([&] { open().read(UINT64_MAX - 2, bytes_of(part)); }, ErrorCode::io_error, "io.short_read");
}

TEST_F(FileTest, FailedRead) {
  TrickyCalls calls;
  calls.fail_at = 1;
  std::string part(8, ' ');
  expect_error([&] { open(calls).read(0, bytes_of(part)); }, ErrorCode::io_error, "io.error");
}

TEST_F(FileTest, OnlyRegularFilesOpen) {
  std::filesystem::create_directory(directory_ / "folder");
  expect_error([&] { File::open(directory_ / "folder", "data"); }, ErrorCode::io_error, "io.error");
  expect_error([&] { File::open(directory_ / "absent", "data"); }, ErrorCode::io_error, "io.error");
  ASSERT_EQ(::mkfifo((directory_ / "pipe").c_str(), 0600), 0);
  expect_error([&] { File::open(directory_ / "pipe", "data"); }, ErrorCode::io_error, "io.error");
}

TEST_F(FileTest, ChangesAreSeen) {
  File file = open();
  const FileIdentity identity = file.identity();
  EXPECT_NO_THROW(file.require_identity(identity));
  EXPECT_EQ(identity_of(directory_ / "data", "data"), identity);
  std::filesystem::resize_file(directory_ / "data", 15);
  expect_error([&] { file.require_identity(identity); }, ErrorCode::file_changed, "io.stale");
  std::filesystem::remove(directory_ / "data");
  write_file(directory_ / "data", "0123456789abcdef");
  expect_error([&] { open().require_identity(identity); }, ErrorCode::file_changed, "io.stale");
  file = open();
  EXPECT_NO_THROW(file.require_identity(file.identity()));
  const std::array<::timespec, 2> times = {::timespec{1, 0}, ::timespec{1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (directory_ / "data").c_str(), times.data(), 0), 0);
  expect_error([&] { file.require_identity(file.identity()); }, ErrorCode::file_changed, "io.stale");
}

// Every read of a whole checkpoint fails once, until it succeeds.
TEST(FaultLoop, EveryReadOfACheckpoint) {
  const TemporaryDirectory directory;
  const std::string header = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
  testing::write_tensors(directory / "model-00001-of-00002.safetensors", header, "xxxx");
  testing::write_tensors(directory / "model-00002-of-00002.safetensors", header, "xxxx");
  write_file(directory / "config.json", "{}");
  write_file(directory / "model.safetensors.index.json",
             "{\"metadata\":{\"total_size\":4},\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
             "\"b\":\"model-00002-of-00002.safetensors\"}}");
  unsigned failures = 0;
  for (unsigned n = 1;; ++n) {
    TrickyCalls calls;
    calls.fail_at = n;
    SelectionOptions options;
    options.calls = &calls;
    const Checkpoint checkpoint = read_checkpoint(directory.path(), options);
    if (calls.reads < n) break;
    ++failures;
    EXPECT_TRUE(std::any_of(checkpoint.diagnostics.begin(), checkpoint.diagnostics.end(), [](const Diagnostic& found) {
      return found.check == "io.error";
    })) << n;
  }
  EXPECT_EQ(failures, 8U);  // index, prefix and text of two headers, bytes of the duplicate twice, config
}

}  // namespace
}  // namespace weightproof::storage
