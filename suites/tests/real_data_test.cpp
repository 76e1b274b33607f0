// SPDX-License-Identifier: Apache-2.0
// Files that other people wrote, judged as they are known to be. The figures are literals: an adapter or a rule that
// changes one of them has to say so here.
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;

reports::Report judge(const std::filesystem::path& path, bool keys_only = false) {
  VerifyOptions options;
  options.selection.keys_only = keys_only;
  options.threads = 2;
  return verify(path, options);
}

struct FileCase {
  const char* path;
  std::uint64_t tensors;
  std::vector<std::string> findings;  ///< "id status", in report order
};
void PrintTo(const FileCase& row, std::ostream* out) { *out << row.path; }

std::string name_of_case(std::string_view path) {
  std::string name;
  for (const char c : path) {
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return name;
}

class RealFile : public testing::TestWithParam<FileCase> {};

TEST_P(RealFile, IsJudgedAsKnown) {
  const std::filesystem::path data = real_data();
  if (data.empty()) {
    GTEST_SKIP() << "no real checkpoint data here";
  }
  const reports::Report report = judge(data / GetParam().path);
  EXPECT_EQ(findings_of(report), GetParam().findings);
  EXPECT_EQ(report.checkpoint.tensors, GetParam().tensors);
  bool fails = false;
  for (const std::string& finding : GetParam().findings) {
    fails = fails || finding.ends_with(" fail");
  }
  EXPECT_EQ(reports::exit_status(report), fails ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P(
    Valid, RealFile,
    testing::Values(
        FileCase{"st-silero-vad-16k/silero_vad_16k.safetensors", 15, {}},
        FileCase{"st-julia-all-dtypes/model.safetensors", 36, {"quant.unscaled warn"}},
        FileCase{"st-julia-all-dtypes/sharded", 36, {"quant.unscaled warn"}},
        FileCase{"st-dotnet-fixtures/with_metadata.safetensors", 2, {"value.all_zero warn"}},
        FileCase{"st-cpp-syoyo/model.safetensors", 2, {}}, FileCase{"st-hf2q-unaligned", 5, {"value.all_zero warn"}},
        FileCase{"st-r-hello/hello.safetensors", 2, {"value.all_zero warn"}},
        FileCase{"st-candle-codes/jfk-codes.safetensors", 1, {}},
        FileCase{"st-hadamards/hadamards.safetensors", 66, {}}, FileCase{"st-runai/test.safetensors", 10, {}},
        FileCase{"st-runai/test_empty.safetensors", 0, {}}, FileCase{"st-fastsafetensors/a.safetensors", 1, {}},
        FileCase{"st-fastsafetensors/b.safetensors", 1, {}},
        FileCase{"st-nutllm/tiny.safetensors", 21, {"value.all_zero warn"}},
        FileCase{"st-diff-pair/diff_old.safetensors", 5, {}}, FileCase{"st-diff-pair/diff_new.safetensors", 5, {}},
        FileCase{"lora-gpt2/adapter_model.safetensors", 25, {}},
        FileCase{"model-danbev-simple/model.safetensors", 3, {"index.referenced_file warn"}},
        FileCase{"model-mnist-tinygrad/mlp.safetensors", 2, {}},
        FileCase{"model-burn-multi-layer/multi_layer.safetensors", 9, {}},
        FileCase{"st-coffeevampir/model.safetensors", 4, {}},
        FileCase{"st-hostile-metadata/script_injection.safetensors", 3, {}}),
    [](const auto& row) { return name_of_case(row.param.path); });

INSTANTIATE_TEST_SUITE_P(
    Invalid, RealFile,
    testing::Values(
        FileCase{
            "mixtral-8x22b-wizardlm2/lfs-pointer-model-00001-of-00059.safetensors", 0, {"format.header_length fail"}},
        FileCase{"inkling-small/shard-09-header-only.safetensors", 0, {"format.truncated fail"}},
        FileCase{"st-dotnet-fixtures/duplicate_keys_in_header.safetensors", 0, {"format.duplicate_key fail"}},
        FileCase{"st-weight-inspect/tiny.safetensors", 0, {"format.trailing fail"}},
        FileCase{"bloom-176b-bad-index", 0, {"index.syntax fail"}}),
    [](const auto& row) { return name_of_case(row.param.path); });

TEST(RealData, FaultsAreNamed) {
  const std::filesystem::path data = real_data();
  if (data.empty()) {
    GTEST_SKIP() << "no real checkpoint data here";
  }
  const auto pointer = judge(data / "mixtral-8x22b-wizardlm2/lfs-pointer-model-00001-of-00059.safetensors");
  EXPECT_NE(record_of(pointer, "format.header_length").hint.find("Git LFS"), std::string::npos);
  const auto duplicate = judge(data / "st-dotnet-fixtures/duplicate_keys_in_header.safetensors");
  EXPECT_TRUE(names(record_of(duplicate, "format.duplicate_key"), "key01"));
  const auto trailing = judge(data / "st-weight-inspect/tiny.safetensors");
  EXPECT_NE(record_of(trailing, "format.trailing").message.find('5'), std::string::npos);
  const auto zeros = judge(data / "st-hf2q-unaligned");
  EXPECT_EQ(record_of(zeros, "format.alignment").status, Status::pass);
  EXPECT_FALSE(record_of(zeros, "format.alignment").explanation.empty());
}

struct IndexCase {
  const char* path;
  const char* family;
  std::uint64_t tensors;
  std::uint64_t total_size;
  bool is_tied;
};
void PrintTo(const IndexCase& row, std::ostream* out) { *out << row.path; }

class RealIndex : public testing::TestWithParam<IndexCase> {};

// config.json alone gives every name and, with the index, the exact number of bytes.
TEST_P(RealIndex, FollowsFromConfig) {
  const std::filesystem::path data = real_data();
  if (data.empty()) {
    GTEST_SKIP() << "no real checkpoint data here";
  }
  const IndexCase& expected = GetParam();
  const reports::Report report = judge(data / expected.path, true);
  EXPECT_EQ(findings_of(report), std::vector<std::string>{});
  EXPECT_EQ(report.checkpoint.family, expected.family);
  EXPECT_EQ(report.checkpoint.tensors, expected.tensors);
  EXPECT_EQ(report.checkpoint.tied, expected.is_tied);
  for (const char* id :
       {"keys.missing", "keys.unexpected", "index.total_size", "tied.head_missing", "keys.rename", "keys.collision"}) {
    EXPECT_EQ(record_of(report, id).status, Status::pass) << id << ": " << record_of(report, id).reason;
  }
  EXPECT_EQ(record_of(report, "keys.unexpected").total, expected.tensors);
  EXPECT_EQ(record_of(report, "index.total_size").total, expected.tensors);
  EXPECT_EQ(report.checkpoint.bytes, expected.total_size);
  EXPECT_EQ(record_of(report, "value.nonfinite").status, Status::skip);
  EXPECT_EQ(reports::exit_status(report), 0);
}

INSTANTIATE_TEST_SUITE_P(All, RealIndex,
                         testing::Values(IndexCase{"llama-3.2-3b-one-tensor-per-shard", "llama", 254, 6425499648, true},
                                         IndexCase{"smollm3-3b", "smollm3", 326, 6150197248, true},
                                         IndexCase{"devstral-small-2507", "mistral", 363, 47144806400, false},
                                         IndexCase{"gemma-2b-tied", "gemma", 164, 5012344832, true},
                                         IndexCase{"qwen3-1.7b-mlx", "qwen3", 310, 3441149952, true}),
                         [](const auto& row) { return name_of_case(row.param.path); });

TEST(RealData, ATotalThatConfigDoesNotAllowIsAWarning) {
  const std::filesystem::path data = real_data();
  if (data.empty()) {
    GTEST_SKIP() << "no real checkpoint data here";
  }
  const TemporaryDirectory directory;
  std::string index = read_file(data / "smollm3-3b/model.safetensors.index.json");
  const std::size_t at = index.find("6150197248");
  ASSERT_NE(at, std::string::npos);
  index.replace(at, 10, "6150197250");
  write_file(directory / "model.safetensors.index.json", index);
  write_file(directory / "config.json", read_file(data / "smollm3-3b/config.json"));
  const reports::Report report = judge(directory.path(), true);
  const reports::CheckRecord& record = record_of(report, "index.total_size");
  EXPECT_EQ(record.status, Status::warn);
  EXPECT_EQ(record.expected.as_uint64(), 6150197248U);
  EXPECT_EQ(record.actual.as_uint64(), 6150197250U);
}

TEST(RealData, SmolLm3IsTiedByItsDefault) {
  const std::filesystem::path data = real_data();
  if (data.empty()) {
    GTEST_SKIP() << "no real checkpoint data here";
  }
  const reports::Report report = judge(data / "smollm3-3b", true);
  EXPECT_NE(record_of(report, "tied.flag").explanation.find("absent"), std::string::npos);
  ASSERT_FALSE(report.defaulted.empty());
  EXPECT_EQ(report.defaulted.front().name, "tie_word_embeddings");
  EXPECT_EQ(report.defaulted.front().value.substr(0, 4), "true");
}

// A trained model, whole: loaded, compared with the reference on every byte, and brought back to its file.
TEST(RealData, ATrainedModelIsLoadedAndComesBack) {
  const std::filesystem::path data = real_data();
  if (data.empty()) {
    GTEST_SKIP() << "no real checkpoint data here";
  }
  for (const char* path :
       {"st-silero-vad-16k/silero_vad_16k.safetensors", "st-julia-all-dtypes/sharded", "st-nutllm/tiny.safetensors",
        "st-runai/test.safetensors", "model-mnist-tinygrad/mlp.safetensors"}) {
    const reports::Report report = judge(data / path);
    for (const char* id : {"value.exact", "value.roundtrip", "value.routes", "io.ledger", "io.sentinel", "io.poison",
                           "io.reload", "mem.predicted"}) {
      EXPECT_EQ(record_of(report, id).status, Status::pass)
          << path << " " << id << ": " << record_of(report, id).message << record_of(report, id).reason;
    }
    EXPECT_GT(record_of(report, "value.exact").total, 0U) << path;
  }
}

TEST(RealData, ShardsAndTheConsolidatedFileHaveOneManifest) {
  const std::filesystem::path data = real_data();
  if (data.empty()) {
    GTEST_SKIP() << "no real checkpoint data here";
  }
  const TemporaryDirectory directory;
  const std::string whole = (data / "st-julia-all-dtypes/model.safetensors").string();
  const std::string shards = (data / "st-julia-all-dtypes/sharded").string();
  const std::string manifest = (directory / "m.json").string();
  ASSERT_EQ(run_tool({"manifest", whole, "--out", manifest}).status, 0);
  const ProcessResult check = run_tool({"manifest", shards, "--check", manifest});
  EXPECT_EQ(check.status, 0) << check.out << check.err;
  const ProcessResult twin = run_tool({"manifest", shards, "--out", (directory / "n.json").string()});
  EXPECT_EQ(twin.status, 0);
  EXPECT_EQ(read_file(directory / "n.json"), read_file(manifest));
  EXPECT_EQ(run_tool({"diff", whole, shards}).status, 0);
  const ProcessResult against = run_tool({"verify", shards, "--against", whole, "--json"});
  EXPECT_EQ(against.status, 0) << against.err;
}

}  // namespace
}  // namespace weightproof::suites::test
