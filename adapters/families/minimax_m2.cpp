// SPDX-License-Identifier: Apache-2.0
// MiniMax-M2. Norms of query and key run over the whole projection. Experts as Mixtral; router and correction bias
// may be F32 and are never narrowed. Usually in FP8 with a scale per 128 x 128 block.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/experts.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 2> k_model_types = {"minimax_m2", "minimax"};
constexpr std::array<std::string_view, 1> k_architectures = {"MiniMaxM2ForCausalLM"};

constexpr std::array<std::string_view, 6> k_required = {"hidden_size",       "intermediate_size", "num_attention_heads",
                                                        "num_hidden_layers", "num_local_experts", "vocab_size"};

/// The model type "minimax" is older than this family; only the architecture tells.
bool accepts(const ConfigValue& config) {
  const ConfigValue* type = config.find("model_type");
  if (type == nullptr || type->as_string() != "minimax") return true;
  const ConfigValue* architectures = config.find("architectures");
  if (architectures == nullptr) return false;
  for (const ConfigValue& item : architectures->items()) {
    if (item.as_string() == k_architectures[0]) return true;
  }
  return false;
}

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  return find_plain_form(k_minimax_m2, config, catalog);
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const Fields fields(config);
  const NameSpace& names = name_space_of(form, k_text_name_spaces);
  const std::uint64_t layers = fields.layers();
  Attention attention_spec = read_attention(fields);
  attention_spec.norm = fields.flag("use_qk_norm", true) ? QkNorm::flattened : QkNorm::none;
  const std::uint64_t hidden = attention_spec.hidden;
  ExpertSpec experts;
  experts.experts = fields.count("num_local_experts");
  experts.input = hidden;
  experts.width = fields.count("intermediate_size");

  Describer d(k_minimax_m2, config, form);
  embedding_and_head(d, names, fields.count("vocab_size"), hidden);
  const Scope model(d, names.prefix, "model.");
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, hidden);
    attention(d, attention_spec);
    d.moved("block_sparse_moe.gate.weight", "mlp.gate.weight", {experts.experts, hidden}, DTypeRule::any);
    d.moved("block_sparse_moe.e_score_correction_bias", "mlp.gate.e_score_correction_bias", {experts.experts},
            DTypeRule::f32_state);
    per_expert(d, experts, storage, "block_sparse_moe.experts.", "mlp.experts.", k_numbered_experts);
  }
  d.same("norm.weight", {hidden});
  return std::move(d).finish();
}

}  // namespace

const Family k_minimax_m2 = {
    .name = "minimax_m2",
    .title = "MiniMax-M2, mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .tie_policy = TiePolicy::untied_only,
    .accepts = accepts,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "minimax_m2", "hidden_size": 6, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 4, "num_local_experts":
        3, "use_qk_norm": true})",
};

}  // namespace weightproof::adapters
