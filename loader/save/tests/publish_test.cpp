// SPDX-License-Identifier: Apache-2.0
#include "loader/save/publish.hpp"

#include <gtest/gtest.h>

#include "loader/core/error.hpp"
#include "loader/save/tests/save_testing.hpp"

namespace weightproof::save {
namespace {

using testing::read_file;
using testing::TemporaryDirectory;
using testing::write_file;
using Names = std::vector<std::string>;

void expect_code(const std::function<void()>& action, ErrorCode code) {
  try {
    action();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
  }
}

TEST(Staging, AppearsOnlyWhenPublished) {
  const TemporaryDirectory directory;
  {
    Staging staging(directory / "out", Replace::never);
    staging.write_text("sub/folder/a.txt", "content");
    EXPECT_FALSE(std::filesystem::exists(directory / "out"));
    EXPECT_NE(staging.path().filename().string().find(".weightproof-staging-"), std::string::npos);
    staging.publish_directory();
  }
  EXPECT_EQ(directory.names(), Names{"out"});
  EXPECT_EQ(read_file(directory / "out/sub/folder/a.txt"), "content");
}

TEST(Staging, UnpublishedItLeavesNothing) {
  const TemporaryDirectory directory;
  { Staging(directory / "out", Replace::never).write_text("a.txt", "content"); }
  EXPECT_TRUE(directory.names().empty());
}

TEST(Staging, ATargetThatExistsIsKept) {
  const TemporaryDirectory directory;
  write_file(directory / "out/old.txt", "old");
  expect_code([&] { Staging(directory / "out", Replace::never); }, ErrorCode::target_exists);
  // It appears while the export is under way.
  Staging staging(directory / "late", Replace::never);
  staging.write_text("a.txt", "new");
  write_file(directory / "late/old.txt", "old");
  expect_code([&] { staging.publish_directory(); }, ErrorCode::target_exists);
  EXPECT_EQ(read_file(directory / "late/old.txt"), "old");
  EXPECT_FALSE(std::filesystem::exists(directory / "late/a.txt"));
}

TEST(Staging, AnEmptyDirectoryMayBeTheTarget) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "out");
  Staging staging(directory / "out", Replace::never);
  staging.write_text("a.txt", "new");
  staging.publish_directory();
  EXPECT_EQ(read_file(directory / "out/a.txt"), "new");
}

TEST(Staging, ExchangeRemovesTheOld) {
  const TemporaryDirectory directory;
  write_file(directory / "out/old.txt", "old");
  Staging staging(directory / "out", Replace::exchange);
  staging.write_text("a.txt", "new");
  staging.publish_directory();
  EXPECT_EQ(directory.names(), Names{"out"});
  EXPECT_FALSE(std::filesystem::exists(directory / "out/old.txt"));
  EXPECT_EQ(read_file(directory / "out/a.txt"), "new");
}

TEST(Staging, OneFile) {
  const TemporaryDirectory directory;
  {
    Staging staging(directory / "x.safetensors", Replace::never);
    staging.write_text("x.safetensors", "new");
    staging.publish_file("x.safetensors");
  }
  EXPECT_EQ(directory.names(), Names{"x.safetensors"});
  expect_code([&] { Staging(directory / "x.safetensors", Replace::never); }, ErrorCode::target_exists);
  Staging again(directory / "x.safetensors", Replace::exchange);
  again.write_text("x.safetensors", "newer");
  again.publish_file("x.safetensors");
  EXPECT_EQ(read_file(directory / "x.safetensors"), "newer");
  EXPECT_EQ(directory.names(), Names{"x.safetensors"});
}

TEST(Staging, NamesStayInside) {
  const TemporaryDirectory directory;
  Staging staging(directory / "out", Replace::never);
  for (const char* name : {"", "/etc/x", "../x", "a/../../x", "./x"}) {
    expect_code([&] { staging.create(name, 0); }, ErrorCode::usage);
  }
  expect_code([&] { Staging(std::filesystem::path("/"), Replace::never); }, ErrorCode::usage);
  expect_code([&] { Staging(directory / "absent/out", Replace::never); }, ErrorCode::io_error);
}

TEST(WritableFile, ShortWritesAndInterruptionsAreContinued) {
  const TemporaryDirectory directory;
  testing::TrickyCalls calls;
  calls.write_bytes_max = 3;
  calls.fault = EINTR;
  calls.fail_at = 4;
  WritableFile file = WritableFile::create(directory / "a", "a", 10, calls);
  const std::string text = "0123456789";
  file.write(0, std::as_bytes(std::span<const char>(text)));
  file.finish();
  EXPECT_EQ(read_file(directory / "a"), text);
}

}  // namespace
}  // namespace weightproof::save
