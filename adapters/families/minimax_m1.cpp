// SPDX-License-Identifier: Apache-2.0
// MiniMax-M1. Layers of lightning attention hold query, key and value in one tensor, a gate and a norm of the output;
// every eighth layer is plain attention. Both keep their stored names; experts as Mixtral.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/experts.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"minimax_m1"};
constexpr std::array<std::string_view, 1> k_architectures = {"MiniMaxM1ForCausalLM"};

constexpr std::array<std::string_view, 7> k_required = {"attn_type_list",      "hidden_size",       "intermediate_size",
                                                        "num_attention_heads", "num_hidden_layers", "num_local_experts",
                                                        "vocab_size"};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  return find_plain_form(k_minimax_m1, config, catalog);
}

void lightning_attention(Describer& d, const Attention& spec) {
  const Scope inside(d, "self_attn.");
  const std::uint64_t width = spec.heads * spec.head_dim;
  // Rows of query, key and value head by head.
  d.linear("qkv_proj", 3 * width, spec.hidden, false, columns(spec.heads, 3 * spec.head_dim));
  d.linear("output_gate", width, spec.hidden, false, columns(spec.heads, spec.head_dim));
  d.same("norm.weight", {width});
  d.cut(columns(spec.heads, spec.head_dim));
  d.linear("out_proj", spec.hidden, width, false, rows(spec.heads, spec.head_dim));
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const Fields fields(config);
  const NameSpace& names = name_space_of(form, k_text_name_spaces);
  const std::uint64_t layers = fields.layers();
  const std::vector<std::uint64_t> types = fields.counts("attn_type_list");
  const Attention attention_spec = read_attention(fields);
  const std::uint64_t hidden = attention_spec.hidden;
  const std::uint64_t shared = fields.count("shared_intermediate_size", 0);
  ExpertSpec experts;
  experts.experts = fields.count("num_local_experts");
  experts.input = hidden;
  experts.width = fields.count("intermediate_size");

  Describer d(k_minimax_m1, config, form);
  embedding_and_head(d, names, fields.count("vocab_size"), hidden);
  const Scope model(d, names.prefix, "model.");
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, hidden);
    if (l < types.size() && types[l] == 0) {
      lightning_attention(d, attention_spec);
    } else {
      attention(d, attention_spec);
    }
    d.moved("block_sparse_moe.gate.weight", "mlp.gate.weight", {experts.experts, hidden}, DTypeRule::any);
    per_expert(d, experts, storage, "block_sparse_moe.experts.", "mlp.experts.", k_numbered_experts);
    if (shared != 0) {
      gated_mlp(d, "shared_mlp.", "mlp.shared_experts.", hidden, shared);
      d.moved("coefficient.weight", "mlp.shared_expert_gate.weight", {1, hidden});
    }
  }
  d.same("norm.weight", {hidden});
  return std::move(d).finish();
}

}  // namespace

const Family k_minimax_m1 = {
    .name = "minimax_m1",
    .title = "MiniMax-M1, mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .tie_policy = TiePolicy::untied_only,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "minimax_m1", "hidden_size": 6, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 4, "num_local_experts":
        3, "attn_type_list": [0, 1, 0]})",
};

}  // namespace weightproof::adapters
