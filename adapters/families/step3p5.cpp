// SPDX-License-Identifier: Apache-2.0
// Step 3.5. Experts are stacked per projection, [E, I, H] and [E, H, I]; sliding layers have heads of their own
// number. The router bias may be absent: zeros. MTP layers beyond num_hidden_layers are dropped.
#include <array>
#include <vector>

#include "adapters/blocks.hpp"
#include "adapters/experts.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"step3p5"};
constexpr std::array<std::string_view, 1> k_architectures = {"Step3p5ForCausalLM"};

constexpr std::array<std::string_view, 11> k_required = {
    "head_dim",        "hidden_size",          "intermediate_size",   "moe_intermediate_size", "moe_layers_enum",
    "moe_num_experts", "num_attention_groups", "num_attention_heads", "num_hidden_layers",     "share_expert_dim",
    "vocab_size"};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  Form form = find_plain_form(k_step3p5, config, catalog);
  form.stored_layers = count_numbered(catalog, form.name_space + "layers.");
  form.expert_layout = "stacked";
  return form;
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const Fields fields(config);
  const NameSpace& names = name_space_of(form, k_text_name_spaces);
  const std::uint64_t layers = fields.layers();
  const std::vector<std::uint64_t> moe_layers = fields.counts("moe_layers_enum");
  const std::vector<std::string_view> types = fields.texts("layer_types");
  const bool has_other = fields.has("attention_other_setting");
  const std::string_view stated_type =
      has_other ? fields.text("attention_other_setting.attention_type") : std::string_view();
  const std::string_view other_type = stated_type.empty() ? std::string_view("sliding_attention") : stated_type;
  const std::uint64_t hidden = fields.count("hidden_size");
  Attention full;
  full.hidden = hidden;
  full.heads = fields.count("num_attention_heads");
  full.kv_heads = fields.count("num_attention_groups");
  full.head_dim = fields.count("head_dim");
  full.norm = QkNorm::per_head;
  Attention other = full;
  if (has_other) {
    other.heads = fields.count("attention_other_setting.num_attention_heads", full.heads);
    other.kv_heads = fields.count("attention_other_setting.num_attention_groups", full.kv_heads);
    other.head_dim = fields.count("attention_other_setting.head_dim", full.head_dim);
  }
  const bool has_gate = fields.flag("use_head_wise_attn_gate");
  const std::uint64_t dense_width = fields.count("intermediate_size");
  const std::uint64_t shared = fields.count("share_expert_dim");
  ExpertSpec spec;
  spec.experts = fields.count("moe_num_experts");
  spec.input = hidden;
  spec.width = fields.count("moe_intermediate_size");

  Describer d(k_step3p5, config, form);
  drop_layers_from(d, std::string(names.prefix) + "layers.", layers,
                   "a layer beyond num_hidden_layers: multi-token prediction");
  embedding_and_head(d, names, fields.count("vocab_size"), hidden);
  const Scope model(d, names.prefix, "model.");
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, hidden);
    const Attention& attention_spec = l < types.size() && types[l] == other_type ? other : full;
    attention(d, attention_spec);
    if (has_gate) {
      d.linear("self_attn.g_proj", attention_spec.heads, hidden, false, columns(attention_spec.heads));
    }
    if (!contains(moe_layers, l)) {
      gated_mlp(d, hidden, dense_width);
      continue;
    }
    d.same("moe.gate.weight", {spec.experts, hidden});
    d.moved_optional("moe.router_bias", "moe.gate.e_score_correction_bias", {spec.experts}, DTypeRule::f32_state, 0,
                     "moe.router_bias absent: zeros");
    Experts experts(d, spec, storage, "moe.experts.");
    const StoredId gate = d.stored("moe.gate_proj.weight", {spec.experts, spec.width, hidden});
    experts.bind_all_gate(gate, d.builder().whole_stored(gate));
    const StoredId up = d.stored("moe.up_proj.weight", {spec.experts, spec.width, hidden});
    experts.bind_all_up(up, d.builder().whole_stored(up));
    const StoredId down = d.stored("moe.down_proj.weight", {spec.experts, hidden, spec.width});
    experts.bind_all_down(down, d.builder().whole_stored(down));
    gated_mlp(d, "share_expert.", "share_expert.", hidden, shared);
  }
  d.same("norm.weight", {hidden});
  return std::move(d).finish();
}

}  // namespace

const Family k_step3p5 = {
    .name = "step3p5",
    .title = "Step 3.5, mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .tie_policy = TiePolicy::untied_only,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "step3p5", "hidden_size": 6, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_attention_groups": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 10, "moe_num_experts":
        3, "moe_intermediate_size": 4, "share_expert_dim": 5, "moe_layers_enum": "1,2",
        "use_head_wise_attn_gate": true, "layer_types": ["full_attention", "sliding_attention",
        "full_attention"], "attention_other_setting": {"attention_type": "sliding_attention",
        "num_attention_heads": 6, "num_attention_groups": 2, "head_dim": 3}})",
};

}  // namespace weightproof::adapters
