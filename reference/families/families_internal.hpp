// SPDX-License-Identifier: Apache-2.0
// The building blocks that family files share, and the family functions themselves.
#pragma once

#include <string>
#include <vector>

#include "reference/family.hpp"

namespace weightproof::reference::families {

std::vector<Line> operator+(std::vector<Line> left, const std::vector<Line>& right);

// Blocks. `top` is the prefix in front of "embed_tokens", `layers` ("model.layers.") that in front of the layer number.
/// "{weight,bias}", or "{weight}" where there is no bias.
std::string weight_and(bool has_bias);
std::vector<Line> top(const std::string& prefix = "model.");  // embed_tokens, norm, lm_head
std::vector<Line> norms(const std::string& layers);           // input and post_attention layernorm
struct AttentionParts {
  bool qkv_bias = false, o_bias = false, norm = false;
};
/// Biases of all four projections where the config says attention_bias.
AttentionParts by_config(const Config& config, bool norm);
std::vector<Line> attention(const std::string& layers, AttentionParts parts);  // q, k, v, o; q and k norm
std::vector<Line> latent_attention(const std::string& layers, bool has_bias);  // q or q_a/q_b, kv_a, kv_b, o
std::vector<Line> mlp(const std::string& layers, bool has_bias = false);       // gate, up, down
/// Routed experts, one key per expert and projection: `stored`.#.gate_proj.weight and so on, into
/// `native`.gate_and_up_projs.
std::vector<Line> experts(const std::string& stored, const std::string& native, bool has_bias = false);
/// The same with the projections called w1 (gate), w3 (up), w2 (down).
std::vector<Line> experts_w132(const std::string& stored, const std::string& native);
/// Stacked [E,2I,H] and [E,H,I], last two axes swapped natively.
std::vector<Line> experts_stacked(const std::string& stored, const std::string& native);
/// Keys of a module that keep their name: gate, up and down projections of `module`, under `native`.
std::vector<Line> shared_mlp(const std::string& module, const std::string& native, bool has_bias = false);
/// The linear attention of Qwen3-Next and Qwen3.5.
std::vector<Line> gated_delta_net(const std::string& layers);

// dense.cpp
Family identity(const Config& config);
Family dense(const std::string& id, const Config& config);  // llama, qwen2, qwen3, mistral, smollm3, gemma, ernie4_5
Family phi3(const Config& config);
Family mimo(const Config& config);
Family dense_combined(const Config& config);
// experts.cpp
Family qwen3_moe(const Config& config);
Family ernie4_5_moe(const Config& config);
Family glm4_moe(const Config& config);
Family hy_v3(const Config& config);
Family laguna(const Config& config);
Family mixtral(const Config& config);
Family minimax_m1(const Config& config);
Family minimax_m2(const Config& config);
Family step3p5(const Config& config);
Family ling_v2(const Config& config);
Family gpt_oss(const Config& config, bool is_mxfp4);
// hybrid.cpp
Family nemotron_v3(const Config& config);
Family qwen3_next(const Config& config);
Family qwen3_5(const Config& config, bool has_experts);
Family kimi_linear(const Config& config);
// latent.cpp
Family deepseek_v3(const Config& config);
Family deepseek_v4(const Config& config);
Family mistral4(const Config& config);
// composite.cpp
Family mistral3_causal(const Config& config);
Family mistral3_vlm(const Config& config);
Family gemma3(const Config& config);
Family gemma4_moe(const Config& config, const MappingOptions& options);
Family qwen3_vl(const Config& config, bool has_experts);
Family qwen3_omni_moe(const Config& config);

}  // namespace weightproof::reference::families
