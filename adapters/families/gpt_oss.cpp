// SPDX-License-Identifier: Apache-2.0
// gpt-oss. Experts are stacked: MXFP4 blocks and scales in [E, out, in] orientation, or BF16 already as natively, [E,
// in, out]. Gate and up alternate in weights and biases, and stay so.
#include <array>
#include <string>

#include "adapters/blocks.hpp"
#include "adapters/experts.hpp"
#include "adapters/families/families.hpp"
#include "loader/core/error.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"gpt_oss"};
constexpr std::array<std::string_view, 1> k_architectures = {"GptOssForCausalLM"};

constexpr std::array<std::string_view, 7> k_required = {
    "head_dim",          "hidden_size",       "intermediate_size", "num_attention_heads",
    "num_hidden_layers", "num_local_experts", "vocab_size"};

constexpr std::array<std::string_view, 1> k_aliases = {"gpt_oss_bf16"};
constexpr std::uint64_t k_group = 32;  // values that share a scale

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  Form form = find_plain_form(k_gpt_oss, config, catalog);
  const std::string layers = form.name_space + "layers.";
  const bool has_blocks = !find_key(catalog, layers, "experts.gate_up_proj_blocks").empty();
  const std::string_view plain = find_key(catalog, layers, "experts.gate_up_proj");
  if (has_blocks && !plain.empty()) {
    ErrorFacts facts;
    facts.keys = {std::string(plain), std::string(find_key(catalog, layers, "experts.gate_up_proj_blocks"))};
    facts.check = "layout.mixed";
    throw Error(ErrorCode::namespace_mixed, "experts are stored in blocks and plainly at once", std::move(facts));
  }
  form.expert_layout = has_blocks || (plain.empty() && form.quantization == "mxfp4") ? "blocks" : "stacked_transposed";
  return form;
}

/// The stored experts of one projection, [E, out, in] in codes or [E, in, out] plain, as a view [E, out, in].
View projection(Describer& d, std::string_view name, std::uint64_t experts, std::uint64_t out, std::uint64_t in,
                bool has_blocks, StoredId& stored) {
  if (!has_blocks) {
    stored = d.stored(name, {experts, in, out});
    return d.builder().whole_stored(stored).transpose(1, 2);
  }
  if (in % k_group != 0) {
    ErrorFacts facts;
    facts.file = "config.json";
    facts.expected = "a multiple of 32";
    facts.actual = std::to_string(in);
    throw Error(ErrorCode::config_invalid, "rows of MXFP4 codes are whole groups", std::move(facts));
  }
  stored = d.stored(name, {experts, out, in});
  const std::string key(d.stored_key(name));
  const std::string blocks = key + "_blocks";
  const std::string scales = key + "_scales";
  const SchemaBuilder::Part parts[] = {{"weight", blocks, {experts, out, in / k_group, k_group / 2}, DType::u8},
                                       {"scale", scales, {experts, out, in / k_group}, DType::u8}};
  d.builder().code(stored, "mxfp4_blocks", parts);
  return d.builder().whole_stored(stored);
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const Fields fields(config);
  const NameSpace& names = name_space_of(form, k_text_name_spaces);
  const std::uint64_t layers = fields.layers();
  const Attention attention_spec = read_attention(fields, fields.flag("attention_bias", true), QkNorm::none);
  const std::uint64_t hidden = attention_spec.hidden;
  ExpertSpec spec;
  spec.experts = fields.count("num_local_experts");
  spec.input = hidden;
  spec.width = fields.count("intermediate_size");
  spec.has_bias = true;
  spec.has_interleaved_gate = true;
  const bool has_blocks = form.expert_layout == "blocks";

  Describer d(k_gpt_oss, config, form);
  embedding_and_head(d, names, fields.count("vocab_size"), hidden);
  const Scope model(d, names.prefix, "model.");
  for (std::uint64_t l = 0; l < layers; ++l) {
    const LayerScope layer(d, l);
    layer_norms(d, hidden);
    attention(d, attention_spec);
    d.same("self_attn.sinks", {attention_spec.heads});
    d.cut(columns(attention_spec.heads));
    d.moved("mlp.router.weight", "mlp.gate.weight", {spec.experts, hidden});
    d.moved("mlp.router.bias", "mlp.gate.bias", {spec.experts});
    Experts experts(d, spec, storage, "mlp.experts.");
    const Scope inside(d, "mlp.experts.");
    StoredId stored = k_no_id;
    const View gate_up = projection(d, "gate_up_proj", spec.experts, 2 * spec.width, hidden, has_blocks, stored);
    experts.bind_all_gate_up(stored, gate_up);
    const View down = projection(d, "down_proj", spec.experts, hidden, spec.width, has_blocks, stored);
    experts.bind_all_down(stored, down);
    stored = d.stored("gate_up_proj_bias", {spec.experts, 2 * spec.width});
    experts.bind_all_gate_up_bias(stored, d.builder().whole_stored(stored));
    stored = d.stored("down_proj_bias", {spec.experts, hidden});
    experts.bind_all_down_bias(stored, d.builder().whole_stored(stored));
  }
  d.same("norm.weight", {hidden});
  return std::move(d).finish();
}

}  // namespace

const Family k_gpt_oss = {
    .name = "gpt_oss",
    .title = "gpt-oss, MXFP4 and BF16",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .tie_policy = TiePolicy::untied_only,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "gpt_oss", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "num_local_experts": 3, "vocab_size":
        11, "quantization_config": {"quant_method": "mxfp4"}})",
    .aliases = k_aliases,
};

}  // namespace weightproof::adapters
