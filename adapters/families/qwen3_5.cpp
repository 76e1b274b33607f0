// SPDX-License-Identifier: Apache-2.0
// Qwen 3.5, dense: gated delta nets with four projections of their own, attention with a gated query, a plain MLP.
// The visual tower passes through; MTP tensors are all there or none.
#include <array>

#include "adapters/families/families.hpp"
#include "adapters/qwen3_5_blocks.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 2> k_model_types = {"qwen3_5", "qwen3_5_text"};
constexpr std::array<std::string_view, 2> k_architectures = {"Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"};

constexpr std::array<std::string_view, 10> k_required = {"hidden_size",
                                                         "intermediate_size",
                                                         "linear_conv_kernel_dim",
                                                         "linear_key_head_dim",
                                                         "linear_num_key_heads",
                                                         "linear_num_value_heads",
                                                         "linear_value_head_dim",
                                                         "num_attention_heads",
                                                         "num_hidden_layers",
                                                         "vocab_size"};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  return find_qwen3_5_form(k_qwen3_5, config, catalog);
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  return describe_qwen3_5(k_qwen3_5, config, form, storage, false);
}

}  // namespace

const Family k_qwen3_5 = {
    .name = "qwen3_5",
    .title = "Qwen 3.5, dense",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .config_root = "text_config",
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "qwen3_5", "tie_word_embeddings": false, "text_config": {"model_type": "qwen3_5_text",
        "hidden_size": 6, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 3, "vocab_size": 11, "intermediate_size": 10, "mtp_num_hidden_layers": 1,
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 3,
        "linear_value_head_dim": 2, "linear_conv_kernel_dim": 4, "full_attention_interval": 4}})",
};

}  // namespace weightproof::adapters
