// SPDX-License-Identifier: Apache-2.0
// Kimi Linear: delta attention (KDA) and latent attention, layer by layer, in lists that count from one. Experts as
// Mixtral; dense layers keep their names. State of KDA is F32 natively; A_log keeps its four axes.
#include <array>
#include <vector>

#include "adapters/blocks.hpp"
#include "adapters/experts.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"kimi_linear"};
constexpr std::array<std::string_view, 1> k_architectures = {"KimiLinearForCausalLM"};

constexpr std::array<std::string_view, 12> k_required = {
    "hidden_size",           "intermediate_size",   "kv_lora_rank", "linear_attn_config",
    "moe_intermediate_size", "num_attention_heads", "num_experts",  "num_hidden_layers",
    "qk_nope_head_dim",      "qk_rope_head_dim",    "v_head_dim",   "vocab_size"};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  return find_plain_form(k_kimi_linear, config, catalog);
}

struct DeltaAttention {
  std::uint64_t hidden = 0;
  std::uint64_t heads = 0;
  std::uint64_t head_dim = 0;
  std::uint64_t kernel = 0;
};

void delta_attention(Describer& d, const DeltaAttention& spec) {
  const Scope inside(d, "self_attn.");
  const std::uint64_t width = spec.heads * spec.head_dim;
  const ParallelRule by_head = columns(spec.heads, spec.head_dim);
  for (const std::string_view name : {"q_proj", "k_proj", "v_proj"}) d.linear(name, width, spec.hidden, false, by_head);
  for (const std::string_view name : {"q_conv1d.weight", "k_conv1d.weight", "v_conv1d.weight"}) {
    d.same(name, {width, 1, spec.kernel});
    d.cut(by_head);
  }
  d.moved("A_log", "_fp32_params.A_log", {1, 1, spec.heads, 1}, DTypeRule::f32_state);
  d.cut(along(2, {{spec.heads, 1, false}}));
  d.moved("dt_bias", "_fp32_params.dt_bias", {width}, DTypeRule::f32_state);
  d.cut(by_head);
  d.linear("f_a_proj", spec.head_dim, spec.hidden);
  d.linear("f_b_proj", width, spec.head_dim, false, by_head);
  d.linear("b_proj", spec.heads, spec.hidden, false, columns(spec.heads));
  d.linear("g_a_proj", spec.head_dim, spec.hidden);
  d.linear("g_b_proj", width, spec.head_dim, false, by_head);
  d.same("o_norm.weight", {spec.head_dim});
  d.linear("o_proj", spec.hidden, width, false, rows(spec.heads, spec.head_dim));
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const Fields fields(config);
  const NameSpace& names = name_space_of(form, k_text_name_spaces);
  const std::uint64_t layers = fields.layers();
  const std::vector<std::uint64_t> delta_layers = fields.counts("linear_attn_config.kda_layers");
  const std::uint64_t first_moe = fields.count("first_k_dense_replace", 0);
  const std::uint64_t frequency = fields.count("moe_layer_freq", 1);
  const LatentAttention latent = read_latent_attention(fields);
  const std::uint64_t hidden = latent.hidden;
  DeltaAttention delta;
  delta.hidden = hidden;
  delta.heads = fields.count("linear_attn_config.num_heads");
  delta.head_dim = fields.count("linear_attn_config.head_dim");
  delta.kernel = fields.count("linear_attn_config.short_conv_kernel_size");
  const std::uint64_t dense_width = fields.count("intermediate_size");
  ExpertSpec experts;
  experts.experts = fields.count("num_experts");
  experts.input = hidden;
  experts.width = fields.count("moe_intermediate_size");
  const std::uint64_t shared = fields.count("num_shared_experts", 0) * experts.width;

  Describer d(k_kimi_linear, config, form);
  embedding_and_head(d, names, fields.count("vocab_size"), hidden);
  const Scope model(d, names.prefix, "model.");
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, hidden);
    if (contains(delta_layers, l + 1)) {
      delta_attention(d, delta);
    } else {
      latent_attention(d, latent);
    }
    if (l < first_moe || frequency == 0 || l % frequency != 0) {
      gated_mlp(d, hidden, dense_width);
      continue;
    }
    d.moved("block_sparse_moe.gate.weight", "mlp.gate.weight", {experts.experts, hidden});
    d.moved("block_sparse_moe.gate.e_score_correction_bias", "mlp.gate.e_score_correction_bias", {experts.experts},
            DTypeRule::f32_state);
    per_expert(d, experts, storage, "block_sparse_moe.experts.", "mlp.experts.", k_numbered_experts);
    if (shared != 0) gated_mlp(d, "block_sparse_moe.shared_experts.", "mlp.shared_experts.", hidden, shared);
  }
  d.same("norm.weight", {hidden});
  return std::move(d).finish();
}

}  // namespace

const Family k_kimi_linear = {
    .name = "kimi_linear",
    .title = "Kimi Linear, mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .tie_policy = TiePolicy::untied_only,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "kimi_linear", "hidden_size": 6, "num_hidden_layers": 4, "num_attention_heads": 4,
        "vocab_size": 11, "intermediate_size": 10, "num_experts": 3, "num_shared_experts": 1,
        "moe_intermediate_size": 4, "first_k_dense_replace": 1, "linear_attn_config": {"kda_layers": [1, 2, 3],
        "full_attn_layers": [4], "num_heads": 2, "head_dim": 3, "short_conv_kernel_size": 4}, "q_lora_rank":
        null, "kv_lora_rank": 7, "qk_nope_head_dim": 3, "qk_rope_head_dim": 2, "v_head_dim": 4})",
};

}  // namespace weightproof::adapters
