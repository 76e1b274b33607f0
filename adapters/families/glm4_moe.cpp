// SPDX-License-Identifier: Apache-2.0
// GLM-4.5. All identity but the experts; query, key and value may have a bias, the output projection has none. The
// MTP layer stands at index num_hidden_layers and is dropped.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/experts.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"glm4_moe"};
constexpr std::array<std::string_view, 1> k_architectures = {"Glm4MoeForCausalLM"};

constexpr std::array<std::string_view, 7> k_required = {
    "hidden_size",       "intermediate_size", "moe_intermediate_size", "n_routed_experts", "num_attention_heads",
    "num_hidden_layers", "vocab_size"};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  Form form = find_plain_form(k_glm4_moe, config, catalog);
  form.stored_layers = count_numbered(catalog, form.name_space + "layers.");
  return form;
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const Fields fields(config);
  const NameSpace& names = name_space_of(form, k_text_name_spaces);
  const std::uint64_t layers = fields.layers();
  const std::uint64_t first_moe = fields.count("first_k_dense_replace", 0);
  Attention attention_spec = read_attention(fields);
  attention_spec.has_qkv_bias = fields.flag("attention_bias");
  attention_spec.norm = fields.flag("use_qk_norm") ? QkNorm::per_head : QkNorm::none;
  const std::uint64_t hidden = attention_spec.hidden;
  const std::uint64_t dense_width = fields.count("intermediate_size");
  ExpertSpec experts;
  experts.experts = fields.count("n_routed_experts");
  experts.input = hidden;
  experts.width = fields.count("moe_intermediate_size");
  const std::uint64_t shared = fields.count("n_shared_experts", 0) * experts.width;

  Describer d(k_glm4_moe, config, form);
  drop_layers_from(d, std::string(names.prefix) + "layers.", layers,
                   "a layer beyond num_hidden_layers: multi-token prediction");
  embedding_and_head(d, names, fields.count("vocab_size"), hidden);
  const Scope model(d, names.prefix, "model.");
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, hidden);
    attention(d, attention_spec);
    if (l < first_moe) {
      gated_mlp(d, hidden, dense_width);
      continue;
    }
    d.same("mlp.gate.weight", {experts.experts, hidden});
    d.same("mlp.gate.e_score_correction_bias", {experts.experts}, DTypeRule::f32_state);
    per_expert(d, experts, storage);
    if (shared != 0) gated_mlp(d, "mlp.shared_experts.", "mlp.shared_experts.", hidden, shared);
  }
  d.same("norm.weight", {hidden});
  return std::move(d).finish();
}

}  // namespace

const Family k_glm4_moe = {
    .name = "glm4_moe",
    .title = "GLM-4.5, mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .tie_policy = TiePolicy::untied_only,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "glm4_moe", "hidden_size": 6, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 10, "n_routed_experts":
        3, "n_shared_experts": 1, "moe_intermediate_size": 4, "first_k_dense_replace": 1, "attention_bias":
        true, "use_qk_norm": true, "num_nextn_predict_layers": 1})",
};

}  // namespace weightproof::adapters
