// SPDX-License-Identifier: Apache-2.0
// Known ways to get a mapping wrong, each with its literal values: what must come out, and what a plausible mistake
// gives instead.
#include "adapters/names.hpp"
#include "adapters/tests/push.hpp"

namespace weightproof::adapters::testing {
namespace {

using Numbers = std::vector<double>;

const Shape& stored_shape(const Schema& schema, std::string_view key) {
  return schema.shape_of(schema.stored_tensors()[schema.find_stored(key)]);
}
bool has_stored(const Schema& schema, std::string_view key) { return schema.find_stored(key) != k_no_id; }
bool has_native(const Schema& schema, std::string_view key) { return schema.find_native(key) != k_no_id; }

ConfigValue with(const std::string& head, const std::string& more) { return config_of("{" + head + ", " + more + "}"); }

constexpr const char* k_small = R"("hidden_size": 2, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 1,
    "intermediate_size": 2, "vocab_size": 2)";

Schema qwen3_moe_of(std::uint64_t experts, ExpertStorage storage = ExpertStorage::grouped,
                    const Catalog& catalog = Catalog()) {
  return describe(
      with(std::string(R"("model_type": "qwen3_moe", "num_hidden_layers": 1, "moe_intermediate_size": 2, )") + k_small,
           "\"num_experts\": " + std::to_string(experts)),
      catalog, {}, storage);
}

const std::string k_moe = "model.layers.0.mlp.experts.";

Values one_expert() {
  return {{k_moe + "0.gate_proj.weight", {1, 2, 3, 4}},
          {k_moe + "0.up_proj.weight", {5, 6, 7, 8}},
          {k_moe + "0.down_proj.weight", {9, 10, 11, 12}}};
}

TEST(Traps, T01_GateFirstConcatenatedTransposed) {
  const Values native = load(qwen3_moe_of(1), one_expert());
  EXPECT_EQ(native.at(k_moe + "gate_and_up_projs"), (Numbers{1, 3, 5, 7, 2, 4, 6, 8}));
  EXPECT_NE(native.at(k_moe + "gate_and_up_projs"), (Numbers{1, 2, 5, 6, 3, 4, 7, 8}));
  EXPECT_NE(native.at(k_moe + "gate_and_up_projs"), (Numbers{5, 7, 1, 3, 6, 8, 2, 4}));
  EXPECT_EQ(native.at(k_moe + "down_projs"), (Numbers{9, 11, 10, 12}));
}

TEST(Traps, T02_SquareShapesHideAMissingTranspose) {
  const std::string text =
      R"("num_hidden_layers": 1, "hidden_size": 2, "num_attention_heads": 1, "num_key_value_heads": 1,
      "head_dim": 1, "intermediate_size": 2, "vocab_size": 2, "num_experts": 1, "moe_intermediate_size": 1,
      "shared_expert_intermediate_size": 1, "linear_num_key_heads": 1, "linear_num_value_heads": 1,
      "linear_key_head_dim": 1, "linear_value_head_dim": 1, "linear_conv_kernel_dim": 1, "full_attention_interval": 1)";
  const std::string key = "model.language_model.layers.0.mlp.experts.";
  const Values stored = {{key + "gate_up_proj", {1, 2, 3, 4}}};
  const Schema vl = describe(with(R"("model_type": "qwen3_vl_moe")", "\"text_config\": {" + text + "}"), Catalog());
  EXPECT_EQ(load(vl, stored).at(key + "gate_and_up_projs"), (Numbers{1, 2, 3, 4}));
  const Schema next = describe(with(R"("model_type": "qwen3_5_moe")", "\"text_config\": {" + text + "}"), Catalog());
  EXPECT_EQ(load(next, stored).at(key + "gate_and_up_projs"), (Numbers{1, 3, 2, 4}));
  EXPECT_EQ(stored_shape(vl, key + "gate_up_proj"), stored_shape(next, key + "gate_up_proj"));
}

Schema gpt_oss_of(bool has_blocks) {
  const std::string quantization = has_blocks ? R"(, "quantization_config": {"quant_method": "mxfp4"})" : "";
  return describe(
      config_of(R"({"model_type": "gpt_oss", "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
      "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 1, "num_local_experts": 1, "vocab_size": 2)" +
                quantization + "}"),
      Catalog());
}

TEST(Traps, T03_InterleavedGateAndUpStayInterleaved) {
  const Schema schema = gpt_oss_of(false);
  const std::string key = "model.layers.0.mlp.experts.";
  Values stored = numbered(schema);
  Numbers& row = stored.at(key + "gate_up_proj");
  for (std::size_t i = 0; i < 4; ++i) row[i] = static_cast<double>(i + 1);
  const Numbers native = load(schema, stored).at(key + "gate_and_up_projs");
  EXPECT_EQ((Numbers{native[0], native[2]}), (Numbers{1, 3}));  // gate
  EXPECT_EQ((Numbers{native[1], native[3]}), (Numbers{2, 4}));  // up
}

TEST(Traps, T05_BlocksAreOutByInAndTransposed) {
  const Schema schema = gpt_oss_of(true);
  const std::string key = "model.layers.0.mlp.experts.";
  EXPECT_EQ(stored_shape(schema, key + "gate_up_proj"), (Shape{1, 64, 32}));
  Values stored = numbered(schema);
  Numbers& decoded = stored.at(key + "gate_up_proj");
  std::fill(decoded.begin(), decoded.begin() + 32, 1);       // row 0
  std::fill(decoded.begin() + 32, decoded.begin() + 64, 4);  // row 1
  const Numbers native = load(schema, stored).at(key + "gate_and_up_projs");
  for (std::size_t in = 0; in < 32; ++in) EXPECT_EQ((Numbers{native[in * 64], native[in * 64 + 1]}), (Numbers{1, 4}));
  const LogicalTensor& tensor = schema.stored_tensors()[schema.find_stored(key + "gate_up_proj")];
  ASSERT_EQ(schema.parts_of(tensor).size(), 2u);
  EXPECT_EQ(schema.parts_of(tensor)[0].key, key + "gate_up_proj_blocks");
  EXPECT_EQ(schema.shape_of(schema.parts_of(tensor)[0]), (Shape{1, 64, 1, 16}));
  EXPECT_EQ(schema.parts_of(tensor)[1].key, key + "gate_up_proj_scales");
  EXPECT_EQ(schema.shape_of(schema.parts_of(tensor)[1]), (Shape{1, 64, 1}));
  EXPECT_EQ(schema.rule(schema.codings()[tensor.coding].scheme), "mxfp4_blocks");
}

TEST(Traps, T11_TwoFusedOrdersOfQueryKeyValue) {
  const Schema ling = describe(config_of(R"({"model_type": "bailing_moe", "hidden_size": 1, "num_hidden_layers": 1,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 1, "intermediate_size": 1, "moe_intermediate_size": 1,
      "num_experts": 1, "first_k_dense_replace": 1, "vocab_size": 1, "use_qkv_bias": true})"),
                               Catalog());
  const std::string layer = "model.layers.0.";
  for (const std::string leaf : {"weight", "bias"}) {
    const Values native = load(ling, {{layer + "attention.query_key_value." + leaf, {0, 1, 2, 3, 10, 11, 20, 21}}});
    EXPECT_EQ(native.at(layer + "self_attn.q_proj." + leaf), (Numbers{0, 1, 2, 3}));
    EXPECT_EQ(native.at(layer + "self_attn.k_proj." + leaf), (Numbers{10, 11}));
    EXPECT_EQ(native.at(layer + "self_attn.v_proj." + leaf), (Numbers{20, 21}));
  }
  const Schema combined = describe(config_of(R"({"model_type": "qwen2", "hidden_size": 1, "num_hidden_layers": 1,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 1, "intermediate_size": 2, "vocab_size": 1,
      "tie_word_embeddings": false})"),
                                   Catalog(), "dense_combined");
  for (const std::string leaf : {"weight", "bias"}) {
    const Values native = load(combined, {{layer + "self_attn.q_proj." + leaf, {0, 1, 2, 3}},
                                          {layer + "self_attn.k_proj." + leaf, {10, 11}},
                                          {layer + "self_attn.v_proj." + leaf, {20, 21}}});
    EXPECT_EQ(native.at(layer + "self_attn.qkv_proj." + leaf), (Numbers{0, 1, 10, 20, 2, 3, 11, 21}));
  }
  const Values mlp = load(combined, {{layer + "mlp.gate_proj.weight", {1, 2}}, {layer + "mlp.up_proj.weight", {3, 4}}});
  EXPECT_EQ(mlp.at(layer + "mlp.gate_up_proj.weight"), (Numbers{1, 3, 2, 4}));
}

TEST(Traps, T12_T13_GatedQueriesAndGroupedRowsStayAsTheyAre) {
  const Schema schema = describe(config_of(R"({"model_type": "qwen3_next", "hidden_size": 1, "num_hidden_layers": 2,
      "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 1, "intermediate_size": 1, "num_experts": 1,
      "moe_intermediate_size": 1, "shared_expert_intermediate_size": 1, "vocab_size": 1, "linear_num_key_heads": 2,
      "linear_num_value_heads": 2, "linear_key_head_dim": 1, "linear_value_head_dim": 1, "linear_conv_kernel_dim": 1,
      "full_attention_interval": 2})"),
                                 Catalog());
  const std::string query = "model.layers.1.self_attn.q_proj.weight";
  const std::string joint = "model.layers.0.linear_attn.in_proj_qkvz.weight";
  const Values native = load(schema, {{query, {1, -1, 2, -2}}, {joint, {1, 2, 3, 4, 5, 6, 7, 8}}});
  EXPECT_EQ(native.at(query), (Numbers{1, -1, 2, -2}));
  EXPECT_EQ(native.at(joint), (Numbers{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(stored_shape(schema, "model.layers.0.linear_attn.conv1d.weight"), (Shape{6, 1, 1}));
}

TEST(Traps, T14_KeepModeHasTheScaleBesideTheRouterAndFoldingIsDeclared) {
  const Family* family = find_family("gemma4_moe");
  const ConfigValue config = config_of(family->sample);
  Form form = family->find_form(config, Catalog());
  const std::string layer = "model.language_model.layers.0.";
  const Schema keep = family->describe(config, form, ExpertStorage::grouped);
  EXPECT_TRUE(has_native(keep, layer + "moe.gate.per_expert_scale"));
  EXPECT_EQ(keep.stored_tensors()[keep.find_stored(layer + "experts.down_proj")].coding, k_no_id);
  form.expert_layout = "stacked_folded";
  const Schema fold = family->describe(config, form, ExpertStorage::grouped);
  EXPECT_FALSE(has_native(fold, layer + "moe.gate.per_expert_scale"));
  const LogicalTensor& down = fold.stored_tensors()[fold.find_stored(layer + "experts.down_proj")];
  ASSERT_EQ(fold.parts_of(down).size(), 2u);
  EXPECT_EQ(fold.parts_of(down)[1].key, layer + "router.per_expert_scale");
  EXPECT_EQ(fold.parts_of(down)[1].dtype_rule, DTypeRule::weight);  // read in its stored dtype
  ASSERT_EQ(fold.defaulted().size(), 2u);
  EXPECT_NE(fold.defaulted()[1].find("lossy"), std::string::npos);
}

TEST(Traps, T15_ATiedHeadIsOneStorageAndAnUntiedOneIsNeverInvented) {
  const std::string dense = std::string(R"("model_type": "llama", "num_hidden_layers": 1, )") + k_small;
  const Schema tied = describe(with(dense, R"("tie_word_embeddings": true)"), Catalog());
  const Values native = load(tied, {{"model.embed_tokens.weight", {1, 2, 3, 4}}, {"lm_head.weight", {9, 9, 9, 9}}});
  EXPECT_EQ(native.at("model.embed_tokens.weight"), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(native.count("lm_head.weight"), 0u);
  EXPECT_EQ(save(tied, native).count("lm_head.weight"), 0u);
  const Schema untied = describe(with(dense, R"("tie_word_embeddings": false)"), Catalog());
  EXPECT_EQ(load(untied, {{"model.embed_tokens.weight", {1, 2, 3, 4}}}).at("lm_head.weight"),
            (Numbers{-12345, -12345, -12345, -12345}));
  for (const auto& [type, flag] : {std::pair<std::string, std::string>{"ernie4_5", "false"}, {"glm4_moe", "true"}}) {
    const Family* family = find_family(type);
    std::string config(family->sample);
    config.insert(1, "\"tie_word_embeddings\": " + flag + ", ");
    const auto error = error_of([&] { family->find_form(config_of(config), Catalog()); });
    ASSERT_TRUE(error) << type;
    EXPECT_EQ(error->code(), ErrorCode::tied_flag_conflict);
  }
}

TEST(Traps, T16_TheNamespaceDoesNotHangOnTheLastKey) {
  const ConfigValue config = config_of(find_family("ernie4_5_moe")->sample);
  for (const std::vector<std::string>& keys :
       {std::vector<std::string>{"model.layers.0.mlp.experts.0.gate_proj.weight", "lm_head.weight"},
        std::vector<std::string>{"lm_head.weight", "model.layers.0.mlp.experts.0.gate_proj.weight"}}) {
    EXPECT_EQ(find_family("ernie4_5_moe")->find_form(config, catalog_of(keys)).name_space, "model.");
  }
}

TEST(Traps, T17_T18_RenamesAreWholeNames) {
  const Schema next = describe(config_of(find_family("qwen3_next")->sample), Catalog());
  EXPECT_TRUE(has_native(next, "model.layers.0.mlp.shared_experts.up_proj.weight"));
  EXPECT_TRUE(has_native(next, "model.layers.0.mlp.shared_expert_gate.weight"));
  EXPECT_FALSE(has_native(next, "model.layers.0.mlp.shared_experts_gate.weight"));
  EXPECT_TRUE(has_native(next, "model.layers.0.mlp.gate.weight"));
  const Schema laguna = describe(config_of(find_family("laguna")->sample), Catalog());
  EXPECT_TRUE(has_native(laguna, "model.layers.1.mlp.gate.e_score_correction_bias"));
  EXPECT_TRUE(has_stored(laguna, "model.layers.1.mlp.experts.e_score_correction_bias"));
  EXPECT_EQ(laguna.shape_of(laguna.native_tensors()[laguna.find_native("model.layers.1.mlp.experts.down_projs")]),
            (Shape{3, 4, 6}));
  EXPECT_EQ(stored_shape(laguna, "model.layers.0.self_attn.q_proj.weight"), (Shape{12, 6}));
  EXPECT_EQ(stored_shape(laguna, "model.layers.1.self_attn.q_proj.weight"), (Shape{18, 6}));
}

TEST(Traps, T19_T21_StateIsBehindItsHolderInF32) {
  const Schema schema = describe(config_of(find_family("nemotron_v3")->sample), Catalog());
  for (const std::string name : {"A_log", "D", "dt_bias"}) {
    const StoredId stored = schema.find_stored("backbone.layers.0.mixer." + name);
    const NativeId native = schema.find_native("model.layers.0.mixer._fp32_params." + name);
    ASSERT_NE(stored, k_no_id) << name;
    ASSERT_NE(native, k_no_id) << name;
    EXPECT_EQ(schema.stored_tensors()[stored].dtype_rule, DTypeRule::f32_state);
    EXPECT_EQ(schema.native_tensors()[native].dtype_rule, DTypeRule::f32_state);
  }
  EXPECT_TRUE(has_native(schema, "model.layers.0.mixer.in_proj.weight"));
}

TEST(Traps, T20_T35_LayersAreNumbersAndMtpTwinsAreNotTheModel) {
  const Family* family = find_family("glm4_moe");
  std::string text(family->sample);
  text.replace(text.find("\"num_hidden_layers\": 3"), 22, "\"num_hidden_layers\": 10");
  std::vector<std::string> keys = {"model.layers.1.input_layernorm.weight", "model.layers.10.embed_tokens.weight",
                                   "model.layers.10.eh_proj.weight", "model.layers.100.eh_proj.weight"};
  const Catalog catalog = catalog_of(keys);
  const Schema schema = describe(config_of(text), catalog);
  const Coverage coverage = cover(schema, catalog);
  EXPECT_TRUE(coverage.unexpected.empty());
  EXPECT_EQ(coverage.dropped.at("model.layers.10.*"), 2u);
  EXPECT_EQ(coverage.dropped.at("model.layers.100.*"), 1u);
  EXPECT_EQ(coverage.dropped.count("model.layers.1.*"), 0u);
  EXPECT_TRUE(has_stored(schema, "model.layers.1.input_layernorm.weight"));
  EXPECT_FALSE(has_stored(schema, "model.layers.10.embed_tokens.weight"));
}

TEST(Traps, T20_ExpertsStandInTheOrderOfTheirNumbers) {
  const Schema schema = qwen3_moe_of(11);
  Values stored;
  for (int e = 0; e < 11; ++e) {
    stored[k_moe + std::to_string(e) + ".down_proj.weight"] = Numbers(4, e);
  }
  const Numbers native = load(schema, stored).at(k_moe + "down_projs");
  for (std::size_t e = 0; e < 11; ++e) EXPECT_EQ(native[e * 4], static_cast<double>(e));
  EXPECT_NE(native[2 * 4], 10);  // text order
}

TEST(Traps, T26_APartialExpertSetNamesTheLostMatrix) {
  const ConfigValue config =
      with(std::string(R"("model_type": "qwen3_moe", "num_hidden_layers": 1, "moe_intermediate_size": 2, )") + k_small,
           R"("num_experts": 2)");
  std::vector<std::string> keys;
  const Schema whole = describe(config, Catalog());
  for (const LogicalTensor& tensor : whole.stored_tensors()) {
    if (tensor.key != "model.layers.0.mlp.experts.1.down_proj.weight") keys.emplace_back(tensor.key);
  }
  const Catalog catalog = catalog_of(keys);
  EXPECT_EQ(cover(describe(config, catalog), catalog).missing,
            std::vector<std::string>{"model.layers.0.mlp.experts.1.down_proj.weight"});
}

TEST(Traps, T27_T28_NestedNamespacesLoseExactlyOneLevel) {
  const Family* family = find_family("mistral3_fp8_vlm");
  const ConfigValue config = config_of(family->sample);
  struct Row {
    const char* layer;
    const char* head;
    const char* tower;
    const char* native;
  };
  for (const Row& row :
       {Row{"language_model.model.layers.0.", "language_model.lm_head.weight", "vision_tower.",
            "model.language_model."},
        Row{"model.language_model.layers.0.", "lm_head.weight", "model.vision_tower.", "model.language_model."},
        Row{"model.language_model.model.layers.0.", "model.language_model.lm_head.weight", "model.vision_tower.",
            "model.language_model."},
        Row{"model.layers.0.", "lm_head.weight", "", "model."}}) {
    const Schema schema =
        describe(config, catalog_of({std::string(row.layer) + "input_layernorm.weight", "vision_tower2.x"}));
    EXPECT_TRUE(has_native(schema, std::string(row.native) + "layers.0.input_layernorm.weight")) << row.layer;
    EXPECT_FALSE(has_native(schema, "model.language_model.model.layers.0.input_layernorm.weight")) << row.layer;
    EXPECT_TRUE(has_stored(schema, row.head)) << row.layer;
    EXPECT_TRUE(has_native(schema, "lm_head.weight")) << row.layer;
    if (*row.tower != 0) {
      EXPECT_TRUE(has_stored(schema, std::string(row.tower) + "ln_pre.weight")) << row.layer;
      EXPECT_TRUE(has_native(schema, "model.vision_tower.ln_pre.weight")) << row.layer;
    }
    EXPECT_EQ(cover(schema, catalog_of({"vision_tower2.x"})).unexpected, std::vector<std::string>{"vision_tower2.x"});
  }
}

TEST(Traps, T31_ExpertBiasesAreMergedGateFirst) {
  const Schema schema = describe(config_of(R"({"model_type": "ernie4_5_moe", "hidden_size": 2, "num_hidden_layers": 1,
      "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 1, "intermediate_size": 2, "moe_intermediate_size": 2,
      "moe_num_experts": 2, "moe_layer_start_index": 0, "vocab_size": 2, "use_bias": true})"),
                                 Catalog());
  const Values native = load(schema, {{k_moe + "0.gate_proj.bias", {1, 2}},
                                      {k_moe + "0.up_proj.bias", {3, 4}},
                                      {k_moe + "1.gate_proj.bias", {5, 6}},
                                      {k_moe + "1.up_proj.bias", {7, 8}}});
  EXPECT_EQ(native.at(k_moe + "gate_up_proj_bias"), (Numbers{1, 2, 3, 4, 5, 6, 7, 8}));
  const Values stored = save(schema, native);
  EXPECT_EQ(stored.at(k_moe + "1.gate_proj.bias"), (Numbers{5, 6}));
  EXPECT_EQ(stored.at(k_moe + "1.up_proj.bias"), (Numbers{7, 8}));
  const Schema oss = gpt_oss_of(true);
  const std::string bias = "model.layers.0.mlp.experts.gate_up_proj_bias";
  Values values = numbered(oss);
  EXPECT_EQ(load(oss, values).at(bias), values.at(bias));  // interleaved in the file, and natively
}

TEST(Traps, T33_ListsThatCountFromOne) {
  const Schema schema = describe(config_of(find_family("kimi_linear")->sample), Catalog());
  EXPECT_TRUE(has_stored(schema, "model.layers.0.self_attn.A_log"));
  EXPECT_TRUE(has_stored(schema, "model.layers.2.self_attn.A_log"));
  EXPECT_FALSE(has_stored(schema, "model.layers.3.self_attn.A_log"));
  EXPECT_TRUE(has_stored(schema, "model.layers.3.self_attn.kv_b_proj.weight"));
}

TEST(Traps, T34_ExtentsOfOneStay) {
  const Schema ernie = describe(config_of(R"({"model_type": "ernie4_5_moe", "hidden_size": 2, "num_hidden_layers": 1,
      "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 1, "intermediate_size": 2, "moe_intermediate_size": 2,
      "moe_num_experts": 2, "moe_layer_start_index": 0, "vocab_size": 2})"),
                                Catalog());
  const std::string stored = "model.layers.0.mlp.moe_statics.e_score_correction_bias";
  EXPECT_EQ(stored_shape(ernie, stored), (Shape{1, 2}));
  const Values native = load(ernie, {{stored, {0.5, 0.25}}});
  EXPECT_EQ(native.at("model.layers.0.mlp.gate.e_score_correction_bias"), (Numbers{0.5, 0.25}));
  const NativeTensor& bias =
      ernie.native_tensors()[ernie.find_native("model.layers.0.mlp.gate.e_score_correction_bias")];
  EXPECT_EQ(ernie.shape_of(bias), (Shape{2}));
  EXPECT_EQ(save(ernie, native).at(stored), (Numbers{0.5, 0.25}));
  const Schema kimi = describe(config_of(find_family("kimi_linear")->sample), Catalog());
  const NativeTensor& log = kimi.native_tensors()[kimi.find_native("model.layers.0.self_attn._fp32_params.A_log")];
  EXPECT_EQ(kimi.shape_of(log), (Shape{1, 1, 2, 1}));
}

TEST(Traps, T36_UngatedExpertsAreAsWideAsOne) {
  const Schema schema = describe(config_of(R"({"model_type": "nemotron_h", "hidden_size": 2, "num_hidden_layers": 1,
      "hybrid_override_pattern": "E", "num_attention_heads": 1, "head_dim": 1, "vocab_size": 2, "n_routed_experts": 1,
      "n_shared_experts": 0, "moe_intermediate_size": 2})"),
                                 Catalog());
  const std::string native = "model.layers.0.mixer.experts.gate_and_up_projs";
  EXPECT_EQ(schema.shape_of(schema.native_tensors()[schema.find_native(native)]), (Shape{1, 2, 2}));
  EXPECT_EQ(load(schema, {{"backbone.layers.0.mixer.experts.0.up_proj.weight", {1, 2, 3, 4}}}).at(native),
            (Numbers{1, 3, 2, 4}));
}

TEST(Traps, T38_OtherStoragesKeepTheOrientationOfTheFile) {
  const Values te = load(qwen3_moe_of(1, ExpertStorage::te), one_expert());
  EXPECT_EQ(te.at(k_moe + "gate_up_linear.weight0"), (Numbers{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(te.at(k_moe + "down_linear.weight0"), (Numbers{9, 10, 11, 12}));
  const Values mok = load(qwen3_moe_of(1, ExpertStorage::mok), one_expert());
  EXPECT_EQ(mok.at(k_moe + "routed_gate_weights"), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(mok.at(k_moe + "routed_up_weights"), (Numbers{5, 6, 7, 8}));
  EXPECT_EQ(mok.at(k_moe + "routed_down_weights"), (Numbers{9, 10, 11, 12}));
}

TEST(Traps, T40_SuffixesDoNotCatchOneAnother) {
  const Schema schema = gpt_oss_of(true);
  const std::string key = "model.layers.0.mlp.experts.";
  EXPECT_EQ(schema.stored_tensors()[schema.find_stored(key + "gate_up_proj_bias")].coding, k_no_id);
  EXPECT_NE(schema.stored_tensors()[schema.find_stored(key + "gate_up_proj")].coding, k_no_id);
  EXPECT_EQ(schema.find_stored(key + "down_proj_scales"), k_no_id);  // a part, no tensor of its own
}

TEST(Traps, T42_AbsentOptionalTensorsTakeTheirDeclaredValue) {
  struct Row {
    const char* family;
    const char* stored;
    const char* native;
    double value;
  };
  for (const Row& row :
       {Row{"gemma4_moe", "model.language_model.layers.0.layer_scalar", "model.language_model.layers.0.layer_scalar",
            1},
        Row{"mistral4", "language_model.model.layers.1.mlp.gate.e_score_correction_bias",
            "model.language_model.model.layers.1.mlp.gate.e_score_correction_bias", 0},
        Row{"step3p5", "model.layers.1.moe.router_bias", "model.layers.1.moe.gate.e_score_correction_bias", 0}}) {
    const Schema schema = describe(config_of(find_family(row.family)->sample), Catalog());
    const StoredId stored = schema.find_stored(row.stored);
    ASSERT_NE(stored, k_no_id) << row.stored;
    EXPECT_TRUE(schema.stored_tensors()[stored].is_optional);
    EXPECT_FALSE(schema.rule(schema.stored_tensors()[stored].absent_rule).empty());
    const Values native = load(schema, {});
    for (const double value : native.at(row.native)) EXPECT_EQ(value, row.value);
  }
}

TEST(Traps, T43_LayersOfOneModelDifferInShape) {
  const Schema schema = describe(config_of(find_family("gemma4_moe")->sample), Catalog());
  const std::string layers = "model.language_model.layers.";
  EXPECT_EQ(stored_shape(schema, layers + "0.self_attn.q_proj.weight"), (Shape{8, 6}));
  EXPECT_EQ(stored_shape(schema, layers + "0.self_attn.k_proj.weight"), (Shape{4, 6}));
  EXPECT_TRUE(has_stored(schema, layers + "0.self_attn.v_proj.weight"));
  EXPECT_EQ(stored_shape(schema, layers + "2.self_attn.q_proj.weight"), (Shape{12, 6}));
  EXPECT_EQ(stored_shape(schema, layers + "2.self_attn.k_proj.weight"), (Shape{3, 6}));
  EXPECT_FALSE(has_stored(schema, layers + "2.self_attn.v_proj.weight"));
}

TEST(Traps, LayoutsAndGenerationsAreNotMixed) {
  struct Row {
    const char* family;
    std::vector<std::string> keys;
  };
  for (const Row& row :
       {Row{"qwen3_5_moe",
            {"model.language_model.layers.0.mlp.experts.0.up_proj.weight",
             "model.language_model.layers.1.mlp.experts.gate_up_proj"}},
        Row{"gpt_oss", {"model.layers.0.mlp.experts.gate_up_proj_blocks", "model.layers.1.mlp.experts.gate_up_proj"}},
        Row{"gemma4_moe",
            {"model.language_model.layers.0.moe.gate_up_proj",
             "model.language_model.layers.1.experts.gate_up_proj"}}}) {
    const Family* family = find_family(row.family);
    const auto error = error_of([&] { family->find_form(config_of(family->sample), catalog_of(row.keys)); });
    ASSERT_TRUE(error) << row.family;
    EXPECT_EQ(error->code(), ErrorCode::namespace_mixed);
    EXPECT_EQ(error->check(), "layout.mixed");
    EXPECT_EQ(std::set<std::string>(error->facts().keys.begin(), error->facts().keys.end()),
              std::set<std::string>(row.keys.begin(), row.keys.end()));
  }
}

TEST(Traps, OlderAndOtherSpellingsGiveTheSameNatives) {
  const Family* gemma = find_family("gemma4_moe");
  const ConfigValue config = config_of(gemma->sample);
  const Schema old = describe(config, catalog_of({"model.language_model.layers.0.moe.gate_up_proj"}));
  EXPECT_TRUE(has_stored(old, "model.language_model.layers.0.moe.per_expert_scale"));
  EXPECT_FALSE(has_stored(old, "model.language_model.layers.0.router.per_expert_scale"));
  EXPECT_TRUE(has_native(old, "model.language_model.layers.0.moe.gate.per_expert_scale"));
  expect_exact(old);

  const ConfigValue nemotron = config_of(find_family("nemotron_v3")->sample);
  for (const auto& [prefix, top] : {std::pair<std::string, std::string>{"backbone.", "embeddings.weight"},
                                    {"model.", "embeddings.weight"},
                                    {"model.", "embed_tokens.weight"}}) {
    const Schema schema = describe(nemotron, catalog_of({prefix + "layers.0.norm.weight", prefix + top}));
    EXPECT_TRUE(has_stored(schema, prefix + top)) << prefix << top;
    EXPECT_TRUE(has_native(schema, "model.embed_tokens.weight"));
    EXPECT_TRUE(has_native(schema, "model.norm.weight"));
    expect_exact(schema);
  }
  const ConfigValue qwen = config_of(find_family("qwen3_5_moe")->sample);
  const Schema inner =
      describe(qwen, catalog_of({"model.language_model.layers.0.input_layernorm.weight", "model.lm_head.weight"}));
  EXPECT_TRUE(has_stored(inner, "model.lm_head.weight"));
  EXPECT_TRUE(has_native(inner, "lm_head.weight"));
}

TEST(Traps, AThinkerSavedAloneIsComplete) {
  const ConfigValue whole = config_of(find_family("qwen3_omni_moe")->sample);
  ConfigValue::Object members = {{"model_type", ConfigValue(std::string("qwen3_omni_moe_thinker"))},
                                 {"text_config", *whole.find("thinker_config.text_config")}};
  const ConfigValue thinker{members};
  const Catalog catalog =
      catalog_of({"model.layers.0.input_layernorm.weight", "visual.blocks.0.norm1.weight", "talker.x"});
  EXPECT_TRUE(detect(&thinker, catalog).missing_fields.empty());
  const Schema schema = describe(thinker, catalog);
  EXPECT_TRUE(has_stored(schema, "model.layers.2.mlp.down_proj.weight"));
  EXPECT_TRUE(has_stored(schema, "lm_head.weight"));
  const Coverage coverage = cover(schema, catalog);
  EXPECT_EQ(coverage.passed.at("visual."), 1u);
  EXPECT_EQ(coverage.dropped.at("talker.*"), 1u);
  const Schema nested = describe(whole, Catalog());
  EXPECT_TRUE(has_stored(nested, "thinker.model.layers.2.mlp.down_proj.weight"));
  EXPECT_TRUE(has_stored(nested, "thinker.lm_head.weight"));
  EXPECT_TRUE(has_native(nested, "model.layers.2.mlp.down_proj.weight"));
  EXPECT_EQ(nested.passthroughs()[0].prefix, "thinker.visual.");
  EXPECT_EQ(nested.passthroughs()[0].native_prefix, "visual.");
}

TEST(Traps, FirstLingIsAnotherModel) {
  const ConfigValue config = config_of(R"({"model_type": "bailing_moe", "architectures": ["BailingMoeForCausalLM"]})");
  EXPECT_EQ(detect(&config, Catalog()).family, nullptr);
  const ConfigValue second =
      config_of(R"({"model_type": "bailing_moe", "architectures": ["BailingMoeV2ForCausalLM"]})");
  EXPECT_EQ(detect(&second, Catalog()).family->name, "ling_v2");
  const ConfigValue text4 =
      config_of(R"({"model_type": "mistral3", "architectures": ["Mistral3ForConditionalGeneration"],
      "text_config": {"model_type": "mistral4"}})");
  EXPECT_EQ(detect(&text4, Catalog()).family->name, "mistral4");
  const ConfigValue text3 = config_of(R"({"model_type": "mistral3", "text_config": {"model_type": "ministral3"}})");
  EXPECT_EQ(detect(&text3, Catalog()).family->name, "mistral3_fp8_vlm");
  const ConfigValue dense = config_of(R"({"model_type": "gemma4", "text_config": {"enable_moe_block": false}})");
  EXPECT_EQ(detect(&dense, Catalog()).family, nullptr);
  const ConfigValue older = config_of(R"({"model_type": "minimax", "architectures": ["MiniMaxForCausalLM"]})");
  EXPECT_EQ(detect(&older, Catalog()).family, nullptr);
}

}  // namespace
}  // namespace weightproof::adapters::testing
