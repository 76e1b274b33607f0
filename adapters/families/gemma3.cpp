// SPDX-License-Identifier: Apache-2.0
// Gemma 3, text alone or beside a vision tower that passes through. Four norms per layer and norms of query and key;
// norm weights are stored zero-centred and stay so. Tied where the config does not say.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 2> k_model_types = {"gemma3", "gemma3_text"};
constexpr std::array<std::string_view, 2> k_architectures = {"Gemma3ForConditionalGeneration", "Gemma3ForCausalLM"};

constexpr std::array k_name_spaces = {NameSpace{"language_model.model.", "language_model.lm_head.weight"},
                                      NameSpace{"model.language_model.", "lm_head.weight"},
                                      NameSpace{"model.language_model.model.", "model.language_model.lm_head.weight"},
                                      NameSpace{"model.", "lm_head.weight"}, NameSpace{"", "lm_head.weight"}};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  Form form = find_plain_form(k_gemma3, config, catalog, k_name_spaces);
  // From the config alone: a text model by itself has no text_config.
  if (catalog.size() == 0 && !config.has("text_config")) form.name_space = "model.";
  return form;
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage) {
  const Fields fields(config, k_gemma3.config_root);
  const NameSpace& names = name_space_of(form, k_name_spaces);
  const bool is_composite = names.prefix.find("language_model.") != std::string_view::npos;
  const std::string_view native = is_composite ? "model.language_model." : "model.";
  Attention spec = read_attention(fields, fields.flag("attention_bias"), QkNorm::per_head);
  if (!fields.has("head_dim")) spec.head_dim = 256;
  const std::uint64_t hidden = spec.hidden;
  const std::uint64_t layers = fields.layers();
  const std::uint64_t width = fields.count("intermediate_size");
  Describer d(k_gemma3, config, form);
  for (const std::string tower : {"vision_tower.", "multi_modal_projector."}) {
    if (!is_composite) break;
    const bool is_inner = names.prefix.starts_with("model.");
    d.builder().passthrough((is_inner ? "model." : "") + tower, "a tower beside the text model, kept as it is",
                            "model." + tower);
  }
  embedding_and_head(d, names, fields.count("vocab_size"), hidden, native);
  const Scope model(d, names.prefix, native);
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, hidden);
    d.same("pre_feedforward_layernorm.weight", {hidden});
    d.same("post_feedforward_layernorm.weight", {hidden});
    attention(d, spec);
    gated_mlp(d, hidden, width);
  }
  d.same("norm.weight", {hidden});
  return std::move(d).finish();
}

}  // namespace

const Family k_gemma3 = {
    .name = "gemma3",
    .title = "Gemma 3, text part",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_dense_required,
    .config_root = "text_config",
    .tied_by_default = true,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 6,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 3, "vocab_size":
        11, "intermediate_size": 10}, "vision_config": {"model_type": "siglip_vision_model"}})",
};

}  // namespace weightproof::adapters
