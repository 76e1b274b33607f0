// SPDX-License-Identifier: Apache-2.0
// Real models' metadata: the key set that follows from config.json equals the index, and the bytes of its shapes equal
// the index's total_size.
#include <cctype>

#include "adapters/quantization.hpp"
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
  if (!model) GTEST_SKIP() << "no real checkpoint data here";
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
  if (!model) GTEST_SKIP() << "no real checkpoint data here";
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

/// A real index against what its config asks for.
struct Found {
  Coverage coverage;
  StoredTotals totals;
  Form form;
  Schema schema;
  std::string family;
};

Found examine(const RealModel& model, std::string_view forced = {}, const ConfigValue* config = nullptr) {
  const ConfigValue& used = config == nullptr ? *model.config : *config;
  const Detection detection = detect(&used, model.catalog, forced);
  Found found{{}, {}, {}, SchemaBuilder("none").finish(), {}};
  EXPECT_NE(detection.family, nullptr) << detection.evidence;
  if (detection.family == nullptr) return found;
  EXPECT_TRUE(detection.missing_fields.empty());
  found.family = detection.family->name;
  found.form = detection.family->find_form(used, model.catalog);
  found.schema = detection.family->describe(used, found.form, ExpertStorage::grouped);
  found.coverage = cover(found.schema, model.catalog);
  found.totals = stored_totals(found.schema);
  expect_exact(found.schema);
  return found;
}

struct RealRow {
  const char* folder;
  const char* family;
  std::size_t keys;
  std::size_t passed;        ///< under passthrough prefixes
  std::uint64_t total_size;  ///< of the index
  std::int64_t rest;         ///< total_size less what the config asks for
  const char* why;           ///< the rest explained
  const char* name_space;
  const char* expert_layout;
  const char* quantization;
};

class RealOthers : public ::testing::TestWithParam<RealRow> {};

TEST_P(RealOthers, NothingMissesNothingIsUnexpected) {
  const RealRow& row = GetParam();
  const auto model = real_model(row.folder);
  if (!model) GTEST_SKIP() << "no real checkpoint data here";
  const Found found = examine(*model);
  EXPECT_EQ(found.family, row.family);
  EXPECT_EQ(model->catalog.size(), row.keys);
  EXPECT_TRUE(found.coverage.missing.empty()) << found.coverage.missing.front();
  EXPECT_TRUE(found.coverage.unexpected.empty()) << found.coverage.unexpected.front();
  std::size_t passed = 0;
  for (const auto& [prefix, count] : found.coverage.passed) passed += count;
  EXPECT_EQ(passed, row.passed);
  EXPECT_EQ(model->total_size, row.total_size);
  EXPECT_EQ(static_cast<std::int64_t>(model->total_size - found.totals.bytes), row.rest) << row.why;
  EXPECT_EQ(found.form.name_space, row.name_space);
  EXPECT_EQ(found.form.expert_layout, row.expert_layout);
  EXPECT_EQ(found.form.quantization, row.quantization);
}

INSTANTIATE_TEST_SUITE_P(
    Models, RealOthers,
    ::testing::Values(RealRow{"gpt-oss-20b", "gpt_oss", 459, 0, 13761264768, 0, "", "model.", "blocks", "mxfp4"},
                      RealRow{"qwen3.5-moe-18b-reap", "qwen3_5_moe", 15973, 0, 37087995136, -3840,
                              "30 layers x 2 x 32 values of FP32 state stored in 16 bits", "model.language_model.",
                              "per_expert", ""},
                      RealRow{"kimi-k2-mini-fp8-broken", "deepseek_v3", 2623, 0, 23860128480, 121699872,
                              "routers of 384 rows and rotary frequencies beside what the config asks for", "model.",
                              "", "fp8_block"},
                      RealRow{"mixtral-8x22b-wizardlm2", "mixtral", 1739, 0, 281241268224, 0, "", "model.", "", ""},
                      RealRow{"phi3-mini-slerp", "phi3", 195, 0, 7642159104, 0, "", "model.", "", ""},
                      RealRow{"medgemma-27b", "gemma3", 1247, 439, 54864813280, 846120672, "vision tower and projector",
                              "language_model.model.", "", ""},
                      RealRow{"cosmos-reason2-qwen3vl", "qwen3_vl", 750, 351, 0, -16381470720,
                              "the index states a total of 0", "model.language_model.", "", ""},
                      RealRow{"mimo-7b-mtp", "mimo", 451, 0, 15666819072, 0, "", "model.", "", ""},
                      RealRow{"minimax-m1", "minimax_m1", 8243, 0, 912210767872, 31457280,
                              "80 routers of 32 x 6144 values stored in F32", "model.", "", ""}),
    [](const auto& row) {
      std::string name = row.param.folder;
      for (char& c : name) {
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      }
      return name;
    });

TEST(RealOthersNotes, AbsentMtpIsNotedAndDroppedKeysAreCounted) {
  const auto reap = real_model("qwen3.5-moe-18b-reap");
  const auto kimi = real_model("kimi-k2-mini-fp8-broken");
  const auto mimo = real_model("mimo-7b-mtp");
  if (!reap || !kimi || !mimo) GTEST_SKIP() << "no real checkpoint data here";
  const Found pruned = examine(*reap);
  EXPECT_FALSE(pruned.form.has_mtp);
  ASSERT_EQ(pruned.schema.defaulted().size(), 1u);
  EXPECT_EQ(pruned.schema.defaulted()[0], "multi-token prediction: absent, none of the config's 1 layer is stored");
  const Found kimi_found = examine(*kimi);
  EXPECT_EQ(kimi_found.coverage.dropped, (std::map<std::string, std::size_t>{{"*.rotary_emb.inv_freq", 24}}));
  const Found mimo_found = examine(*mimo);
  EXPECT_TRUE(mimo_found.form.has_mtp);
  EXPECT_TRUE(mimo_found.schema.defaulted().empty());
}

TEST(RealOthersNotes, MtpIsAllOrNone) {
  const auto mimo = real_model("mimo-7b-mtp");
  if (!mimo) GTEST_SKIP() << "no real checkpoint data here";
  std::vector<std::string> partial;
  std::vector<std::string> none;
  for (const StoredTensor& tensor : mimo->catalog.tensors()) {
    const bool is_mtp = tensor.key.starts_with("model.mtp_layers.");
    if (!is_mtp) none.emplace_back(tensor.key);
    if (tensor.key != "model.mtp_layers.0.input_proj.weight") partial.emplace_back(tensor.key);
  }
  RealModel cut{catalog_of(partial), mimo->config, 0};
  EXPECT_EQ(examine(cut).coverage.missing, std::vector<std::string>{"model.mtp_layers.0.input_proj.weight"});
  cut.catalog = catalog_of(none);
  EXPECT_TRUE(examine(cut).coverage.missing.empty());
}

constexpr const char* k_qwen3_30b = R"({"model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048,
    "intermediate_size": 6144, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    "attention_bias": false, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "tie_word_embeddings": false})";

void expect_added_attention(const Coverage& coverage) {
  EXPECT_TRUE(coverage.missing.empty());
  EXPECT_EQ(coverage.unexpected.size(), 240u);
  std::map<std::string, std::size_t> kinds;
  for (const std::string& key : coverage.unexpected) ++kinds[key.substr(key.find("self_attn."))];
  EXPECT_EQ(kinds, (std::map<std::string, std::size_t>{{"self_attn.indexer.qk_index_proj", 48},
                                                       {"self_attn.indexer.v_transform", 48},
                                                       {"self_attn.k_proj.bias", 48},
                                                       {"self_attn.q_proj.bias", 48},
                                                       {"self_attn.v_proj.bias", 48}}));
}

TEST(RealOthersNotes, AConvertedAttentionIsFiveKindsOfUnexpectedKeys) {
  const auto model = real_model("qwen3-30b-a3b-transgqa");
  if (!model) GTEST_SKIP() << "no real checkpoint data here";
  EXPECT_EQ(model->catalog.size(), 19107u);
  EXPECT_EQ(model->total_size, 61066358784u);
  const ConfigValue config = config_of(k_qwen3_30b);
  const Found found = examine(*model, {}, &config);
  EXPECT_EQ(found.family, "qwen3_moe");
  EXPECT_EQ(found.totals.bytes, 61064245248u);
  expect_added_attention(found.coverage);
}

TEST(RealOthersNotes, WithoutAConfigTheKeysSayTheSame) {
  const auto model = real_model("qwen3-30b-a3b-transgqa");
  if (!model) GTEST_SKIP() << "no real checkpoint data here";
  ASSERT_FALSE(model->config);
  const Detection detection = detect(nullptr, model->catalog);
  ASSERT_NE(detection.family, nullptr) << detection.evidence;
  EXPECT_EQ(detection.family->name, "qwen3_moe");
  EXPECT_EQ(detection.evidence, "key patterns");
  const auto inferred = infer_config(*detection.family, model->catalog);
  ASSERT_TRUE(inferred);
  EXPECT_FALSE(inferred->has_shapes);
  const Form form = detection.family->find_form(inferred->config, model->catalog);
  const Schema schema = detection.family->describe(inferred->config, form, ExpertStorage::grouped);
  expect_added_attention(cover(schema, model->catalog));
}

TEST(RealOthersNotes, MlxNamesHaveEveryBaseKeyAndCompanionsPointAtThem) {
  const auto model = real_model("qwen3.5-27b-mlx-mixed");
  if (!model) GTEST_SKIP() << "no real checkpoint data here";
  const Found found = examine(*model);
  EXPECT_EQ(found.family, "qwen3_5");
  EXPECT_EQ(found.form.name_space, "language_model.model.");
  EXPECT_EQ(found.form.quantization, "mlx_affine");
  EXPECT_TRUE(found.coverage.missing.empty());
  EXPECT_EQ(found.coverage.passed.at("vision_tower."), 333u);
  EXPECT_EQ(found.coverage.unexpected.size(), 996u);
  for (const std::string& key : found.coverage.unexpected) {
    const Companion companion = companion_of(key);
    EXPECT_FALSE(companion.role.empty()) << key;
    EXPECT_NE(found.schema.find_stored(companion.weight), k_no_id) << key;
  }
}

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
    if (!model) GTEST_SKIP() << "no real checkpoint data here";
    EXPECT_EQ(detect(&*model->config, model->catalog).quantization, row.from_config) << row.folder;
    EXPECT_EQ(detect(nullptr, model->catalog).quantization, row.from_names) << row.folder;
  }
}

}  // namespace
}  // namespace weightproof::adapters::testing
