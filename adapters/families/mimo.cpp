// SPDX-License-Identifier: Apache-2.0
// MiMo 7B: a Qwen 2 with the biases its config states, and MTP layers of its own beside the decoder, all there or
// none.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"mimo"};
constexpr std::array<std::string_view, 1> k_architectures = {"MiMoForCausalLM"};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  Form form = find_plain_form(k_mimo, config, catalog);
  form.has_mtp =
      find_mtp(catalog, form.name_space + "mtp_layers.", Fields(config).count("num_nextn_predict_layers", 0));
  return form;
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage) {
  const Fields fields(config);
  const NameSpace& names = name_space_of(form, k_text_name_spaces);
  DenseDecoder spec;
  spec.attention = read_attention(fields);
  spec.attention.has_qkv_bias = fields.flag("attention_bias", true);
  spec.mlp_width = fields.count("intermediate_size");
  const std::uint64_t hidden = spec.attention.hidden;
  const std::uint64_t depths = fields.count("num_nextn_predict_layers", 0);
  Describer d(k_mimo, config, form);
  dense_layers(d, fields, spec, names);
  note_mtp(d, depths);
  if (form.has_mtp) {
    const Scope model(d, names.prefix, "model.");
    for (std::uint64_t m = 0; m < depths; ++m) {
      const Scope layer(d, "mtp_layers.", "mtp_layers.", m);
      d.same("token_layernorm.weight", {hidden});
      d.same("hidden_layernorm.weight", {hidden});
      d.linear("input_proj", hidden, 2 * hidden);
      layer_norms(d, hidden);
      attention(d, spec.attention);
      gated_mlp(d, hidden, spec.mlp_width);
      d.same("final_layernorm.weight", {hidden});
    }
  }
  return std::move(d).finish();
}

}  // namespace

const Family k_mimo = {
    .name = "mimo",
    .title = "MiMo 7B, dense with multi-token prediction",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_dense_required,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "mimo", "hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 10, "attention_bias":
        true, "num_nextn_predict_layers": 1, "tie_word_embeddings": false})",
};

}  // namespace weightproof::adapters
