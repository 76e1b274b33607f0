// SPDX-License-Identifier: Apache-2.0
// Qwen 3 VL, dense. The text model is a Qwen 3 under "model.language_model."; the visual tower passes through.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"qwen3_vl"};
constexpr std::array<std::string_view, 1> k_architectures = {"Qwen3VLForConditionalGeneration"};

constexpr std::array k_name_spaces = {NameSpace{"model.language_model.", "lm_head.weight"}};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  return find_plain_form(k_qwen3_vl, config, catalog, k_name_spaces);
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage) {
  const Fields fields(config, k_qwen3_vl.config_root);
  DenseDecoder spec;
  spec.attention = read_attention(fields, fields.flag("attention_bias"), QkNorm::per_head);
  spec.mlp_width = fields.count("intermediate_size");
  Describer d(k_qwen3_vl, config, form);
  d.builder().passthrough("model.visual.", "a tower beside the text model, kept as it is");
  dense_layers(d, fields, spec, name_space_of(form, k_name_spaces), "model.language_model.");
  return std::move(d).finish();
}

}  // namespace

const Family k_qwen3_vl = {
    .name = "qwen3_vl",
    .title = "Qwen 3 VL, dense text part",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_dense_required,
    .config_root = "text_config",
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "qwen3_vl", "tie_word_embeddings": false, "text_config": {"model_type": "qwen3_vl_text",
        "hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 3, "vocab_size": 11, "intermediate_size": 10}})",
};

}  // namespace weightproof::adapters
