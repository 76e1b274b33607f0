// SPDX-License-Identifier: Apache-2.0
// Headers of files: lengths, foreign bytes, size above 4 GiB, and the memory that reading takes.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "loader/core/limits.hpp"
#include "loader/storage/header.hpp"
#include "loader/storage/tests/storage_testing.hpp"

namespace {

// Every allocation of this test binary goes through here, so that the peak of one scan can be counted. A word before
// the block keeps its size.
std::atomic<std::size_t> bytes_live{0};
std::atomic<std::size_t> bytes_peak{0};
constexpr std::size_t k_prefix_bytes = 64;

void* counted_allocate(std::size_t bytes) {
  void* block = std::malloc(bytes + k_prefix_bytes);
  if (block == nullptr) throw std::bad_alloc();
  *static_cast<std::size_t*>(block) = bytes;
  const std::size_t live = bytes_live.fetch_add(bytes) + bytes;
  std::size_t peak = bytes_peak.load();
  while (live > peak && !bytes_peak.compare_exchange_weak(peak, live)) {
  }
  return static_cast<char*>(block) + k_prefix_bytes;
}

void counted_release(void* at) noexcept {
  if (at == nullptr) return;
  void* block = static_cast<char*>(at) - k_prefix_bytes;
  bytes_live -= *static_cast<std::size_t*>(block);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t bytes) { return counted_allocate(bytes); }
void* operator new[](std::size_t bytes) { return counted_allocate(bytes); }
void operator delete(void* at) noexcept { counted_release(at); }
void operator delete[](void* at) noexcept { counted_release(at); }
void operator delete(void* at, std::size_t) noexcept { counted_release(at); }
void operator delete[](void* at, std::size_t) noexcept { counted_release(at); }

namespace weightproof::storage {
namespace {

using testing::TemporaryDirectory;
using testing::write_file;

Header read(const std::filesystem::path& path) { return read_header(File::open(path, path.filename().string())); }

Header read_bytes(std::string_view bytes) {
  const TemporaryDirectory directory;
  write_file(directory / "x.safetensors", bytes);
  return read(directory / "x.safetensors");
}

void expect_code(const Header& header, ErrorCode code, std::string_view check = "format.header_length") {
  ASSERT_TRUE(header.error.has_value());
  EXPECT_EQ(header.error->code(), code) << header.error->what();
  EXPECT_EQ(header.error->check(), check) << header.error->what();
}

TEST(HeaderFile, LengthsInTheFormatsOrder) {
  for (std::size_t bytes = 0; bytes < 8; ++bytes) {
    expect_code(read_bytes(std::string(bytes, 'x')), ErrorCode::header_too_small);
  }
  // Checked before the length of the file.
  expect_code(read_bytes(testing::length_bytes(100'000'001) + "{}"), ErrorCode::header_too_large);
  expect_code(read_bytes(testing::length_bytes(100'000'000) + "{}"), ErrorCode::invalid_header_length);
  expect_code(read_bytes(testing::length_bytes(UINT64_MAX) + std::string(52, ' ')), ErrorCode::header_too_large);
  expect_code(read_bytes(testing::length_bytes(3) + "{}"), ErrorCode::invalid_header_length);
  expect_code(read_bytes(testing::length_bytes(0)), ErrorCode::invalid_header_deserialization, "format.json");
  EXPECT_FALSE(read_bytes(testing::length_bytes(2) + "{}").error);
}

TEST(HeaderFile, TheLargestHeaderIsAllowed) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "large.safetensors";
  write_file(path,
             testing::length_bytes(limits::header_bytes_max) + "{}" + std::string(limits::header_bytes_max - 2, ' '));
  EXPECT_FALSE(read(path).error);
}

TEST(HeaderFile, ForeignBytesAreNamed) {
  using namespace std::string_literals;
  const std::vector<std::pair<std::string, std::string>> samples = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS pointer"},
      {"PK\x03\x04\x00\x00\x08\x08\x00\x00"s, "zip archive"},
      {"\x80\x02\x8a\nl\xfc\x9c\x46\xf9\x20\x6a"s, "pickle"},
      {"<!DOCTYPE html><html>...", "HTML page"},
      {"\n  <html lang=\"en\">", "HTML page"},
      {"<?xml version=\"1.0\"?><Error>", "XML document"},
      {"GGUF\x03\x00\x00\x00\x00\x00"s, "GGUF"},
      {"{\"a\":{\"dtype\":\"F32\"}}", "JSON text"},
      {std::string(64, '\0'), "zero bytes"},
      {"Entry not found", "download service"},
  };
  for (const auto& [bytes, word] : samples) {
    const Header header = read_bytes(bytes);
    ASSERT_TRUE(header.error.has_value()) << word;
    EXPECT_NE(header.error->facts().hint.find(word), std::string::npos) << word << ": " << header.error->facts().hint;
  }
  EXPECT_TRUE(recognise_foreign_bytes({}).empty());
}

TEST(HeaderFile, DataAboveFourGibibytes) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "sparse.safetensors";
  constexpr std::uint64_t first = 5'000'000'000;
  const std::string header =
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[5000000000],\"data_offsets\":[0,5000000000]},"
      "\"b\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[5000000000,5000000016]}}";
  testing::write_tensors(path, header, "");
  std::filesystem::resize_file(path, 8 + header.size() + first + 16);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(8 + header.size() + first));
    file.write("0123456789abcdef", 16);
  }
  const File file = File::open(path, "sparse.safetensors");
  const Header read_back = read_header(file);
  ASSERT_FALSE(read_back.error) << read_back.error->what();
  std::string tail(16, ' ');
  file.read(read_back.data_begin() + read_back.tensors[1].begin, std::as_writable_bytes(std::span<char>(tail)));
  EXPECT_EQ(tail, "0123456789abcdef");
}

TEST(HeaderFile, RealDataAtOddOffsetIsReadable) {
  const auto data = testing::real_data();
  if (!data) GTEST_SKIP() << "no real checkpoint data here";
  const Header header = read(*data / "st-hf2q-unaligned/model.safetensors");
  ASSERT_FALSE(header.error);
  ASSERT_EQ(header.diagnostics.size(), 1U);
  EXPECT_EQ(header.diagnostics[0].check, "format.alignment");
  EXPECT_EQ(header.data_begin(), 469U);
}

// Peak of allocations during one read, beyond what was live before.
std::size_t peak_of_reading(const std::filesystem::path& path, Header& header) {
  const std::size_t before = bytes_live;
  bytes_peak = before;
  header = read(path);
  return bytes_peak - before;
}

void expect_bounded(const std::string& text, const char* what) {
  SCOPED_TRACE(what);
  constexpr std::size_t constant = 16 * 1024 * 1024;
  const TemporaryDirectory directory;
  testing::write_tensors(directory / "x.safetensors", text, "");
  Header header;
  const std::size_t peak = peak_of_reading(directory / "x.safetensors", header);
  EXPECT_LE(peak, 4 * text.size() + constant);
  ::testing::Test::RecordProperty(std::string(what) + "_peak_per_header_byte",
                                  std::to_string(static_cast<double>(peak) / static_cast<double>(text.size())));
}

TEST(HeaderMemory, AtMostFourTimesTheHeader) {
  constexpr std::size_t target = 40'000'000;
  const auto repeat = [&](const auto& make, const char* begin, const char* end) {
    std::string text = begin;
    for (std::size_t i = 0; text.size() < target; ++i) text += (i == 0 ? "" : ",") + make(i);
    return text + end;
  };
  expect_bounded(repeat(
                     [](std::size_t i) {
                       return "\"" + std::to_string(i) + "\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[0,0]}";
                     },
                     "{", "}"),
                 "shortest_entries");
  expect_bounded(repeat(
                     [](std::size_t i) {
                       return "\"" + std::to_string(i) + "\":{\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[0,0]}";
                     },
                     "{", "}"),
                 "shortest_valid_entries");
  expect_bounded(repeat(
                     [](std::size_t i) {
                       std::string name;
                       for (int j = 0; j < 8; ++j) name += "\\u0061";
                       return "\"" + name + std::to_string(i) +
                              "\":{\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[0,0]}";
                     },
                     "{", "}"),
                 "escaped_names");
  expect_bounded("{\"" + std::string(target, '{') + "\":{}}", "braces_in_a_name");
  expect_bounded("{\"__metadata__\":{\"x\":\"" + std::string(target, 'y') + "\"}}", "one_metadata_value");
  expect_bounded("{\"__metadata__\":{\"x\":\"" +
                     std::string(target / 2, '\n').replace(0, target / 2, std::string(target / 2, 'y')) + "\\n" +
                     std::string(target / 2, 'z') + "\"}}",
                 "one_escaped_metadata_value");
  expect_bounded(
      repeat([](std::size_t i) { return "\"" + std::to_string(i) + "\":\"\""; }, "{\"__metadata__\":{", "}}"),
      "metadata_entries");
  expect_bounded(repeat([](std::size_t i) { return "\"" + std::to_string(i) + "\":0"; }, "{\"a\":{", "}}"),
                 "extra_fields");
  expect_bounded(repeat(
                     [](std::size_t i) {
                       return "\"" + std::to_string(i) +
                              "\":{\"x\":0,\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[0,0]}";
                     },
                     "{", "}"),
                 "entries_with_extra_fields");
  expect_bounded("{\"a\":{\"x\":" + std::string(target, '[') + "}}", "nesting");
}

TEST(HeaderMemory, NothingIsAllocatedForALengthThatTheFileDoesNotBack) {
  const TemporaryDirectory directory;
  write_file(directory / "x.safetensors", testing::length_bytes(99'999'999) + "{}");
  Header header;
  EXPECT_LE(peak_of_reading(directory / "x.safetensors", header), 64U * 1024U);
  ASSERT_TRUE(header.error);
}

}  // namespace
}  // namespace weightproof::storage
