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
  const ParallelRule by_kv_head = kv_columns(spec.kv_heads, spec.head_dim);
  d.linear("q_proj", spec.is_gated ? 2 * q : q, spec.hidden, spec.has_qkv_bias,
           columns(spec.heads, spec.is_gated ? 2 * spec.head_dim : spec.head_dim));
  d.linear("k_proj", kv, spec.hidden, spec.has_qkv_bias, by_kv_head);
  d.linear("v_proj", kv, spec.hidden, spec.has_qkv_bias, by_kv_head);
  d.linear("o_proj", spec.hidden, q, spec.has_o_bias, rows(spec.heads, spec.head_dim));
  if (spec.norm == QkNorm::none) return;
  const bool is_flattened = spec.norm == QkNorm::flattened;
  d.same("q_norm.weight", {is_flattened ? q : spec.head_dim});
  if (is_flattened) d.cut(columns(spec.heads, spec.head_dim));
  d.same("k_norm.weight", {is_flattened ? kv : spec.head_dim});
  if (is_flattened) d.cut(by_kv_head);
}

void gated_mlp(Describer& d, std::string_view stored, std::string_view native, std::uint64_t hidden,
               std::uint64_t width, bool has_bias) {
  const Scope inside(d, stored, native);
  d.linear("gate_proj", width, hidden, has_bias, columns(width));
  d.linear("up_proj", width, hidden, has_bias, columns(width));
  d.linear("down_proj", hidden, width, has_bias, rows(width));
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
  // A tied head is the same storage, which the last stage holds too.
  d.builder().parallel(native, vocabulary(d.form().is_tied ? StageRule::both : StageRule::first));
  if (d.form().is_tied) {
    d.builder().tie(spec.stored_head, stored, native, "head and embedding are one tensor");
  } else {
    d.moved(spec.stored_head, spec.native_head, shape);
    d.cut(vocabulary(StageRule::last));
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

void drop_layers_from(Describer& d, std::string_view layers_prefix, std::uint64_t first, std::string_view reason) {
  for (std::uint64_t layer = first; layer < d.form().stored_layers; ++layer) {
    d.builder().drop(std::string(layers_prefix) + std::to_string(layer) + ".*", std::string(reason));
  }
}

std::vector<bool> read_full_attention(const Fields& fields, std::uint64_t layers) {
  std::vector<bool> is_full(layers, false);
  const std::vector<std::string_view> types = fields.texts("layer_types");
  if (!types.empty()) {
    if (types.size() < layers) {
      ErrorFacts facts;
      facts.file = "config.json";
      facts.expected = std::to_string(layers) + " entries";
      facts.actual = std::to_string(types.size());
      throw Error(ErrorCode::config_invalid, "config field layer_types is shorter than the model", std::move(facts));
    }
    for (std::uint64_t l = 0; l < layers; ++l) is_full[l] = types[l] == "full_attention";
    return is_full;
  }
  const std::uint64_t interval = fields.count("full_attention_interval");
  for (std::uint64_t l = 0; interval != 0 && l < layers; ++l) is_full[l] = (l + 1) % interval == 0;
  return is_full;
}

QwenSparsity::QwenSparsity(const Fields& fields)
    : experts_(fields.count("num_experts")),
      step_(fields.count("decoder_sparse_step", 1)),
      mlp_only_(fields.counts("mlp_only_layers")) {}

bool QwenSparsity::is_moe(std::uint64_t layer) const {
  return experts_ > 0 && step_ > 0 && (layer + 1) % step_ == 0 && !contains(mlp_only_, layer);
}

DeltaNet read_delta_net(const Fields& fields, bool has_joint_projections) {
  DeltaNet spec;
  spec.hidden = fields.count("hidden_size");
  spec.key_heads = fields.count("linear_num_key_heads");
  spec.value_heads = fields.count("linear_num_value_heads");
  spec.key_dim = fields.count("linear_key_head_dim");
  spec.value_dim = fields.count("linear_value_head_dim");
  spec.kernel = fields.count("linear_conv_kernel_dim");
  spec.has_joint_projections = has_joint_projections;
  return spec;
}

void delta_net(Describer& d, const DeltaNet& spec) {
  const Scope inside(d, "linear_attn.");
  const std::uint64_t keys = spec.key_heads * spec.key_dim;
  const std::uint64_t values = spec.value_heads * spec.value_dim;
  // Everything is cut by key head: its value heads go with it, whether rows are grouped by head or not.
  const std::uint64_t groups = spec.key_heads;
  if (groups == 0 || spec.value_heads % groups != 0) {
    ErrorFacts facts;
    facts.file = "config.json";
    facts.expected = "linear_num_value_heads a multiple of linear_num_key_heads";
    facts.actual = std::to_string(spec.value_heads) + " and " + std::to_string(groups);
    throw Error(ErrorCode::config_invalid, "value heads do not divide into groups by key head", std::move(facts));
  }
  const std::uint64_t heads = spec.value_heads / groups;
  const std::uint64_t wide = heads * spec.value_dim;
  const ParallelRule by_channel =
      along(0, {{groups, spec.key_dim, false}, {groups, spec.key_dim, false}, {groups, wide, false}});
  if (spec.has_joint_projections) {
    d.linear("in_proj_qkvz", 2 * keys + 2 * values, spec.hidden, false, columns(groups, 2 * spec.key_dim + 2 * wide));
    d.linear("in_proj_ba", 2 * spec.value_heads, spec.hidden, false, columns(groups, 2 * heads));
  } else {
    d.linear("in_proj_qkv", 2 * keys + values, spec.hidden, false, by_channel);
    d.linear("in_proj_z", values, spec.hidden, false, columns(groups, wide));
    d.linear("in_proj_b", spec.value_heads, spec.hidden, false, columns(groups, heads));
    d.linear("in_proj_a", spec.value_heads, spec.hidden, false, columns(groups, heads));
  }
  d.same("conv1d.weight", {2 * keys + values, 1, spec.kernel});
  d.cut(by_channel);
  d.moved("dt_bias", "_fp32_params.dt_bias", {spec.value_heads}, DTypeRule::f32_state);
  d.cut(columns(groups, heads));
  d.moved("A_log", "_fp32_params.A_log", {spec.value_heads}, DTypeRule::f32_state);
  d.cut(columns(groups, heads));
  d.same("norm.weight", {spec.value_dim});
  d.linear("out_proj", spec.hidden, values, false, rows(groups, wide));
}

LatentAttention read_latent_attention(const Fields& fields) {
  LatentAttention spec;
  spec.hidden = fields.count("hidden_size");
  spec.heads = fields.count("num_attention_heads");
  spec.q_rank = fields.count("q_lora_rank", 0);
  spec.kv_rank = fields.count("kv_lora_rank");
  spec.nope_dim = fields.count("qk_nope_head_dim");
  spec.rope_dim = fields.count("qk_rope_head_dim");
  spec.value_dim = fields.count("v_head_dim");
  return spec;
}

void latent_attention(Describer& d, const LatentAttention& spec) {
  const Scope inside(d, "self_attn.");
  const std::uint64_t q_head = spec.nope_dim + spec.rope_dim;
  const std::uint64_t q = spec.heads * q_head;
  if (spec.q_rank == 0) {
    d.linear("q_proj", q, spec.hidden, false, columns(spec.heads, q_head));
  } else {
    d.linear("q_a_proj", spec.q_rank, spec.hidden);
    d.same("q_a_layernorm.weight", {spec.q_rank});
    d.linear("q_b_proj", q, spec.q_rank, false, columns(spec.heads, q_head));
  }
  d.linear("kv_a_proj_with_mqa", spec.kv_rank + spec.rope_dim, spec.hidden);
  d.same("kv_a_layernorm.weight", {spec.kv_rank});
  d.linear("kv_b_proj", spec.heads * (spec.nope_dim + spec.value_dim), spec.kv_rank, false,
           columns(spec.heads, spec.nope_dim + spec.value_dim));
  d.linear("o_proj", spec.hidden, spec.heads * spec.value_dim, false, rows(spec.heads, spec.value_dim));
}

void note_mtp(Describer& d, std::uint64_t depths) {
  if (depths == 0 || d.form().has_mtp) return;
  d.builder().defaulted("multi-token prediction: absent, none of the config's " + std::to_string(depths) +
                        (depths == 1 ? " layer is stored" : " layers is stored"));
}

void dense_layers(Describer& d, const Fields& fields, const DenseDecoder& spec, const NameSpace& names,
                  std::string_view native_prefix) {
  const std::uint64_t hidden = spec.attention.hidden;
  const std::uint64_t layers = fields.layers();
  embedding_and_head(d, names, fields.count("vocab_size"), hidden, native_prefix);
  const Scope model(d, names.prefix, native_prefix);
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, hidden);
    attention(d, spec.attention);
    gated_mlp(d, hidden, spec.mlp_width, spec.has_mlp_bias);
  }
  d.same("norm.weight", {hidden});
}

Schema dense_decoder(const Family& family, const ConfigValue& config, const Form& form, const DenseDecoder& spec) {
  Describer d(family, config, form);
  dense_layers(d, Fields(config, family.config_root), spec, name_space_of(form, k_text_name_spaces));
  return std::move(d).finish();
}

}  // namespace weightproof::adapters
