// SPDX-License-Identifier: Apache-2.0
// Laguna. The number of query heads may differ by layer; g_proj gates the attention output, per head or per element.
// The correction bias lies among the experts but is none of them.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/experts.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"laguna"};
constexpr std::array<std::string_view, 1> k_architectures = {"LagunaForCausalLM"};

constexpr std::array<std::string_view, 8> k_required = {
    "hidden_size", "intermediate_size", "moe_intermediate_size",           "num_attention_heads",
    "num_experts", "num_hidden_layers", "shared_expert_intermediate_size", "vocab_size"};

Form find_form(const ConfigValue& config, const Catalog& catalog) { return find_plain_form(k_laguna, config, catalog); }

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const Fields fields(config);
  const NameSpace& names = name_space_of(form, k_text_name_spaces);
  const std::uint64_t layers = fields.layers();
  const std::vector<std::uint64_t> heads = fields.counts("num_attention_heads_per_layer");
  const std::vector<std::string_view> types = fields.texts("mlp_layer_types");
  std::vector<std::uint64_t> dense_layers = fields.counts("mlp_only_layers");
  if (!fields.has("mlp_only_layers")) dense_layers = {0};
  Attention attention_spec = read_attention(fields);
  attention_spec.has_qkv_bias = fields.flag("qkv_bias");
  attention_spec.has_o_bias = fields.flag("attention_bias");
  attention_spec.norm = QkNorm::per_head;
  const std::uint64_t usual_heads = attention_spec.heads;
  const std::uint64_t hidden = attention_spec.hidden;
  const ConfigValue* gating = fields.find("gating");
  const bool has_gate = gating != nullptr && gating->as_bool() != false;
  const bool is_per_element = gating != nullptr && gating->as_string() == "per-element";
  const std::uint64_t dense_width = fields.count("intermediate_size");
  ExpertSpec experts;
  experts.experts = fields.count("num_experts");
  experts.input = hidden;
  experts.width = fields.count("moe_intermediate_size");
  const std::uint64_t shared = fields.count("shared_expert_intermediate_size");

  Describer d(k_laguna, config, form);
  embedding_and_head(d, names, fields.count("vocab_size"), hidden);
  const Scope model(d, names.prefix, "model.");
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, hidden);
    attention_spec.heads = l < heads.size() ? heads[l] : usual_heads;
    attention(d, attention_spec);
    if (has_gate) {
      const std::uint64_t gates =
          is_per_element ? attention_spec.heads * attention_spec.head_dim : attention_spec.heads;
      d.linear("self_attn.g_proj", gates, hidden, false,
               columns(attention_spec.heads, is_per_element ? attention_spec.head_dim : 1));
    }
    const bool is_moe = l < types.size() ? types[l] == "sparse" : !contains(dense_layers, l);
    if (!is_moe) {
      gated_mlp(d, hidden, dense_width);
      continue;
    }
    d.same("mlp.gate.weight", {experts.experts, hidden});
    d.moved("mlp.experts.e_score_correction_bias", "mlp.gate.e_score_correction_bias", {experts.experts},
            DTypeRule::f32_state);
    per_expert(d, experts, storage);
    gated_mlp(d, "mlp.shared_expert.", "mlp.shared_experts.", hidden, shared);
  }
  d.same("norm.weight", {hidden});
  return std::move(d).finish();
}

}  // namespace

const Family k_laguna = {
    .name = "laguna",
    .title = "Laguna, mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .tie_policy = TiePolicy::untied_only,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "laguna", "hidden_size": 6, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 10, "num_experts": 3,
        "moe_intermediate_size": 4, "shared_expert_intermediate_size": 5, "gating": true,
        "num_attention_heads_per_layer": [4, 6, 4]})",
};

}  // namespace weightproof::adapters
