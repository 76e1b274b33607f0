// SPDX-License-Identifier: Apache-2.0
// Qwen 3 with routed experts. Experts one by one or, in one generation of exports, stacked [E, 2I, H]. No shared
// expert, no correction bias.
#include <array>

#include "adapters/families/families.hpp"
#include "adapters/qwen.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"qwen3_moe"};
constexpr std::array<std::string_view, 1> k_architectures = {"Qwen3MoeForCausalLM"};

constexpr std::array<std::string_view, 7> k_required = {
    "hidden_size",       "intermediate_size", "moe_intermediate_size", "num_attention_heads", "num_experts",
    "num_hidden_layers", "vocab_size"};

bool matches_keys(const KeyPatterns& patterns) {
  return patterns.has_layer_key("mlp.experts.#.gate_proj.weight") && patterns.has_layer_key("mlp.gate.weight") &&
         patterns.has_layer_key("self_attn.q_norm.weight") &&
         !patterns.has_layer_key("mlp.shared_expert.up_proj.weight") &&
         !patterns.has_layer_key("mlp.shared_experts.up_proj.weight") &&
         !patterns.has_layer_key("mlp.gate.e_score_correction_bias") &&
         !patterns.has_layer_key("mlp.experts.e_score_correction_bias");
}

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  Form form = find_plain_form(k_qwen3_moe, config, catalog);
  form.expert_layout = find_expert_layout(catalog, form.name_space + "layers.");
  return form;
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  return qwen3_moe_decoder(k_qwen3_moe, config, form, storage, name_space_of(form, k_text_name_spaces));
}

}  // namespace

const Family k_qwen3_moe = {
    .name = "qwen3_moe",
    .title = "Qwen 3, mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .tie_policy = TiePolicy::untied_only,
    .matches_keys = matches_keys,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "qwen3_moe", "hidden_size": 6, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 10, "num_experts": 5,
        "moe_intermediate_size": 4, "decoder_sparse_step": 2, "mlp_only_layers": [2]})",
};

}  // namespace weightproof::adapters
