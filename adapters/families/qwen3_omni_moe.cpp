// SPDX-License-Identifier: Apache-2.0
// Qwen 3 Omni: the thinker is a Qwen 3 with routed experts under "thinker."; its towers pass through, talker and
// vocoder are other models beside it. A thinker exported alone has no prefix.
#include <array>

#include "adapters/families/families.hpp"
#include "adapters/qwen.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 2> k_model_types = {"qwen3_omni_moe", "qwen3_omni_moe_thinker"};
constexpr std::array<std::string_view, 2> k_architectures = {"Qwen3OmniMoeForConditionalGeneration",
                                                             "Qwen3OmniMoeThinkerForConditionalGeneration"};

constexpr std::array<std::string_view, 7> k_required = {
    "hidden_size",       "intermediate_size", "moe_intermediate_size", "num_attention_heads", "num_experts",
    "num_hidden_layers", "vocab_size"};

constexpr std::array k_name_spaces = {NameSpace{"thinker.model.", "thinker.lm_head.weight"},
                                      NameSpace{"model.", "lm_head.weight"}};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  Form form = find_plain_form(k_qwen3_omni_moe, config, catalog, k_name_spaces);
  form.expert_layout = find_expert_layout(catalog, form.name_space + "layers.");
  return form;
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const NameSpace& names = name_space_of(form, k_name_spaces);
  Describer d(k_qwen3_omni_moe, config, form);
  const std::string outer(names.prefix.substr(0, names.prefix.size() - std::string_view("model.").size()));
  for (const std::string tower : {"visual.", "audio_tower."}) {
    d.builder().passthrough(outer + tower, "a tower beside the text model, kept as it is", tower);
  }
  d.builder().drop("talker.*", "the talker is another model, no part of the thinker");
  d.builder().drop("code2wav.*", "the vocoder is another model, no part of the thinker");
  qwen3_moe_layers(d, Fields(config, k_qwen3_omni_moe.config_root), storage, names);
  return std::move(d).finish();
}

}  // namespace

const Family k_qwen3_omni_moe = {
    .name = "qwen3_omni_moe",
    .title = "Qwen 3 Omni, thinker with mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .config_root = "thinker_config.text_config",
    .tie_policy = TiePolicy::untied_only,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "qwen3_omni_moe", "thinker_config": {"text_config": {"model_type": "qwen3_moe",
        "hidden_size": 6, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 3, "vocab_size": 11, "intermediate_size": 10, "num_experts": 5, "moe_intermediate_size": 4,
        "decoder_sparse_step": 2, "mlp_only_layers": [2]}}})",
};

}  // namespace weightproof::adapters
