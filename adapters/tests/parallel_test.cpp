// SPDX-License-Identifier: Apache-2.0
// How families say their tensors are cut: rules as literals, and that no matrix of a block was forgotten.
#include "adapters/parallel.hpp"

#include <set>

#include "adapters/tests/support.hpp"

namespace weightproof::adapters::testing {
namespace {

Schema sample_of(std::string_view name, ExpertStorage storage = ExpertStorage::grouped) {
  const Family& family = *find_family(name);
  const ConfigValue config = config_of(family.sample);
  return family.describe(config, family.find_form(config, Catalog()), storage);
}

const ParallelRule& rule_of(const Schema& schema, std::string_view key) {
  const NativeId id = schema.find_native(key);
  EXPECT_NE(id, k_no_id) << key;
  return schema.parallel_rule(schema.native_tensors()[id]);
}

TEST(Parallel, DenseBlocks) {
  // Four query heads of 3 rows, two key heads, ten rows of MLP.
  const Schema schema = sample_of("qwen2");
  const std::string layer = "model.layers.1.";
  EXPECT_EQ(rule_of(schema, layer + "self_attn.q_proj.weight"), columns(4, 3));
  EXPECT_EQ(rule_of(schema, layer + "self_attn.q_proj.bias"), columns(4, 3)) << "a bias goes with its rows";
  EXPECT_EQ(rule_of(schema, layer + "self_attn.k_proj.weight"), kv_columns(2, 3));
  EXPECT_EQ(rule_of(schema, layer + "self_attn.v_proj.bias"), kv_columns(2, 3));
  EXPECT_EQ(rule_of(schema, layer + "self_attn.o_proj.weight"), rows(4, 3));
  EXPECT_EQ(rule_of(schema, layer + "mlp.up_proj.weight"), columns(10));
  EXPECT_EQ(rule_of(schema, layer + "mlp.down_proj.weight"), rows(10));
  EXPECT_EQ(rule_of(schema, layer + "input_layernorm.weight"), ParallelRule{});
  EXPECT_EQ(rule_of(schema, "model.norm.weight"), ParallelRule{});
}

TEST(Parallel, VocabularyStandsOnTheStagesThatUseIt) {
  const Family& llama = *find_family("llama");
  const ConfigValue config = config_of(llama.sample);
  Form form = llama.find_form(config, Catalog());
  form.is_tied = false;
  const Schema apart = llama.describe(config, form, ExpertStorage::grouped);
  EXPECT_EQ(rule_of(apart, "model.embed_tokens.weight"), vocabulary(StageRule::first));
  EXPECT_EQ(rule_of(apart, "lm_head.weight"), vocabulary(StageRule::last));
  form.is_tied = true;
  EXPECT_EQ(rule_of(llama.describe(config, form, ExpertStorage::grouped), "model.embed_tokens.weight"),
            vocabulary(StageRule::both));
}

TEST(Parallel, FusedProjectionsAreCutByComponent) {
  const FusedComponent queries{4, 3, false};
  const FusedComponent keys{2, 3, true};
  const Schema phi = sample_of("phi3");
  EXPECT_EQ(rule_of(phi, "model.layers.0.self_attn.qkv_proj.weight"), along(0, {queries, keys, keys}));
  EXPECT_EQ(rule_of(phi, "model.layers.0.mlp.gate_up_proj.weight"), along(0, {{10, 1, false}, {10, 1, false}}));
  const Schema combined = sample_of("dense_combined");
  EXPECT_EQ(rule_of(combined, "model.layers.0.self_attn.qkv_proj.weight"), columns(2, 12)) << "by key-value group";
  EXPECT_EQ(rule_of(combined, "model.layers.0.mlp.gate_up_proj.weight"), columns(10, 2)) << "by pair";
}

TEST(Parallel, ExpertsRoutersAndSharedExperts) {
  for (const ExpertStorage storage : {ExpertStorage::grouped, ExpertStorage::te, ExpertStorage::mok}) {
    const Schema schema = sample_of("qwen3_5_moe", storage);
    std::uint64_t routed = 0;
    for (const NativeTensor& tensor : schema.native_tensors()) {
      const ParallelRule& rule = schema.parallel_rule(tensor);
      const bool is_expert = tensor.key.find(".experts.") != std::string_view::npos;
      const bool is_routed = rule.kind == ParallelKind::expert || rule.kind == ParallelKind::experts;
      EXPECT_EQ(is_expert, is_routed) << tensor.key;
      routed += is_routed ? 1u : 0u;
      if (rule.kind == ParallelKind::expert) {
        EXPECT_EQ(rule.experts, 3u);
        EXPECT_EQ(tensor.key.back(), static_cast<char>('0' + tensor.expert)) << tensor.key;
      }
      if (tensor.key.ends_with("mlp.gate.weight") || tensor.key.ends_with("shared_expert_gate.weight")) {
        EXPECT_EQ(rule, ParallelRule{}) << tensor.key;
      }
      if (tensor.key.ends_with("shared_experts.down_proj.weight")) {
        EXPECT_EQ(rule.kind, ParallelKind::components);
      }
    }
    EXPECT_GT(routed, 0u);
  }
}

TEST(Parallel, WhatIsKnownToStayWhole) {
  const Schema nemotron = sample_of("nemotron_v3");
  for (const NativeTensor& tensor : nemotron.native_tensors()) {
    if (tensor.key.find(".mixer.in_proj") != std::string_view::npos) {
      EXPECT_EQ(nemotron.parallel_rule(tensor), ParallelRule{}) << tensor.key;
    }
  }
  const Schema latent = sample_of("deepseek_v3");
  EXPECT_EQ(rule_of(latent, "model.layers.0.self_attn.kv_a_proj_with_mqa.weight"), ParallelRule{});
  EXPECT_EQ(rule_of(latent, "model.layers.0.self_attn.kv_b_proj.weight"), columns(4, 7));
  EXPECT_EQ(rule_of(latent, "model.layers.0.self_attn.q_b_proj.weight"), columns(4, 5));
}

/// Matrices that belong to no block by tensor parallelism, family by family; everything else of two axes is cut.
TEST(Parallel, NoMatrixWasForgotten) {
  const std::set<std::string_view> whole = {"mlp.gate.weight",
                                            "mlp.shared_expert_gate.weight",
                                            "gate.weight",
                                            "moe.gate.weight",
                                            "moe.gate.proj.weight",
                                            "q_a_proj.weight",
                                            "kv_a_proj_with_mqa.weight",
                                            "wq_a.weight",
                                            "wkv.weight",
                                            "wgate.weight",
                                            "ape_param.weight",
                                            "weights_proj.weight",
                                            "fn",
                                            "hc_fn",
                                            "eh_proj.weight",
                                            "e_proj.weight",
                                            "h_proj.weight",
                                            "input_proj.weight",
                                            "fc1_latent_proj.weight",
                                            "fc2_latent_proj.weight",
                                            "in_proj.weight",
                                            "out_proj.weight",
                                            "conv1d.weight",
                                            "f_a_proj.weight",
                                            "g_a_proj.weight",
                                            "gate.tid2eid",
                                            "patch_conv.weight",
                                            "merging_layer.weight",
                                            "linear_1.weight",
                                            "linear_2.weight",
                                            "indexer.wq_b.weight"};
  for (const Family* family : all_families()) {
    const Schema schema = sample_of(family->name);
    for (const NativeTensor& tensor : schema.native_tensors()) {
      if (schema.shape_of(tensor).rank() < 2 || tensor.key.find("vision_tower") != std::string_view::npos) continue;
      if (schema.parallel_rule(tensor).kind != ParallelKind::replicate) continue;
      const bool is_known =
          std::any_of(whole.begin(), whole.end(), [&](std::string_view end) { return tensor.key.ends_with(end); });
      EXPECT_TRUE(is_known) << family->name << ": " << tensor.key;
    }
  }
}

TEST(Parallel, ARuleThatDoesNotFitIsAMisuse) {
  SchemaBuilder builder("misuse");
  const NativeId native = builder.native("w", {6, 4});
  EXPECT_NO_THROW(builder.parallel(native, columns(3, 2)));
  EXPECT_THROW(builder.parallel(native, columns(3, 3)), Error);
  EXPECT_THROW(builder.parallel(native, along(2, {{4, 1, false}})), Error);
  EXPECT_THROW(builder.parallel(native, ParallelRule{}, 1), Error);
}

}  // namespace
}  // namespace weightproof::adapters::testing
