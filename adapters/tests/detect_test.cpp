// SPDX-License-Identifier: Apache-2.0
#include "adapters/names.hpp"
#include "adapters/quantization.hpp"
#include "adapters/tests/support.hpp"

namespace weightproof::adapters::testing {
namespace {

TEST(Registry, NamesAreUniqueAndEveryRowIsComplete) {
  std::set<std::string_view> names;
  for (const Family* family : all_families()) {
    EXPECT_TRUE(names.insert(family->name).second) << family->name;
    for (const std::string_view alias : family->aliases) EXPECT_TRUE(names.insert(alias).second) << alias;
    EXPECT_FALSE(family->title.empty()) << family->name;
    EXPECT_FALSE(family->required.empty()) << family->name;
    EXPECT_NE(family->find_form, nullptr) << family->name;
    EXPECT_NE(family->describe, nullptr) << family->name;
    EXPECT_EQ(find_family(family->name), family);
  }
  EXPECT_EQ(find_family("no_such_family"), nullptr);
}

TEST(Detect, ForcedFamilyWinsAndAnUnknownNameListsTheNearest) {
  const ConfigValue config = config_of(R"({"model_type": "llama"})");
  EXPECT_EQ(detect(&config, Catalog(), "qwen3").family->name, "qwen3");
  EXPECT_EQ(detect(&config, Catalog(), "qwen3").evidence, "--family");
  const auto error = error_of([&] { detect(&config, Catalog(), "lama"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::usage);
  EXPECT_NE(error->facts().hint.find("llama"), std::string::npos);
}

TEST(Detect, ArchitectureDecidesWhereTheModelTypeIsUnknownOrAbsent) {
  const ConfigValue absent = config_of(R"({"architectures": ["Qwen3ForCausalLM"]})");
  EXPECT_EQ(detect(&absent, Catalog()).family->name, "qwen3");
  EXPECT_EQ(detect(&absent, Catalog()).evidence, "config.json architectures Qwen3ForCausalLM");
  const ConfigValue unknown = config_of(R"({"model_type": "tiny_test", "architectures": ["TinyForCausalLM"]})");
  const Detection detection = detect(&unknown, catalog_of({"model.layers.0.self_attn.q_norm.weight"}));
  EXPECT_EQ(detection.family, nullptr);
  EXPECT_EQ(detection.evidence, "config.json model_type tiny_test, which no family here describes");
}

TEST(Detect, MissingFieldsAreNamed) {
  const ConfigValue config = config_of(R"({"model_type": "llama", "hidden_size": 4, "vocab_size": null})");
  EXPECT_EQ(detect(&config, Catalog()).missing_fields,
            (std::vector<std::string>{"intermediate_size", "num_attention_heads", "num_hidden_layers", "vocab_size"}));
}

TEST(Detect, KeysAloneShowAFamilyOnlyWhereTheyCan) {
  const Catalog qwen3 = catalog_of({"model.layers.0.self_attn.q_norm.weight", "model.layers.0.mlp.gate_proj.weight",
                                    "model.layers.0.post_attention_layernorm.weight"});
  EXPECT_EQ(detect(nullptr, qwen3).family->name, "qwen3");
  EXPECT_EQ(detect(nullptr, qwen3).evidence, "key patterns");
  EXPECT_FALSE(detect(nullptr, qwen3).missing_fields.empty());
  const Catalog qwen2 = catalog_of({"model.layers.0.self_attn.q_proj.bias", "model.layers.0.mlp.gate_proj.weight"});
  EXPECT_EQ(detect(nullptr, qwen2).family->name, "qwen2");
  const Catalog plain = catalog_of({"model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.gate_proj.weight"});
  EXPECT_EQ(detect(nullptr, plain).family, nullptr);
  EXPECT_EQ(detect(nullptr, catalog_of({"conv.weight"})).family, nullptr);
}

TEST(TieFlag, TheControllingLevelIsTheFirstThatHasTheKey) {
  EXPECT_FALSE(tie_flag(config_of("{}")).value);
  const TieFlag top =
      tie_flag(config_of(R"({"tie_word_embeddings": false, "text_config": {"tie_word_embeddings": true}})"));
  EXPECT_EQ(top.value, false);
  EXPECT_EQ(top.level, "tie_word_embeddings");
  const TieFlag thinker = tie_flag(
      config_of(R"({"thinker_config": {"tie_word_embeddings": true}, "text_config": {"tie_word_embeddings": false}})"));
  EXPECT_EQ(thinker.value, true);
  EXPECT_EQ(thinker.level, "thinker_config.tie_word_embeddings");
  const TieFlag text = tie_flag(config_of(R"({"text_config": {"tie_word_embeddings": true}})"));
  EXPECT_EQ(text.value, true);
  EXPECT_EQ(text.level, "text_config.tie_word_embeddings");
  const auto error = error_of([] { tie_flag(config_of(R"({"tie_word_embeddings": "yes"})")); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::config_invalid);
}

TEST(Names, NamespaceIsAVoteOfTheWholeCatalog) {
  EXPECT_EQ(find_name_space(Catalog(), k_text_name_spaces).prefix, "model.");
  EXPECT_EQ(find_name_space(catalog_of({"layers.0.a.weight", "embed_tokens.weight"}), k_text_name_spaces).prefix, "");
  EXPECT_EQ(
      find_name_space(catalog_of({"model.language_model.layers.0.a.weight", "lm_head.weight"}), k_text_name_spaces)
          .prefix,
      "model.language_model.");
  // A vision tower's layers are no decoder layers, and a prefix is whole segments.
  EXPECT_EQ(
      find_name_space(catalog_of({"vision_tower.layers.0.x", "my_model.layers.0.x", "language_model.model.layers.0.x"}),
                      k_text_name_spaces)
          .prefix,
      "language_model.model.");
}

TEST(Names, TwoNamespacesAtOnceAreAnErrorInEitherOrder) {
  for (const std::vector<std::string>& keys :
       {std::vector<std::string>{"model.layers.0.a.weight", "language_model.model.norm.weight"},
        std::vector<std::string>{"language_model.model.norm.weight", "model.layers.0.a.weight"}}) {
    const Catalog catalog = catalog_of(keys);
    const auto error = error_of([&] { find_name_space(catalog, k_text_name_spaces); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::namespace_mixed);
    EXPECT_EQ(std::set<std::string>(error->facts().keys.begin(), error->facts().keys.end()),
              std::set<std::string>(keys.begin(), keys.end()));
  }
}

TEST(Names, WrapperPrefixesAreFoundAndTheStrippedNameSuggested) {
  EXPECT_EQ(find_wrapper_prefix("model.layers.0.a.weight").prefix, "");
  EXPECT_EQ(find_wrapper_prefix("_orig_mod.model.norm.weight").prefix, "_orig_mod.");
  EXPECT_EQ(find_wrapper_prefix("_orig_mod.model.norm.weight").stripped, "model.norm.weight");
  EXPECT_EQ(find_wrapper_prefix("module._orig_mod.model.norm.weight").stripped, "model.norm.weight");
  EXPECT_EQ(find_wrapper_prefix("base_model.model.model.norm.weight").stripped, "model.norm.weight");
  EXPECT_EQ(find_wrapper_prefix("model.layers.0._orig_mod.a.weight").stripped, "model.layers.0.a.weight");
  EXPECT_EQ(find_wrapper_prefix("model.layers.0._orig_mod.a.weight").prefix, "_orig_mod.");
  EXPECT_EQ(find_wrapper_prefix("my_module.weight").prefix, "");
  EXPECT_EQ(find_wrapper_prefix("module.").prefix, "");
}

TEST(KeyPatterns, NumbersAreTakenOutAndTheDecoderIsTheLargestGroup) {
  const Catalog catalog =
      catalog_of({"model.layers.0.mlp.experts.0.up_proj.weight", "model.layers.11.mlp.experts.7.up_proj.weight",
                  "model.layers.2.norm.weight", "vision.layers.40.norm.weight", "lm_head.weight"});
  const KeyPatterns patterns(catalog);
  EXPECT_EQ(patterns.layer_prefix(), "model.");
  EXPECT_EQ(patterns.layer_count(), 12u);
  EXPECT_EQ(patterns.expert_count(), 8u);
  EXPECT_TRUE(patterns.has_layer_key("mlp.experts.#.up_proj.weight"));
  EXPECT_TRUE(patterns.has_key("vision.layers.#.norm.weight"));
  EXPECT_FALSE(patterns.has_layer_key("self_attn.q_proj.weight"));
}

TEST(Quantization, EveryMethodOfAConfigIsNamed) {
  struct Row {
    const char* config;
    const char* scheme;
  };
  for (
      const Row& row : {
          Row{R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})", "fp8_block"},
          Row{R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": null}})", "fp8_tensor"},
          Row{R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [1, 32]}})", "mxfp8"},
          Row{R"({"quantization_config": {"quant_method": "mxfp4"}})", "mxfp4"},
          Row{R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})", "gptq"},
          Row{R"({"quantization_config": {"quant_method": "awq", "bits": 4}})", "awq"},
          Row{R"({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4"}})",
              "nf4"},
          Row{R"({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "fp4"}})",
              "fp4"},
          Row{R"({"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": true}})", "bnb_int8"},
          Row{R"({"text_config": {"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized"}}})",
              "compressed_tensors.pack-quantized"},
          Row{R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}})", "modelopt.NVFP4"},
          Row{R"({"quantization_config": {"quant_method": "torchao"}})", "torchao"},
          Row{R"({"quantization_config": {"quant_method": "hqq"}})", "unknown.hqq"},
          Row{R"({"quantization": {"bits": 4, "group_size": 64}})", "mlx_affine"},
          Row{R"({"quantization_config": null})", ""},
      }) {
    const ConfigValue config = config_of(row.config);
    EXPECT_EQ(recognise_quantization(&config, Catalog()), row.scheme) << row.config;
  }
}

TEST(Quantization, CompanionsAloneAreEnough) {
  struct Row {
    std::vector<std::string> keys;
    const char* scheme;
  };
  for (const Row& row : {
           Row{{"a.weight", "a.scales", "a.biases"}, "mlx_affine"},
           Row{{"a.weight", "a.bias"}, ""},
           Row{{"a.weight", "a.weight.absmax", "a.weight.quant_map", "a.weight.quant_state.bitsandbytes__nf4"}, "nf4"},
           Row{{"a.weight", "a.weight.absmax", "a.weight.quant_map", "a.weight.quant_state.bitsandbytes__fp4"}, "fp4"},
           Row{{"a.weight", "a.SCB", "a.weight_format"}, "bnb_int8"},
           Row{{"a.qweight", "a.qzeros", "a.scales", "a.g_idx"}, "gptq"},
           Row{{"a.qweight", "a.qzeros", "a.scales"}, "awq"},
           Row{{"a.weight_packed", "a.weight_scale", "a.weight_shape"}, "compressed_tensors.unstated"},
           Row{{"a.experts.gate_up_proj_blocks", "a.experts.gate_up_proj_scales"}, "mxfp4"},
           Row{{"a.weight", "a.weight_scale_inv"}, "fp8_block"},
           Row{{"a.weight", "a.weight_scale", "a.weight_scale_2"}, "nvfp4"},
           Row{{"a.weight", "a.weight_scale"}, "fp8_channel"},
           Row{{"a.weight", "a.scale"}, "fp4_e8m0"},
           Row{{"router.proj.weight", "router.scale"}, ""},
       }) {
    EXPECT_EQ(recognise_quantization(nullptr, catalog_of(row.keys)), row.scheme) << row.keys.back();
  }
}

TEST(Quantization, CompanionsPointAtTheirWeight) {
  EXPECT_EQ(companion_of("m.q_proj.weight").role, "");
  EXPECT_EQ(companion_of("m.q_proj.bias").role, "");
  EXPECT_EQ(companion_of("m.q_proj.biases").weight, "m.q_proj.weight");
  EXPECT_EQ(companion_of("m.q_proj.weight_scale_inv").weight, "m.q_proj.weight");
  EXPECT_EQ(companion_of("m.q_proj.weight.quant_state.bitsandbytes__nf4").weight, "m.q_proj.weight");
  EXPECT_EQ(companion_of("m.experts.gate_up_proj_scales").weight, "m.experts.gate_up_proj");
  EXPECT_EQ(companion_of("m.experts.gate_up_proj_activation_scale").weight, "m.experts.gate_up_proj");
  EXPECT_EQ(companion_of("m.experts.gate_up_proj_activation_scale").role, "activation_scale");
}

}  // namespace
}  // namespace weightproof::adapters::testing
