// SPDX-License-Identifier: Apache-2.0
// Files that other people's writers made: valid ones pass, invalid ones fail with the right id.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "loader/storage/checkpoint.hpp"
#include "loader/storage/tests/storage_testing.hpp"

namespace weightproof::storage {
namespace {

std::set<std::string> findings(const Checkpoint& checkpoint) {
  std::set<std::string> found;
  for (const Diagnostic& diagnostic : checkpoint.diagnostics) {
    if (diagnostic.severity != Severity::note) found.insert(diagnostic.check);
  }
  return found;
}

struct Sample {
  const char* path;
  std::set<std::string> checks;  // failures and warnings
  std::size_t tensors;
};

TEST(RealData, FilesAreJudgedAsDocumented) {
  const auto data = testing::real_data();
  if (!data) GTEST_SKIP() << "no real checkpoint data here";
  const std::vector<Sample> samples = {
      {"st-silero-vad-16k/silero_vad_16k.safetensors", {}, 15},
      {"st-julia-all-dtypes", {}, 36},
      {"st-julia-all-dtypes/sharded", {}, 36},
      {"st-dotnet-fixtures/duplicate_keys_in_header.safetensors", {"format.duplicate_key"}, 0},
      {"st-dotnet-fixtures/with_metadata.safetensors", {}, 2},
      {"st-cpp-syoyo", {}, 2},
      {"st-hf2q-unaligned", {}, 5},
      {"st-weight-inspect/tiny.safetensors", {"format.trailing"}, 0},
      {"st-r-hello/hello.safetensors", {}, 2},
      {"st-candle-codes/jfk-codes.safetensors", {}, 1},
      {"st-hadamards/hadamards.safetensors", {}, 66},
      {"st-runai/test.safetensors", {}, 10},
      {"st-runai/test_empty.safetensors", {}, 0},
      {"st-fastsafetensors/a.safetensors", {}, 1},
      {"st-fastsafetensors/b.safetensors", {}, 1},
      {"st-nutllm/tiny.safetensors", {}, 21},
      {"st-diff-pair/diff_old.safetensors", {}, 5},
      {"st-diff-pair/diff_new.safetensors", {}, 5},
      {"lora-gpt2/adapter_model.safetensors", {}, 25},
      {"lora-gpt2", {"index.selection"}, 0},
      {"model-danbev-simple", {"index.referenced_file"}, 3},
      {"model-mnist-tinygrad/mlp.safetensors", {}, 2},
      {"model-burn-multi-layer/multi_layer.safetensors", {}, 9},
      {"st-coffeevampir", {}, 4},
      {"st-hostile-metadata/script_injection.safetensors", {}, 3},
      {"mixtral-8x22b-wizardlm2/lfs-pointer-model-00001-of-00059.safetensors", {"format.header_length"}, 0},
      {"inkling-small/shard-09-header-only.safetensors", {"format.truncated"}, 0},
      {"bloom-176b-bad-index", {"index.syntax"}, 0},
      {"llama-3.2-3b-one-tensor-per-shard/model-00001-model.layers.0.input_layernorm.weight.safetensors", {}, 1},
  };
  for (const Sample& sample : samples) {
    SCOPED_TRACE(sample.path);
    const Checkpoint checkpoint = read_checkpoint(*data / sample.path, {});
    EXPECT_EQ(findings(checkpoint), sample.checks);
    EXPECT_EQ(checkpoint.catalog.size(), sample.tensors);
  }
}

TEST(RealData, InvalidFilesNameWhatIsWrong) {
  const auto data = testing::real_data();
  if (!data) GTEST_SKIP() << "no real checkpoint data here";
  const Checkpoint pointer =
      read_checkpoint(*data / "mixtral-8x22b-wizardlm2/lfs-pointer-model-00001-of-00059.safetensors", {});
  EXPECT_NE(pointer.diagnostics.at(0).facts.hint.find("Git LFS pointer"), std::string::npos);
  const Checkpoint cut = read_checkpoint(*data / "inkling-small/shard-09-header-only.safetensors", {});
  EXPECT_EQ(cut.diagnostics.at(0).facts.keys.size(), 51U);
  EXPECT_EQ(cut.diagnostics.at(0).facts.keys.at(0), "model.llm.layers.13.mlp.gate.bias");
  EXPECT_EQ(cut.shards.at(0).header->tensors.size(), 51U);
  const Checkpoint twice = read_checkpoint(*data / "st-dotnet-fixtures/duplicate_keys_in_header.safetensors", {});
  EXPECT_EQ(twice.diagnostics.at(0).facts.keys, std::vector<std::string>{"key01"});
  const Checkpoint index = read_checkpoint(*data / "bloom-176b-bad-index", {});
  EXPECT_EQ(index.diagnostics.at(0).facts.byte_offset, 60303U);
}

struct IndexSample {
  const char* path;
  std::size_t keys;
  std::size_t shards;
  std::uint64_t total_size;
  std::set<std::string> notes;
};

TEST(RealData, IndexesByKeysOnly) {
  const auto data = testing::real_data();
  if (!data) GTEST_SKIP() << "no real checkpoint data here";
  const std::string numbering = "index.shard_numbering";
  const std::string orphan = "index.orphan_shard";
  const std::vector<IndexSample> samples = {
      {"gpt-oss-20b", 459, 3, 13761264768, {numbering}},
      {"qwen3-30b-a3b-transgqa", 19107, 13, 61066358784, {}},
      {"qwen3.5-moe-18b-reap", 15973, 7, 37087995136, {}},
      {"kimi-k2-mini-fp8-broken", 2623, 5, 23860128480, {}},
      {"mixtral-8x22b-wizardlm2", 1739, 59, 281241268224, {orphan}},
      {"minimax-m1", 8243, 413, 912210767872, {numbering}},
      {"devstral-small-2507", 363, 10, 47144806400, {}},
      {"medgemma-27b", 1247, 12, 54864813280, {}},
      {"llama-3.2-3b-one-tensor-per-shard", 254, 254, 6425499648, {numbering}},
      {"smollm3-3b", 326, 2, 6150197248, {}},
      {"phi3-mini-slerp", 195, 2, 7642159104, {}},
      {"qwen1-7b-chat", 259, 8, 15442649088, {}},
      {"qwen3-1.7b-mlx", 310, 1, 3441149952, {}},
      {"qwen3.5-27b-mlx-mixed", 2180, 5, 20444027360, {numbering}},
      {"molmo-7b-nf4", 921, 2, 6661964712, {}},
      {"gemma-2b-tied", 164, 2, 5012344832, {}},
      {"mimo-7b-mtp", 451, 4, 15666819072, {}},
      {"cosmos-reason2-qwen3vl", 750, 4, 0, {"index.total_size"}},
      {"inkling-small", 1048, 33, 531912898740, {numbering, orphan}},
      {"st-julia-all-dtypes/sharded", 36, 6, 4305, {}},
  };
  SelectionOptions options;
  options.keys_only = true;
  for (const IndexSample& sample : samples) {
    SCOPED_TRACE(sample.path);
    const Checkpoint checkpoint = read_checkpoint(*data / sample.path, options);
    EXPECT_TRUE(checkpoint.is_selected);
    EXPECT_FALSE(checkpoint.has_failures());
    ASSERT_TRUE(checkpoint.index.has_value());
    EXPECT_EQ(checkpoint.catalog.size(), sample.keys);
    EXPECT_EQ(checkpoint.shards.size(), sample.shards);
    EXPECT_EQ(checkpoint.index->total_size, sample.total_size);
    std::set<std::string> found;
    for (const Diagnostic& diagnostic : checkpoint.diagnostics) found.insert(diagnostic.check);
    EXPECT_EQ(found, sample.notes);
  }
}

TEST(RealData, MissingShardsAreNamedWithoutKeysOnly) {
  const auto data = testing::real_data();
  if (!data) GTEST_SKIP() << "no real checkpoint data here";
  const Checkpoint checkpoint = read_checkpoint(*data / "llama-3.2-3b-one-tensor-per-shard", {});
  EXPECT_EQ(std::count_if(checkpoint.shards.begin(), checkpoint.shards.end(),
                          [](const Shard& shard) { return shard.exists; }),
            3);
  EXPECT_EQ(findings(checkpoint), std::set<std::string>{"index.missing_shard"});
}

TEST(RealData, ShardsAndConsolidatedFileHoldTheSameTensors) {
  const auto data = testing::real_data();
  if (!data) GTEST_SKIP() << "no real checkpoint data here";
  const Checkpoint whole = open_checkpoint(*data / "st-julia-all-dtypes", {});
  const Checkpoint parts = open_checkpoint(*data / "st-julia-all-dtypes/sharded", {});
  ASSERT_EQ(whole.catalog.size(), parts.catalog.size());
  EXPECT_EQ(parts.catalog.bytes(), 4305U);
  for (const StoredTensor& tensor : whole.catalog.tensors()) {
    const StoredTensor* twin = parts.catalog.find(tensor.key);
    ASSERT_NE(twin, nullptr) << tensor.key;
    EXPECT_EQ(twin->dtype, tensor.dtype);
    EXPECT_EQ(twin->shape, tensor.shape);
    std::vector<std::byte> left(static_cast<std::size_t>(tensor.bytes));
    std::vector<std::byte> right(static_cast<std::size_t>(twin->bytes));
    File::open(whole.path_of(tensor.file), "whole").read(tensor.begin, left);
    File::open(parts.path_of(twin->file), "part").read(twin->begin, right);
    EXPECT_EQ(left, right) << tensor.key;
  }
}

}  // namespace
}  // namespace weightproof::storage
