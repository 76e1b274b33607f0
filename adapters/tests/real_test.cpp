// SPDX-License-Identifier: Apache-2.0
// Real models' metadata: the key set that follows from config.json equals the index, and the bytes of its shapes equal
// the index's total_size.
#include "adapters/tests/support.hpp"

namespace weightproof::adapters::testing {
namespace {

struct Expected {
  const char* folder;
  const char* family;
  std::size_t keys;
  std::uint64_t total_size;
  bool is_tied;
  bool is_tie_defaulted;
};

class RealDense : public ::testing::TestWithParam<Expected> {};

TEST_P(RealDense, KeysAndBytesFollowFromTheConfig) {
  const Expected& expected = GetParam();
  const auto model = real_model(expected.folder);
  if (!model) GTEST_SKIP() << "real checkpoint data is not here (WEIGHTPROOF_SHARED_DIR)";
  const Detection detection = detect(&*model->config, model->catalog);
  ASSERT_NE(detection.family, nullptr);
  EXPECT_EQ(detection.family->name, expected.family);
  EXPECT_EQ(detection.evidence, std::string("config.json model_type ") + expected.family);
  EXPECT_TRUE(detection.missing_fields.empty());
  EXPECT_EQ(detection.quantization, "");
  const Form form = detection.family->find_form(*model->config, model->catalog);
  EXPECT_EQ(form.name_space, "model.");
  EXPECT_EQ(form.is_tied, expected.is_tied);
  EXPECT_EQ(form.has_stored_head, !expected.is_tied);
  const Schema schema = detection.family->describe(*model->config, form, ExpertStorage::grouped);
  EXPECT_EQ(model->catalog.size(), expected.keys);
  const Coverage coverage = cover(schema, model->catalog);
  EXPECT_TRUE(coverage.missing.empty()) << coverage.missing.front();
  EXPECT_TRUE(coverage.unexpected.empty()) << coverage.unexpected.front();
  EXPECT_TRUE(coverage.dropped.empty());
  EXPECT_EQ(stored_bytes(schema), expected.total_size);
  EXPECT_EQ(model->total_size, expected.total_size);
  EXPECT_EQ(!schema.defaulted().empty(), expected.is_tie_defaulted);
  EXPECT_EQ(schema.ties().size(), expected.is_tied ? 1u : 0u);
  expect_exact(schema);
}

TEST_P(RealDense, ALostNormIsTheOneMissingKey) {
  const Expected& expected = GetParam();
  const auto model = real_model(expected.folder);
  if (!model) GTEST_SKIP() << "real checkpoint data is not here (WEIGHTPROOF_SHARED_DIR)";
  std::vector<std::string> keys;
  const std::string lost = "model.layers.1.post_attention_layernorm.weight";
  for (const StoredTensor& tensor : model->catalog.tensors()) {
    if (tensor.key != lost) keys.emplace_back(tensor.key);
  }
  keys.emplace_back("model.layers.1.post_attention_layernorm.weigth");
  const Catalog catalog = catalog_of(keys);
  const Coverage coverage = cover(describe(*model->config, catalog), catalog);
  EXPECT_EQ(coverage.missing, std::vector<std::string>{lost});
  EXPECT_EQ(coverage.unexpected, std::vector<std::string>{"model.layers.1.post_attention_layernorm.weigth"});
}

INSTANTIATE_TEST_SUITE_P(Models, RealDense,
                         ::testing::Values(Expected{"llama-3.2-3b-one-tensor-per-shard", "llama", 254, 6425499648, true,
                                                    false},
                                           Expected{"smollm3-3b", "smollm3", 326, 6150197248, true, true},
                                           Expected{"devstral-small-2507", "mistral", 363, 47144806400, false, false},
                                           Expected{"gemma-2b-tied", "gemma", 164, 5012344832, true, true},
                                           Expected{"qwen3-1.7b-mlx", "qwen3", 310, 3441149952, true, false}),
                         [](const auto& row) {
                           std::string name = row.param.family;
                           return name;
                         });

TEST(RealQuantization, RecognisedFromConfigAndFromNamesAlone) {
  struct Row {
    const char* folder;
    const char* from_config;
    const char* from_names;
  };
  for (const Row& row : {Row{"molmo-7b-nf4", "nf4", "nf4"}, Row{"qwen3.5-27b-mlx-mixed", "mlx_affine", "mlx_affine"},
                         Row{"gpt-oss-20b", "mxfp4", "mxfp4"}, Row{"kimi-k2-mini-fp8-broken", "fp8_block", "fp8_block"},
                         Row{"llama-3.2-3b-one-tensor-per-shard", "", ""}}) {
    const auto model = real_model(row.folder);
    if (!model) GTEST_SKIP() << "real checkpoint data is not here (WEIGHTPROOF_SHARED_DIR)";
    EXPECT_EQ(detect(&*model->config, model->catalog).quantization, row.from_config) << row.folder;
    EXPECT_EQ(detect(nullptr, model->catalog).quantization, row.from_names) << row.folder;
  }
}

}  // namespace
}  // namespace weightproof::adapters::testing
