// SPDX-License-Identifier: Apache-2.0
#include "adapters/qwen3_5_blocks.hpp"

#include <algorithm>
#include <array>

namespace weightproof::adapters {
namespace {

constexpr std::array k_name_spaces = {NameSpace{"model.language_model.", "lm_head.weight"},
                                      NameSpace{"language_model.model.", "language_model.lm_head.weight"},
                                      NameSpace{"model.", "lm_head.weight"}, NameSpace{"", "lm_head.weight"}};
/// One generation keeps the head under "model.".
constexpr std::string_view k_inner_head = "model.lm_head.weight";

std::uint64_t mtp_depths(const Fields& fields) { return fields.count("mtp_num_hidden_layers", 0); }

bool is_composite(const NameSpace& names) { return names.prefix.find("language_model.") != std::string_view::npos; }

}  // namespace

Form find_qwen3_5_form(const Family& family, const ConfigValue& config, const Catalog& catalog) {
  Form form = find_plain_form(family, config, catalog, k_name_spaces);
  if (catalog.find(k_inner_head) != nullptr) {
    form.generation = "inner_head";
    form.has_stored_head = true;
  }
  form.has_mtp = find_mtp(catalog, "mtp.", mtp_depths(Fields(config, family.config_root)));
  const std::string layers = form.name_space + "layers.";
  if (config.has(family.config_root) ? config.find(family.config_root)->has("num_experts")
                                     : config.has("num_experts")) {
    form.expert_layout = find_expert_layout(catalog, layers, "stacked");
    if (form.has_mtp) {
      // Qwen3.5 stores the experts of its MTP layer one by one beside a stacked decoder.
      form.expert_layout += "+mtp_" + find_expert_layout(catalog, "mtp.", "per_expert");
    }
  }
  return form;
}

Schema describe_qwen3_5(const Family& family, const ConfigValue& config, const Form& form, ExpertStorage storage,
                        bool is_moe) {
  const Fields fields(config, family.config_root);
  NameSpace names = name_space_of(form, k_name_spaces);
  if (form.generation == "inner_head") names.head = k_inner_head;
  const std::string_view native = is_composite(names) ? "model.language_model." : "model.";
  const std::uint64_t layers = fields.layers();
  const std::vector<bool> is_full = read_full_attention(fields, layers);
  Attention full = read_attention(fields, fields.flag("attention_bias"), QkNorm::per_head);
  full.is_gated = true;
  const std::uint64_t hidden = full.hidden;
  const DeltaNet linear = read_delta_net(fields, false);
  const QwenExperts experts = is_moe ? read_qwen_experts(fields) : QwenExperts();
  const std::uint64_t dense_width = is_moe ? 0 : fields.count("intermediate_size");
  const std::size_t plus = form.expert_layout.find('+');
  const std::string layout = form.expert_layout.substr(0, plus);
  const std::string mtp_layout =
      plus == std::string::npos ? layout : form.expert_layout.substr(plus + std::string_view("+mtp_").size());

  Describer d(family, config, form);
  d.name_block_scales(".weight_scale_inv", DType::bf16);
  if (is_composite(names)) {
    d.builder().passthrough("model.visual.", "a tower beside the text model, kept as it is");
    d.builder().passthrough("vision_tower.", "a tower beside the text model, kept as it is", "model.visual.");
  }
  const auto mlp = [&](std::string_view expert_layout) {
    if (is_moe) {
      qwen_experts(d, experts, storage, expert_layout);
    } else {
      gated_mlp(d, hidden, dense_width);
    }
  };
  embedding_and_head(d, names, fields.count("vocab_size"), hidden, native);
  {
    const Scope model(d, names.prefix, native);
    for (std::uint64_t l = 0; l < layers; ++l) {
      const LayerScope layer(d, l);
      layer_norms(d, hidden);
      if (is_full[l]) {
        attention(d, full);
      } else {
        delta_net(d, linear);
      }
      mlp(layout);
    }
    d.same("norm.weight", {hidden});
  }
  note_mtp(d, mtp_depths(fields));
  if (form.has_mtp) {
    const Scope mtp(d, "mtp.");
    d.linear("fc", "layers.0.eh_proj", hidden, 2 * hidden, false);
    d.moved("pre_fc_norm_embedding.weight", "layers.0.enorm.weight", {hidden});
    d.moved("pre_fc_norm_hidden.weight", "layers.0.hnorm.weight", {hidden});
    d.moved("norm.weight", "layers.0.final_layernorm.weight", {hidden});
    for (std::uint64_t m = 0; m < std::max<std::uint64_t>(mtp_depths(fields), 1); ++m) {
      const Scope layer(d, "layers.", "layers.", m);
      layer_norms(d, hidden);
      attention(d, full);
      mlp(mtp_layout);
    }
  }
  return std::move(d).finish();
}

}  // namespace weightproof::adapters
