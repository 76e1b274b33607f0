// SPDX-License-Identifier: Apache-2.0
// Mixtral. Experts are numbered w1 (gate), w3 (up), w2 (down) under "block_sparse_moe."; natively they are grouped
// under "mlp." like every other family.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/experts.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"mixtral"};
constexpr std::array<std::string_view, 1> k_architectures = {"MixtralForCausalLM"};

constexpr std::array<std::string_view, 6> k_required = {"hidden_size",       "intermediate_size", "num_attention_heads",
                                                        "num_hidden_layers", "num_local_experts", "vocab_size"};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  return find_plain_form(k_mixtral, config, catalog);
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const Fields fields(config);
  const NameSpace& names = name_space_of(form, k_text_name_spaces);
  const std::uint64_t layers = fields.layers();
  const Attention attention_spec = read_attention(fields, fields.flag("attention_bias"), QkNorm::none);
  const std::uint64_t hidden = attention_spec.hidden;
  ExpertSpec experts;
  experts.experts = fields.count("num_local_experts");
  experts.input = hidden;
  experts.width = fields.count("intermediate_size");

  Describer d(k_mixtral, config, form);
  embedding_and_head(d, names, fields.count("vocab_size"), hidden);
  const Scope model(d, names.prefix, "model.");
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, hidden);
    attention(d, attention_spec);
    d.moved("block_sparse_moe.gate.weight", "mlp.gate.weight", {experts.experts, hidden});
    per_expert(d, experts, storage, "block_sparse_moe.experts.", "mlp.experts.", k_numbered_experts);
  }
  d.same("norm.weight", {hidden});
  return std::move(d).finish();
}

}  // namespace

const Family k_mixtral = {
    .name = "mixtral",
    .title = "Mixtral, mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "mixtral", "hidden_size": 6, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 4, "num_local_experts":
        3, "tie_word_embeddings": false})",
};

}  // namespace weightproof::adapters
