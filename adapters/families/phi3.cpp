// SPDX-License-Identifier: Apache-2.0
// Phi-3. Query, key and value are one tensor, gate and up another; both stay as they are stored.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"phi3"};
constexpr std::array<std::string_view, 1> k_architectures = {"Phi3ForCausalLM"};

Form find_form(const ConfigValue& config, const Catalog& catalog) { return find_plain_form(k_phi3, config, catalog); }

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage) {
  const Fields fields(config);
  const NameSpace& names = name_space_of(form, k_text_name_spaces);
  const Attention spec = read_attention(fields);
  const std::uint64_t layers = fields.layers();
  const std::uint64_t width = fields.count("intermediate_size");
  Describer d(k_phi3, config, form);
  embedding_and_head(d, names, fields.count("vocab_size"), spec.hidden);
  const Scope model(d, names.prefix, "model.");
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, spec.hidden);
    const FusedComponent queries{spec.heads, spec.head_dim, false};
    const FusedComponent keys{spec.kv_heads, spec.head_dim, true};
    d.linear("self_attn.qkv_proj", (spec.heads + 2 * spec.kv_heads) * spec.head_dim, spec.hidden, false,
             along(0, {queries, keys, keys}));
    d.linear("self_attn.o_proj", spec.hidden, spec.heads * spec.head_dim, false, rows(spec.heads, spec.head_dim));
    d.linear("mlp.gate_up_proj", 2 * width, spec.hidden, false, along(0, {{width, 1, false}, {width, 1, false}}));
    d.linear("mlp.down_proj", spec.hidden, width, false, rows(width));
  }
  d.same("norm.weight", {spec.hidden});
  return std::move(d).finish();
}

}  // namespace

const Family k_phi3 = {
    .name = "phi3",
    .title = "Phi-3, dense",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_dense_required,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "phi3", "hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 10,
        "tie_word_embeddings": false})",
};

}  // namespace weightproof::adapters
