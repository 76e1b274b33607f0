// SPDX-License-Identifier: Apache-2.0
// Families whose native names and shapes are those of the file. Only tying needs a rule.
#include "reference/families/families_internal.hpp"

namespace weightproof::reference::families {

// qwen2 has biases on q, k and v whatever the config says; the others say which they have.
Family dense(const std::string& id, const Config& config) {
  const std::string layers = "model.layers.";
  AttentionParts parts = by_config(config, id == "qwen3");
  bool mlp_bias = config.truth("mlp_bias");
  if (id == "qwen2") parts = {true, false, false};
  if (id == "ernie4_5") mlp_bias = parts.qkv_bias = parts.o_bias = config.truth("use_bias");
  Family family;
  family.id = id;
  family.lines = top() + norms(layers) + attention(layers, parts) + mlp(layers, mlp_bias);
  family.tie = id == "ernie4_5" ? Tie::tied_only : Tie::both;
  if (id == "ernie4_5") family.dropped = {"model.mtp_*"};
  return family;
}

Family identity(const Config&) {
  Family family;
  family.id = "identity";
  family.takes_any_key = true;
  family.tie = Tie::both;
  return family;
}

// q, k and v in one projection; gate and up in one. Kept as stored.
Family phi3(const Config&) {
  Family family;
  family.id = "phi3";
  family.lines = top() + norms("model.layers.") +
                 std::vector<Line>{{"model.layers.#.self_attn.{qkv_proj,o_proj}.weight", "", Rule::same},
                                   {"model.layers.#.mlp.{gate_up_proj,down_proj}.weight", "", Rule::same}};
  family.tie = Tie::both;
  return family;
}

// A decoder with q, k, v biases and its own names for the layers that predict ahead; all under their own names.
Family mimo(const Config& config) {
  const AttentionParts parts{config.truth("attention_bias"), false, false};
  Family family;
  family.id = "mimo";
  family.tie = Tie::both;
  family.lines =
      top() + norms("model.layers.") + attention("model.layers.", parts) + mlp("model.layers.") +
      norms("model.mtp_layers.") + attention("model.mtp_layers.", parts) + mlp("model.mtp_layers.") +
      std::vector<Line>{
          {"model.mtp_layers.#.{final_layernorm,hidden_layernorm,token_layernorm,input_proj}.weight", "", Rule::same}};
  return family;
}

// The older layout of llama and qwen2: one projection per pair or triple, rows interleaved.
Family dense_combined(const Config&) {
  Family family;
  family.id = "dense_combined";
  family.tie = Tie::both;
  const std::string layer = "model.layers.#.";
  family.lines =
      top() + norms("model.layers.") +
      std::vector<Line>{{layer + "self_attn.q_proj.{weight,bias}", layer + "self_attn.qkv_proj.{}", Rule::group_q},
                        {layer + "self_attn.k_proj.{weight,bias}", layer + "self_attn.qkv_proj.{}", Rule::group_k},
                        {layer + "self_attn.v_proj.{weight,bias}", layer + "self_attn.qkv_proj.{}", Rule::group_v},
                        {layer + "self_attn.o_proj.{weight,bias}", "", Rule::same},
                        {layer + "mlp.gate_proj.{weight,bias}", layer + "mlp.gate_up_proj.{}", Rule::alternate_gate},
                        {layer + "mlp.up_proj.{weight,bias}", layer + "mlp.gate_up_proj.{}", Rule::alternate_up},
                        {layer + "mlp.down_proj.{weight,bias}", "", Rule::same}};
  return family;
}

}  // namespace weightproof::reference::families
