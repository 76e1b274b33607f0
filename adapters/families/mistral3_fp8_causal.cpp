// SPDX-License-Identifier: Apache-2.0
// Ministral 3 and Devstral 2, text alone: a Llama decoder, usually in FP8 with one scale per tensor.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"ministral3"};
constexpr std::array<std::string_view, 1> k_architectures = {"Ministral3ForCausalLM"};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  return find_plain_form(k_mistral3_fp8_causal, config, catalog);
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage) {
  const Fields fields(config);
  DenseDecoder spec;
  spec.attention = read_attention(fields);
  spec.mlp_width = fields.count("intermediate_size");
  return dense_decoder(k_mistral3_fp8_causal, config, form, spec);
}

}  // namespace

const Family k_mistral3_fp8_causal = {
    .name = "mistral3_fp8_causal",
    .title = "Ministral 3 and Devstral 2, text",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_dense_required,
    .tie_policy = TiePolicy::untied_only,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "ministral3", "hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 10,
        "quantization_config": {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": null,
        "modules_to_not_convert": ["lm_head"]}})",
};

}  // namespace weightproof::adapters
