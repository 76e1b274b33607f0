// SPDX-License-Identifier: Apache-2.0
// Qwen 3.5 with routed experts: stacked [E, 2I, H] (the names of Qwen 3 VL in the other orientation), or one by one
// where they were pruned or quantized. Gated delta nets and gated attention as the dense model.
#include <array>

#include "adapters/families/families.hpp"
#include "adapters/qwen3_5_blocks.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 2> k_model_types = {"qwen3_5_moe", "qwen3_5_moe_text"};
constexpr std::array<std::string_view, 2> k_architectures = {"Qwen3_5MoeForConditionalGeneration",
                                                             "Qwen3_5MoeForCausalLM"};

constexpr std::array<std::string_view, 12> k_required = {"hidden_size",
                                                         "linear_conv_kernel_dim",
                                                         "linear_key_head_dim",
                                                         "linear_num_key_heads",
                                                         "linear_num_value_heads",
                                                         "linear_value_head_dim",
                                                         "moe_intermediate_size",
                                                         "num_attention_heads",
                                                         "num_experts",
                                                         "num_hidden_layers",
                                                         "shared_expert_intermediate_size",
                                                         "vocab_size"};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  return find_qwen3_5_form(k_qwen3_5_moe, config, catalog);
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  return describe_qwen3_5(k_qwen3_5_moe, config, form, storage, true);
}

}  // namespace

const Family k_qwen3_5_moe = {
    .name = "qwen3_5_moe",
    .title = "Qwen 3.5 and 3.6, mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .config_root = "text_config",
    .tie_policy = TiePolicy::untied_only,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "qwen3_5_moe", "text_config": {"model_type": "qwen3_5_moe_text", "hidden_size": 6,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 3, "vocab_size":
        11, "num_experts": 3, "moe_intermediate_size": 4, "shared_expert_intermediate_size": 5,
        "mtp_num_hidden_layers": 1, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
        "linear_key_head_dim": 3, "linear_value_head_dim": 2, "linear_conv_kernel_dim": 4,
        "full_attention_interval": 4}})",
};

}  // namespace weightproof::adapters
