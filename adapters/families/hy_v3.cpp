// SPDX-License-Identifier: Apache-2.0
// Hy3 and Hy-MT2, one format under two names. Router and correction bias stand under other names than natively, the
// shared expert is "shared_mlp". MTP layers beyond num_hidden_layers are dropped.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/experts.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 2> k_model_types = {"hy_v3", "hy_mt2"};
constexpr std::array<std::string_view, 1> k_architectures = {"HYV3ForCausalLM"};

constexpr std::array<std::string_view, 7> k_required = {
    "hidden_size",       "intermediate_size", "moe_intermediate_size", "num_attention_heads", "num_experts",
    "num_hidden_layers", "vocab_size"};

constexpr std::array<std::string_view, 1> k_aliases = {"hy_mt2"};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  Form form = find_plain_form(k_hy_v3, config, catalog);
  form.stored_layers = count_numbered(catalog, form.name_space + "layers.");
  return form;
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const Fields fields(config);
  const NameSpace& names = name_space_of(form, k_text_name_spaces);
  const std::uint64_t layers = fields.layers();
  const std::uint64_t first_moe = fields.count("first_k_dense_replace", 0);
  const std::vector<std::string_view> types = fields.texts("mlp_layer_types");
  const Attention attention_spec = read_attention(fields, fields.flag("attention_bias"),
                                                  fields.flag("qk_norm", true) ? QkNorm::per_head : QkNorm::none);
  const std::uint64_t hidden = attention_spec.hidden;
  const std::uint64_t dense_width = fields.count("intermediate_size");
  const bool has_correction = fields.flag("moe_router_enable_expert_bias", true);
  ExpertSpec experts;
  experts.experts = fields.count("num_experts");
  experts.input = hidden;
  experts.width = fields.count("moe_intermediate_size");
  const std::uint64_t shared = fields.count("num_shared_experts", 0) * experts.width;

  Describer d(k_hy_v3, config, form);
  drop_layers_from(d, std::string(names.prefix) + "layers.", layers,
                   "a layer beyond num_hidden_layers: multi-token prediction");
  embedding_and_head(d, names, fields.count("vocab_size"), hidden);
  const Scope model(d, names.prefix, "model.");
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, hidden);
    attention(d, attention_spec);
    const bool is_moe = l < types.size() ? types[l] == "sparse" : l >= first_moe;
    if (!is_moe) {
      gated_mlp(d, hidden, dense_width);
      continue;
    }
    d.moved("mlp.router.gate.weight", "mlp.gate.weight", {experts.experts, hidden});
    if (has_correction) {
      d.moved("mlp.expert_bias", "mlp.gate.e_score_correction_bias", {experts.experts}, DTypeRule::f32_state);
    }
    per_expert(d, experts, storage);
    if (shared != 0) gated_mlp(d, "mlp.shared_mlp.", "mlp.shared_experts.", hidden, shared);
  }
  d.same("norm.weight", {hidden});
  return std::move(d).finish();
}

}  // namespace

const Family k_hy_v3 = {
    .name = "hy_v3",
    .title = "Hy3 and Hy-MT2, mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .tie_policy = TiePolicy::untied_only,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "hy_v3", "hidden_size": 6, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 10, "num_experts": 3,
        "num_shared_experts": 1, "moe_intermediate_size": 4, "first_k_dense_replace": 1,
        "num_nextn_predict_layers": 1})",
    .aliases = k_aliases,
};

}  // namespace weightproof::adapters
