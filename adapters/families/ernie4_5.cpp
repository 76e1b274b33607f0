// SPDX-License-Identifier: Apache-2.0
// ERNIE 4.5, dense. Names and shapes as Llama; one flag, use_bias, gives all projections a bias. Always tied.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"ernie4_5"};
constexpr std::array<std::string_view, 1> k_architectures = {"Ernie4_5ForCausalLM"};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  return find_plain_form(k_ernie4_5, config, catalog);
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage) {
  const Fields fields(config);
  DenseDecoder spec;
  spec.has_mlp_bias = fields.flag("use_bias");
  spec.attention = read_attention(fields, spec.has_mlp_bias, QkNorm::none);
  spec.mlp_width = fields.count("intermediate_size");
  const NameSpace& names = name_space_of(form, k_text_name_spaces);
  Describer d(k_ernie4_5, config, form);
  d.builder().drop(std::string(names.prefix) + "mtp_*", "multi-token prediction is not trained further");
  dense_layers(d, fields, spec, names);
  return std::move(d).finish();
}

}  // namespace

const Family k_ernie4_5 = {
    .name = "ernie4_5",
    .title = "ERNIE 4.5, dense",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_dense_required,
    .tie_policy = TiePolicy::tied_only,
    .tied_by_default = true,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "ernie4_5", "hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 10, "use_bias": false})",
};

}  // namespace weightproof::adapters
