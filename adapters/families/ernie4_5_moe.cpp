// SPDX-License-Identifier: Apache-2.0
// ERNIE 4.5 with routed experts. The router is F32; its correction bias is stored [1, E] and is [E] natively.
// use_bias gives every projection a bias, experts and shared experts too. Always tied.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/experts.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"ernie4_5_moe"};
constexpr std::array<std::string_view, 1> k_architectures = {"Ernie4_5_MoeForCausalLM"};

constexpr std::array<std::string_view, 7> k_required = {
    "hidden_size",       "intermediate_size", "moe_intermediate_size", "moe_num_experts", "num_attention_heads",
    "num_hidden_layers", "vocab_size"};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  return find_plain_form(k_ernie4_5_moe, config, catalog);
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const Fields fields(config);
  const NameSpace& names = name_space_of(form, k_text_name_spaces);
  const std::uint64_t layers = fields.layers();
  const bool has_bias = fields.flag("use_bias");
  const Attention attention_spec = read_attention(fields, has_bias, QkNorm::none);
  const std::uint64_t hidden = attention_spec.hidden;
  const std::uint64_t dense_width = fields.count("intermediate_size");
  const std::uint64_t first = fields.count("moe_layer_start_index", 0);
  const std::int64_t stated_last = fields.signed_count("moe_layer_end_index", -1);
  const std::uint64_t last = stated_last < 0 ? layers : static_cast<std::uint64_t>(stated_last);
  const std::uint64_t interval = fields.count("moe_layer_interval", 1);
  ExpertSpec experts;
  experts.experts = fields.count("moe_num_experts");
  experts.input = hidden;
  experts.width = fields.count("moe_intermediate_size");
  experts.has_bias = has_bias;
  const std::uint64_t shared = fields.count("moe_num_shared_experts", 0) * experts.width;

  Describer d(k_ernie4_5_moe, config, form);
  d.builder().drop(std::string(names.prefix) + "mtp_*", "multi-token prediction is not trained further");
  embedding_and_head(d, names, fields.count("vocab_size"), hidden);
  const Scope model(d, names.prefix, "model.");
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, hidden);
    attention(d, attention_spec);
    const bool is_moe = l >= first && l <= last && interval != 0 && (l + 1) % interval == 0;
    if (!is_moe) {
      gated_mlp(d, hidden, dense_width, has_bias);
      continue;
    }
    d.same("mlp.gate.weight", {experts.experts, hidden}, DTypeRule::f32_state);
    const StoredId stored =
        d.stored("mlp.moe_statics.e_score_correction_bias", {1, experts.experts}, DTypeRule::f32_state);
    const NativeId native = d.native("mlp.gate.e_score_correction_bias", {experts.experts}, DTypeRule::f32_state);
    d.builder().bind(stored, d.builder().whole_stored(stored).select(0, 0), native, d.builder().whole(native));
    per_expert(d, experts, storage);
    if (shared != 0) gated_mlp(d, "mlp.shared_experts.", "mlp.shared_experts.", hidden, shared, has_bias);
  }
  d.same("norm.weight", {hidden});
  return std::move(d).finish();
}

}  // namespace

const Family k_ernie4_5_moe = {
    .name = "ernie4_5_moe",
    .title = "ERNIE 4.5, mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .tie_policy = TiePolicy::tied_only,
    .tied_by_default = true,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "ernie4_5_moe", "hidden_size": 6, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 10, "moe_num_experts":
        3, "moe_num_shared_experts": 2, "moe_intermediate_size": 4, "moe_layer_start_index": 1, "use_bias":
        true})",
};

}  // namespace weightproof::adapters
