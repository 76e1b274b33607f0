// SPDX-License-Identifier: Apache-2.0
#include "reference/safetensors.hpp"

#include <gtest/gtest.h>

#include "reference/tests/reference_testing.hpp"

namespace weightproof::reference {
namespace {

using testing::file_of;
using testing::safetensors_of;

// The kind of the failure, or "accept".
std::string verdict(const std::string& file) {
  try {
    parse_header(std::as_bytes(std::span(file)), file.size());
    return "accept";
  } catch (const Failure& failure) {
    return failure.kind();
  }
}
std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"t":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

TEST(Header, VerdictOfEveryRow) {
  const std::string bad = "InvalidHeaderDeserialization";
  const std::string good = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  const struct {
    const char* what;
    std::string file, expected;
  } rows[] = {
      {"empty file", "", "HeaderTooSmall"},
      {"seven bytes", "1234567", "HeaderTooSmall"},
      {"largest length", std::string(8, '\xff') + std::string(52, ' '), "HeaderTooLarge"},
      {"length past the end", file_of("{}").substr(0, 9), "InvalidHeaderLength"},
      {"no header", file_of(""), bad},
      {"array", file_of("[]"), bad},
      {"byte order mark", file_of("\xEF\xBB\xBF{}"), bad},
      {"trailing comma", file_of("{" + good + ",}", "x"), bad},
      {"comment", file_of("/**/{}"), bad},
      {"NaN", file_of(R"({"__metadata__":{"a":NaN}})"), bad},
      {"not UTF-8", file_of("{\"\xff\":1}"), "InvalidHeader"},
      {"overlong UTF-8", file_of("{\"\xc0\x80\":1}"), "InvalidHeader"},
      {"encoded surrogate", file_of("{\"\xed\xa0\x80\":1}"), "InvalidHeader"},
      {"leading white space", file_of("  {}"), "accept"},
      {"trailing white space", file_of("{} \t\r\n"), "accept"},
      {"trailing NUL", file_of(std::string("{}\0\0", 4)), bad},
      {"second value", file_of("{}{}"), bad},
      {"empty", file_of("{}"), "accept"},
      {"empty with data", file_of("{}", "x"), "MetadataIncompleteBuffer"},
      {"one tensor", file_of("{" + good + "}", "x"), "accept"},
      {"short data", file_of("{" + good + "}", ""), "MetadataIncompleteBuffer"},
      {"duplicate name", file_of("{" + good + "," + good + "}", "x"), "DUPLICATE_KEY"},
      {"duplicate by escape",
       file_of("{" + good + R"(,"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "xy"), "DUPLICATE_KEY"},
      {"duplicate metadata", file_of(R"({"__metadata__":{},"__metadata__":{}})"), bad},
      {"duplicate inside metadata", file_of(R"({"__metadata__":{"a":"1","a":"2"}})"), "DUPLICATE_KEY"},
      {"null metadata", file_of(R"({"__metadata__":null})"), "accept"},
      {"metadata number", file_of(R"({"__metadata__":{"a":1}})"), bad},
      {"tensor as metadata", file_of(R"({"__metadata__":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"), bad},
      {"extra field", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":[{}]}})", "x"), "accept"},
      {"missing field", file_of(R"({"a":{"dtype":"U8","shape":[1]}})"), bad},
      {"field twice", file_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"), bad},
      {"entry as array", file_of(R"({"a":["U8",[1],[0,1]]})", "x"), bad},
      {"dtype as object", file_of(R"({"a":{"dtype":{"U8":null},"shape":[1],"data_offsets":[0,1]}})", "x"), bad},
      {"unknown dtype", file_of(entry("U9", "[1]", "[0,1]"), "x"), bad},
      {"8.0", file_of(entry("U8", "[1.0]", "[0,1]"), "x"), bad},
      {"1e0", file_of(entry("U8", "[1e0]", "[0,1]"), "x"), bad},
      {"-0", file_of(entry("U8", "[1]", "[-0,1]"), "x"), bad},
      {"text number", file_of(entry("U8", R"(["1"])", "[0,1]"), "x"), bad},
      {"leading zero", file_of(entry("U8", "[01]", "[0,1]"), "x"), bad},
      {"2^64", file_of(entry("U8", "[18446744073709551616]", "[0,1]"), "x"), bad},
      {"one offset", file_of(entry("U8", "[1]", "[0]"), "x"), bad},
      {"three offsets", file_of(entry("U8", "[1]", "[0,1,1]"), "x"), bad},
      {"hole at start", file_of(entry("U8", "[1]", "[1,2]"), "xy"), "InvalidOffset"},
      {"fewer bytes than the shape needs", file_of(entry("U8", "[1]", "[0,0]")), "TensorInvalidInfo"},
      {"zero first, huge later", file_of(entry("U8", "[0,18446744073709551615,2]", "[0,0]")), "ValidationOverflow"},
      {"huge first, zero later", file_of(entry("U8", "[18446744073709551615,2,0]", "[0,0]")), "ValidationOverflow"},
      {"bits overflow", file_of(entry("I32", "[2,9223372036854775807]", "[0,0]")), "ValidationOverflow"},
      {"F4 [3]", file_of(entry("F4", "[3]", "[0,1]"), "x"), "MisalignedSlice"},
      {"F6 [3]", file_of(entry("F6_E2M3", "[3]", "[0,2]"), "xy"), "MisalignedSlice"},
      {"F4 [4]", file_of(entry("F4", "[4]", "[0,2]"), "xy"), "accept"},
      {"F6 [4]", file_of(entry("F6_E3M2", "[4]", "[0,3]"), "xyz"), "accept"},
      {"0-d", file_of(entry("F32", "[]", "[0,4]"), "1234"), "accept"},
      {"trailing data", file_of(entry("U8", "[1]", "[0,1]"), "xy"), "MetadataIncompleteBuffer"},
      {"empty name", file_of(R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"), "accept"},
      {"escapes", file_of(R"({"\u0061\n\"\/\u0001\ud83d\ude00":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"),
       "accept"},
      {"lone surrogate", file_of(R"({"\ud83d":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"), bad},
      {"control character", file_of("{\"a\nb\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "x"), bad},
      {"nested too deep", file_of(std::string(1000, '[') + std::string(1000, ']')), bad},
  };
  for (const auto& row : rows) EXPECT_EQ(verdict(row.file), row.expected) << row.what;
}

TEST(Header, OverlapGapAndEmptyTensors) {
  const auto two = [](const std::string& first, const std::string& second, const std::string& data) {
    return verdict(file_of(R"({"a":)" + first + R"(,"b":)" + second + "}", data));
  };
  const auto u8 = [](int n, int begin, int end) {
    return R"({"dtype":"U8","shape":[)" + std::to_string(n) + R"(],"data_offsets":[)" + std::to_string(begin) + "," +
           std::to_string(end) + "]}";
  };
  EXPECT_EQ(two(u8(2, 0, 2), u8(2, 2, 4), "1234"), "accept");
  EXPECT_EQ(two(u8(2, 2, 4), u8(2, 0, 2), "1234"), "accept");  // Header order is not data order.
  EXPECT_EQ(two(u8(2, 0, 2), u8(2, 1, 3), "123"), "InvalidOffset");
  EXPECT_EQ(two(u8(2, 0, 2), u8(2, 3, 5), "12345"), "InvalidOffset");
  EXPECT_EQ(two(u8(2, 0, 2), u8(0, 2, 2), "12"), "accept");
  EXPECT_EQ(two(u8(2, 0, 2), u8(0, 0, 0), "12"), "accept");
  EXPECT_EQ(two(u8(2, 0, 2), u8(0, 1, 1), "12"), "InvalidOffset");
  EXPECT_EQ(two(u8(2, 0, 2), u8(0, 9, 9), "12"), "InvalidOffset");
  EXPECT_EQ(two(u8(2, 0, 2), u8(1, 2, 1), "12"), "InvalidOffset");  // end < begin
}

TEST(Header, FileShorterThanWhatWasSeenIsNoCrash) {
  const std::string file = file_of(entry("U8", "[1]", "[0,1]"), "x");
  for (std::size_t length = 0; length < file.size(); ++length)
    EXPECT_NE(verdict(file.substr(0, length)), "accept") << length;
  EXPECT_EQ(verdict(file), "accept");
}

TEST(Checkpoint, ReadsBoxesOfElements) {
  const testing::TemporaryDirectory directory;
  std::string data;
  for (int i = 0; i < 24; ++i) data += static_cast<char>(i);
  const auto path =
      directory.write("model.safetensors", safetensors_of({{"t", "U8", {2, 3, 4}, data}, {"f", "F4", {2, 4}, "abcd"}}));
  const Checkpoint checkpoint = Checkpoint::open(path);
  const auto read = [&](const Box& box, const char* key = "t") {
    std::string text;
    for (std::byte byte : checkpoint.read_elements(key, box)) text += static_cast<char>(byte);
    return text;
  };
  EXPECT_EQ(read(whole({2, 3, 4})), data);
  EXPECT_EQ(read({{1, 1, 0}, {1, 2, 4}}), data.substr(16, 8));
  EXPECT_EQ(read({{0, 1, 2}, {2, 1, 2}}), std::string({6, 7, 18, 19}));
  EXPECT_EQ(read({{0, 0, 3}, {2, 3, 1}}), std::string({3, 7, 11, 15, 19, 23}));
  EXPECT_EQ(read({{2, 0, 0}, {0, 3, 4}}), "");
  EXPECT_EQ(read({{1, 0}, {1, 4}}, "f"), "cd");
  EXPECT_EQ(read({{0, 2}, {2, 2}}, "f"), "bd");
  EXPECT_THROW(read({{0, 1}, {1, 2}}, "f"), Failure);
  EXPECT_THROW(read({{0, 0, 2}, {1, 1, 3}}), Failure);
  EXPECT_THROW(read({{0, 0}, {1, 1}}), Failure);
  EXPECT_THROW(checkpoint.at("absent"), Failure);
}

std::string kind_of_open(const std::filesystem::path& path) {
  try {
    Checkpoint::open(path);
    return "accept";
  } catch (const Failure& failure) {
    return failure.kind();
  }
}

TEST(Checkpoint, SelectsFiles) {
  const std::string a = safetensors_of({{"a", "U8", {1}, "1"}}), b = safetensors_of({{"b", "U8", {1}, "2"}});
  const auto open = [&](const std::vector<std::pair<std::string, std::string>>& files) {
    const testing::TemporaryDirectory directory;
    for (const auto& [name, content] : files) directory.write(name, content);
    return kind_of_open(directory.path());
  };
  const std::string index = "model.safetensors.index.json", one = "model-00001-of-00002.safetensors",
                    two = "model-00002-of-00002.safetensors";
  EXPECT_EQ(open({{"model.safetensors", a}}), "accept");
  EXPECT_EQ(open({{one, a}, {two, b}}), "accept");
  EXPECT_EQ(open({{one, a}}), "SHARD_MISSING");
  EXPECT_EQ(open({{one, a}, {two, a}}), "DUPLICATE_TENSOR");
  EXPECT_EQ(open({{index, R"({"weight_map":{"a":"x.safetensors","b":"y.safetensors"}})"},
                  {"x.safetensors", a},
                  {"y.safetensors", b}}),
            "accept");
  EXPECT_EQ(open({{index, R"({"weight_map":{"a":"x.safetensors"}})"}, {"model.safetensors", b}}), "SHARD_MISSING");
  EXPECT_EQ(open({{index, R"({"weight_map":{"b":"x.safetensors"}})"}, {"x.safetensors", a}}), "INDEX_INCOMPLETE");
  EXPECT_EQ(open({{index, R"({"weight_map":{"a":"x.safetensors","c":"x.safetensors"}})"}, {"x.safetensors", a}}),
            "INDEX_TENSOR_NOT_IN_SHARD");
  EXPECT_EQ(open({{index, R"({"weight_map":{"a":"../x.safetensors"}})"}}), "UNSAFE_SHARD_PATH");
  EXPECT_EQ(open({{index, R"({"weight_map":{"a":"/x.safetensors"}})"}}), "UNSAFE_SHARD_PATH");
  EXPECT_EQ(open({{index, R"({"weight_map":{"a":"x.bin"}})"}}), "UNSAFE_SHARD_PATH");
  EXPECT_EQ(open({{index, R"({"weight_map":[]})"}}), "INDEX_INVALID");
  EXPECT_EQ(open({{index, "{}{}"}}), "INDEX_INVALID");
  EXPECT_EQ(open({{index, R"({"weight_map":{"a":"x.safetensors","a":"x.safetensors"}})"}}), "DUPLICATE_KEY");
  EXPECT_EQ(open({{"pytorch_model.bin", "x"}}), "LEGACY_PICKLE_CHECKPOINT");
  EXPECT_EQ(open({{"adapter_model.safetensors", a}}), "ADAPTER_WITHOUT_BASE");
  EXPECT_EQ(open({{".metadata", ""}, {"__0_0.distcp", ""}}), "NATIVE_DCP_CHECKPOINT");
  EXPECT_EQ(open({}), "NO_CHECKPOINT_FOUND");
}

TEST(Checkpoint, CacheDirectory) {
  const testing::TemporaryDirectory cache;
  const auto snapshots = cache.path() / "snapshots";
  std::filesystem::create_directories(snapshots / "one");
  std::filesystem::create_directories(cache.path() / "refs");
  cache.write("snapshots/one/model.safetensors", safetensors_of({{"a", "U8", {1}, "1"}}));
  EXPECT_EQ(kind_of_open(cache.path()), "accept");
  std::filesystem::create_directories(snapshots / "two");
  cache.write("snapshots/two/model.safetensors", safetensors_of({{"b", "U8", {1}, "1"}}));
  EXPECT_EQ(kind_of_open(cache.path()), "REVISION_AMBIGUOUS");
  cache.write("refs/main", "two\n");
  EXPECT_NE(Checkpoint::open(cache.path()).find("b"), nullptr);
  cache.write("refs/main", "../..");
  EXPECT_EQ(kind_of_open(cache.path()), "NO_CHECKPOINT_FOUND");
}

TEST(Checkpoint, FileCutAfterOpeningIsAFailure) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.write("model.safetensors", safetensors_of({{"a", "U8", {4}, "1234"}}));
  const Checkpoint checkpoint = Checkpoint::open(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_THROW(checkpoint.read_elements("a", whole({4})), Failure);
}

TEST(Checkpoint, RealFilesAreAcceptedOrRefused) {
  const auto shared = testing::shared_directory();
  if (shared.empty()) GTEST_SKIP() << "no real checkpoint data here";
  const struct {
    const char* path;
    const char* verdict;
  } rows[] = {{"st-julia-all-dtypes/model.safetensors", "accept"},
              {"st-julia-all-dtypes/sharded", "accept"},
              {"st-hf2q-unaligned", "accept"},
              {"st-runai/test.safetensors", "accept"},
              {"st-runai/test_empty.safetensors", "accept"},
              {"st-nutllm/tiny.safetensors", "accept"},
              {"st-silero-vad-16k/silero_vad_16k.safetensors", "accept"},
              {"model-burn-multi-layer/multi_layer.safetensors", "accept"},
              {"st-hostile-metadata/script_injection.safetensors", "accept"},
              {"st-hadamards/hadamards.safetensors", "accept"},
              {"st-dotnet-fixtures/duplicate_keys_in_header.safetensors", "DUPLICATE_KEY"},
              {"st-weight-inspect/tiny.safetensors", "MetadataIncompleteBuffer"},
              {"mixtral-8x22b-wizardlm2/lfs-pointer-model-00001-of-00059.safetensors", "HeaderTooLarge"},
              {"bloom-176b-bad-index", "INDEX_INVALID"}};
  for (const auto& row : rows) EXPECT_EQ(kind_of_open(shared / "data" / row.path), row.verdict) << row.path;
}

}  // namespace
}  // namespace weightproof::reference
