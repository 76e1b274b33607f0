// SPDX-License-Identifier: Apache-2.0
// The building blocks that family files share, and the family functions themselves.
#pragma once

#include <string>
#include <vector>

#include "reference/family.hpp"

namespace weightproof::reference::families {

std::vector<Line> operator+(std::vector<Line> left, const std::vector<Line>& right);

// Blocks. `top` is the prefix in front of "embed_tokens", `layers` ("model.layers.") that in front of the layer number.
std::vector<Line> top(const std::string& prefix = "model.");    // embed_tokens, norm, lm_head
std::vector<Line> norms(const std::string& layers);             // input and post_attention layernorm
std::vector<Line> attention(const std::string& layers);         // q, k, v, o with bias; q and k norm
std::vector<Line> latent_attention(const std::string& layers);  // q or q_a/q_b, kv_a, kv_b, o
std::vector<Line> mlp(const std::string& layers);               // gate, up, down with bias
/// Routed experts, one key per expert and projection: `stored`.#.gate_proj.weight and so on, into
/// `native`.gate_and_up_projs.
std::vector<Line> experts(const std::string& stored, const std::string& native);
/// The same with the projections called w1 (gate), w3 (up), w2 (down).
std::vector<Line> experts_w132(const std::string& stored, const std::string& native);
/// Stacked [E,2I,H] and [E,H,I], last two axes swapped natively.
std::vector<Line> experts_stacked(const std::string& stored, const std::string& native);
/// Keys of a module that keep their name: gate, up and down projections of `module`, under `native`.
std::vector<Line> shared_mlp(const std::string& module, const std::string& native);
/// The linear attention of Qwen3-Next and Qwen3.5.
std::vector<Line> gated_delta_net(const std::string& layers);

// dense.cpp
Family identity();
Family dense(const std::string& id);  // llama, qwen2, qwen3, mistral, smollm3, gemma, ernie4_5
Family phi3();
Family mimo();
Family dense_combined();
// experts.cpp
Family qwen3_moe();
Family ernie4_5_moe();
Family glm4_moe();
Family hy_v3();
Family laguna();
Family mixtral();
Family minimax_m1();
Family minimax_m2();
Family step3p5();
Family ling_v2();
Family gpt_oss(bool is_mxfp4);
// hybrid.cpp
Family nemotron_v3(const Config& config);
Family qwen3_next();
Family qwen3_5(bool has_experts);
Family kimi_linear();
// latent.cpp
Family deepseek_v3();
Family deepseek_v4(const Config& config);
Family mistral4(const Config& config);
// composite.cpp
Family mistral3_causal();
Family mistral3_vlm();
Family gemma3();
Family gemma4_moe(const MappingOptions& options);
Family qwen3_vl(bool has_experts);
Family qwen3_omni_moe();

}  // namespace weightproof::reference::families
