// SPDX-License-Identifier: Apache-2.0
// Ling 2 (Bailing MoE V2). Query, key and value are one tensor, rows [q | k | v] by whole projection; other names for
// embedding, attention and correction bias. The first Ling shares the model type and is another model.
#include <array>

#include "adapters/blocks.hpp"
#include "adapters/experts.hpp"
#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 2> k_model_types = {"bailing_moe", "bailing_moe_v2"};
constexpr std::array<std::string_view, 1> k_architectures = {"BailingMoeV2ForCausalLM"};

constexpr std::array<std::string_view, 8> k_required = {
    "head_dim",    "hidden_size",       "intermediate_size", "moe_intermediate_size", "num_attention_heads",
    "num_experts", "num_hidden_layers", "vocab_size"};

constexpr std::array k_name_spaces = {NameSpace{"model.", "lm_head.weight"}};
constexpr std::array<std::string_view, 2> k_parts = {"layers.", "word_embeddings."};

bool accepts(const ConfigValue& config) {
  const ConfigValue* architectures = config.find("architectures");
  if (architectures == nullptr) return true;
  for (const ConfigValue& item : architectures->items()) {
    if (item.as_string() == "BailingMoeForCausalLM") return false;
  }
  return true;
}

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  find_name_space(catalog, k_name_spaces, k_parts);
  Form form = find_plain_form(k_ling_v2, config, catalog, k_name_spaces);
  form.stored_layers = count_numbered(catalog, form.name_space + "layers.");
  return form;
}

/// Rows [q | k | v] of one stored tensor into three native ones. `tail` is what follows the rows: {hidden} or nothing.
void split_rows(Describer& d, StoredId fused, const Attention& spec, std::string_view leaf, const Shape& tail) {
  std::uint64_t row = 0;
  for (const std::string_view name : {"q_proj", "k_proj", "v_proj"}) {
    const std::uint64_t rows = (name == "q_proj" ? spec.heads : spec.kv_heads) * spec.head_dim;
    Shape shape{rows};
    for (const std::uint64_t extent : tail) shape.push_back(extent);
    const NativeId native = d.native("self_attn." + std::string(name) + std::string(leaf), shape);
    d.builder().bind(fused, d.builder().whole_stored(fused).narrow(0, row, rows), native, d.builder().whole(native));
    d.cut(name == "q_proj" ? columns(spec.heads, spec.head_dim) : kv_columns(spec.kv_heads, spec.head_dim));
    row += rows;
  }
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const Fields fields(config);
  const std::uint64_t layers = fields.layers();
  const std::uint64_t first_moe = fields.count("first_k_dense_replace", 0);
  const Attention attention_spec = read_attention(fields);
  const std::uint64_t hidden = attention_spec.hidden;
  const std::uint64_t q = attention_spec.heads * attention_spec.head_dim;
  const std::uint64_t qkv = q + 2 * attention_spec.kv_heads * attention_spec.head_dim;
  const std::uint64_t dense_width = fields.count("intermediate_size");
  ExpertSpec experts;
  experts.experts = fields.count("num_experts");
  experts.input = hidden;
  experts.width = fields.count("moe_intermediate_size");
  const std::uint64_t shared = fields.count("num_shared_experts", 0) * experts.width;

  Describer d(k_ling_v2, config, form);
  drop_layers_from(d, "model.layers.", layers, "a layer beyond num_hidden_layers: multi-token prediction");
  Embedding embedding;
  embedding.vocab = fields.count("vocab_size");
  embedding.hidden = hidden;
  embedding.stored = "model.word_embeddings.weight";
  embedding_and_head(d, embedding);
  const Scope model(d, "model.");
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, hidden);
    split_rows(d, d.stored_linear("attention.query_key_value", qkv, hidden), attention_spec, ".weight", {hidden});
    if (fields.flag("use_qkv_bias")) {
      split_rows(d, d.stored_bias("attention.query_key_value", qkv), attention_spec, ".bias", {});
    }
    d.linear("attention.dense", "self_attn.o_proj", hidden, q, fields.flag("use_bias"),
             rows(attention_spec.heads, attention_spec.head_dim));
    if (fields.flag("use_qk_norm")) {
      d.moved("attention.query_layernorm.weight", "self_attn.q_norm.weight", {attention_spec.head_dim});
      d.moved("attention.key_layernorm.weight", "self_attn.k_norm.weight", {attention_spec.head_dim});
    }
    if (l < first_moe) {
      gated_mlp(d, hidden, dense_width);
      continue;
    }
    d.same("mlp.gate.weight", {experts.experts, hidden});
    if (fields.flag("moe_router_enable_expert_bias")) {
      d.moved("mlp.gate.expert_bias", "mlp.gate.e_score_correction_bias", {experts.experts}, DTypeRule::f32_state);
    }
    per_expert(d, experts, storage);
    if (shared != 0) gated_mlp(d, "mlp.shared_experts.", "mlp.shared_experts.", hidden, shared);
  }
  d.same("norm.weight", {hidden});
  return std::move(d).finish();
}

}  // namespace

const Family k_ling_v2 = {
    .name = "ling_v2",
    .title = "Ling 2 (Bailing MoE V2)",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .tie_policy = TiePolicy::untied_only,
    .accepts = accepts,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "bailing_moe", "hidden_size": 6, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 3, "vocab_size": 11, "intermediate_size": 5, "num_experts": 3,
        "num_shared_experts": 1, "moe_intermediate_size": 4, "first_k_dense_replace": 1, "use_qk_norm": true,
        "use_qkv_bias": true, "use_bias": true, "moe_router_enable_expert_bias": true})",
};

}  // namespace weightproof::adapters
