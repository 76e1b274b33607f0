// SPDX-License-Identifier: Apache-2.0
// DeepSeek-V3 and R1, Kimi-K2. Latent attention, experts one by one, usually in FP8 with a scale per 128 x 128 block.
// The MTP layer at index num_hidden_layers repeats embedding and head and is dropped.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/experts.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 2> k_model_types = {"deepseek_v3", "kimi_k2"};
constexpr std::array<std::string_view, 1> k_architectures = {"DeepseekV3ForCausalLM"};

constexpr std::array<std::string_view, 11> k_required = {
    "hidden_size",      "intermediate_size",   "kv_lora_rank",      "moe_intermediate_size",
    "n_routed_experts", "num_attention_heads", "num_hidden_layers", "qk_nope_head_dim",
    "qk_rope_head_dim", "v_head_dim",          "vocab_size"};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  Form form = find_plain_form(k_deepseek_v3, config, catalog);
  form.stored_layers = count_numbered(catalog, form.name_space + "layers.");
  return form;
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const Fields fields(config);
  const NameSpace& names = name_space_of(form, k_text_name_spaces);
  const std::uint64_t layers = fields.layers();
  const std::uint64_t first_moe = fields.count("first_k_dense_replace", 0);
  const std::uint64_t frequency = fields.count("moe_layer_freq", 1);
  const LatentAttention attention_spec = read_latent_attention(fields);
  const std::uint64_t hidden = attention_spec.hidden;
  const std::uint64_t dense_width = fields.count("intermediate_size");
  ExpertSpec experts;
  experts.experts = fields.count("n_routed_experts");
  experts.input = hidden;
  experts.width = fields.count("moe_intermediate_size");
  const std::uint64_t shared = fields.count("n_shared_experts", 0) * experts.width;

  Describer d(k_deepseek_v3, config, form);
  drop_layers_from(d, std::string(names.prefix) + "layers.", layers,
                   "a layer beyond num_hidden_layers: multi-token prediction");
  embedding_and_head(d, names, fields.count("vocab_size"), hidden);
  const Scope model(d, names.prefix, "model.");
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, hidden);
    latent_attention(d, attention_spec);
    if (l < first_moe || frequency == 0 || l % frequency != 0) {
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

const Family k_deepseek_v3 = {
    .name = "deepseek_v3",
    .title = "DeepSeek-V3 and Kimi-K2, mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .tie_policy = TiePolicy::untied_only,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "deepseek_v3", "hidden_size": 6, "num_hidden_layers": 3, "num_attention_heads": 4,
        "vocab_size": 11, "intermediate_size": 10, "n_routed_experts": 3, "n_shared_experts": 1,
        "moe_intermediate_size": 4, "first_k_dense_replace": 1, "q_lora_rank": 5, "kv_lora_rank": 7,
        "qk_nope_head_dim": 3, "qk_rope_head_dim": 2, "v_head_dim": 4, "quantization_config": {"quant_method":
        "fp8", "weight_block_size": [4, 4]}})",
};

}  // namespace weightproof::adapters
