// SPDX-License-Identifier: Apache-2.0
#include "reference/families/families_internal.hpp"

namespace weightproof::reference::families {

std::vector<Line> operator+(std::vector<Line> left, const std::vector<Line>& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

std::string weight_and(bool has_bias) { return has_bias ? "{weight,bias}" : "{weight}"; }

std::vector<Line> top(const std::string& prefix) {
  return {{prefix + "embed_tokens.weight", "", Rule::same},
          {prefix + "norm.weight", "", Rule::same},
          {"lm_head.weight", "", Rule::same}};
}

std::vector<Line> norms(const std::string& layers) {
  return {{layers + "#.{input,post_attention}_layernorm.weight", "", Rule::same}};
}

AttentionParts by_config(const Config& config, bool norm) {
  const bool has_bias = config.truth("attention_bias");
  return {has_bias, has_bias, norm};
}

std::vector<Line> attention(const std::string& layers, AttentionParts parts) {
  std::vector<Line> lines{{layers + "#.self_attn.{q,k,v,o}_proj.weight", "", Rule::same}};
  if (parts.qkv_bias) lines.push_back({layers + "#.self_attn.{q,k,v}_proj.bias", "", Rule::same});
  if (parts.o_bias) lines.push_back({layers + "#.self_attn.o_proj.bias", "", Rule::same});
  if (parts.norm) lines.push_back({layers + "#.self_attn.{q,k}_norm.weight", "", Rule::same});
  return lines;
}

std::vector<Line> latent_attention(const std::string& layers, bool has_bias) {
  std::vector<Line> lines{
      {layers + "#.self_attn.{q_proj,q_a_proj,q_b_proj,kv_a_proj_with_mqa,kv_b_proj,o_proj}.weight", "", Rule::same},
      {layers + "#.self_attn.{q_a,kv_a}_layernorm.weight", "", Rule::same}};
  if (has_bias) lines.push_back({layers + "#.self_attn.{q_a_proj,kv_a_proj_with_mqa,o_proj}.bias", "", Rule::same});
  return lines;
}

std::vector<Line> mlp(const std::string& layers, bool has_bias) {
  return shared_mlp(layers + "#.mlp", layers + "#.mlp", has_bias);
}

std::vector<Line> experts(const std::string& stored, const std::string& native, bool has_bias) {
  std::vector<Line> lines{{stored + ".#.gate_proj.weight", native + ".gate_and_up_projs", Rule::expert_gate},
                          {stored + ".#.up_proj.weight", native + ".gate_and_up_projs", Rule::expert_up},
                          {stored + ".#.down_proj.weight", native + ".down_projs", Rule::expert_down}};
  if (!has_bias) return lines;
  return lines + std::vector<Line>{{stored + ".#.gate_proj.bias", native + ".gate_up_proj_bias", Rule::bias_gate},
                                   {stored + ".#.up_proj.bias", native + ".gate_up_proj_bias", Rule::bias_up},
                                   {stored + ".#.down_proj.bias", native + ".down_proj_bias", Rule::bias_only}};
}

std::vector<Line> experts_w132(const std::string& stored, const std::string& native) {
  return {{stored + ".#.w1.weight", native + ".gate_and_up_projs", Rule::expert_gate},
          {stored + ".#.w3.weight", native + ".gate_and_up_projs", Rule::expert_up},
          {stored + ".#.w2.weight", native + ".down_projs", Rule::expert_down}};
}

std::vector<Line> experts_stacked(const std::string& stored, const std::string& native) {
  return {{stored + ".gate_up_proj", native + ".gate_and_up_projs", Rule::stacked_swap},
          {stored + ".down_proj", native + ".down_projs", Rule::stacked_swap}};
}

std::vector<Line> shared_mlp(const std::string& module, const std::string& native, bool has_bias) {
  return {{module + ".{gate,up,down}_proj." + weight_and(has_bias), native + ".{}_proj.{}", Rule::same}};
}

std::vector<Line> gated_delta_net(const std::string& layers) {
  const std::string module = layers + "#.linear_attn.";
  return {{module + "{in_proj_qkvz,in_proj_ba,in_proj_qkv,in_proj_z,in_proj_b,in_proj_a,conv1d,norm,out_proj}.weight",
           "", Rule::same},
          {module + "{A_log,dt_bias}", module + "_fp32_params.{}", Rule::same_f32}};
}

}  // namespace weightproof::reference::families
