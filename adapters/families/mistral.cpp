// SPDX-License-Identifier: Apache-2.0
// Mistral, dense, text only. No biases, no query and key norms; head_dim may differ from hidden / heads.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"mistral"};
constexpr std::array<std::string_view, 1> k_architectures = {"MistralForCausalLM"};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  return find_plain_form(k_mistral, config, catalog);
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage) {
  const Fields fields(config);
  DenseDecoder spec;
  spec.attention = read_attention(fields, fields.flag("attention_bias"), QkNorm::none);
  spec.mlp_width = fields.count("intermediate_size");
  return dense_decoder(k_mistral, config, form, spec);
}

}  // namespace

const Family k_mistral = {
    .name = "mistral",
    .title = "Mistral and Devstral, dense, text",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_dense_required,
    .tied_by_default = false,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "mistral", "hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 10,
        "tie_word_embeddings": false})",
};

}  // namespace weightproof::adapters
