// SPDX-License-Identifier: Apache-2.0
// The known mistakes about names, layers and shapes, each with its literal values in a file: what a load holds, what
// `verify` says, and that what a plausible mistake gives is refused under the tensor's name.
#include "suites/tests/literal_testing.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;
using Names = std::vector<std::string>;

// ---- namespaces ----

TEST(TrapValues, T16_TheNamespaceDoesNotHangOnTheLastKey) {
  const std::string config = R"({"model_type": "ernie4_5_moe", "hidden_size": 2, "num_hidden_layers": 1,
      "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 2, "intermediate_size": 2,
      "moe_intermediate_size": 2, "moe_num_experts": 1, "moe_layer_start_index": 0, "vocab_size": 2})";
  const std::string gate = k_experts + "0.gate_proj.weight";
  for (const bool is_head_last : {false, true}) {
    const TemporaryDirectory directory;
    Literal model(config);
    model.more("lm_head.weight", "BF16", {2, 2}, {1, 2, 3, 4}).set("model.embed_tokens.weight", {1, 2, 3, 4});
    const auto path = (is_head_last ? model.reversed() : model).write(directory);
    const Names names = stored_names(path);
    EXPECT_EQ(names.back() == "lm_head.weight", is_head_last);
    const reports::Report report = judged(path);
    EXPECT_EQ(record_of(report, "keys.missing").status, Status::pass);
    EXPECT_EQ(record_of(report, "keys.unexpected").status, Status::pass);
    EXPECT_NE(report.checkpoint.form.find("names under 'model.'"), std::string::npos) << report.checkpoint.form;
    EXPECT_EQ(record_of(report, "value.exact").status, Status::pass);
    const Names back = exported_names(path, directory);
    EXPECT_TRUE(contains(back, gate));
    EXPECT_FALSE(contains(back, "layers.0.mlp.experts.0.gate_proj.weight"));  // no prefix, as the last key has none
    expect_caught(path, "lost_stored_prefix");
  }
}

TEST(TrapValues, T27_NestedNamespacesLoseExactlyOneLevel) {
  const std::string config = R"({"model_type": "mistral3", "tie_word_embeddings": false, "text_config": {
      "model_type": "ministral3", "hidden_size": 2, "num_hidden_layers": 1, "num_attention_heads": 1,
      "num_key_value_heads": 1, "head_dim": 2, "vocab_size": 2, "intermediate_size": 2}})";
  const std::string norm = "language_model.model.layers.0.input_layernorm.weight";
  const std::string native = "model.language_model.layers.0.input_layernorm.weight";
  const std::string doubled = "model.language_model.model.layers.0.input_layernorm.weight";
  const TemporaryDirectory directory;
  const auto path =
      Literal(config).set(norm, {1, 2}).set("language_model.lm_head.weight", {3, 4, 5, 6}).write(directory);
  EXPECT_EQ(loaded(path, native), (Numbers{1, 2}));
  EXPECT_EQ(loaded(path, "lm_head.weight"), (Numbers{3, 4, 5, 6}));
  EXPECT_FALSE(has_native(path, doubled));
  EXPECT_EQ(record_of(judged(path), "value.roundtrip").status, Status::pass);
  const Names back = exported_names(path, directory);
  EXPECT_TRUE(contains(back, norm));
  EXPECT_TRUE(contains(back, "language_model.lm_head.weight"));
  EXPECT_FALSE(contains(back, native));
  expect_caught(path, "two levels natively", named(native, doubled));
}

TEST(TrapValues, T28_WholeSegmentsAreCompared) {
  // "language_model.norm.weight" ends with "model.norm.weight" by accident.
  const std::string config = std::string(R"({"model_type": "llama", )") + k_small_sizes + "}";
  const std::string accident = "language_model.norm.weight";
  const TemporaryDirectory beside;
  const auto path = Literal(config).set("model.norm.weight", {1, 2}).more(accident, "BF16", {2}, {9, 9}).write(beside);
  const reports::CheckRecord unexpected = record_of(judged(path), "keys.unexpected");
  EXPECT_EQ(unexpected.status, Status::fail);
  EXPECT_EQ(unexpected.subjects, Names{accident});
  const TemporaryDirectory alone;
  const auto lost = Literal(config).without("model.norm.weight").more(accident, "BF16", {2}, {9, 9}).write(alone);
  EXPECT_EQ(record_of(judged(lost), "keys.missing").subjects, Names{"model.norm.weight"});
  EXPECT_THROW(LoadedModel{lost}, Error);  // never filled from the other
  // A tower's prefix is no prefix of another name.
  const TemporaryDirectory towers;
  const auto tower = Literal(gemma_config())
                         .more("model.vision_tower.x", "BF16", {2}, {1, 2})
                         .more("model.vision_tower2.x", "BF16", {2}, {3, 4})
                         .write(towers);
  const reports::CheckRecord second = record_of(judged(tower), "keys.unexpected");
  EXPECT_EQ(second.status, Status::fail);
  EXPECT_EQ(second.subjects, Names{"model.vision_tower2.x"});
}

// ---- renames ----

TEST(TrapValues, T17_RenamesAreWholeNames) {
  const std::string layer = "model.layers.0.";
  const TemporaryDirectory directory;
  const auto path = Literal(qwen_next_config(false))
                        .set(layer + "mlp.shared_expert.up_proj.weight", {1, 2})
                        .set(layer + "mlp.shared_expert_gate.weight", {3})
                        .set(layer + "mlp.gate.weight", {4})
                        .set(k_experts + "0.gate_proj.weight", {5})
                        .write(directory);
  EXPECT_EQ(loaded(path, layer + "mlp.shared_experts.up_proj.weight"), (Numbers{1, 2}));
  EXPECT_EQ(loaded(path, layer + "mlp.shared_expert_gate.weight"), Numbers{3});
  EXPECT_EQ(loaded(path, layer + "mlp.gate.weight"), Numbers{4});
  EXPECT_EQ(loaded(path, k_experts + "gate_and_up_projs"), (Numbers{5, 0}));
  for (const char* wrong :
       {"mlp.shared_experts_gate.weight", "mlp.shared_expert.up_proj.weight", "mlp.shared_expertss.up_proj.weight"}) {
    EXPECT_FALSE(has_native(path, layer + wrong)) << wrong;
  }
  const reports::Report report = judged(path);
  EXPECT_EQ(record_of(report, "keys.rename").status, Status::pass) << record_of(report, "keys.rename").message;
  EXPECT_EQ(record_of(report, "value.roundtrip").status, Status::pass);
  const Names back = exported_names(path, directory);
  EXPECT_TRUE(contains(back, layer + "mlp.shared_expert.up_proj.weight"));
  EXPECT_TRUE(contains(back, layer + "mlp.shared_expert_gate.weight"));
  expect_caught(path, "the gate renamed with the experts",
                named(layer + "mlp.shared_expert_gate.weight", layer + "mlp.shared_experts_gate.weight"));
  expect_caught(path, "renamed twice",
                named(layer + "mlp.shared_experts.up_proj.weight", layer + "mlp.shared_expertss.up_proj.weight"));
}

TEST(TrapValues, T19_TheLeafDAndNoOther) {
  const std::string config = R"({"model_type": "nemotron_h", "hidden_size": 2, "num_hidden_layers": 1,
      "hybrid_override_pattern": "M", "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 2,
      "vocab_size": 2, "mamba_num_heads": 1, "mamba_head_dim": 2, "ssm_state_size": 2, "n_groups": 1, "conv_kernel": 2})";
  const std::string mixer = "backbone.layers.0.mixer.";
  const std::string native = "model.layers.0.mixer.";
  const TemporaryDirectory directory;
  const auto path = Literal(config).set(mixer + "D", {7}, "F32").write(directory);
  EXPECT_EQ(loaded(path, native + "_fp32_params.D"), Numbers{7});
  EXPECT_TRUE(has_native(path, native + "in_proj.weight"));
  EXPECT_FALSE(has_native(path, native + "D"));
  EXPECT_FALSE(has_native(path, native + "_fp32_params.in_proj.weight"));
  EXPECT_TRUE(contains(exported_names(path, directory), mixer + "D"));
  expect_caught(path, "without the holder", named(native + "_fp32_params.D", native + "D"));
  // A longer name that ends with the same letter is nobody's, and stays what it is.
  const TemporaryDirectory others;
  const auto other = Literal(config).more(mixer + "ABCD", "F32", {1}, {8}).write(others);
  const reports::CheckRecord unexpected = record_of(judged(other), "keys.unexpected");
  EXPECT_EQ(unexpected.status, Status::fail);
  EXPECT_EQ(unexpected.subjects, Names{mixer + "ABCD"});
}

TEST(TrapValues, T40_SuffixesDoNotCatchOneAnother) {
  const std::string config = R"({"model_type": "gpt_oss", "hidden_size": 32, "intermediate_size": 32,
      "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 1, "num_local_experts": 1,
      "vocab_size": 2, "quantization_config": {"quant_method": "mxfp4"}})";
  Numbers bias(64, 0);
  bias[0] = 3;
  const TemporaryDirectory directory;
  const auto path = Literal(config)
                        .codes(k_experts + "gate_up_proj_blocks", {0x12})
                        .set(k_experts + "gate_up_proj_bias", bias)
                        .set(k_experts + "down_proj_bias", Numbers(32, 5))
                        .write(directory);
  EXPECT_EQ(loaded(path, k_experts + "gate_up_proj_bias"), bias);
  EXPECT_EQ(loaded(path, k_experts + "down_proj_bias"), Numbers(32, 5));
  const Numbers decoded = loaded(path, k_experts + "gate_and_up_projs");
  EXPECT_EQ((Numbers{decoded[0], decoded[64]}), (Numbers{1, 0.5}));
  EXPECT_NE(decoded[0], 3);  // the bias taken for the matrix
  for (const char* part : {"down_proj_scales", "down_proj_blocks", "gate_up_proj_scales"}) {
    EXPECT_FALSE(has_native(path, k_experts + part)) << part;
  }
  const reports::Report report = judged(path);
  EXPECT_EQ(record_of(report, "value.exact").status, Status::pass);
  EXPECT_EQ(record_of(report, "quant.companion").status, Status::pass);
  // Scales that are lost are missed: neither the bias nor the codes stand in for them.
  const TemporaryDirectory lost;
  const reports::Report broken = judged(Literal(config).without(k_experts + "down_proj_scales").write(lost));
  const reports::CheckRecord& missing = record_of(broken, "quant.scale_missing");
  EXPECT_EQ(missing.status, Status::fail);
  EXPECT_TRUE(names(missing, k_experts + "down_proj") || names(missing, k_experts + "down_proj_blocks"))
      << missing.message;
  EXPECT_FALSE(names(missing, k_experts + "down_proj_bias"));
}

// ---- layers ----

std::string glm_config(unsigned layers) {
  return R"({"model_type": "glm4_moe", "hidden_size": 2, "num_hidden_layers": )" + std::to_string(layers) +
         R"(, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 2, "intermediate_size": 2, "vocab_size": 2,
      "tie_word_embeddings": false, "n_routed_experts": 2, "n_shared_experts": 1, "moe_intermediate_size": 2,
      "first_k_dense_replace": )" +
         std::to_string(layers) + "}";
}

TEST(TrapValues, T20_LayersAreNumbers) {
  const TemporaryDirectory directory;
  const auto path = Literal(glm_config(10))
                        .set("model.layers.1.input_layernorm.weight", {1, 2})
                        .more("model.layers.10.input_layernorm.weight", "BF16", {2}, {9, 9})
                        .more("model.layers.10.eh_proj.weight", "BF16", {2, 4}, Numbers(8, 9))
                        .write(directory);
  EXPECT_EQ(loaded(path, "model.layers.1.input_layernorm.weight"), (Numbers{1, 2}));
  const reports::Report report = judged(path);
  const reports::CheckRecord& dropped = record_of(report, "keys.dropped");
  EXPECT_EQ(dropped.subjects, (Names{"model.layers.10.eh_proj.weight", "model.layers.10.input_layernorm.weight"}));
  EXPECT_EQ(record_of(report, "keys.unexpected").status, Status::pass);
  EXPECT_EQ(record_of(report, "io.ledger").status, Status::pass);
  // A comparison of text takes layer 1 for the one beyond the model.
  expect_caught(path, "layer 1 dropped with layer 10", [](SchemaDraft& draft, const ConfigValue&, Names& blamed) {
    for (SchemaDraft::Native& row : draft.natives) {
      if (row.layer == 1) {
        row.is_gone = true;
        blamed.push_back(row.key);
      }
    }
    for (SchemaDraft::Stored& row : draft.stored) {
      row.is_gone = row.is_gone || row.layer == 1;
    }
    return !blamed.empty();
  });
  const TemporaryDirectory lost;
  const auto without = Literal(glm_config(10))
                           .without("model.layers.1.input_layernorm.weight")
                           .more("model.layers.10.input_layernorm.weight", "BF16", {2}, {9, 9})
                           .write(lost);
  EXPECT_EQ(record_of(judged(without), "keys.missing").subjects, Names{"model.layers.1.input_layernorm.weight"});
}

TEST(TrapValues, T35_TheTwinOfAPredictionLayerIsNotTheEmbedding) {
  const std::string embedding = "model.embed_tokens.weight";
  const std::string twin = "model.layers.46.embed_tokens.weight";
  const TemporaryDirectory directory;
  const auto path =
      Literal(glm_config(46)).set(embedding, {1, 2, 3, 4}).more(twin, "BF16", {2, 2}, {9, 9, 9, 9}).write(directory);
  EXPECT_EQ(loaded(path, embedding), (Numbers{1, 2, 3, 4}));
  EXPECT_NE(loaded(path, embedding), (Numbers{9, 9, 9, 9}));
  EXPECT_FALSE(has_native(path, twin));
  EXPECT_EQ(record_of(judged(path), "keys.dropped").subjects, Names{twin});
  const TemporaryDirectory lost;
  const auto headless = Literal(glm_config(46)).without(embedding).more(twin, "BF16", {2, 2}, {9, 9, 9, 9}).write(lost);
  EXPECT_EQ(record_of(judged(headless), "keys.missing").subjects, Names{embedding});
  EXPECT_THROW(LoadedModel{headless}, Error);
  // Nor is it what a head is tied to.
  const std::string tied = R"({"model_type": "llama", "hidden_size": 2, "num_hidden_layers": 1,
      "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 2, "intermediate_size": 2, "vocab_size": 2,
      "tie_word_embeddings": true})";
  const TemporaryDirectory sources;
  const auto source = Literal(tied)
                          .without(embedding)
                          .more("model.layers.1.embed_tokens.weight", "BF16", {2, 2}, {9, 9, 9, 9})
                          .write(sources);
  EXPECT_EQ(record_of(judged(source), "tied.head_missing").status, Status::fail);
  EXPECT_THROW(LoadedModel{source}, Error);
}

TEST(TrapValues, T33_ListsThatCountFromOne) {
  const auto config = [](const std::string& delta, const std::string& full) {
    return R"({"model_type": "kimi_linear", "hidden_size": 2, "num_hidden_layers": 4, "num_attention_heads": 1,
        "vocab_size": 2, "intermediate_size": 2, "num_experts": 1, "moe_intermediate_size": 2,
        "first_k_dense_replace": 4, "linear_attn_config": {"kda_layers": )" +
           delta + ", \"full_attn_layers\": " + full +
           R"(, "num_heads": 1, "head_dim": 2, "short_conv_kernel_size": 2}, "q_lora_rank": null, "kv_lora_rank": 2,
        "qk_nope_head_dim": 2, "qk_rope_head_dim": 2, "v_head_dim": 2})";
  };
  const std::string stated = config("[1, 2, 3]", "[4]");
  const TemporaryDirectory directory;
  const auto path = Literal(stated).set("model.layers.2.self_attn.A_log", {2}, "F32").write(directory);
  for (const char* layer : {"0", "1", "2"}) {
    EXPECT_TRUE(has_native(path, std::string("model.layers.") + layer + ".self_attn._fp32_params.A_log")) << layer;
  }
  EXPECT_FALSE(has_native(path, "model.layers.3.self_attn._fp32_params.A_log"));
  EXPECT_TRUE(has_native(path, "model.layers.3.self_attn.kv_b_proj.weight"));
  EXPECT_EQ(loaded(path, "model.layers.2.self_attn._fp32_params.A_log"), Numbers{2});
  EXPECT_EQ(record_of(judged(path), "keys.missing").status, Status::pass);
  // The file of somebody who counts from zero: layers 1 to 3 are delta attention, layer 0 is full.
  const TemporaryDirectory wrong;
  const auto shifted = Literal(config("[2, 3, 4]", "[1]")).with_config(stated).write(wrong);
  const reports::Report report = judged(shifted);
  EXPECT_TRUE(names(record_of(report, "keys.missing"), "model.layers.3.self_attn.kv_b_proj.weight"));
  EXPECT_TRUE(names(record_of(report, "keys.missing"), "model.layers.0.self_attn.A_log"));
  EXPECT_TRUE(names(record_of(report, "keys.unexpected"), "model.layers.3.self_attn.A_log"));
}

// Heads of full layers are wider and fewer, and their keys are their values.
TEST(TrapValues, T43_LayersOfOneModelDifferInShape) {
  const std::string config =
      gemma_config(R"("num_hidden_layers": 6, "num_attention_heads": 16, "num_key_value_heads": 8,
      "head_dim": 256, "global_head_dim": 512, "num_global_key_value_heads": 2, "layer_types": ["sliding_attention",
      "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"])");
  const std::string layers = "model.language_model.layers.";
  const Literal sound(config);
  const auto shape_of = [&](const std::string& key) {
    const StoredId id = sound.schema().find_stored(layers + key);
    return id == k_no_id ? Shape{} : sound.schema().shape_of(sound.schema().stored_tensors()[id]);
  };
  EXPECT_EQ(shape_of("5.self_attn.q_proj.weight"), (Shape{16 * 512, 2}));
  EXPECT_EQ(shape_of("5.self_attn.k_proj.weight"), (Shape{2 * 512, 2}));
  EXPECT_EQ(shape_of("5.self_attn.v_proj.weight"), Shape{});  // none
  EXPECT_EQ(shape_of("4.self_attn.q_proj.weight"), (Shape{16 * 256, 2}));
  EXPECT_EQ(shape_of("4.self_attn.k_proj.weight"), (Shape{8 * 256, 2}));
  EXPECT_EQ(shape_of("4.self_attn.v_proj.weight"), (Shape{8 * 256, 2}));
  const TemporaryDirectory directory;
  const reports::Report report = judged(sound.write(directory));
  for (const char* id : {"keys.missing", "keys.unexpected", "keys.shape", "value.exact"}) {
    EXPECT_EQ(record_of(report, id).status, Status::pass) << id;
  }
  // A generator with one shape for all layers fails on layer 5.
  const TemporaryDirectory uniform;
  const auto path = Literal(config)
                        .more(layers + "5.self_attn.q_proj.weight", "BF16", {16 * 256, 2}, Numbers(16 * 256 * 2, 0))
                        .more(layers + "5.self_attn.k_proj.weight", "BF16", {8 * 256, 2}, Numbers(8 * 256 * 2, 0))
                        .more(layers + "5.self_attn.v_proj.weight", "BF16", {8 * 256, 2}, Numbers(8 * 256 * 2, 0))
                        .write(uniform);
  const reports::Report wrong = judged(path);
  const reports::CheckRecord& shape = record_of(wrong, "keys.shape");
  EXPECT_EQ(shape.status, Status::fail);
  EXPECT_EQ(shape.subjects, (Names{layers + "5.self_attn.k_proj.weight", layers + "5.self_attn.q_proj.weight"}));
  EXPECT_EQ(record_of(wrong, "keys.unexpected").subjects, Names{layers + "5.self_attn.v_proj.weight"});
}

}  // namespace
}  // namespace weightproof::suites::test
