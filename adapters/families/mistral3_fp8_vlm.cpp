// SPDX-License-Identifier: Apache-2.0
// Mistral 3 with vision: the text decoder, a Pixtral tower and a projector, in three published spellings that all
// become "model.language_model.", "model.vision_tower." and "model.multi_modal_projector.". Only the text linears are
// FP8.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/families/families.hpp"
#include "loader/core/error.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"mistral3"};
constexpr std::array<std::string_view, 1> k_architectures = {"Mistral3ForConditionalGeneration"};

constexpr std::array k_name_spaces = {NameSpace{"language_model.model.", "language_model.lm_head.weight"},
                                      NameSpace{"model.language_model.", "lm_head.weight"},
                                      NameSpace{"model.language_model.model.", "model.language_model.lm_head.weight"},
                                      NameSpace{"model.", "lm_head.weight"}};

/// Mistral 4 comes with the same outer type.
bool accepts(const ConfigValue& config) {
  const ConfigValue* inner = config.find("text_config.model_type");
  return inner == nullptr || inner->as_string() != "mistral4";
}

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  return find_plain_form(k_mistral3_fp8_vlm, config, catalog, k_name_spaces);
}

/// Towers come before the decoder, so the first pipeline stage holds them.
void tower_tensor(Describer& d, std::string_view name, const Shape& shape) {
  d.same(name, shape);
  d.cut(on_first_stage());
}

void vision_tower(Describer& d, const Fields& vision) {
  const std::uint64_t hidden = vision.count("hidden_size");
  const std::uint64_t width = vision.count("intermediate_size");
  const std::uint64_t layers = vision.layers();
  const std::uint64_t patch = vision.count("patch_size");
  tower_tensor(d, "patch_conv.weight", {hidden, vision.count("num_channels", 3), patch, patch});
  tower_tensor(d, "ln_pre.weight", {hidden});
  for (std::uint64_t l = 0; l < layers; ++l) {
    const Scope layer(d, "transformer.layers.", "transformer.layers.", l);
    for (const std::string_view name :
         {"attention.q_proj.weight", "attention.k_proj.weight", "attention.v_proj.weight", "attention.o_proj.weight"}) {
      tower_tensor(d, name, {hidden, hidden});
    }
    tower_tensor(d, "feed_forward.gate_proj.weight", {width, hidden});
    tower_tensor(d, "feed_forward.up_proj.weight", {width, hidden});
    tower_tensor(d, "feed_forward.down_proj.weight", {hidden, width});
    tower_tensor(d, "attention_norm.weight", {hidden});
    tower_tensor(d, "ffn_norm.weight", {hidden});
  }
}

void projector(Describer& d, std::uint64_t vision, std::uint64_t hidden, std::uint64_t merge, bool has_bias) {
  tower_tensor(d, "norm.weight", {vision});
  tower_tensor(d, "patch_merger.merging_layer.weight", {vision, vision * merge * merge});
  tower_tensor(d, "linear_1.weight", {hidden, vision});
  tower_tensor(d, "linear_2.weight", {hidden, hidden});
  if (!has_bias) return;
  tower_tensor(d, "linear_1.bias", {hidden});
  tower_tensor(d, "linear_2.bias", {hidden});
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage) {
  const Fields fields(config, k_mistral3_fp8_vlm.config_root);
  const NameSpace& names = name_space_of(form, k_name_spaces);
  DenseDecoder spec;
  spec.attention = read_attention(fields);
  spec.mlp_width = fields.count("intermediate_size");
  Describer d(k_mistral3_fp8_vlm, config, form);
  dense_layers(d, fields, spec, names, names.prefix == "model." ? "model." : "model.language_model.");
  const ConfigValue* vision = config.find("vision_config");
  if (names.prefix == "model." || vision == nullptr || !vision->is_object()) return std::move(d).finish();
  const std::string_view outer = names.prefix.starts_with("model.") ? "model." : "";
  const Scope model(d, outer, "model.");
  const Fields vision_fields(*vision);
  {
    const Scope tower(d, "vision_tower.");
    vision_tower(d, vision_fields);
  }
  const std::uint64_t merge = fields.count("spatial_merge_size", 2);
  if (merge > 1024) {
    ErrorFacts facts;
    facts.file = "config.json";
    facts.actual = std::to_string(merge);
    throw Error(ErrorCode::config_invalid, "config field spatial_merge_size cannot be used", std::move(facts));
  }
  const Scope scope(d, "multi_modal_projector.");
  projector(d, vision_fields.count("hidden_size"), spec.attention.hidden, merge,
            fields.flag("multimodal_projector_bias"));
  return std::move(d).finish();
}

}  // namespace

const Family k_mistral3_fp8_vlm = {
    .name = "mistral3_fp8_vlm",
    .title = "Mistral 3 and Devstral Small 2, text and vision",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_dense_required,
    .config_root = "text_config",
    .accepts = accepts,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "mistral3", "spatial_merge_size": 2, "tie_word_embeddings": false, "text_config":
        {"model_type": "ministral3", "hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 10}, "vision_config":
        {"model_type": "pixtral", "hidden_size": 4, "intermediate_size": 7, "num_hidden_layers": 2,
        "num_channels": 3, "patch_size": 2}, "quantization_config": {"quant_method": "fp8", "activation_scheme":
        "static", "weight_block_size": null, "modules_to_not_convert": ["model.vision_tower",
        "model.multi_modal_projector", "lm_head"]}})",
};

}  // namespace weightproof::adapters
