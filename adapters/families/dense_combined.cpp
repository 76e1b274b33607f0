// SPDX-License-Identifier: Apache-2.0
// An older native layout of Llama and Qwen 2, on request only: query, key and value rows interleaved by key-value
// group in one tensor, gate and up rows alternating in another. The stored side is the ordinary one.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/families/families.hpp"
#include "loader/core/error.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 2> k_model_types = {"llama", "qwen2"};
constexpr std::array<std::string_view, 2> k_architectures = {"LlamaForCausalLM", "Qwen2ForCausalLM"};

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  return find_plain_form(k_dense_combined, config, catalog);
}

/// Rows of one projection into its place in every group. `first`: the row of a group where it begins.
void bind_groups(Describer& d, StoredId stored, NativeId native, std::uint64_t groups, std::uint64_t group_rows,
                 std::uint64_t first, std::uint64_t rows) {
  const View from = d.builder().whole_stored(stored).unflatten(0, {groups, rows});
  const View to = d.builder().whole(native).unflatten(0, {groups, group_rows}).narrow(1, first, rows);
  d.builder().bind(stored, from, native, to);
}

void combined_attention(Describer& d, const Attention& spec) {
  if (spec.kv_heads == 0 || spec.heads % spec.kv_heads != 0) {
    ErrorFacts facts;
    facts.file = "config.json";
    facts.expected = "num_attention_heads a multiple of num_key_value_heads";
    facts.actual = std::to_string(spec.heads) + " and " + std::to_string(spec.kv_heads);
    throw Error(ErrorCode::config_invalid, "query heads do not divide into key-value groups", std::move(facts));
  }
  const Scope inside(d, "self_attn.");
  const std::uint64_t head = spec.head_dim;
  const std::uint64_t queries = spec.heads / spec.kv_heads * head;
  const std::uint64_t group = queries + 2 * head;
  const std::uint64_t height = group * spec.kv_heads;
  const ParallelRule by_group = columns(spec.kv_heads, group);
  const NativeId weight = d.native("qkv_proj.weight", {height, spec.hidden});
  d.builder().parallel(weight, by_group);
  bind_groups(d, d.stored_linear("q_proj", queries * spec.kv_heads, spec.hidden), weight, spec.kv_heads, group, 0,
              queries);
  bind_groups(d, d.stored_linear("k_proj", head * spec.kv_heads, spec.hidden), weight, spec.kv_heads, group, queries,
              head);
  bind_groups(d, d.stored_linear("v_proj", head * spec.kv_heads, spec.hidden), weight, spec.kv_heads, group,
              queries + head, head);
  if (spec.has_qkv_bias) {
    const NativeId bias = d.native("qkv_proj.bias", {height});
    d.builder().parallel(bias, by_group);
    bind_groups(d, d.stored_bias("q_proj", queries * spec.kv_heads), bias, spec.kv_heads, group, 0, queries);
    bind_groups(d, d.stored_bias("k_proj", head * spec.kv_heads), bias, spec.kv_heads, group, queries, head);
    bind_groups(d, d.stored_bias("v_proj", head * spec.kv_heads), bias, spec.kv_heads, group, queries + head, head);
  }
  d.linear("o_proj", spec.hidden, queries * spec.kv_heads, spec.has_o_bias, rows(spec.kv_heads, queries));
}

void combined_mlp(Describer& d, std::uint64_t hidden, std::uint64_t width, bool has_bias) {
  const Scope inside(d, "mlp.");
  const NativeId weight = d.native("gate_up_proj.weight", {2 * width, hidden});
  d.builder().parallel(weight, columns(width, 2));
  const View pairs = d.builder().whole(weight).unflatten(0, {width, 2});
  d.builder().bind(d.stored_linear("gate_proj", width, hidden), weight, pairs.select(1, 0));
  d.builder().bind(d.stored_linear("up_proj", width, hidden), weight, pairs.select(1, 1));
  if (has_bias) {
    const NativeId bias = d.native("gate_up_proj.bias", {2 * width});
    d.builder().parallel(bias, columns(width, 2));
    const View bias_pairs = d.builder().whole(bias).unflatten(0, {width, 2});
    d.builder().bind(d.stored_bias("gate_proj", width), bias, bias_pairs.select(1, 0));
    d.builder().bind(d.stored_bias("up_proj", width), bias, bias_pairs.select(1, 1));
  }
  d.linear("down_proj", hidden, width, has_bias, rows(width));
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage) {
  const Fields fields(config);
  const NameSpace& names = name_space_of(form, k_text_name_spaces);
  const bool is_qwen2 = fields.text("model_type") == "qwen2";
  Attention spec = read_attention(fields);
  spec.has_qkv_bias = is_qwen2 || fields.flag("attention_bias");
  spec.has_o_bias = !is_qwen2 && fields.flag("attention_bias");
  const std::uint64_t layers = fields.layers();
  const std::uint64_t width = fields.count("intermediate_size");
  Describer d(k_dense_combined, config, form);
  embedding_and_head(d, names, fields.count("vocab_size"), spec.hidden);
  const Scope model(d, names.prefix, "model.");
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, spec.hidden);
    combined_attention(d, spec);
    combined_mlp(d, spec.hidden, width, fields.flag("mlp_bias"));
  }
  d.same("norm.weight", {spec.hidden});
  return std::move(d).finish();
}

}  // namespace

const Family k_dense_combined = {
    .name = "dense_combined",
    .title = "Llama and Qwen 2 into combined projections",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_dense_required,
    .tied_by_default = std::nullopt,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "llama", "hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 10,
        "tie_word_embeddings": false})",
    .is_detected = false,
};

}  // namespace weightproof::adapters
