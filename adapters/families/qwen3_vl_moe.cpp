// SPDX-License-Identifier: Apache-2.0
// Qwen 3 VL with routed experts, stored stacked in native orientation: [E, H, 2I] and [E, I, H]. Qwen 3.5 stores the
// same names transposed.
#include <array>

#include "adapters/families/families.hpp"
#include "adapters/qwen.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"qwen3_vl_moe"};
constexpr std::array<std::string_view, 1> k_architectures = {"Qwen3VLMoeForConditionalGeneration"};

constexpr std::array<std::string_view, 7> k_required = {
    "hidden_size",       "intermediate_size", "moe_intermediate_size", "num_attention_heads", "num_experts",
    "num_hidden_layers", "vocab_size"};

constexpr std::array k_name_spaces = {NameSpace{"model.language_model.", "lm_head.weight"}};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  Form form = find_plain_form(k_qwen3_vl_moe, config, catalog, k_name_spaces);
  form.expert_layout = "stacked_transposed";
  return form;
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  Describer d(k_qwen3_vl_moe, config, form);
  d.builder().passthrough("model.visual.", "a tower beside the text model, kept as it is");
  qwen3_moe_layers(d, Fields(config, k_qwen3_vl_moe.config_root), storage, name_space_of(form, k_name_spaces),
                   "model.language_model.");
  return std::move(d).finish();
}

}  // namespace

const Family k_qwen3_vl_moe = {
    .name = "qwen3_vl_moe",
    .title = "Qwen 3 VL, text part with mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .config_root = "text_config",
    .tie_policy = TiePolicy::untied_only,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "qwen3_vl_moe", "text_config": {"model_type": "qwen3_moe", "hidden_size": 6,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 3, "vocab_size":
        11, "intermediate_size": 10, "num_experts": 5, "moe_intermediate_size": 4}})",
};

}  // namespace weightproof::adapters
