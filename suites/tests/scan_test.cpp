// SPDX-License-Identifier: Apache-2.0
// The streaming scan: every dtype's special values, cuts and threads that change nothing, files that change or end.
#include "suites/verify/scan.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>

#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

template <typename Word>
std::vector<std::byte> bytes_of(const std::vector<Word>& words) {
  std::vector<std::byte> out(words.size() * sizeof(Word));
  std::memcpy(out.data(), words.data(), out.size());
  return out;
}

struct SpecialCase {
  DType dtype;
  std::vector<std::byte> one;  ///< an ordinary element
  std::vector<std::byte> nan;  ///< empty: the dtype has none
  std::vector<std::byte> inf;
  std::vector<std::byte> zero;  ///< a zero other than all bits clear, or all bits clear
};

template <typename Word>
SpecialCase special(DType dtype, Word one, std::optional<Word> nan, std::optional<Word> inf, Word zero) {
  const auto bytes = [](std::optional<Word> word) {
    return word ? bytes_of(std::vector<Word>{*word}) : std::vector<std::byte>{};
  };
  return {dtype, bytes(one), bytes(nan), bytes(inf), bytes(zero)};
}

std::vector<SpecialCase> special_cases() {
  using U8 = std::uint8_t;
  using U16 = std::uint16_t;
  using U32 = std::uint32_t;
  using U64 = std::uint64_t;
  return {
      special<U16>(DType::f16, 0x3C00, 0xFE01, 0xFC00, 0x8000),
      special<U16>(DType::bf16, 0x3F80, 0x7F81, 0xFF80, 0x8000),
      special<U32>(DType::f32, 0x3F800000, 0xFF800001, 0x7F800000, 0x80000000),
      special<U64>(DType::f64, 0x3FF0000000000000, 0x7FF0000000000001, 0xFFF0000000000000, 0x8000000000000000),
      special<U8>(DType::f8_e5m2, 0x3C, 0x7D, 0xFC, 0x80),
      special<U8>(DType::f8_e4m3, 0x38, 0xFF, std::nullopt, 0x80),
      special<U8>(DType::f8_e4m3fnuz, 0x40, 0x80, std::nullopt, 0x00),
      special<U8>(DType::f8_e5m2fnuz, 0x40, 0x80, std::nullopt, 0x00),
      special<U8>(DType::f8_e8m0, 0x7F, 0xFF, std::nullopt, 0x00),
      special<U64>(DType::c64, 0x3F8000003F800000, 0x7FC000003F800000, 0x000000007F800000, 0x8000000080000000),
  };
}

// Each special value at each place of a run that crosses chunk borders.
TEST(ScanTile, FindsEverySpecialValueAtEveryPlace) {
  for (const SpecialCase& row : special_cases()) {
    const std::size_t width = row.one.size();
    for (const std::size_t count :
         {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65}, std::size_t{200}}) {
      std::vector<std::byte> run;
      for (std::size_t i = 0; i < count; ++i) {
        run.insert(run.end(), row.one.begin(), row.one.end());
      }
      const TileFacts clean = scan_tile(row.dtype, run, 1000, count < 100);
      EXPECT_EQ(clean.elements, count);
      EXPECT_EQ(clean.nan_count + clean.inf_count, 0U) << name_of(row.dtype);
      EXPECT_TRUE(clean.is_constant);
      EXPECT_FALSE(clean.is_zero) << name_of(row.dtype);
      for (std::size_t at = 0; at < count; at += 7) {
        for (const bool is_nan : {true, false}) {
          const auto& value = is_nan ? row.nan : row.inf;
          if (value.empty()) {
            continue;
          }
          auto dirty = run;
          std::copy(value.begin(), value.end(), dirty.begin() + static_cast<std::ptrdiff_t>(at * width));
          const TileFacts facts = scan_tile(row.dtype, dirty, 1000, count < 100);
          EXPECT_EQ(facts.nan_count, is_nan ? 1U : 0U) << name_of(row.dtype) << " at " << at;
          EXPECT_EQ(facts.inf_count, is_nan ? 0U : 1U) << name_of(row.dtype) << " at " << at;
          EXPECT_EQ(is_nan ? facts.first_nan : facts.first_inf, 1000 + at) << name_of(row.dtype);
          EXPECT_EQ(facts.is_constant, count == 1);
        }
      }
      std::vector<std::byte> zeros;
      for (std::size_t i = 0; i < count; ++i) {
        zeros.insert(zeros.end(), row.zero.begin(), row.zero.end());
      }
      EXPECT_EQ(scan_tile(row.dtype, zeros, 0, false).is_zero, row.dtype != DType::f8_e8m0) << name_of(row.dtype);
    }
  }
}

// All 256 codes of each 8-bit format against its definition.
TEST(ScanTile, EightBitFormatsCodeByCode) {
  for (unsigned code = 0; code < 256; ++code) {
    const std::vector<std::byte> one = {static_cast<std::byte>(code)};
    const auto facts = [&](DType dtype) { return scan_tile(dtype, one, 0, false); };
    EXPECT_EQ(facts(DType::f8_e4m3).nan_count, (code & 0x7FU) == 0x7FU ? 1U : 0U);
    EXPECT_EQ(facts(DType::f8_e4m3).inf_count, 0U);
    const unsigned magnitude = code & 0x7FU;
    EXPECT_EQ(facts(DType::f8_e5m2).nan_count, magnitude > 0x7CU ? 1U : 0U);
    EXPECT_EQ(facts(DType::f8_e5m2).inf_count, magnitude == 0x7CU ? 1U : 0U);
    EXPECT_EQ(facts(DType::f8_e4m3fnuz).nan_count, code == 0x80U ? 1U : 0U);
    EXPECT_EQ(facts(DType::f8_e5m2fnuz).nan_count, code == 0x80U ? 1U : 0U);
    EXPECT_EQ(facts(DType::f8_e8m0).nan_count, code == 0xFFU ? 1U : 0U);
    EXPECT_EQ(facts(DType::bool8).odd_bool_count, code > 1 ? 1U : 0U);
  }
}

TEST(ScanTile, PackedFormatsCountElements) {
  const std::vector<std::byte> six(3, std::byte{0});
  EXPECT_EQ(scan_tile(DType::f6_e2m3, six, 0, false).elements, 4U);
  EXPECT_TRUE(scan_tile(DType::f6_e3m2, six, 0, false).is_zero);
  // Two negative zeros in a byte.
  const std::vector<std::byte> four = {std::byte{0x88}, std::byte{0x88}};
  EXPECT_TRUE(scan_tile(DType::f4, four, 0, false).is_zero);
  EXPECT_TRUE(scan_tile(DType::f4, four, 0, false).is_constant);
  EXPECT_EQ(scan_tile(DType::f4, four, 0, false).elements, 4U);
  const std::vector<std::byte> mixed = {std::byte{0x88}, std::byte{0x80}};
  EXPECT_FALSE(scan_tile(DType::f4, mixed, 0, false).is_constant);
  const std::vector<std::byte> last = {std::byte{0}, std::byte{0}, std::byte{0x04}};
  EXPECT_FALSE(scan_tile(DType::f6_e2m3, last, 0, false).is_zero);
}

// Merging in any order and with any cut gives what one pass gives.
TEST(ScanTile, CutsAndOrderDoNotMatter) {
  std::mt19937 random(20240607);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint16_t> words(1 + random() % 5000);
    for (auto& word : words) {
      word = static_cast<std::uint16_t>(random() % 3 == 0 ? random() : 0x3F80);
    }
    const auto bytes = bytes_of(words);
    const TileFacts whole = scan_tile(DType::bf16, bytes, 0, false);
    std::vector<std::pair<std::size_t, std::size_t>> cuts;
    for (std::size_t at = 0; at < words.size();) {
      const std::size_t size = std::min<std::size_t>(words.size() - at, 64 * (1 + random() % 9));
      cuts.emplace_back(at, size);
      at += size;
    }
    std::shuffle(cuts.begin(), cuts.end(), random);
    TileFacts merged;
    for (const auto& [at, size] : cuts) {
      merged.merge(scan_tile(DType::bf16, std::span(bytes).subspan(at * 2, size * 2), at, false));
    }
    EXPECT_EQ(merged.elements, whole.elements);
    EXPECT_EQ(merged.nan_count, whole.nan_count);
    EXPECT_EQ(merged.first_nan, whole.first_nan);
    EXPECT_EQ(merged.inf_count, whole.inf_count);
    EXPECT_EQ(merged.is_constant, whole.is_constant);
    EXPECT_EQ(merged.is_zero, whole.is_zero);
    EXPECT_EQ(merged.rank.largest.front().index, whole.rank.largest.front().index);
    EXPECT_EQ(merged.rank.largest.front().magnitude, whole.rank.largest.front().magnitude);
  }
}

TEST(ScanTile, OneFlippedExponentBitStandsOut) {
  std::mt19937 random(7);
  std::normal_distribution<float> weights(0, 0.02F);
  for (const std::size_t count : {std::size_t{32}, std::size_t{4096}, std::size_t{100000}}) {
    std::vector<float> values(count);
    for (float& value : values) {
      value = weights(random);
    }
    const bool is_exact = count <= k_exact_elements_max;
    EXPECT_FALSE(find_outlier(DType::f32, scan_tile(DType::f32, bytes_of(values), 0, is_exact)));
    const std::size_t at = count / 3;
    std::uint32_t bits = 0;
    std::memcpy(&bits, &values[at], 4);
    bits ^= 0x40000000U;
    std::memcpy(&values[at], &bits, 4);
    const auto outlier = find_outlier(DType::f32, scan_tile(DType::f32, bytes_of(values), 0, is_exact));
    ASSERT_TRUE(outlier) << count;
    EXPECT_EQ(outlier->index, at);
    EXPECT_EQ(outlier->alone, 1U);
  }
}

// A rotary table, or a file whose values are its bytes: every step is large, none stands alone.
TEST(ScanTile, ASpreadOverManyDecadesIsNoOutlier) {
  std::vector<float> values;
  for (int i = 0; i < 24; ++i) {
    values.push_back(std::ldexp(1.0F, -11 * (i % 11)));
  }
  EXPECT_FALSE(find_outlier(DType::f32, scan_tile(DType::f32, bytes_of(values), 0, true)));
  std::vector<float> steps;
  for (int i = 0; i < 16; ++i) {
    steps.push_back(std::ldexp(1.0F, -8 * i));
  }
  EXPECT_FALSE(find_outlier(DType::f32, scan_tile(DType::f32, bytes_of(steps), 0, true)));
}

TEST(ScanTile, MagnitudesAreThoseOfTheFormats) {
  EXPECT_EQ(magnitude_value(DType::bf16, 0x3F80), 1.0);
  EXPECT_EQ(magnitude_value(DType::f16, 0x3C00), 1.0);
  EXPECT_EQ(magnitude_value(DType::f16, 0x0001), 0x1p-24);
  EXPECT_EQ(magnitude_value(DType::f32, 0x00000001), 0x1p-149);
  EXPECT_EQ(magnitude_value(DType::f64, 0x4000000000000000), 2.0);
}

// A checkpoint of one file with one tensor of `bytes` zeros, the rest a hole.
void write_sparse(const std::filesystem::path& path, std::uint64_t bytes, std::uint64_t at, std::uint16_t word) {
  const std::string header = R"({"w":{"dtype":"BF16","shape":[)" + std::to_string(bytes / 2) +
                             R"(],"data_offsets":[0,)" + std::to_string(bytes) + "]}}";
  write_safetensors(path, header, "");
  std::filesystem::resize_file(path, 8 + header.size() + bytes);
  std::FILE* file = std::fopen(path.c_str(), "r+b");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(std::fseek(file, static_cast<long>(8 + header.size() + at * 2), SEEK_SET), 0);
  ASSERT_EQ(std::fwrite(&word, 2, 1, file), 1U);
  ASSERT_EQ(std::fclose(file), 0);
}

TEST(Scan, ThreadsDoNotChangeTheResult) {
  const TemporaryDirectory directory;
  const std::uint64_t bytes = 20ULL << 20U;
  const std::uint64_t at = bytes / 2 - 3;
  write_sparse(directory / "m.safetensors", bytes, at, 0x7FC0);
  const auto checkpoint = storage::read_checkpoint(directory / "m.safetensors", {});
  const std::vector<std::uint32_t> all = {0};
  for (const unsigned threads : {1U, 2U, 7U}) {
    ScanOptions options;
    options.threads = threads;
    const ScanResult result = scan_values(checkpoint, all, options);
    EXPECT_TRUE(result.errors.empty());
    EXPECT_EQ(result.tensors, 1U);
    EXPECT_EQ(result.elements, bytes / 2);
    EXPECT_EQ(result.bytes, bytes);
    EXPECT_EQ(result.reads, 6U);  // 20 MiB in reads of just under 4 MiB
    ASSERT_EQ(result.notable.size(), 1U);
    EXPECT_EQ(result.notable[0].facts.nan_count, 1U);
    EXPECT_EQ(result.notable[0].facts.first_nan, at);
    EXPECT_FALSE(result.notable[0].facts.is_zero);
  }
}

TEST(Scan, SmallTensorsShareAReadAndEmptyOnesNeedNone) {
  const TemporaryDirectory directory;
  std::string header = "{";
  std::string data;
  for (int i = 0; i < 100; ++i) {
    header += (i == 0 ? "" : ",") + ("\"t" + std::to_string(i)) + R"(":{"dtype":"U8","shape":[3],"data_offsets":[)" +
              std::to_string(data.size()) + "," + std::to_string(data.size() + 3) + "]}";
    data += "abc";
  }
  header += R"(,"empty":{"dtype":"F32","shape":[0,4],"data_offsets":[300,300]}})";
  write_safetensors(directory / "m.safetensors", header, data);
  const auto checkpoint = storage::read_checkpoint(directory / "m.safetensors", {});
  std::vector<std::uint32_t> all(checkpoint.catalog.size());
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    all[i] = i;
  }
  const ScanResult result = scan_values(checkpoint, all, {});
  EXPECT_EQ(result.reads, 1U);
  EXPECT_EQ(result.tensors, 101U);
  EXPECT_TRUE(result.notable.empty());
}

// Fails, shortens or runs an action at the Nth read.
class TrickyCalls : public storage::FileCalls {
 public:
  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override {
    if (++reads == fail_at) {
      errno = EIO;
      return -1;
    }
    if (reads == end_at) {
      return 0;
    }
    if (reads == act_at) {
      action();
    }
    return FileCalls::pread(fd, buffer, std::min<std::size_t>(bytes, step), offset);
  }
  int reads = 0;
  int fail_at = -1;
  int end_at = -1;
  int act_at = -1;
  std::size_t step = SIZE_MAX;
  std::function<void()> action;
};

TEST(Scan, FailedReadsAreErrorsNotFindings) {
  const TemporaryDirectory directory;
  write_sparse(directory / "m.safetensors", 12U << 20U, 5, 0x7FC0);
  const auto checkpoint = storage::read_checkpoint(directory / "m.safetensors", {});
  const std::vector<std::uint32_t> all = {0};
  for (int n = 1; n <= 3; ++n) {
    TrickyCalls calls;
    calls.fail_at = n;
    ScanOptions options;
    options.calls = &calls;
    const ScanResult result = scan_values(checkpoint, all, options);
    ASSERT_EQ(result.errors.size(), 1U) << n;
    EXPECT_EQ(result.errors[0].check(), "io.error");
    EXPECT_TRUE(result.notable.empty());
    EXPECT_EQ(result.unread, all);
    EXPECT_EQ(result.tensors, 0U);
  }
  TrickyCalls ends;
  ends.end_at = 2;
  ScanOptions options;
  options.calls = &ends;
  EXPECT_EQ(scan_values(checkpoint, all, options).errors.at(0).check(), "io.short_read");
  TrickyCalls small;
  small.step = 4097;
  options.calls = &small;
  EXPECT_EQ(scan_values(checkpoint, all, options).notable.size(), 1U);
}

TEST(Scan, AFileThatChangesIsStale) {
  const TemporaryDirectory directory;
  const auto path = directory / "m.safetensors";
  write_sparse(path, 12U << 20U, 5, 0x7FC0);
  VerifyOptions options;
  TrickyCalls calls;
  calls.act_at = 2;
  calls.action = [&] {
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  };
  options.calls = &calls;
  const reports::Report report = verify(path, options);
  EXPECT_EQ(record_of(report, "io.stale").status, reports::Status::fail);
  EXPECT_TRUE(names(record_of(report, "io.stale"), "m.safetensors"));
  EXPECT_EQ(record_of(report, "value.nonfinite").status, reports::Status::skip);
  EXPECT_EQ(reports::exit_status(report), 1);
}

TEST(Scan, ReportsReadErrorsUnderTheirIds) {
  const TemporaryDirectory directory;
  const auto path = directory / "m.safetensors";
  write_sparse(path, 12U << 20U, 5, 0x3F80);
  TrickyCalls calls;
  calls.fail_at = 1;
  VerifyOptions options;
  options.calls = &calls;
  const reports::Report failed = verify(path, options);
  EXPECT_EQ(record_of(failed, "io.error").status, reports::Status::fail);
  TrickyCalls ends;
  ends.end_at = 1;
  options.calls = &ends;
  const reports::Report ended = verify(path, options);
  EXPECT_EQ(record_of(ended, "io.short_read").status, reports::Status::fail);
  EXPECT_TRUE(names(record_of(ended, "io.short_read"), "m.safetensors"));
}

TEST(CompareRanges, FindsTheFirstElement) {
  const TemporaryDirectory directory;
  std::string a(10'000'000, 'a');
  std::string b = a;
  b[9'000'003] = 'x';
  b[9'000'004] = 'y';
  write_file(directory / "a", a);
  write_file(directory / "b", b);
  const auto left = storage::File::open(directory / "a", "a");
  const auto right = storage::File::open(directory / "b", "b");
  const ByteComparison result = compare_ranges(left, 0, right, 0, a.size(), 2);
  EXPECT_EQ(result.first_element, 4'500'001U);
  EXPECT_EQ(result.differing_elements, 2U);
  EXPECT_FALSE(compare_ranges(left, 0, right, 0, 9'000'002, 2).first_element);
}

}  // namespace
}  // namespace weightproof::suites::test
