// SPDX-License-Identifier: Apache-2.0
// Files of several writers, reproduced byte for byte from their layout.
#include "loader/save/layout.hpp"

#include <gtest/gtest.h>

#include "loader/core/error.hpp"
#include "loader/save/tests/save_testing.hpp"

namespace weightproof::save {
namespace {

using storage::HeaderStyle;
using testing::read_tree;
using testing::TemporaryDirectory;
using testing::write_file;

// Exports the checkpoint at `from` by its own layout, through the layout's text, and compares every weight and index
// file.
void expect_reproduced(const std::filesystem::path& from) {
  const storage::Checkpoint checkpoint = storage::open_checkpoint(from, {});
  const SavedLayout layout = layout_of(checkpoint);
  const SavedLayout read_back = parse_layout(layout_text(layout), "layout.json");
  EXPECT_EQ(read_back, layout);
  const TemporaryDirectory directory;
  CheckpointSource source(checkpoint);
  ExportOptions options;
  options.layout = read_back;
  options.threads = 2;
  options.window_bytes = 4096;
  const std::vector<ExportTensor> tensors = CheckpointSource::tensors_of(checkpoint);
  if (std::filesystem::is_directory(from)) {
    export_checkpoint(tensors, source, directory / "out", options);
    std::map<std::string, std::string> expected;
    for (const storage::Shard& shard : checkpoint.shards)
      expected[shard.name] = testing::read_file(checkpoint.root / shard.name);
    if (checkpoint.index)
      expected[checkpoint.index->file] = testing::read_file(checkpoint.root / checkpoint.index->file);
    EXPECT_EQ(read_tree(directory / "out"), expected);
  } else {
    export_checkpoint(tensors, source, directory / "out.safetensors", options);
    EXPECT_EQ(testing::read_file(directory / "out.safetensors"), testing::read_file(from));
  }
}

TEST(Layout, EveryWriterStyle) {
  for (const HeaderStyle style : {HeaderStyle::reference, HeaderStyle::automodel, HeaderStyle::consolidator}) {
    const TemporaryDirectory directory;
    const testing::Model model = testing::small_model();
    MemorySource source = model.source();
    ExportOptions options;
    options.style = style;
    if (style == HeaderStyle::consolidator) options.metadata.reset();
    options.shard_bytes = 100;
    export_checkpoint(model.tensors, source, directory / "in", options);
    const SavedLayout layout = layout_of(storage::open_checkpoint(directory / "in", {}));
    for (const FileLayout& file : layout.files) {
      EXPECT_EQ(file.style, style);
      EXPECT_TRUE(file.header_text.empty());
    }
    expect_reproduced(directory / "in");
  }
}

TEST(Layout, AWriterOfNoKnownStyle) {
  const TemporaryDirectory directory;
  // Odd spaces, header order against data order, data at an odd offset, metadata in the middle.
  const std::string header =
      "{ \"b\":{\"shape\":[2],\"dtype\":\"U8\",\"data_offsets\":[4,6]},\"__metadata__\":{\"z\":\"1\",\"a\":\"2\"},"
      "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]} }";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  write_file(directory / "in/model-00001-of-00001.safetensors", bytes + header + "012345");
  write_file(directory / "in/model.safetensors.index.json",
             "{\"weight_map\":{\"b\":\"model-00001-of-00001.safetensors\",\"a\":\"model-00001-of-00001.safetensors\"},"
             "\"metadata\":{\"total_size\":6,\"mergekit_version\":\"0\"}}");
  const SavedLayout layout = layout_of(storage::open_checkpoint(directory / "in", {}));
  EXPECT_EQ(layout.files.at(0).header_text, header);
  EXPECT_FALSE(layout.index_text.empty());
  expect_reproduced(directory / "in");
}

TEST(Layout, AKeptHeaderDoesNotLie) {
  const TemporaryDirectory directory;
  const std::string header = "{ \"a\":{\"shape\":[2],\"dtype\":\"U8\",\"data_offsets\":[0,2]}}";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  write_file(directory / "in/model.safetensors", bytes + header + "01");
  const SavedLayout layout = layout_of(storage::open_checkpoint(directory / "in", {}));
  ASSERT_FALSE(layout.files.at(0).header_text.empty());
  testing::Model model;
  model.add("a", DType::u8, {1, 2});  // other shape, same bytes
  MemorySource source = model.source();
  ExportOptions options;
  options.layout = layout;
  export_checkpoint(model.tensors, source, directory / "out", options);
  const storage::Checkpoint written = storage::open_checkpoint(directory / "out", {});
  EXPECT_EQ(written.catalog.tensors()[0].shape, (Shape{1, 2}));
}

TEST(Layout, RealFilesOfManyWriters) {
  const char* shared = std::getenv("WEIGHTPROOF_SHARED_DIR");
  const std::filesystem::path data = std::filesystem::path(shared == nullptr ? "" : shared) / "data";
  if (!std::filesystem::is_directory(data)) GTEST_SKIP() << "no real checkpoint data here";
  for (const char* name :
       {"st-julia-all-dtypes", "st-julia-all-dtypes/sharded", "st-cpp-syoyo", "st-hf2q-unaligned", "st-coffeevampir",
        "model-danbev-simple", "st-silero-vad-16k/silero_vad_16k.safetensors", "st-hadamards/hadamards.safetensors",
        "st-nutllm/tiny.safetensors", "st-runai/test.safetensors", "st-runai/test_empty.safetensors",
        "st-diff-pair/diff_old.safetensors", "model-mnist-tinygrad/mlp.safetensors",
        "model-burn-multi-layer/multi_layer.safetensors", "st-hostile-metadata/script_injection.safetensors",
        "st-candle-codes/jfk-codes.safetensors", "st-r-hello/hello.safetensors"}) {
    SCOPED_TRACE(name);
    expect_reproduced(data / name);
  }
}

TEST(Layout, TensorsAndLayoutMustAgree) {
  const TemporaryDirectory directory;
  const testing::Model model = testing::small_model();
  MemorySource source = model.source();
  export_checkpoint(model.tensors, source, directory / "in");
  ExportOptions options;
  options.layout = layout_of(storage::open_checkpoint(directory / "in", {}));
  testing::Model fewer;
  fewer.add("scalar", DType::i64, {});
  MemorySource fewer_source = fewer.source();
  testing::Model more = testing::small_model();
  more.add("extra", DType::u8, {1});
  MemorySource more_source = more.source();
  try {
    export_checkpoint(more.tensors, more_source, directory / "out", options);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::tensor_not_mapped);
    EXPECT_EQ(error.facts().keys, std::vector<std::string>{"extra"});
  }
  EXPECT_THROW(export_checkpoint(fewer.tensors, fewer_source, directory / "out", options), Error);
  EXPECT_FALSE(std::filesystem::exists(directory / "out"));
}

TEST(Layout, NonsenseIsRefused) {
  for (const char* text :
       {"[]", "{}", "{\"schema\":\"weightproof.layout/1\"}",
        "{\"schema\":\"weightproof.layout/1\",\"payload_bytes\":-1,\"files\":[]}",
        "{\"schema\":\"weightproof.layout/1\",\"payload_bytes\":0,\"files\":[1]}",
        "{\"schema\":\"weightproof.layout/1\",\"payload_bytes\":0,\"files\":[{\"style\":\"x\"}]}",
        "{\"schema\":\"weightproof.layout/1\",\"payload_bytes\":0,\"files\":[{\"style\":\"reference\",\"keys\":[1]}]}",
        "{\"schema\":\"weightproof.layout/1\",\"payload_bytes\":0,\"files\":[],\"index\":{\"name\":\"x\"}}"}) {
    EXPECT_THROW(parse_layout(text, "layout.json"), Error) << text;
  }
}

}  // namespace
}  // namespace weightproof::save
