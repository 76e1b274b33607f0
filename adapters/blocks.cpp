// SPDX-License-Identifier: Apache-2.0
#include "adapters/blocks.hpp"

#include <array>

#include "loader/core/error.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 5> k_dense_required_storage = {
    "hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "vocab_size"};

}  // namespace

const std::span<const std::string_view> k_dense_required{k_dense_required_storage};

Attention read_attention(const Fields& fields) {
  Attention spec;
  spec.hidden = fields.count("hidden_size");
  spec.heads = fields.count("num_attention_heads");
  spec.kv_heads = fields.count("num_key_value_heads", spec.heads);
  if (!fields.has("head_dim") && (spec.heads == 0 || spec.hidden % spec.heads != 0)) {
    ErrorFacts facts;
    facts.file = "config.json";
    facts.expected = "head_dim, or a hidden_size that is a multiple of num_attention_heads";
    facts.actual = std::to_string(spec.hidden) + " and " + std::to_string(spec.heads);
    throw Error(ErrorCode::config_invalid, "the width of an attention head does not follow from the config",
                std::move(facts));
  }
  spec.head_dim = fields.has("head_dim") ? fields.count("head_dim") : spec.hidden / spec.heads;
  return spec;
}

Attention read_attention(const Fields& fields, bool has_bias, QkNorm norm) {
  Attention spec = read_attention(fields);
  spec.has_qkv_bias = spec.has_o_bias = has_bias;
  spec.norm = norm;
  return spec;
}

void attention(Describer& d, const Attention& spec, std::string_view scope) {
  const Scope inside(d, scope);
  const std::uint64_t q = spec.heads * spec.head_dim;
  const std::uint64_t kv = spec.kv_heads * spec.head_dim;
  d.linear("q_proj", spec.is_gated ? 2 * q : q, spec.hidden, spec.has_qkv_bias);
  d.linear("k_proj", kv, spec.hidden, spec.has_qkv_bias);
  d.linear("v_proj", kv, spec.hidden, spec.has_qkv_bias);
  d.linear("o_proj", spec.hidden, q, spec.has_o_bias);
  if (spec.norm == QkNorm::none) return;
  d.same("q_norm.weight", {spec.norm == QkNorm::per_head ? spec.head_dim : q});
  d.same("k_norm.weight", {spec.norm == QkNorm::per_head ? spec.head_dim : kv});
}

void gated_mlp(Describer& d, std::string_view stored, std::string_view native, std::uint64_t hidden,
               std::uint64_t width, bool has_bias) {
  const Scope inside(d, stored, native);
  d.linear("gate_proj", width, hidden, has_bias);
  d.linear("up_proj", width, hidden, has_bias);
  d.linear("down_proj", hidden, width, has_bias);
}

void layer_norms(Describer& d, std::uint64_t hidden) {
  d.same("input_layernorm.weight", {hidden});
  d.same("post_attention_layernorm.weight", {hidden});
}

void embedding_and_head(Describer& d, const Embedding& spec) {
  const Shape shape{spec.vocab, spec.hidden};
  const StoredId stored = d.stored(spec.stored, shape);
  const NativeId native = d.native(spec.native, shape);
  d.builder().bind(stored, native, d.builder().whole(native));
  if (d.form().is_tied) {
    d.builder().tie(spec.stored_head, stored, native, "head and embedding are one tensor");
  } else {
    d.moved(spec.stored_head, spec.native_head, shape);
  }
}

void embedding_and_head(Describer& d, const NameSpace& name_space, std::uint64_t vocab, std::uint64_t hidden,
                        std::string_view native_prefix, std::string_view native_head) {
  const std::string stored = std::string(name_space.prefix) + "embed_tokens.weight";
  const std::string native = std::string(native_prefix) + "embed_tokens.weight";
  Embedding spec;
  spec.vocab = vocab;
  spec.hidden = hidden;
  spec.stored = stored;
  spec.native = native;
  spec.stored_head = name_space.head;
  spec.native_head = native_head;
  embedding_and_head(d, spec);
}

Schema dense_decoder(const Family& family, const ConfigValue& config, const Form& form, const DenseDecoder& spec) {
  const Fields fields(config, family.config_root);
  const NameSpace& name_space = name_space_of(form, k_text_name_spaces);
  Describer d(family, config, form);
  const std::uint64_t hidden = spec.attention.hidden;
  const std::uint64_t layers = fields.layers();
  embedding_and_head(d, name_space, fields.count("vocab_size"), hidden);
  const Scope model(d, name_space.prefix, "model.");
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, hidden);
    attention(d, spec.attention);
    gated_mlp(d, hidden, spec.mlp_width, spec.has_mlp_bias);
  }
  d.same("norm.weight", {hidden});
  return std::move(d).finish();
}

}  // namespace weightproof::adapters
