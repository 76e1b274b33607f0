// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "adapters/tests/support.hpp"

namespace weightproof::adapters::testing {
namespace {

constexpr const char* k_tiny = R"("hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 5, "vocab_size": 11)";

ConfigValue tiny(const std::string& model_type, const std::string& more = {}) {
  return config_of("{\"model_type\": \"" + model_type + "\", " + k_tiny + (more.empty() ? "" : ", " + more) + "}");
}

std::size_t count_of(const Schema& schema) {
  std::size_t count = 0;
  for (const LogicalTensor& tensor : schema.stored_tensors()) count += tensor.is_optional ? 0 : 1;
  return count;
}

TEST(Dense, BiasesAndNormsFollowTheFamilyAndTheConfig) {
  struct Row {
    const char* model_type;
    const char* more;
    std::size_t tensors;  // without the tied head
  };
  // 2 layers: 9 tensors each; embedding, final norm, head.
  for (const Row& row : {
           Row{"llama", R"("tie_word_embeddings": false)", 21},
           Row{"llama", R"("tie_word_embeddings": true)", 20},
           Row{"llama", R"("tie_word_embeddings": false, "attention_bias": true)", 29},
           Row{"llama", R"("tie_word_embeddings": false, "mlp_bias": true)", 27},
           Row{"qwen2", R"("tie_word_embeddings": false)", 27},
           Row{"qwen3", R"("tie_word_embeddings": false)", 25},
           Row{"qwen3", R"("tie_word_embeddings": false, "attention_bias": true)", 33},
           Row{"mistral", R"("tie_word_embeddings": false)", 21},
           Row{"smollm3", "", 20},
           Row{"gemma", "", 20},
       }) {
    const Schema schema = describe(tiny(row.model_type, row.more), Catalog());
    EXPECT_EQ(count_of(schema), row.tensors) << row.model_type << " " << row.more;
    expect_exact(schema);
  }
  const Schema qwen2 = describe(tiny("qwen2", R"("tie_word_embeddings": false)"), Catalog());
  EXPECT_NE(qwen2.find_stored("model.layers.1.self_attn.v_proj.bias"), k_no_id);
  EXPECT_EQ(qwen2.find_stored("model.layers.1.self_attn.o_proj.bias"), k_no_id);
}

TEST(Dense, ShapesFollowHeadsAndTheirDefaults) {
  const Schema schema = describe(tiny("llama", R"("tie_word_embeddings": false)"), Catalog());
  const auto shape = [&](std::string_view key) {
    return schema.shape_of(schema.stored_tensors()[schema.find_stored(key)]);
  };
  EXPECT_EQ(shape("model.layers.0.self_attn.q_proj.weight"), (Shape{8, 6}));
  EXPECT_EQ(shape("model.layers.0.self_attn.k_proj.weight"), (Shape{4, 6}));
  EXPECT_EQ(shape("model.layers.1.self_attn.o_proj.weight"), (Shape{6, 8}));
  EXPECT_EQ(shape("model.layers.1.mlp.down_proj.weight"), (Shape{6, 5}));
  EXPECT_EQ(schema.stored_tensors()[schema.find_stored("model.layers.1.mlp.down_proj.weight")].layer, 1u);
  EXPECT_EQ(schema.stored_tensors()[schema.find_stored("model.norm.weight")].layer, k_no_layer);

  const ConfigValue defaults = config_of(R"({"model_type": "llama", "hidden_size": 6, "num_hidden_layers": 1,
      "num_attention_heads": 2, "intermediate_size": 5, "vocab_size": 11})");
  const Schema by_default = describe(defaults, Catalog());
  EXPECT_EQ(by_default.shape_of(
                by_default.stored_tensors()[by_default.find_stored("model.layers.0.self_attn.k_proj.weight")]),
            (Shape{6, 6}));
}

TEST(Dense, BareTowerAndCompositeNamesHaveTheSameNatives) {
  const std::string layer = "layers.0.input_layernorm.weight";
  const ConfigValue config = tiny("llama", R"("tie_word_embeddings": false)");
  for (const auto& [prefix, head] : {std::pair<std::string, std::string>{"", "lm_head.weight"},
                                     {"model.", "lm_head.weight"},
                                     {"model.language_model.", "lm_head.weight"},
                                     {"language_model.model.", "language_model.lm_head.weight"}}) {
    const Schema schema = describe(config, catalog_of({prefix + layer}));
    EXPECT_NE(schema.find_stored(prefix + layer), k_no_id) << prefix;
    EXPECT_NE(schema.find_stored(prefix + "norm.weight"), k_no_id) << prefix;
    EXPECT_NE(schema.find_stored(head), k_no_id) << prefix;
    EXPECT_NE(schema.find_native("model.layers.0.input_layernorm.weight"), k_no_id) << prefix;
    EXPECT_NE(schema.find_native("lm_head.weight"), k_no_id) << prefix;
  }
}

TEST(Ties, ATiedHeadIsAnAliasThatMayBeAbsent) {
  const Schema schema = describe(tiny("llama", R"("tie_word_embeddings": true)"), Catalog());
  const StoredId head = schema.find_stored("lm_head.weight");
  ASSERT_NE(head, k_no_id);
  EXPECT_TRUE(schema.stored_tensors()[head].is_optional);
  EXPECT_EQ(schema.find_native("lm_head.weight"), k_no_id);
  ASSERT_EQ(schema.ties().size(), 1u);
  EXPECT_EQ(schema.ties()[0].stored_alias, "lm_head.weight");
  EXPECT_EQ(schema.stored_tensors()[schema.ties()[0].stored_source].key, "model.embed_tokens.weight");
}

TEST(Ties, AnAbsentFlagIsResolvedByRuleAndRecorded) {
  const auto defaulted = [](const Schema& schema) {
    return schema.defaulted().empty() ? std::string() : schema.defaulted().front();
  };
  EXPECT_EQ(defaulted(describe(tiny("llama"), Catalog())), "tie_word_embeddings: false by the family's default");
  EXPECT_EQ(defaulted(describe(tiny("gemma"), Catalog())), "tie_word_embeddings: true by the family's default");
  EXPECT_EQ(defaulted(describe(tiny("smollm3"), Catalog())), "tie_word_embeddings: true by the family's default");
  const Catalog with_head = catalog_of({"model.norm.weight", "lm_head.weight"});
  const Catalog without_head = catalog_of({"model.norm.weight"});
  EXPECT_EQ(defaulted(describe(tiny("qwen2"), with_head)),
            "tie_word_embeddings: false by the presence of the stored head");
  EXPECT_EQ(defaulted(describe(tiny("qwen2"), without_head)),
            "tie_word_embeddings: true by the presence of the stored head");
  EXPECT_EQ(defaulted(describe(tiny("qwen2", R"("tie_word_embeddings": true)"), with_head)), "");
  // An untied model without its head lacks a key: the embedding is never taken instead.
  EXPECT_EQ(
      cover(describe(tiny("llama", R"("tie_word_embeddings": false)"), without_head), without_head).missing.back(),
      "model.layers.1.mlp.down_proj.weight");
  const Coverage coverage =
      cover(describe(tiny("llama", R"("tie_word_embeddings": false)"), without_head), without_head);
  EXPECT_EQ(std::count(coverage.missing.begin(), coverage.missing.end(), "lm_head.weight"), 1);
}

TEST(Configs, ValuesThatCannotDescribeAModelAreErrors) {
  for (const char* more : {R"("num_hidden_layers": -1)", R"("num_hidden_layers": 1.5)", R"("num_hidden_layers": "2")",
                           R"("num_hidden_layers": 4294967296)", R"("attention_bias": 1)", R"("vocab_size": true)"}) {
    const std::string name = std::string(more).substr(1, std::string(more).find('"', 1) - 1);
    std::string text = "{\"model_type\": \"llama\"";
    for (const char* field :
         {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"}) {
      if (name != field) text += ", \"" + std::string(field) + "\": 2";
    }
    text += std::string(", ") + more + "}";
    const auto error = error_of([&] { describe(config_of(text), Catalog()); });
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->code(), ErrorCode::config_invalid) << text;
    EXPECT_NE(std::string(error->what()).find(name), std::string::npos) << error->what();
  }
  const auto heads = error_of([] {
    describe(config_of(R"({"model_type": "llama", "hidden_size": 7, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 5, "vocab_size": 11})"),
             Catalog());
  });
  ASSERT_TRUE(heads);
  EXPECT_EQ(heads->code(), ErrorCode::config_invalid);
  const auto layers = error_of([] {
    describe(
        config_of(R"({"model_type": "llama", "hidden_size": 2, "num_hidden_layers": 200000000, "num_attention_heads": 2,
        "intermediate_size": 5, "vocab_size": 11})"),
        Catalog());
  });
  ASSERT_TRUE(layers);
  EXPECT_EQ(layers->code(), ErrorCode::limit_exceeded);
}

TEST(Configs, NoConfigMakesADescriptionGrowWithoutBound) {
  for (const ExpertStorage storage : {ExpertStorage::grouped, ExpertStorage::te, ExpertStorage::mok}) {
    for (const char* family : {"qwen3_moe", "qwen3_5_moe", "deepseek_v4", "gpt_oss", "step3p5"}) {
      std::string text(find_family(family)->sample);
      for (const char* field :
           {"\"num_experts\":", "\"n_routed_experts\":", "\"num_local_experts\":", "\"moe_num_experts\":"}) {
        const std::size_t at = text.find(field);
        if (at != std::string::npos) text.insert(text.find_first_of("0123456789", at), "26843545");
      }
      const auto error = error_of([&] { describe(config_of(text), Catalog(), family, storage); });
      ASSERT_TRUE(error) << family;
      EXPECT_EQ(error->code(), ErrorCode::limit_exceeded) << error->what();
    }
  }
}

TEST(Drops, BuffersOfOldFilesAreKnown) {
  std::vector<std::string> keys = {"model.layers.0.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq",
                                   "model.layers.0.mlp._extra_state"};
  const Catalog catalog = catalog_of(keys);
  const Coverage coverage = cover(describe(tiny("llama"), catalog), catalog);
  EXPECT_TRUE(coverage.unexpected.empty());
  EXPECT_EQ(coverage.dropped.at("*.rotary_emb.inv_freq"), 2u);
  EXPECT_EQ(coverage.dropped.at("*_extra_state"), 1u);
}

}  // namespace
}  // namespace weightproof::adapters::testing
