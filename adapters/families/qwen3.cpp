// SPDX-License-Identifier: Apache-2.0
// Qwen 3, dense. Norms of query and key per head; biases only by attention_bias.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"qwen3"};
constexpr std::array<std::string_view, 1> k_architectures = {"Qwen3ForCausalLM"};

Form find_form(const ConfigValue& config, const Catalog& catalog) { return find_plain_form(k_qwen3, config, catalog); }

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage) {
  const Fields fields(config);
  DenseDecoder spec;
  spec.attention = read_attention(fields, fields.flag("attention_bias"), QkNorm::per_head);
  spec.mlp_width = fields.count("intermediate_size");
  return dense_decoder(k_qwen3, config, form, spec);
}

bool matches_keys(const KeyPatterns& patterns) {
  return patterns.has_layer_key("self_attn.q_norm.weight") && patterns.has_layer_key("mlp.gate_proj.weight") &&
         patterns.has_layer_key("post_attention_layernorm.weight") &&
         !patterns.has_layer_key("pre_feedforward_layernorm.weight") && !patterns.has_layer_key("mlp.gate.weight") &&
         !patterns.has_layer_key("self_attn.q_proj.bias");
}

}  // namespace

const Family k_qwen3 = {
    .name = "qwen3",
    .title = "Qwen 3, dense",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_dense_required,
    .tied_by_default = false,
    .matches_keys = matches_keys,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "qwen3", "hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 10,
        "tie_word_embeddings": false})",
};

}  // namespace weightproof::adapters
