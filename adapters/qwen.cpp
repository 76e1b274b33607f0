// SPDX-License-Identifier: Apache-2.0
#include "adapters/qwen.hpp"

namespace weightproof::adapters {
namespace {

void routed_experts(Describer& d, const ExpertSpec& spec, ExpertStorage storage, std::string_view layout) {
  if (layout == "stacked") {
    stacked_experts(d, spec, storage, "mlp.experts.", "mlp.experts.");
  } else if (layout == "stacked_transposed") {
    transposed_stacked_experts(d, spec, storage, "mlp.experts.", "mlp.experts.");
  } else {
    per_expert(d, spec, storage);
  }
}

ExpertSpec read_experts(const Fields& fields) {
  ExpertSpec spec;
  spec.experts = fields.count("num_experts");
  spec.input = fields.count("hidden_size");
  spec.width = fields.count("moe_intermediate_size");
  return spec;
}

}  // namespace

void qwen3_moe_layers(Describer& d, const Fields& fields, ExpertStorage storage, const NameSpace& names,
                      std::string_view native_prefix) {
  const std::uint64_t layers = fields.layers();
  const Attention attention_spec = read_attention(fields, fields.flag("attention_bias"), QkNorm::per_head);
  const std::uint64_t hidden = attention_spec.hidden;
  const std::uint64_t dense_width = fields.count("intermediate_size");
  const QwenSparsity sparsity(fields);
  const ExpertSpec experts = read_experts(fields);
  embedding_and_head(d, names, fields.count("vocab_size"), hidden, native_prefix);
  const Scope model(d, names.prefix, native_prefix);
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, hidden);
    attention(d, attention_spec);
    if (!sparsity.is_moe(l)) {
      gated_mlp(d, hidden, dense_width);
      continue;
    }
    d.same("mlp.gate.weight", {experts.experts, hidden});
    routed_experts(d, experts, storage, d.form().expert_layout);
  }
  d.same("norm.weight", {hidden});
}

Schema qwen3_moe_decoder(const Family& family, const ConfigValue& config, const Form& form, ExpertStorage storage,
                         const NameSpace& names) {
  Describer d(family, config, form);
  qwen3_moe_layers(d, Fields(config, family.config_root), storage, names);
  return std::move(d).finish();
}

QwenExperts read_qwen_experts(const Fields& fields) {
  return {read_experts(fields), fields.count("shared_expert_intermediate_size")};
}

void qwen_experts(Describer& d, const QwenExperts& spec, ExpertStorage storage, std::string_view layout) {
  const std::uint64_t hidden = spec.experts.input;
  d.same("mlp.gate.weight", {spec.experts.experts, hidden});
  routed_experts(d, spec.experts, storage, layout);
  gated_mlp(d, "mlp.shared_expert.", "mlp.shared_experts.", hidden, spec.shared_width);
  d.same("mlp.shared_expert_gate.weight", {1, hidden});
}

}  // namespace weightproof::adapters
