// SPDX-License-Identifier: Apache-2.0
// Gemma 4 with routed experts beside a dense MLP. Full-attention layers have wider heads, fewer of them, and no value
// projection where keys are values. The scale of each expert is kept beside the router (bit-exact), or folded into
// its down projection where that was asked for (lossy).
#include <array>
#include <string>
#include <vector>

#include "adapters/blocks.hpp"
#include "adapters/experts.hpp"
#include "adapters/families/families.hpp"
#include "loader/core/error.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 2> k_model_types = {"gemma4", "gemma4_text"};
constexpr std::array<std::string_view, 2> k_architectures = {"Gemma4ForConditionalGeneration", "Gemma4ForCausalLM"};

constexpr std::array<std::string_view, 9> k_required = {"head_dim",          "hidden_size",         "intermediate_size",
                                                        "layer_types",       "num_attention_heads", "num_experts",
                                                        "num_hidden_layers", "num_key_value_heads", "vocab_size"};

constexpr std::array k_name_spaces = {NameSpace{"model.language_model.", "lm_head.weight"},
                                      NameSpace{"language_model.", "lm_head.weight"},
                                      NameSpace{"model.", "lm_head.weight"}};

/// Dense Gemma 4 is another family.
bool accepts(const ConfigValue& config) { return Fields(config, k_gemma4_moe.config_root).flag("enable_moe_block"); }

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  Form form = find_plain_form(k_gemma4_moe, config, catalog, k_name_spaces);
  const std::string layers = form.name_space + "layers.";
  const std::string_view old_key = find_key(catalog, layers, ".moe.gate_up_proj");
  const std::string_view new_key = find_key(catalog, layers, ".experts.gate_up_proj");
  if (!old_key.empty() && !new_key.empty()) {
    ErrorFacts facts;
    facts.keys = {std::string(old_key), std::string(new_key)};
    facts.check = "layout.mixed";
    throw Error(ErrorCode::namespace_mixed, "experts are stored under two generations of names at once",
                std::move(facts));
  }
  if (!old_key.empty()) form.generation = "moe_keys";
  form.expert_layout = "stacked";
  return form;
}

struct LayerShape {
  std::uint64_t head_dim = 0;
  std::uint64_t kv_heads = 0;
  bool has_keys = true;
  bool has_values = true;
};

void gemma4_attention(Describer& d, std::uint64_t hidden, std::uint64_t heads, const LayerShape& shape) {
  const Scope inside(d, "self_attn.");
  const ParallelRule by_kv_head = kv_columns(shape.kv_heads, shape.head_dim);
  d.linear("q_proj", heads * shape.head_dim, hidden, false, columns(heads, shape.head_dim));
  if (shape.has_keys) d.linear("k_proj", shape.kv_heads * shape.head_dim, hidden, false, by_kv_head);
  if (shape.has_values) d.linear("v_proj", shape.kv_heads * shape.head_dim, hidden, false, by_kv_head);
  d.linear("o_proj", hidden, heads * shape.head_dim, false, rows(heads, shape.head_dim));
  d.same("q_norm.weight", {shape.head_dim});
  if (shape.has_keys) d.same("k_norm.weight", {shape.head_dim});
}

void gemma4_experts(Describer& d, const ExpertSpec& spec, ExpertStorage storage, bool has_old_keys, bool is_folded) {
  const std::string_view scale_name = has_old_keys ? "moe.per_expert_scale" : "router.per_expert_scale";
  d.moved("router.proj.weight", "moe.gate.proj.weight", {spec.experts, spec.input});
  d.moved("router.scale", "moe.gate.scale", {spec.input});
  Experts experts(d, spec, storage, "moe.experts.");
  const std::string_view scope = has_old_keys ? "moe." : "experts.";
  const std::string scale_key(d.stored_key(scale_name));
  if (!is_folded) d.moved(scale_name, "moe.gate.per_expert_scale", {spec.experts});
  const Scope inside(d, scope, "");
  const StoredId gate_up = d.stored("gate_up_proj", {spec.experts, 2 * spec.width, spec.input});
  experts.bind_all_gate_up(gate_up, d.builder().whole_stored(gate_up));
  const StoredId down = d.stored("down_proj", {spec.experts, spec.input, spec.width});
  if (is_folded) {
    const std::string down_key(d.stored_key("down_proj"));
    const SchemaBuilder::Part parts[] = {
        {"weight", down_key, {spec.experts, spec.input, spec.width}, DType::bf16, DTypeRule::weight},
        {"scale", scale_key, {spec.experts}, DType::bf16, DTypeRule::weight}};
    d.builder().code(down, "expert_scale", parts);
  }
  experts.bind_all_down(down, d.builder().whole_stored(down));
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const Fields fields(config, k_gemma4_moe.config_root);
  const NameSpace& names = name_space_of(form, k_name_spaces);
  const std::uint64_t layers = fields.layers();
  const std::uint64_t hidden = fields.count("hidden_size");
  const std::uint64_t heads = fields.count("num_attention_heads");
  const std::uint64_t kv_heads = fields.count("num_key_value_heads");
  const std::uint64_t head_dim = fields.count("head_dim");
  const bool keys_are_values = fields.flag("attention_k_eq_v");
  const std::uint64_t shared_kv = fields.count("num_kv_shared_layers", 0);
  const std::uint64_t dense_width = fields.count("intermediate_size");
  const std::vector<bool> is_full = read_full_attention(fields, layers);
  ExpertSpec spec;
  spec.experts = fields.count("num_experts");
  spec.input = hidden;
  spec.width = fields.has("moe_intermediate_size") ? fields.count("moe_intermediate_size")
                                                   : fields.count("expert_intermediate_size");
  const std::string_view native = names.prefix;

  Describer d(k_gemma4_moe, config, form);
  if (form.expert_layout == "stacked_folded") d.builder().defaulted("per_expert_scale: folded into down_projs, lossy");
  for (const std::string tower :
       {"model.vision_tower.", "model.embed_vision.", "model.audio_tower.", "model.embed_audio."}) {
    d.builder().passthrough(tower, "a tower beside the text model, kept as it is");
  }
  embedding_and_head(d, names, fields.count("vocab_size"), hidden, native);
  const Scope model(d, names.prefix, native);
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    for (const std::string_view norm :
         {"input_layernorm.weight", "post_attention_layernorm.weight", "pre_feedforward_layernorm.weight",
          "post_feedforward_layernorm.weight", "post_feedforward_layernorm_1.weight",
          "post_feedforward_layernorm_2.weight", "pre_feedforward_layernorm_2.weight"}) {
      d.same(norm, {hidden});
    }
    d.moved_optional("layer_scalar", "layer_scalar", {1}, DTypeRule::weight, 1, "layer_scalar absent: one");
    d.cut(buffer());
    LayerShape shape;
    shape.head_dim = is_full[l] ? fields.count("global_head_dim", head_dim) : head_dim;
    shape.kv_heads = is_full[l] && keys_are_values ? fields.count("num_global_key_value_heads", kv_heads) : kv_heads;
    shape.has_keys = shared_kv == 0 || l + shared_kv < layers;
    shape.has_values = shape.has_keys && !(keys_are_values && is_full[l]);
    gemma4_attention(d, hidden, heads, shape);
    gated_mlp(d, hidden, dense_width);
    gemma4_experts(d, spec, storage, form.generation == "moe_keys", form.expert_layout == "stacked_folded");
  }
  d.same("norm.weight", {hidden});
  return std::move(d).finish();
}

}  // namespace

const Family k_gemma4_moe = {
    .name = "gemma4_moe",
    .title = "Gemma 4, text part with mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .config_root = "text_config",
    .tie_policy = TiePolicy::tied_only,
    .tied_by_default = true,
    .accepts = accepts,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "gemma4", "text_config": {"model_type": "gemma4_text", "hidden_size": 6,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 2,
        "global_head_dim": 3, "num_global_key_value_heads": 1, "attention_k_eq_v": true, "enable_moe_block":
        true, "intermediate_size": 5, "num_experts": 3, "moe_intermediate_size": 4, "vocab_size": 11,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]}})",
};

}  // namespace weightproof::adapters
