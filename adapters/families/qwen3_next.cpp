// SPDX-License-Identifier: Apache-2.0
// Qwen3-Next: gated delta nets with every fourth layer attention, whose query projection also holds a gate. Rows of
// in_proj_qkvz and in_proj_ba are grouped by key head and stay so. MTP tensors are not used.
#include <array>

#include "adapters/families/families.hpp"
#include "adapters/qwen.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"qwen3_next"};
constexpr std::array<std::string_view, 1> k_architectures = {"Qwen3NextForCausalLM"};

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
  Form form = find_plain_form(k_qwen3_next, config, catalog);
  form.expert_layout = find_expert_layout(catalog, form.name_space + "layers.");
  return form;
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const Fields fields(config);
  const NameSpace& names = name_space_of(form, k_text_name_spaces);
  const std::uint64_t layers = fields.layers();
  const std::vector<bool> is_full = read_full_attention(fields, layers);
  const QwenSparsity sparsity(fields);
  Attention full = read_attention(fields, fields.flag("attention_bias"), QkNorm::per_head);
  full.is_gated = true;
  const DeltaNet linear = read_delta_net(fields, true);
  const QwenExperts experts = read_qwen_experts(fields);

  Describer d(k_qwen3_next, config, form);
  d.builder().drop("mtp.*", "multi-token prediction is not trained further");
  embedding_and_head(d, names, fields.count("vocab_size"), full.hidden);
  const Scope model(d, names.prefix, "model.");
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, full.hidden);
    if (is_full[l]) {
      attention(d, full);
    } else {
      delta_net(d, linear);
    }
    if (sparsity.is_moe(l)) {
      qwen_experts(d, experts, storage, form.expert_layout);
    } else {
      gated_mlp(d, full.hidden, fields.count("intermediate_size"));
    }
  }
  d.same("norm.weight", {full.hidden});
  return std::move(d).finish();
}

}  // namespace

const Family k_qwen3_next = {
    .name = "qwen3_next",
    .title = "Qwen3-Next, mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .tie_policy = TiePolicy::untied_only,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "qwen3_next", "hidden_size": 6, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 10, "num_experts": 3,
        "moe_intermediate_size": 4, "shared_expert_intermediate_size": 5, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_key_head_dim": 3, "linear_value_head_dim": 2,
        "linear_conv_kernel_dim": 4, "full_attention_interval": 4})",
};

}  // namespace weightproof::adapters
