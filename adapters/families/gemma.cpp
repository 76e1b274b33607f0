// SPDX-License-Identifier: Apache-2.0
// Gemma 1. Norm weights are stored zero-centred and stay so: nothing is added on either side. Tied where the config
// does not say.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"gemma"};
constexpr std::array<std::string_view, 1> k_architectures = {"GemmaForCausalLM"};

Form find_form(const ConfigValue& config, const Catalog& catalog) { return find_plain_form(k_gemma, config, catalog); }

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage) {
  const Fields fields(config);
  DenseDecoder spec;
  spec.attention = read_attention(fields, fields.flag("attention_bias"), QkNorm::none);
  spec.mlp_width = fields.count("intermediate_size");
  return dense_decoder(k_gemma, config, form, spec);
}

}  // namespace

const Family k_gemma = {
    .name = "gemma",
    .title = "Gemma, dense",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_dense_required,
    .tied_by_default = true,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "gemma", "hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 10})",
};

}  // namespace weightproof::adapters
