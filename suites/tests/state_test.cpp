// SPDX-License-Identifier: Apache-2.0
// manifest, diff, export and plan as processes, and the comparison behind them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "fixtures/corrupt.hpp"
#include "fixtures/generate.hpp"
#include "loader/core/config.hpp"
#include "suites/state/compare.hpp"
#include "suites/state/digests.hpp"
#include "suites/state/elements.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

template <typename Word>
std::string bytes_of(const std::vector<Word>& words) {
  return std::string(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(Word));
}

// One tensor "w" in a file of its own.
std::string write_one(const std::filesystem::path& path, const std::string& dtype, const std::string& shape,
                      const std::string& data) {
  write_safetensors(path,
                    R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[0,)" +
                        std::to_string(data.size()) + "]}}",
                    data);
  return path.string();
}

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> out(count);
  for (float& value : out) {
    value = normal(random);
  }
  return out;
}

std::uint32_t bits_of_value(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  return bits;
}

TensorDifference difference_of(const std::string& a, const std::string& b, const Tolerance& tolerance = {}) {
  const auto left = storage::open_checkpoint(a, {});
  const auto right = storage::open_checkpoint(b, {});
  const DecodedState left_state(left, {});
  const DecodedState right_state(right, {});
  return compare_states(left_state, right_state, tolerance, 2).tensors.at(0);
}

TEST(Compare, EqualBytesAreEqual) {
  const TemporaryDirectory directory;
  const auto values = random_floats(3000, 1);
  const auto a = write_one(directory / "a.safetensors", "F32", "[30,100]", bytes_of(values));
  const auto b = write_one(directory / "b.safetensors", "F32", "[30,100]", bytes_of(values));
  const TensorDifference row = difference_of(a, b);
  EXPECT_EQ(row.equality, Equality::equal);
  EXPECT_EQ(row.differing, 0U);
  EXPECT_EQ(row.elements, 3000U);
}

TEST(Compare, NamesTheFirstDifference) {
  const TemporaryDirectory directory;
  auto values = random_floats(3000, 1);
  const auto a = write_one(directory / "a.safetensors", "F32", "[30,100]", bytes_of(values));
  values[1234] = std::nextafterf(std::nextafterf(values[1234], 9), 9);
  values[2999] += 1;
  const auto b = write_one(directory / "b.safetensors", "F32", "[30,100]", bytes_of(values));
  const TensorDifference row = difference_of(a, b);
  EXPECT_EQ(row.equality, Equality::different);
  EXPECT_EQ(row.differing, 2U);
  EXPECT_EQ(row.first, 1234U);
  EXPECT_GT(row.max_ulp, 1000U);
  EXPECT_NEAR(*row.max_abs, 1.0, 1e-6);
  EXPECT_EQ(row.explanation, "");
}

TEST(Compare, TolerancesAreKept) {
  const TemporaryDirectory directory;
  auto values = random_floats(100, 1);
  const auto a = write_one(directory / "a.safetensors", "F32", "[100]", bytes_of(values));
  values[7] = std::nextafterf(std::nextafterf(values[7], 9), 9);
  const auto b = write_one(directory / "b.safetensors", "F32", "[100]", bytes_of(values));
  EXPECT_EQ(difference_of(a, b).equality, Equality::different);
  EXPECT_EQ(difference_of(a, b).max_ulp, 2U);
  EXPECT_EQ(difference_of(a, b, {1, 0, 0}).equality, Equality::different);
  EXPECT_EQ(difference_of(a, b, {2, 0, 0}).equality, Equality::within);
  EXPECT_EQ(difference_of(a, b, {0, 1e-6, 0}).equality, Equality::within);
  EXPECT_EQ(difference_of(a, b, {0, 0, 1e-5}).equality, Equality::within);
  EXPECT_EQ(difference_of(a, b, {0, 1e-12, 0}).equality, Equality::different);
}

TEST(Compare, SignOfZeroAndNanCount) {
  const TemporaryDirectory directory;
  const auto a = write_one(directory / "a.safetensors", "F32", "[2]", bytes_of(std::vector<float>{0.0F, NAN}));
  const auto b = write_one(directory / "b.safetensors", "F32", "[2]", bytes_of(std::vector<float>{-0.0F, NAN}));
  EXPECT_EQ(difference_of(a, b).differing, 1U);
  // 0x7fc0 is the NaN of BF16: the same value in another dtype.
  const auto c = write_one(directory / "c.safetensors", "BF16", "[2]", bytes_of(std::vector<std::uint16_t>{0, 0x7FC0}));
  EXPECT_EQ(difference_of(a, c).equality, Equality::equal_values);
}

struct Known {
  const char* name;
  std::function<std::pair<std::string, std::string>(const TemporaryDirectory&)> make;
  const char* explanation;
};

TEST(Compare, RecognisesWhatHappened) {
  const auto values = random_floats(12 * 7, 5);
  const auto file = [&](const TemporaryDirectory& directory, const char* name, const std::vector<float>& data,
                        const char* shape = "[12,7]") {
    return write_one(directory / name, "F32", shape, bytes_of(data));
  };
  const auto mapped = [&](const std::function<float(float)>& change) {
    std::vector<float> out;
    for (const float value : values) {
      out.push_back(change(value));
    }
    return out;
  };
  const auto halves = [&](const std::function<std::uint16_t(std::uint32_t)>& cut) {
    std::vector<std::uint16_t> out;
    for (const float value : values) {
      out.push_back(cut(bits_of_value(value)));
    }
    return out;
  };
  const std::vector<Known> cases = {
      {"ratio",
       [&](const TemporaryDirectory& d) {
         return std::pair(file(d, "a.safetensors", values),
                          file(d, "b.safetensors", mapped([](float v) { return v * 256; })));
       },
       "a constant ratio of 256 everywhere"},
      {"offset",
       [&](const TemporaryDirectory& d) {
         return std::pair(file(d, "a.safetensors", values),
                          file(d, "b.safetensors", mapped([](float v) { return v + 1; })));
       },
       "a constant offset of"},
      {"negated",
       [&](const TemporaryDirectory& d) {
         return std::pair(file(d, "a.safetensors", values),
                          file(d, "b.safetensors", mapped([](float v) { return -v; })));
       },
       "every value has the other sign"},
      {"zeros",
       [&](const TemporaryDirectory& d) {
         return std::pair(file(d, "a.safetensors", values),
                          file(d, "b.safetensors", std::vector<float>(values.size(), 0.0F)));
       },
       "the checkpoint holds zeros alone"},
      {"transposed",
       [&](const TemporaryDirectory& d) {
         std::vector<float> turned(values.size());
         for (std::size_t r = 0; r < 12; ++r) {
           for (std::size_t c = 0; c < 7; ++c) {
             turned[c * 12 + r] = values[r * 7 + c];
           }
         }
         return std::pair(file(d, "a.safetensors", values), file(d, "b.safetensors", turned, "[7,12]"));
       },
       "transposed"},
      {"swapped",
       [&](const TemporaryDirectory& d) {
         std::string data = bytes_of(values);
         for (std::size_t i = 0; i < data.size(); i += 4) {
           std::reverse(data.begin() + static_cast<std::ptrdiff_t>(i),
                        data.begin() + static_cast<std::ptrdiff_t>(i + 4));
         }
         return std::pair(file(d, "a.safetensors", values), write_one(d / "b.safetensors", "F32", "[12,7]", data));
       },
       "the bytes of each element are reversed"},
      {"truncated",
       [&](const TemporaryDirectory& d) {
         return std::pair(
             file(d, "a.safetensors", values),
             write_one(d / "b.safetensors", "BF16", "[12,7]",
                       bytes_of(halves([](std::uint32_t b) { return static_cast<std::uint16_t>(b >> 16U); }))));
       },
       "rounded toward zero (truncated)"},
      {"rounded",
       [&](const TemporaryDirectory& d) {
         return std::pair(file(d, "a.safetensors", values),
                          write_one(d / "b.safetensors", "BF16", "[12,7]", bytes_of(halves([](std::uint32_t b) {
                                      return static_cast<std::uint16_t>((b + 0x7FFFU + ((b >> 16U) & 1U)) >> 16U);
                                    }))));
       },
       "rounded to nearest"},
  };
  for (const Known& known : cases) {
    const TemporaryDirectory directory;
    const auto [a, b] = known.make(directory);
    const TensorDifference row = difference_of(a, b);
    EXPECT_EQ(row.equality, Equality::different) << known.name;
    EXPECT_TRUE(contains(row.explanation, known.explanation)) << known.name << ": " << row.explanation;
  }
}

TEST(Elements, CastsKeepNanAndRoundOnce) {
  const std::vector<std::uint32_t> source = {0x3F808000, 0x3F818000, 0xFF800001, 0x7FBFFFFF, 0x00000001, 0x7F7FFFFF};
  const std::vector<std::uint16_t> expected = {0x3F80, 0x3F82, 0xFFC0, 0x7FFF, 0x0000, 0x7F80};
  std::vector<std::byte> out(expected.size() * 2);
  cast_elements(DType::f32, std::as_bytes(std::span(source)), DType::bf16, out);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::uint16_t found = 0;
    std::memcpy(&found, out.data() + i * 2, 2);
    EXPECT_EQ(found, expected[i]) << i;
  }
  EXPECT_THROW(cast_elements(DType::i32, out, DType::f32, out), Error);
}

TEST(Manifest, OfShardsAndOfTheWholeAreEqual) {
  const std::filesystem::path data = real_data();
  if (data.empty()) {
    GTEST_SKIP() << "no real checkpoint data here";
  }
  const ProcessResult whole =
      run_tool({"manifest", (data / "st-julia-all-dtypes/model.safetensors").string(), "--json"});
  const ProcessResult parts = run_tool({"manifest", (data / "st-julia-all-dtypes/sharded").string(), "--json"});
  EXPECT_EQ(whole.status, 0) << whole.err;
  EXPECT_EQ(whole.out, parts.out);
  const std::string verdict = validate("weightproof.manifest-1", whole.out);
  EXPECT_TRUE(verdict.empty() || verdict == "skipped") << verdict;
  EXPECT_EQ(parse_manifest(whole.out, "m").tensors.size(), 36U);
}

TEST(Manifest, DigestsAreThoseOfTheStandards) {
  const TemporaryDirectory directory;
  const auto path = write_one(directory / "a.safetensors", "U8", "[3]", "abc");
  const ProcessResult result = run_tool({"manifest", path, "--json"});
  const TensorDigest digest = parse_manifest(result.out, "m").tensors.at("w");
  EXPECT_EQ(digest.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest.xxh3, "06b05ab6733a618578af5f94892f3950");
  EXPECT_EQ(digest.dtype, "U8");
  EXPECT_EQ(digest.shape, std::vector<std::uint64_t>{3});
}

TEST(Manifest, RefusesWhatIsNone) {
  for (const char* text :
       {"", "[]", "{}", R"({"schema":"weightproof.manifest/2","layout":"hf","dtype":"stored","tensors":{}})",
        R"({"schema":"weightproof.manifest/1","layout":"hf","dtype":"stored"})",
        R"({"schema":"weightproof.manifest/1","layout":"hf","dtype":"stored","tensors":{"a":{}}})"}) {
    EXPECT_THROW(parse_manifest(text, "m.json"), Error) << text;
  }
}

// Faults that only a comparison shows: judged by the manifest of the clean twin, through the command.
TEST(Manifest, FindsWhatOnlyTheTwinShows) {
  unsigned judged = 0;
  for (const fixtures::CorruptionOperator& fault : fixtures::corruption_operators()) {
    if (!fault.needs_twin || fault.check != "value.manifest") {
      continue;
    }
    ++judged;
    const TemporaryDirectory directory;
    fixtures::GenerateOptions options = fixtures::clean_twin(fault);
    fixtures::generate(options, directory / "clean");
    options.corrupt = std::string(fault.name);
    const auto made = fixtures::generate(options, directory / "broken");
    const std::string manifest = (directory / "m.json").string();
    ASSERT_EQ(run_tool({"manifest", (directory / "clean").string(), "--out", manifest}).status, 0);
    EXPECT_EQ(run_tool({"manifest", (directory / "clean").string(), "--check", manifest}).status, 0);
    const ProcessResult check = run_tool({"manifest", (directory / "broken").string(), "--check", manifest});
    EXPECT_EQ(check.status, 1) << fault.name;
    VerifyOptions verify_options;
    verify_options.manifest_file = manifest;
    const reports::Report clean_report = verify(directory / "clean", verify_options);
    const reports::CheckRecord& clean = record_of(clean_report, "value.manifest");
    EXPECT_EQ(clean.status, Status::pass) << clean.message << clean.reason;
    const reports::Report report = verify(directory / "broken", verify_options);
    const reports::CheckRecord& record = record_of(report, "value.manifest");
    EXPECT_EQ(record.status, Status::fail) << fault.name << record.reason;
    for (const std::string& subject : made.subjects) {
      EXPECT_TRUE(names(record, subject)) << fault.name << " " << subject;
      EXPECT_TRUE(contains(check.out, subject)) << fault.name;
    }
    if (fault.name == std::string_view("swapped_norms")) {
      EXPECT_TRUE(contains(record.explanation, "holds what")) << record.explanation;
    }
  }
  EXPECT_GE(judged, 2U);
}

// The same through verify, with the clean twin itself in the place of a manifest.
TEST(Against, FindsWhatOnlyTheTwinShows) {
  unsigned judged = 0;
  for (const fixtures::CorruptionOperator& fault : fixtures::corruption_operators()) {
    if (!fault.needs_twin) {
      continue;
    }
    ++judged;
    const TemporaryDirectory directory;
    fixtures::GenerateOptions options = fixtures::clean_twin(fault);
    fixtures::generate(options, directory / "clean");
    options.corrupt = std::string(fault.name);
    const auto made = fixtures::generate(options, directory / "broken");
    VerifyOptions verify_options;
    verify_options.against = (directory / "clean").string();
    const reports::Report clean = verify(directory / "clean", verify_options);
    EXPECT_EQ(findings_of(clean), std::vector<std::string>{});
    const reports::Report report = verify(directory / "broken", verify_options);
    const reports::CheckRecord& record = record_of(report, fault.check);
    EXPECT_EQ(record.status, Status::fail) << fault.name << record.reason;
    for (const std::string& subject : made.subjects) {
      EXPECT_TRUE(names(record, subject)) << fault.name << " " << subject;
    }
  }
  EXPECT_GE(judged, 3U);
}

TEST(Against, NamesDtypesAndTranspositionsAreSeen) {
  const TemporaryDirectory directory;
  const auto values = random_floats(12, 3);
  std::vector<float> turned(12);
  for (std::size_t i = 0; i < 12; ++i) {
    turned[i % 4 * 3 + i / 4] = values[i];
  }
  const auto header = [](const char* w_shape, const char* dtype, std::size_t bytes) {
    return R"({"w":{"dtype":"F32","shape":)" + std::string(w_shape) + R"(,"data_offsets":[0,48]},"n":{"dtype":")" +
           dtype + R"(","shape":[4],"data_offsets":[48,)" + std::to_string(48 + bytes) + "]}}";
  };
  write_safetensors(directory / "base.safetensors", header("[3,4]", "I32", 16),
                    bytes_of(values) + std::string(16, '\1'));
  write_safetensors(directory / "other.safetensors", header("[4,3]", "I16", 8),
                    bytes_of(turned) + std::string(8, '\1'));
  VerifyOptions options;
  options.against = (directory / "base.safetensors").string();
  const reports::Report report = verify(directory / "other.safetensors", options);
  EXPECT_TRUE(names(record_of(report, "layout.transpose"), "w"));
  EXPECT_EQ(record_of(report, "layout.transpose").status, Status::fail);
  EXPECT_TRUE(names(record_of(report, "dtype.integer_cast"), "n"));
  EXPECT_EQ(record_of(report, "dtype.narrowed").status, Status::pass);
  EXPECT_EQ(record_of(report, "keys.export").status, Status::pass);
  write_safetensors(directory / "less.safetensors", R"({"w":{"dtype":"F64","shape":[6],"data_offsets":[0,48]}})",
                    bytes_of(values));
  const reports::Report less = verify(directory / "less.safetensors", options);
  EXPECT_TRUE(names(record_of(less, "keys.export"), "n"));
  EXPECT_EQ(record_of(less, "dtype.widened").status, Status::pass);
  EXPECT_NE(record_of(less, "dtype.widened").explanation.find("F64"), std::string::npos);
  const reports::Report alone = verify(directory / "base.safetensors", {});
  EXPECT_EQ(record_of(alone, "keys.export").status, Status::skip);
}

TEST(Diff, SaysWhatAndExits) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions options;
  fixtures::generate(options, directory / "a");
  options.shard_count = 3;
  fixtures::generate(options, directory / "b");
  const std::string a = (directory / "a").string();
  const std::string b = (directory / "b").string();
  const ProcessResult same = run_tool({"diff", a, b});
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  options.corrupt = "swapped_norms";
  const auto made = fixtures::generate(options, directory / "c");
  const ProcessResult other = run_tool({"diff", a, (directory / "c").string()});
  EXPECT_EQ(other.status, 1);
  EXPECT_TRUE(contains(other.out, made.subjects.front())) << other.out;
  const ProcessResult json = run_tool({"diff", a, (directory / "c").string(), "--json"});
  const std::string verdict = validate("weightproof.diff-1", json.out);
  EXPECT_TRUE(verdict.empty() || verdict == "skipped") << verdict;
  EXPECT_EQ(ConfigValue::parse(json.out, "stdout").find("verdict")->as_string(), "fail");
  options.corrupt = "dropped_norm";
  const auto dropped = fixtures::generate(options, directory / "d");
  const ProcessResult missing = run_tool({"diff", a, (directory / "d").string()});
  EXPECT_EQ(missing.status, 1);
  EXPECT_TRUE(contains(missing.out, dropped.subjects.front()));
  EXPECT_EQ(run_tool({"diff", a, (directory / "d").string(), "--exclude", dropped.subjects.front()}).status, 0);
}

TEST(Diff, RealPairAsDescribed) {
  const std::filesystem::path data = real_data();
  if (data.empty()) {
    GTEST_SKIP() << "no real checkpoint data here";
  }
  const ProcessResult result = run_tool({"diff", (data / "st-diff-pair/diff_old.safetensors").string(),
                                         (data / "st-diff-pair/diff_new.safetensors").string(), "--json"});
  EXPECT_EQ(result.status, 1);
  const ConfigValue document = ConfigValue::parse(result.out, "stdout");
  EXPECT_EQ(document.find("only_in_a")->dump(), R"(["lm_head.weight"])");
  EXPECT_EQ(document.find("only_in_b")->dump(), R"(["model.rotary_emb.inv_freq"])");
  for (const ConfigValue& row : document.find("tensors")->items()) {
    const std::string key(*row.find("key")->as_string());
    const std::string status(*row.find("status")->as_string());
    EXPECT_EQ(status, key == "model.layers.0.input_layernorm.weight" ? "equal" : "different") << key;
    if (key == "model.embed_tokens.weight") {
      EXPECT_EQ(row.find("dtype_b")->as_string(), "BF16");
    }
  }
}

TEST(Export, ReproducesFilesByteForByte) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions options;
  options.shard_count = 3;
  fixtures::generate(options, directory / "source");
  const std::string source = (directory / "source").string();
  const auto target = [&](const char* name) { return (directory / name).string(); };
  // Split small, join, and split as the source was.
  ASSERT_EQ(run_tool({"export", source, "--out", target("small"), "--shard-size", "20KB"}).status, 0);
  ASSERT_EQ(run_tool({"export", target("small"), "--out", target("one"), "--shard-size", "5GB"}).status, 0);
  ASSERT_EQ(run_tool({"export", target("one"), "--out", target("again"), "--shards-like", source}).status, 0);
  EXPECT_TRUE(std::filesystem::exists(directory / "one/model.safetensors"));
  EXPECT_EQ(run_tool({"diff", source, target("small")}).status, 0);
  for (const auto& entry : std::filesystem::directory_iterator(directory / "source")) {
    EXPECT_EQ(read_file(entry.path()), read_file(directory / "again" / entry.path().filename())) << entry.path();
  }
  EXPECT_EQ(run_tool({"verify", target("small"), "--strict"}).status, 0);
}

TEST(Export, DecodesQuantizedWeights) {
  const TemporaryDirectory directory;
  for (const char* family : {"deepseek_v3", "gpt_oss"}) {
    fixtures::GenerateOptions options;
    options.family = family;
    fixtures::generate(options, directory / family);
    const std::string source = (directory / family).string();
    const std::string target = source + "-bf16";
    const ProcessResult result = run_tool({"export", source, "--out", target, "--dtype", "bf16"});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(contains(result.out, "decoded from ")) << result.out;
    EXPECT_EQ(run_tool({"diff", source, target, "--dtype", "bf16"}).status, 0);
    const std::string config = read_file(target + "/config.json");
    EXPECT_FALSE(contains(config, "quantization_config")) << config;
    const reports::Report report = verify(target, {});
    EXPECT_EQ(record_of(report, "quant.config_mismatch").status, Status::pass);
    EXPECT_TRUE(report.checkpoint.quantization.empty()) << report.checkpoint.quantization;
  }
}

TEST(Export, NeverTouchesWhatStandsThere) {
  const TemporaryDirectory directory;
  fixtures::generate({}, directory / "source");
  std::filesystem::create_directories(directory / "target");
  write_file(directory / "target/precious", "x");
  const std::string source = (directory / "source").string();
  const std::string target = (directory / "target").string();
  const ProcessResult refused = run_tool({"export", source, "--out", target});
  EXPECT_EQ(refused.status, 3);
  EXPECT_TRUE(contains(refused.err, "TARGET_EXISTS")) << refused.err;
  EXPECT_EQ(read_file(directory / "target/precious"), "x");
  EXPECT_EQ(run_tool({"export", source, "--out", target, "--replace"}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(directory / "target/precious"));
  EXPECT_EQ(run_tool({"export", source}).status, 2);
  EXPECT_EQ(run_tool({"export", source, "--out", target, "--shard-size", "1GB", "--shards-like", source}).status, 2);
}

TEST(Plan, DescribesALoad) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions options;
  options.family = "qwen3_moe";
  fixtures::generate(options, directory / "m");
  const std::string path = (directory / "m").string();
  const ProcessResult text = run_tool({"plan", path});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_FALSE(text.out.empty());
  const ProcessResult json = run_tool({"plan", path, "--json"});
  const std::string verdict = validate("weightproof.plan-1", json.out);
  EXPECT_TRUE(verdict.empty() || verdict == "skipped") << verdict;
  const ConfigValue document = ConfigValue::parse(json.out, "stdout");
  EXPECT_EQ(document.find("coverage.holes")->as_integer(), 0);
  EXPECT_EQ(document.find("coverage.exact")->as_integer(), document.find("coverage.native_tensors")->as_integer());
  EXPECT_EQ(json.out, run_tool({"plan", path, "--json"}).out);
  const ProcessResult refused = run_tool({"plan", path, "--budget", "1", "--json"});
  EXPECT_EQ(refused.status, 3);
  const ConfigValue error = ConfigValue::parse(refused.out, "stdout");
  EXPECT_EQ(error.find("code")->as_string(), "BUDGET_TOO_SMALL");
  // "N bytes or more": what it says is enough, one less is not.
  const std::string expected(*error.find("expected")->as_string());
  const std::uint64_t minimum = std::stoull(expected);
  EXPECT_EQ(run_tool({"plan", path, "--budget", std::to_string(minimum)}).status, 0) << expected;
  EXPECT_EQ(run_tool({"plan", path, "--budget", std::to_string(minimum - 1)}).status, 3);
}

TEST(Plan, CoverageErrorsAreThree) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions options;
  options.shard_count = 3;
  options.corrupt = "dropped_norm";
  const auto made = fixtures::generate(options, directory / "m");
  const ProcessResult result = run_tool({"plan", (directory / "m").string()});
  EXPECT_EQ(result.status, 3);
  EXPECT_TRUE(contains(result.err, made.subjects.front())) << result.err;
}

}  // namespace
}  // namespace weightproof::suites::test
