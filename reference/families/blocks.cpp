// SPDX-License-Identifier: Apache-2.0
#include "reference/families/families_internal.hpp"

namespace weightproof::reference::families {

std::vector<Line> operator+(std::vector<Line> left, const std::vector<Line>& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

std::vector<Line> top(const std::string& prefix) {
  return {{prefix + "embed_tokens.weight", "", Rule::same},
          {prefix + "norm.weight", "", Rule::same},
          {"lm_head.weight", "", Rule::same}};
}

std::vector<Line> norms(const std::string& layers) {
  return {{layers + "#.{input,post_attention}_layernorm.weight", "", Rule::same}};
}

std::vector<Line> attention(const std::string& layers) {
  return {{layers + "#.self_attn.{q,k,v,o}_proj.{weight,bias}", "", Rule::same},
          {layers + "#.self_attn.{q,k}_norm.weight", "", Rule::same}};
}

std::vector<Line> latent_attention(const std::string& layers) {
  return {{layers + "#.self_attn.{q_proj,q_a_proj,q_b_proj,kv_a_proj_with_mqa,kv_b_proj,o_proj}.{weight,bias}", "",
           Rule::same},
          {layers + "#.self_attn.{q_a,kv_a}_layernorm.weight", "", Rule::same}};
}

std::vector<Line> mlp(const std::string& layers) {
  return {{layers + "#.mlp.{gate,up,down}_proj.{weight,bias}", "", Rule::same}};
}

std::vector<Line> experts(const std::string& stored, const std::string& native) {
  return {{stored + ".#.gate_proj.weight", native + ".gate_and_up_projs", Rule::expert_gate},
          {stored + ".#.up_proj.weight", native + ".gate_and_up_projs", Rule::expert_up},
          {stored + ".#.down_proj.weight", native + ".down_projs", Rule::expert_down},
          {stored + ".#.gate_proj.bias", native + ".gate_up_proj_bias", Rule::bias_gate},
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

std::vector<Line> shared_mlp(const std::string& module, const std::string& native) {
  return {{module + ".{gate,up,down}_proj.{weight,bias}", native + ".{}_proj.{}", Rule::same}};
}

std::vector<Line> gated_delta_net(const std::string& layers) {
  const std::string module = layers + "#.linear_attn.";
  return {{module + "{in_proj_qkvz,in_proj_ba,in_proj_qkv,in_proj_z,in_proj_b,in_proj_a,conv1d,norm,out_proj}.weight",
           "", Rule::same},
          {module + "{A_log,dt_bias}", module + "_fp32_params.{}", Rule::same_f32}};
}

}  // namespace weightproof::reference::families
