// SPDX-License-Identifier: Apache-2.0
// Mistral 4: latent attention and stacked experts, in FP8 with one scale per tensor and per expert. Beside a vision
// tower the native names keep both levels, "model.language_model.model."; text alone is plain "model.". The
// correction bias may be absent: zeros.
#include <array>
#include <string>

#include "adapters/blocks.hpp"
#include "adapters/experts.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 2> k_model_types = {"mistral4", "mistral3"};
constexpr std::array<std::string_view, 2> k_architectures = {"Mistral4ForCausalLM", "Mistral3ForConditionalGeneration"};

constexpr std::array<std::string_view, 11> k_required = {
    "hidden_size",      "intermediate_size",   "kv_lora_rank",      "moe_intermediate_size",
    "n_routed_experts", "num_attention_heads", "num_hidden_layers", "qk_nope_head_dim",
    "qk_rope_head_dim", "v_head_dim",          "vocab_size"};

constexpr std::array k_name_spaces = {NameSpace{"language_model.model.", "language_model.lm_head.weight"},
                                      NameSpace{"model.language_model.model.", "model.language_model.lm_head.weight"},
                                      NameSpace{"model.", "lm_head.weight"}};

bool accepts(const ConfigValue& config) {
  const ConfigValue* outer = config.find("model_type");
  const ConfigValue* inner = config.find("text_config.model_type");
  if (inner != nullptr) return inner->as_string() == "mistral4";
  if (outer == nullptr || outer->as_string() == "mistral4") return true;
  const ConfigValue* classes = config.find("architectures");
  if (classes == nullptr) return false;
  for (const ConfigValue& name : classes->items()) {
    if (name.as_string() == k_architectures.front()) return true;
  }
  return false;
}

bool is_text_alone(const ConfigValue& config) {
  const ConfigValue* outer = config.find("model_type");
  return !config.has("vision_config") && outer != nullptr && outer->as_string() == "mistral4";
}

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  Form form = find_plain_form(k_mistral4, config, catalog, k_name_spaces);
  if (catalog.size() == 0 && is_text_alone(config)) form.name_space = "model.";
  form.expert_layout = "stacked";
  return form;
}

void code_experts(Describer& d, StoredId stored, std::string_view name, const Shape& shape) {
  const std::string key(d.stored_key(name));
  const std::string scale = key + "_scale_inv";
  const std::string activation = key + "_activation_scale";
  const SchemaBuilder::Part parts[] = {{"weight", key, shape, DType::f8_e4m3},
                                       {"scale", scale, {shape[0], 1, 1}, DType::bf16, DTypeRule::weight},
                                       {"unused", activation, {shape[0]}, DType::bf16, DTypeRule::weight, true}};
  d.builder().code(stored, "fp8_tensor", parts);
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const Fields fields(config, k_mistral4.config_root);
  const NameSpace& names = name_space_of(form, k_name_spaces);
  const bool is_alone = is_text_alone(config) || names.prefix == "model.";
  const std::string_view native = is_alone ? "model." : "model.language_model.model.";
  const std::uint64_t layers = fields.layers();
  const std::uint64_t first_moe = fields.count("first_k_dense_replace", 0);
  const LatentAttention attention_spec = read_latent_attention(fields);
  const std::uint64_t hidden = attention_spec.hidden;
  const std::uint64_t dense_width = fields.count("intermediate_size");
  ExpertSpec spec;
  spec.experts = fields.count("n_routed_experts");
  spec.input = hidden;
  spec.width = fields.count("moe_intermediate_size");
  const std::uint64_t shared = fields.count("n_shared_experts", 0) * spec.width;
  const bool is_coded = form.quantization == "fp8_tensor";

  Describer d(k_mistral4, config, form);
  if (!is_alone) {
    for (const std::string tower : {"vision_tower.", "multi_modal_projector."}) {
      const bool is_inner = names.prefix.starts_with("model.");
      d.builder().passthrough((is_inner ? "model." : "") + tower, "a tower beside the text model, kept as it is",
                              "model." + tower);
    }
  }
  embedding_and_head(d, names, fields.count("vocab_size"), hidden, native,
                     is_alone ? "lm_head.weight" : "model.language_model.lm_head.weight");
  const Scope model(d, names.prefix, native);
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, hidden);
    latent_attention(d, attention_spec);
    if (l < first_moe) {
      gated_mlp(d, hidden, dense_width);
      continue;
    }
    d.same("mlp.gate.weight", {spec.experts, hidden});
    d.moved_optional("mlp.gate.e_score_correction_bias", "mlp.gate.e_score_correction_bias", {spec.experts},
                     DTypeRule::f32_state, 0, "mlp.gate.e_score_correction_bias absent: zeros");
    Experts experts(d, spec, storage, "mlp.experts.");
    {
      const Scope inside(d, "mlp.experts.");
      const Shape gate_up_shape{spec.experts, 2 * spec.width, hidden};
      const StoredId gate_up = d.stored("gate_up_proj", gate_up_shape);
      if (is_coded) code_experts(d, gate_up, "gate_up_proj", gate_up_shape);
      experts.bind_all_gate_up(gate_up, d.builder().whole_stored(gate_up));
      const Shape down_shape{spec.experts, hidden, spec.width};
      const StoredId down = d.stored("down_proj", down_shape);
      if (is_coded) code_experts(d, down, "down_proj", down_shape);
      experts.bind_all_down(down, d.builder().whole_stored(down));
    }
    if (shared != 0) gated_mlp(d, "mlp.shared_experts.", "mlp.shared_experts.", hidden, shared);
  }
  d.same("norm.weight", {hidden});
  return std::move(d).finish();
}

}  // namespace

const Family k_mistral4 = {
    .name = "mistral4",
    .title = "Mistral 4, mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .config_root = "text_config",
    .tie_policy = TiePolicy::untied_only,
    .accepts = accepts,
    .find_form = find_form,
    .describe = describe,
    .sample =
        R"({"model_type": "mistral3", "vision_config": {}, "text_config": {"model_type": "mistral4", "hidden_size":
        6, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 11, "intermediate_size": 10,
        "n_routed_experts": 3, "n_shared_experts": 1, "moe_intermediate_size": 4, "first_k_dense_replace": 1,
        "q_lora_rank": 5, "kv_lora_rank": 7, "qk_nope_head_dim": 3, "qk_rope_head_dim": 2, "v_head_dim": 4},
        "quantization_config": {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size":
        null}})",
};

}  // namespace weightproof::adapters
