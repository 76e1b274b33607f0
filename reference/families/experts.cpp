// SPDX-License-Identifier: Apache-2.0
// Plain decoders with routed experts. The router and the correction bias keep their rows; only experts are stacked and
// turned.
#include "reference/families/families_internal.hpp"

namespace weightproof::reference::families {
namespace {

const std::string k_layers = "model.layers.", k_layer = "model.layers.#.";

std::vector<Line> decoder(AttentionParts parts, bool mlp_bias = false) {
  return top() + norms(k_layers) + attention(k_layers, parts) + mlp(k_layers, mlp_bias);
}

Line same(const std::string& stored, const std::string& native = "") { return {stored, native, Rule::same}; }
Line same_f32(const std::string& stored, const std::string& native = "") { return {stored, native, Rule::same_f32}; }

Family untied(const std::string& id, std::vector<Line> lines) {
  Family family;
  family.id = id;
  family.lines = std::move(lines);
  return family;
}

}  // namespace

// Files of both kinds exist: per expert, and stacked [E,2I,H].
Family qwen3_moe(const Config& config) {
  return untied("qwen3_moe", decoder(by_config(config, true)) + std::vector<Line>{same(k_layer + "mlp.gate.weight")} +
                                 experts(k_layer + "mlp.experts", k_layer + "mlp.experts") +
                                 experts_stacked(k_layer + "mlp.experts", k_layer + "mlp.experts"));
}

Family ernie4_5_moe(const Config& config) {
  const bool has_bias = config.truth("use_bias");
  Family family =
      untied("ernie4_5_moe", decoder({has_bias, has_bias, false}, has_bias) +
                                 experts(k_layer + "mlp.experts", k_layer + "mlp.experts", has_bias) +
                                 shared_mlp(k_layer + "mlp.shared_experts", k_layer + "mlp.shared_experts", has_bias) +
                                 std::vector<Line>{same_f32(k_layer + "mlp.gate.weight"),
                                                   {k_layer + "mlp.moe_statics.e_score_correction_bias",
                                                    k_layer + "mlp.gate.e_score_correction_bias", Rule::squeeze_f32}});
  family.tie = Tie::tied_only;
  family.dropped = {"model.mtp_*"};
  return family;
}

Family glm4_moe(const Config& config) {
  Family family = untied("glm4_moe", decoder({config.truth("attention_bias"), false, config.truth("use_qk_norm")}) +
                                         experts(k_layer + "mlp.experts", k_layer + "mlp.experts") +
                                         shared_mlp(k_layer + "mlp.shared_experts", k_layer + "mlp.shared_experts") +
                                         std::vector<Line>{same(k_layer + "mlp.gate.weight"),
                                                           same_f32(k_layer + "mlp.gate.e_score_correction_bias")});
  family.drops_layers_beyond_count = true;
  return family;
}

Family hy_v3(const Config& config) {
  Family family = untied(
      "hy_v3",
      decoder(by_config(config, true)) + experts(k_layer + "mlp.experts", k_layer + "mlp.experts") +
          shared_mlp(k_layer + "mlp.shared_mlp", k_layer + "mlp.shared_experts") +
          std::vector<Line>{same(k_layer + "mlp.router.gate.weight", k_layer + "mlp.gate.weight"),
                            same_f32(k_layer + "mlp.expert_bias", k_layer + "mlp.gate.e_score_correction_bias")});
  family.drops_layers_beyond_count = true;
  return family;
}

// The correction bias lies below "experts." although it is none; shared_expert_gate does not exist here.
Family laguna(const Config& config) {
  return untied("laguna",
                decoder({config.truth("qkv_bias"), config.truth("attention_bias"), true}) +
                    experts(k_layer + "mlp.experts", k_layer + "mlp.experts") +
                    shared_mlp(k_layer + "mlp.shared_expert", k_layer + "mlp.shared_experts") +
                    std::vector<Line>{same(k_layer + "self_attn.g_proj.weight"), same(k_layer + "mlp.gate.weight"),
                                      same_f32(k_layer + "mlp.experts.e_score_correction_bias",
                                               k_layer + "mlp.gate.e_score_correction_bias")});
}

Family mixtral(const Config&) {
  Family family = untied(
      "mixtral", top() + norms(k_layers) + attention(k_layers, {}) +
                     experts_w132(k_layer + "block_sparse_moe.experts", k_layer + "mlp.experts") +
                     std::vector<Line>{same(k_layer + "block_sparse_moe.gate.weight", k_layer + "mlp.gate.weight")});
  family.tie = Tie::both;
  return family;
}

// Most layers have linear attention with one fused projection, which stays as it is.
Family minimax_m1(const Config& config) {
  Family family = mixtral(config);
  family.id = "minimax_m1";
  // The router's weight is F32 in the released file and stays so.
  family.lines =
      std::vector<Line>{{k_layer + "block_sparse_moe.gate.weight", k_layer + "mlp.gate.weight", Rule::same_kept}} +
      family.lines + std::vector<Line>{same(k_layer + "self_attn.{qkv_proj,output_gate,norm,out_proj}.weight")};
  return family;
}

// Router weight and correction bias are F32 in the released file and stay so.
Family minimax_m2(const Config&) {
  return untied("minimax_m2", top() + norms(k_layers) + attention(k_layers, {false, false, true}) +
                                  experts_w132(k_layer + "block_sparse_moe.experts", k_layer + "mlp.experts") +
                                  std::vector<Line>{{k_layer + "block_sparse_moe.gate.weight",
                                                     k_layer + "mlp.gate.weight", Rule::same_kept},
                                                    same_f32(k_layer + "block_sparse_moe.e_score_correction_bias",
                                                             k_layer + "mlp.gate.e_score_correction_bias")});
}

// Experts are stacked per projection, without an expert number in the key.
Family step3p5(const Config&) {
  const std::string moe = k_layer + "moe.";
  Family family =
      untied("step3p5",
             decoder({false, false, true}) + shared_mlp(k_layer + "share_expert", k_layer + "share_expert") +
                 std::vector<Line>{same(k_layer + "self_attn.g_proj.weight"),
                                   same(moe + "gate.weight"),
                                   same_f32(moe + "router_bias", moe + "gate.e_score_correction_bias"),
                                   {moe + "gate_proj.weight", moe + "experts.gate_and_up_projs", Rule::stacked_gate},
                                   {moe + "up_proj.weight", moe + "experts.gate_and_up_projs", Rule::stacked_up},
                                   {moe + "down_proj.weight", moe + "experts.down_projs", Rule::stacked_swap}});
  family.defaults = {{moe + "gate.e_score_correction_bias", moe + "gate.weight", {}, 0.0f, true, false}};
  family.drops_layers_beyond_count = true;
  return family;
}

// Fused rows: all of q, then k, then v.
Family ling_v2(const Config& config) {
  const std::string stored = k_layer + "attention.", native = k_layer + "self_attn.";
  const std::string fused = stored + "query_key_value." + weight_and(config.truth("use_qkv_bias"));
  Family family = untied(
      "ling_v2",
      norms(k_layers) + mlp(k_layers) + experts(k_layer + "mlp.experts", k_layer + "mlp.experts") +
          shared_mlp(k_layer + "mlp.shared_experts", k_layer + "mlp.shared_experts") +
          std::vector<Line>{same("model.word_embeddings.weight", "model.embed_tokens.weight"),
                            same("model.norm.weight"),
                            same("lm_head.weight"),
                            {fused, native + "q_proj.{}", Rule::rows_q},
                            {fused, native + "k_proj.{}", Rule::rows_k},
                            {fused, native + "v_proj.{}", Rule::rows_v},
                            same(stored + "dense." + weight_and(config.truth("use_bias")), native + "o_proj.{}"),
                            same(stored + "query_layernorm.weight", native + "q_norm.weight"),
                            same(stored + "key_layernorm.weight", native + "k_norm.weight"),
                            same(k_layer + "mlp.gate.weight"),
                            same_f32(k_layer + "mlp.gate.expert_bias", k_layer + "mlp.gate.e_score_correction_bias")});
  family.drops_layers_beyond_count = true;
  return family;
}

// Gate and up alternate along the last axis, in weights and biases, and stay so. The unquantized file is in native
// orientation already; the quantized one decodes to [E,out,in] and is turned.
Family gpt_oss(const Config&, bool is_mxfp4) {
  const std::string expert = k_layer + "mlp.experts.";
  std::vector<Line> lines = top() + norms(k_layers) + attention(k_layers, {true, true, false}) +
                            std::vector<Line>{same(k_layer + "self_attn.sinks"),
                                              same(k_layer + "mlp.router.{weight,bias}", k_layer + "mlp.gate.{}"),
                                              same(expert + "{gate_up,down}_proj_bias")};
  const std::string end = is_mxfp4 ? "_blocks" : "";
  const Rule rule = is_mxfp4 ? Rule::stacked_swap : Rule::same;
  lines.push_back({expert + "gate_up_proj" + end, expert + "gate_and_up_projs", rule});
  lines.push_back({expert + "down_proj" + end, expert + "down_projs", rule});
  return untied(is_mxfp4 ? "gpt_oss" : "gpt_oss_bf16", lines);
}

}  // namespace weightproof::reference::families
