// SPDX-License-Identifier: Apache-2.0
// Which files are the checkpoint, and what index and headers say against each other.
#include "loader/storage/checkpoint.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "loader/core/check.hpp"
#include "loader/storage/tests/storage_testing.hpp"
#include "loader/storage/writer.hpp"

namespace weightproof::storage {
namespace {

using testing::TemporaryDirectory;
using testing::write_file;

// A file of U8 tensors, four bytes each, filled with `fill`.
void write_weights(const std::filesystem::path& path, const std::vector<std::string>& names, char fill = 'x',
                   const std::optional<Metadata>& metadata = std::nullopt) {
  std::vector<TensorSpec> specs;
  for (const std::string& name : names) specs.push_back({name, DType::u8, {4}});
  const HeaderPlan plan = plan_header(specs, metadata);
  write_file(path, plan.bytes + std::string(static_cast<std::size_t>(plan.data_bytes), fill));
}

using Map = std::vector<std::pair<std::string, std::string>>;

void write_index(const TemporaryDirectory& directory, const Map& map,
                 const std::string& name = "model.safetensors.index.json") {
  write_file(directory / name, index_text(map, 4 * map.size(), 4 * map.size()));
}

const Diagnostic* find(const Checkpoint& checkpoint, std::string_view check) {
  const auto found = std::find_if(checkpoint.diagnostics.begin(), checkpoint.diagnostics.end(),
                                  [&](const Diagnostic& diagnostic) { return diagnostic.check == check; });
  return found == checkpoint.diagnostics.end() ? nullptr : &*found;
}

std::string all_of(const Checkpoint& checkpoint) {
  std::string text;
  for (const Diagnostic& found : checkpoint.diagnostics) {
    EXPECT_NE(find_check(found.check), nullptr) << found.check;
    text += (text.empty() ? "" : " ") + found.check;
    text += found.severity == Severity::fail ? "!" : found.severity == Severity::warn ? "?" : "";
  }
  return text;
}

// The one finding there is.
Diagnostic only(const Checkpoint& checkpoint, std::string_view check, Severity severity, std::string_view code = {}) {
  EXPECT_EQ(checkpoint.diagnostics.size(), 1U) << all_of(checkpoint);
  if (checkpoint.diagnostics.empty()) return {};
  const Diagnostic& found = checkpoint.diagnostics[0];
  EXPECT_EQ(found.check, check) << found.message;
  EXPECT_EQ(found.severity, severity) << found.message;
  EXPECT_EQ(found.code, code) << found.message;
  return found;
}

std::vector<std::string> shards_of(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const Shard& shard : checkpoint.shards) names.push_back(shard.name);
  return names;
}

using Names = std::vector<std::string>;

TEST(Selection, OneFileByPath) {
  const TemporaryDirectory directory;
  write_weights(directory / "any.safetensors", {"a"});
  write_weights(directory / "other.safetensors", {"b"});
  const Checkpoint checkpoint = read_checkpoint(directory / "any.safetensors", {});
  EXPECT_TRUE(checkpoint.is_selected);
  EXPECT_EQ(checkpoint.kind, CheckpointKind::single_file);
  EXPECT_EQ(all_of(checkpoint), "");
  ASSERT_EQ(checkpoint.catalog.size(), 1U);
  EXPECT_EQ(checkpoint.catalog.tensors()[0].key, "a");
  EXPECT_EQ(checkpoint.catalog.tensors()[0].begin, checkpoint.shards[0].header->data_begin());
}

TEST(Selection, DirectoryWithOneFileAndStrays) {
  const TemporaryDirectory directory;
  write_weights(directory / "model.safetensors", {"a"});
  write_weights(directory / "model-00001-of-00002.safetensors", {"b"});
  write_weights(directory / "consolidated.safetensors", {"c"});
  write_file(directory / "training_args.bin", "x");
  const Checkpoint checkpoint = read_checkpoint(directory.path(), {});
  EXPECT_EQ(shards_of(checkpoint), Names{"model.safetensors"});
  EXPECT_EQ(all_of(checkpoint), "index.orphan_shard index.orphan_shard? index.orphan_shard");
  EXPECT_EQ(checkpoint.strays,
            (Names{"consolidated.safetensors", "model-00001-of-00002.safetensors", "training_args.bin"}));
  EXPECT_EQ(find(checkpoint, "index.orphan_shard")->facts.file, "consolidated.safetensors");
}

// Readers were seen that take any '*.bin' as the sign of a pickle checkpoint.
TEST(Selection, TrapStrayPickleBesideCompleteSet) {
  const TemporaryDirectory directory;
  write_weights(directory / "model-00001-of-00002.safetensors", {"a"});
  write_weights(directory / "model-00002-of-00002.safetensors", {"b"});
  write_file(directory / "training_args.bin", "x");
  const Checkpoint checkpoint = read_checkpoint(directory.path(), {});
  EXPECT_EQ(checkpoint.kind, CheckpointKind::shard_names);
  EXPECT_EQ(checkpoint.catalog.size(), 2U);
  EXPECT_EQ(only(checkpoint, "index.orphan_shard", Severity::note).facts.file, "training_args.bin");
}

TEST(Selection, IndexWinsOverSingleFile) {
  const TemporaryDirectory directory;
  write_weights(directory / "model.safetensors", {"a"}, 'o');
  write_weights(directory / "model-00001-of-00001.safetensors", {"a"});
  write_index(directory, {{"a", "model-00001-of-00001.safetensors"}});
  for (const std::filesystem::path& path : {directory.path(), directory / "model.safetensors.index.json"}) {
    const Checkpoint checkpoint = read_checkpoint(path, {});
    EXPECT_EQ(checkpoint.kind, CheckpointKind::indexed);
    EXPECT_EQ(shards_of(checkpoint), Names{"model-00001-of-00001.safetensors"});
    EXPECT_EQ(only(checkpoint, "index.orphan_shard", Severity::warn).facts.file, "model.safetensors");
  }
}

// Readers were seen that skip a missing shard or key and report success.
TEST(Selection, TrapMissingShardAndMissingKey) {
  const TemporaryDirectory directory;
  write_weights(directory / "model-00001-of-00002.safetensors", {"a"});
  write_index(directory, {{"a", "model-00001-of-00002.safetensors"},
                          {"b", "model-00001-of-00002.safetensors"},
                          {"c", "model-00002-of-00002.safetensors"}});
  const Checkpoint checkpoint = read_checkpoint(directory.path(), {});
  EXPECT_EQ(all_of(checkpoint), "index.missing_shard! index.mapping!");
  const Diagnostic* missing = find(checkpoint, "index.missing_shard");
  EXPECT_EQ(missing->code, "SHARD_MISSING");
  EXPECT_EQ(missing->facts.file, "model-00002-of-00002.safetensors");
  EXPECT_EQ(missing->facts.keys, Names{"c"});
  const Diagnostic* unmapped = find(checkpoint, "index.mapping");
  EXPECT_EQ(unmapped->code, "INDEX_TENSOR_NOT_IN_SHARD");
  EXPECT_EQ(unmapped->facts.keys, Names{"b"});
  EXPECT_FALSE(checkpoint.catalog.is_described());
  EXPECT_EQ(checkpoint.catalog.size(), 3U);
  EXPECT_THROW(open_checkpoint(directory.path(), {}), Error);
}

TEST(Selection, NothingOfAnIndexIsThere) {
  const TemporaryDirectory directory;
  write_index(directory, {{"a", "model-00001-of-00002.safetensors"}, {"b", "model-00002-of-00002.safetensors"}});
  const Checkpoint checkpoint = read_checkpoint(directory.path(), {});
  const Diagnostic& found = only(checkpoint, "index.missing_shard", Severity::fail, "SHARD_MISSING");
  EXPECT_NE(found.facts.hint.find("--keys-only"), std::string::npos);
}

TEST(Selection, KeysOnlyNeedsNoShard) {
  const TemporaryDirectory directory;
  write_index(directory, {{"a", "model-00001-of-00002.safetensors"}, {"b", "model-00002-of-00002.safetensors"}});
  SelectionOptions options;
  options.keys_only = true;
  const Checkpoint checkpoint = read_checkpoint(directory.path(), options);
  EXPECT_EQ(all_of(checkpoint), "");
  EXPECT_TRUE(checkpoint.is_selected);
  ASSERT_EQ(checkpoint.catalog.size(), 2U);
  EXPECT_FALSE(checkpoint.catalog.is_described());
  EXPECT_EQ(checkpoint.index->total_size, 8U);
}

TEST(Selection, KeysOnlyWithoutIndexSaysSo) {
  const TemporaryDirectory directory;
  write_weights(directory / "model.safetensors", {"a"});
  SelectionOptions options;
  options.keys_only = true;
  const Checkpoint checkpoint = read_checkpoint(directory.path(), options);
  EXPECT_FALSE(checkpoint.is_selected);
  EXPECT_NE(only(checkpoint, "index.selection", Severity::fail, "NO_CHECKPOINT_FOUND").facts.hint.find("index"),
            std::string::npos);
}

// Readers were seen that take every file of the directory, the last duplicate winning.
TEST(Selection, TrapDuplicateAcrossShardsWithoutIndex) {
  const TemporaryDirectory directory;
  write_weights(directory / "model-00001-of-00002.safetensors", {"a", "b"});
  write_weights(directory / "model-00002-of-00002.safetensors", {"b"});
  const Checkpoint checkpoint = read_checkpoint(directory.path(), {});
  const Diagnostic& found = only(checkpoint, "keys.duplicate_across_shards", Severity::fail, "DUPLICATE_TENSOR");
  EXPECT_EQ(found.facts.keys, Names{"b"});
  EXPECT_NE(found.message.find("model-00001-of-00002"), std::string::npos);
  EXPECT_NE(found.message.find("model-00002-of-00002"), std::string::npos);
  EXPECT_EQ(checkpoint.catalog.find("b")->file, 0U);
}

TEST(Selection, DuplicateAcrossShardsWithIndex) {
  for (const bool is_equal : {true, false}) {
    const TemporaryDirectory directory;
    write_weights(directory / "model-00001-of-00002.safetensors", {"a", "b"}, 'x');
    write_weights(directory / "model-00002-of-00002.safetensors", {"b"}, is_equal ? 'x' : 'y');
    write_index(directory, {{"a", "model-00001-of-00002.safetensors"}, {"b", "model-00002-of-00002.safetensors"}});
    const Checkpoint checkpoint = read_checkpoint(directory.path(), {});
    const Diagnostic& found = only(checkpoint, "keys.duplicate_across_shards",
                                   is_equal ? Severity::warn : Severity::fail, is_equal ? "" : "DUPLICATE_TENSOR");
    EXPECT_EQ(found.facts.keys, Names{"b"});
    EXPECT_EQ(checkpoint.catalog.find("b")->file, 1U);
  }
}

TEST(Selection, DuplicateWithOtherShape) {
  const TemporaryDirectory directory;
  write_weights(directory / "model-00001-of-00002.safetensors", {"a", "b"}, 'x');
  const std::vector<TensorSpec> specs = {{"b", DType::u8, {2, 2}}};
  write_file(directory / "model-00002-of-00002.safetensors", plan_header(specs, std::nullopt).bytes + "xxxx");
  write_index(directory, {{"a", "model-00001-of-00002.safetensors"}, {"b", "model-00002-of-00002.safetensors"}});
  const Checkpoint checkpoint = read_checkpoint(directory.path(), {});
  EXPECT_NE(only(checkpoint, "keys.duplicate_across_shards", Severity::fail, "DUPLICATE_TENSOR").message.find("shape"),
            std::string::npos);
}

TEST(Selection, UnlistedTensor) {
  const TemporaryDirectory directory;
  write_weights(directory / "model-00001-of-00001.safetensors", {"a", "b"});
  write_index(directory, {{"a", "model-00001-of-00001.safetensors"}});
  const Checkpoint strict = read_checkpoint(directory.path(), {});
  EXPECT_EQ(only(strict, "index.unlisted_tensor", Severity::fail, "INDEX_INCOMPLETE").facts.keys, Names{"b"});
  EXPECT_EQ(strict.catalog.size(), 1U);
  SelectionOptions options;
  options.allow_unexpected = true;
  const Checkpoint relaxed = read_checkpoint(directory.path(), options);
  EXPECT_EQ(only(relaxed, "index.unlisted_tensor", Severity::note).facts.keys, Names{"b"});
  EXPECT_NO_THROW(open_checkpoint(directory.path(), options));
}

TEST(Selection, TensorInAnotherShardThanTheIndexSays) {
  const TemporaryDirectory directory;
  write_weights(directory / "model-00001-of-00002.safetensors", {"a", "b"});
  write_weights(directory / "model-00002-of-00002.safetensors", {"c"});
  write_index(directory, {{"a", "model-00001-of-00002.safetensors"},
                          {"b", "model-00002-of-00002.safetensors"},
                          {"c", "model-00002-of-00002.safetensors"}});
  const Checkpoint checkpoint = read_checkpoint(directory.path(), {});
  const Diagnostic& found = only(checkpoint, "index.mapping", Severity::fail, "INDEX_TENSOR_NOT_IN_SHARD");
  EXPECT_EQ(found.facts.keys, Names{"b"});
  EXPECT_EQ(found.facts.file, "model-00002-of-00002.safetensors");
  EXPECT_NE(found.message.find("'b' is in 'model-00001-of-00002.safetensors'"), std::string::npos) << found.message;
}

TEST(Selection, NumberedSetsMustBeWhole) {
  {
    const TemporaryDirectory directory;
    write_weights(directory / "model-00001-of-00003.safetensors", {"a"});
    write_weights(directory / "model-00003-of-00003.safetensors", {"c"});
    const Checkpoint checkpoint = read_checkpoint(directory.path(), {});
    const Diagnostic* found = find(checkpoint, "index.missing_shard");
    ASSERT_NE(found, nullptr) << all_of(checkpoint);
    EXPECT_EQ(found->facts.file, "model-00002-of-00003.safetensors");
  }
  {
    // Numbered from 0: without an index nothing says that file 2 is the last.
    const TemporaryDirectory directory;
    write_weights(directory / "model-00000-of-00002.safetensors", {"a"});
    write_weights(directory / "model-00001-of-00002.safetensors", {"b"});
    write_weights(directory / "model-00002-of-00002.safetensors", {"c"});
    const Checkpoint checkpoint = read_checkpoint(directory.path(), {});
    const Diagnostic* found = find(checkpoint, "index.missing_shard");
    ASSERT_NE(found, nullptr) << all_of(checkpoint);
    EXPECT_EQ(found->facts.file, "model-00000-of-00002.safetensors");
  }
  {
    const TemporaryDirectory directory;
    write_weights(directory / "model.safetensors-00001-of-00002.safetensors", {"a"});
    write_weights(directory / "model.safetensors-00002-of-00002.safetensors", {"b"});
    write_weights(directory / "model-00001-of-00004.safetensors", {"z"});
    const Checkpoint checkpoint = read_checkpoint(directory.path(), {});
    EXPECT_EQ(checkpoint.catalog.size(), 2U);
    EXPECT_EQ(only(checkpoint, "index.orphan_shard", Severity::warn).facts.file, "model-00001-of-00004.safetensors");
  }
}

TEST(Selection, Variants) {
  const TemporaryDirectory directory;
  write_weights(directory / "model.safetensors", {"a"});
  write_weights(directory / "model.fp16.safetensors", {"a"});
  SelectionOptions options;
  options.variant = "fp16";
  EXPECT_EQ(shards_of(read_checkpoint(directory.path(), options)), Names{"model.fp16.safetensors"});
  write_weights(directory / "model.fp16-00001-of-00001.safetensors", {"a"});
  write_index(directory, {{"a", "model.fp16-00001-of-00001.safetensors"}}, "model.safetensors.index.fp16.json");
  EXPECT_EQ(shards_of(read_checkpoint(directory.path(), options)), Names{"model.fp16-00001-of-00001.safetensors"});
  EXPECT_EQ(shards_of(read_checkpoint(directory.path(), {})), Names{"model.safetensors"});
  options.variant = "fp8";
  EXPECT_FALSE(read_checkpoint(directory.path(), options).is_selected);
}

TEST(Selection, DiffusersNames) {
  const TemporaryDirectory directory;
  write_weights(directory / "diffusion_pytorch_model.safetensors", {"a"});
  EXPECT_EQ(shards_of(read_checkpoint(directory.path(), {})), Names{"diffusion_pytorch_model.safetensors"});
}

TEST(Selection, LegacyPickle) {
  const TemporaryDirectory directory;
  write_file(directory / "pytorch_model.bin", "PK");
  for (const std::filesystem::path& path : {directory.path(), directory / "pytorch_model.bin"}) {
    const Checkpoint checkpoint = read_checkpoint(path, {});
    EXPECT_FALSE(checkpoint.is_selected);
    EXPECT_EQ(only(checkpoint, "index.selection", Severity::fail, "LEGACY_PICKLE_CHECKPOINT").facts.file,
              "pytorch_model.bin");
  }
}

TEST(Selection, NativeDistributed) {
  const TemporaryDirectory directory;
  write_file(directory / "__0_0.distcp", "x");
  EXPECT_NE(only(read_checkpoint(directory.path(), {}), "index.selection", Severity::fail, "NATIVE_DCP_CHECKPOINT")
                .message.find("interrupted"),
            std::string::npos);
  write_file(directory / ".metadata", "x");
  EXPECT_EQ(only(read_checkpoint(directory.path(), {}), "index.selection", Severity::fail, "NATIVE_DCP_CHECKPOINT")
                .message.find("interrupted"),
            std::string::npos);
}

// Readers were seen that take rank shards, and whatever lies beside them, for whole tensors.
TEST(Selection, TrapRankShards) {
  const Metadata info = {{"DCP_SHARDING_INFO", "{\"a\": {\"saved_offsets\": [0]}}"}, {"format", "pt"}};
  for (const char* folder : {"", "sharded/"}) {
    const TemporaryDirectory directory;
    write_weights(directory / (folder + std::string("shard-00001-model-00001-of-00001.safetensors")), {"a"}, 'x', info);
    const Checkpoint checkpoint = read_checkpoint(directory.path(), {});
    EXPECT_FALSE(checkpoint.is_selected);
    EXPECT_EQ(checkpoint.kind, CheckpointKind::dcp_sharded);
    only(checkpoint, "index.selection", Severity::fail, "NATIVE_DCP_CHECKPOINT");
  }
  const TemporaryDirectory directory;
  write_weights(directory / "model-00001-of-00002.safetensors", {"a"}, 'x', info);
  write_weights(directory / "model-00002-of-00002.safetensors", {"b"});
  EXPECT_EQ(
      only(read_checkpoint(directory.path(), {}), "shard.info", Severity::fail, "MIXED_SHARDED_AND_PLAIN").facts.file,
      "model-00002-of-00002.safetensors");
  write_weights(directory / "model-00002-of-00002.safetensors", {"b"}, 'x', info);
  only(read_checkpoint(directory.path(), {}), "index.selection", Severity::fail, "NATIVE_DCP_CHECKPOINT");
}

TEST(Selection, Adapter) {
  const TemporaryDirectory directory;
  write_weights(directory / "adapter_model.safetensors", {"a"});
  write_file(directory / "adapter_config.json", "{}");
  only(read_checkpoint(directory.path(), {}), "index.selection", Severity::fail, "ADAPTER_WITHOUT_BASE");
  SelectionOptions options;
  options.want_adapter = true;
  const Checkpoint adapter = read_checkpoint(directory.path(), options);
  EXPECT_EQ(adapter.kind, CheckpointKind::adapter);
  EXPECT_EQ(all_of(adapter), "");
  EXPECT_TRUE(adapter.companions.contains("adapter_config.json"));
  std::filesystem::remove(directory / "adapter_config.json");
  only(read_checkpoint(directory.path(), options), "index.selection", Severity::fail, "NO_CHECKPOINT_FOUND");
}

TEST(Selection, NothingThere) {
  const TemporaryDirectory directory;
  only(read_checkpoint(directory.path(), {}), "index.selection", Severity::fail, "NO_CHECKPOINT_FOUND");
  write_weights(directory / "weights.safetensors", {"a"});
  EXPECT_EQ(
      only(read_checkpoint(directory.path(), {}), "index.selection", Severity::fail, "NO_CHECKPOINT_FOUND").facts.file,
      "weights.safetensors");
  write_file(directory / "notes.txt", "x");
  only(read_checkpoint(directory / "notes.txt", {}), "index.selection", Severity::fail, "NO_CHECKPOINT_FOUND");
  try {
    read_checkpoint(directory / "absent", {});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_checkpoint_found);
    EXPECT_EQ(std::string(error.what()).find(directory.path().string()), std::string::npos) << error.what();
  }
}

TEST(Selection, CacheDirectory) {
  const TemporaryDirectory top;
  const std::filesystem::path cache = top / "models--org--name";
  write_weights(cache / "snapshots/aaa/model.safetensors", {"a"});
  EXPECT_EQ(read_checkpoint(cache, {}).root.filename(), "aaa");
  write_weights(cache / "snapshots/bbb/model.safetensors", {"b"});
  const Diagnostic& found = only(read_checkpoint(cache, {}), "index.selection", Severity::fail, "REVISION_AMBIGUOUS");
  EXPECT_NE(found.message.find("'aaa', 'bbb'"), std::string::npos) << found.message;
  write_file(cache / "refs/main", "bbb\n");
  EXPECT_EQ(read_checkpoint(cache, {}).catalog.tensors()[0].key, "b");
  SelectionOptions options;
  options.revision = "aaa";
  EXPECT_EQ(read_checkpoint(cache, options).catalog.tensors()[0].key, "a");
  write_file(cache / "refs/pr/1", "aaa");
  options.revision = "pr/1";
  EXPECT_EQ(read_checkpoint(cache, options).catalog.tensors()[0].key, "a");
  options.revision = "v9";
  EXPECT_FALSE(read_checkpoint(cache, options).is_selected);
  options.revision = "../../other";
  EXPECT_FALSE(read_checkpoint(cache, options).is_selected);
  write_file(cache / "refs/main", "../bbb");
  EXPECT_FALSE(read_checkpoint(cache, {}).is_selected);
}

TEST(Selection, LeftoversOfAnInterruptedSave) {
  const TemporaryDirectory directory;
  write_weights(directory / "model.safetensors", {"a"});
  write_file(directory / "model-00002-of-00002.safetensors.partial", "x");
  EXPECT_EQ(only(read_checkpoint(directory.path(), {}), "io.interrupted", Severity::fail).facts.file,
            "model-00002-of-00002.safetensors.partial");
  const TemporaryDirectory other;
  const std::filesystem::path staging = other / ("." + std::string("out") + std::string(k_staging_infix) + "1");
  write_weights(staging / "model.safetensors", {"a"});
  only(read_checkpoint(staging, {}), "io.interrupted", Severity::fail);
}

TEST(IndexFile, Syntax) {
  const std::vector<std::string> texts = {"",
                                          "[]",
                                          "{}",
                                          "{\"weight_map\":[]}",
                                          "{\"weight_map\":{\"a\":1}}",
                                          "{\"weight_map\":{}}{}",
                                          "{\"weight_map\":{},}",
                                          "{\"weight_map\":{},\"metadata\":[]}",
                                          "\xEF\xBB\xBF{\"weight_map\":{}}",
                                          "{\"weight_map\":{\"a\xFF\":\"x.safetensors\"}}"};
  for (const std::string& text : texts) {
    SCOPED_TRACE(text);
    const TemporaryDirectory directory;
    write_file(directory / "model.safetensors.index.json", text);
    const Checkpoint checkpoint = read_checkpoint(directory.path(), {});
    EXPECT_FALSE(checkpoint.is_selected);
    EXPECT_EQ(only(checkpoint, "index.syntax", Severity::fail, "INDEX_INVALID").facts.file,
              "model.safetensors.index.json");
  }
}

Checkpoint read_index(const std::string& text) {
  const TemporaryDirectory directory;
  write_weights(directory / "model-00001-of-00001.safetensors", {"a"});
  write_file(directory / "model.safetensors.index.json", text);
  return read_checkpoint(directory.path(), {});
}

TEST(IndexFile, DuplicateNames) {
  const std::string file = "\"model-00001-of-00001.safetensors\"";
  const Diagnostic row =
      only(read_index("{\"weight_map\":{\"a\":" + file + ",\"a\":" + file + "},\"metadata\":{\"total_size\":4}}"),
           "index.duplicate_key", Severity::fail, "DUPLICATE_KEY");
  EXPECT_EQ(row.facts.keys, Names{"a"});
  EXPECT_EQ(row.facts.byte_offset, 15 + 4 + file.size() + 1);
  only(read_index("{\"weight_map\":{\"a\":" + file + "},\"metadata\":{\"total_size\":4,\"total_size\":4}}"),
       "index.duplicate_key", Severity::fail, "DUPLICATE_KEY");
  only(read_index("{\"weight_map\":{\"a\":" + file + "},\"metadata\":{\"total_size\":4},\"metadata\":{}}"),
       "index.duplicate_key", Severity::fail, "DUPLICATE_KEY");
}

TEST(IndexFile, UnsafePaths) {
  for (const std::string name :
       {"/etc/x.safetensors", "../x.safetensors", "a/../../x.safetensors", "x\\u0000.safetensors", "x.bin",
        ".safetensors", "..\\\\x.safetensors", "C:x.safetensors"}) {
    SCOPED_TRACE(name);
    const Checkpoint checkpoint =
        read_index("{\"weight_map\":{\"a\":\"model-00001-of-00001.safetensors\",\"b\":\"" + name + "\"}}");
    const Diagnostic* found = find(checkpoint, "index.path");
    ASSERT_NE(found, nullptr) << all_of(checkpoint);
    EXPECT_EQ(found->code, "UNSAFE_SHARD_PATH");
    EXPECT_EQ(found->facts.keys, Names{"b"});
    EXPECT_EQ(find(checkpoint, "index.missing_shard"), nullptr);
  }
  const TemporaryDirectory directory;
  write_weights(directory / "part/x.safetensors", {"a"});
  write_index(directory, {{"a", "part/x.safetensors"}});
  EXPECT_EQ(all_of(read_checkpoint(directory.path(), {})), "");
}

TEST(IndexFile, Totals) {
  const auto read_total = [](const std::string& metadata) {
    return read_index("{\"metadata\":{" + metadata + "},\"weight_map\":{\"a\":\"model-00001-of-00001.safetensors\"}}");
  };
  EXPECT_EQ(all_of(read_total("\"total_size\":4,\"total_parameters\":4,\"mergekit_version\":\"1\"")), "");
  const Diagnostic off = only(read_total("\"total_size\":104"), "index.total_size", Severity::warn);
  EXPECT_EQ(off.facts.expected, "4");
  EXPECT_NE(off.message.find("+100"), std::string::npos) << off.message;
  only(read_total("\"total_size\":4,\"total_parameters\":5"), "index.total_size", Severity::warn);
  only(read_total("\"total_size\":0"), "index.total_size", Severity::note);
  only(read_total(""), "index.total_size", Severity::note);
  const Checkpoint real = read_total("\"total_size\":4.0");
  only(real, "index.total_size", Severity::warn);
  EXPECT_EQ(real.index->total_size_float, 4.0);
  EXPECT_FALSE(real.index->total_size.has_value());
  only(read_total("\"total_size\":\"4\""), "index.total_size", Severity::warn);
  only(read_total("\"total_size\":-4"), "index.total_size", Severity::warn);
  EXPECT_EQ(read_total("\"total_size\":4,\"x\":{ \"y\" : [ 1 , \"a b\" ] }").index->other_metadata[0].second,
            "{\"y\":[1,\"a b\"]}");
}

TEST(IndexFile, Numbering) {
  const auto read_names = [](const Names& names) {
    const TemporaryDirectory directory;
    Map map;
    for (const std::string& name : names) {
      write_weights(directory / name, {"t" + name});
      map.emplace_back("t" + name, name);
    }
    write_index(directory, map);
    return read_checkpoint(directory.path(), {});
  };
  EXPECT_EQ(all_of(read_names({"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"})), "");
  EXPECT_EQ(all_of(read_names({"model-1-of-2.safetensors", "model-2-of-2.safetensors"})), "");
  EXPECT_EQ(all_of(read_names({"weights-a.safetensors"})), "");
  for (const Names& names : {Names{"model-00000-of-00002.safetensors", "model-00001-of-00002.safetensors"},
                             Names{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors"},
                             Names{"model-00001-of-00002.safetensors", "vision.safetensors"},
                             Names{"a-00001-of-00002.safetensors", "b-00001-of-00002.safetensors"}}) {
    only(read_names(names), "index.shard_numbering", Severity::note);
  }
}

TEST(Config, DocumentsAreJudged) {
  const TemporaryDirectory directory;
  write_weights(directory / "model.safetensors", {"a"});
  write_file(directory / "config.json",
             "{\"model_type\":\"llama\",\"auto_map\":{\"AutoModel\":\"modeling_x.X\","
             "\"AutoConfig\":\"org/repo--configuration_x.X\"}}");
  write_file(directory / "generation_config.json", "{\"a\":1,\"a\":2}");
  write_file(directory / "quantize_config.json", "[]");
  const Checkpoint checkpoint = read_checkpoint(directory.path(), {});
  EXPECT_EQ(all_of(checkpoint), "format.config! format.config! index.referenced_file?");
  EXPECT_EQ(checkpoint.diagnostics[0].facts.file, "generation_config.json");
  EXPECT_EQ(checkpoint.diagnostics[0].code, "DUPLICATE_KEY");
  EXPECT_EQ(checkpoint.diagnostics[1].facts.file, "quantize_config.json");
  EXPECT_EQ(find(checkpoint, "index.referenced_file")->facts.file, "modeling_x.py");
  EXPECT_EQ(checkpoint.config->find("model_type")->as_string(), "llama");
  EXPECT_TRUE(checkpoint.companions.empty());
  write_file(directory / "modeling_x.py", "");
  EXPECT_EQ(find(read_checkpoint(directory.path(), {}), "index.referenced_file"), nullptr);
}

TEST(Checkpoint, FormatFaultsAreReportedPerShard) {
  const TemporaryDirectory directory;
  write_weights(directory / "model-00001-of-00003.safetensors", {"a"});
  write_file(directory / "model-00002-of-00003.safetensors", "version https://git-lfs.github.com/spec/v1\n");
  write_file(directory / "model-00003-of-00003.safetensors", "x");
  for (const unsigned threads : {1U, 2U, 7U}) {
    const Checkpoint checkpoint = read_checkpoint(directory.path(), {}, threads);
    EXPECT_EQ(all_of(checkpoint), "format.header_length! format.header_length!");
    EXPECT_EQ(checkpoint.diagnostics[0].facts.file, "model-00002-of-00003.safetensors");
    EXPECT_NE(checkpoint.diagnostics[0].facts.hint.find("Git LFS"), std::string::npos);
    EXPECT_EQ(checkpoint.catalog.size(), 1U);
  }
}

TEST(Checkpoint, ManyShardsOnManyThreads) {
  const TemporaryDirectory directory;
  Map map;
  for (int i = 1; i <= 64; ++i) {
    const std::string number = std::to_string(100000 + i).substr(1);
    const std::string name = "model-" + number + "-of-00064.safetensors";
    write_weights(directory / name, {"t." + number, "u." + number});
    map.emplace_back("t." + number, name);
    map.emplace_back("u." + number, name);
  }
  write_index(directory, map);
  const Checkpoint one = open_checkpoint(directory.path(), {}, 1);
  const Checkpoint many = open_checkpoint(directory.path(), {}, 8);
  ASSERT_EQ(one.catalog.size(), 128U);
  ASSERT_EQ(many.catalog.size(), 128U);
  for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(one.catalog.tensors()[i].key, many.catalog.tensors()[i].key);
}

TEST(Checkpoint, OpenThrowsTheFirstFailure) {
  const TemporaryDirectory directory;
  write_file(directory / "model.safetensors", testing::file_bytes("{}", "x"));
  try {
    open_checkpoint(directory.path(), {});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::metadata_incomplete_buffer);
    EXPECT_EQ(error.check(), "format.trailing");
    EXPECT_EQ(error.facts().file, "model.safetensors");
  }
}

}  // namespace
}  // namespace weightproof::storage
