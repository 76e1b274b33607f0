// SPDX-License-Identifier: Apache-2.0
// Every family's description, one per file of this folder.
#pragma once

#include "adapters/family.hpp"

namespace weightproof::adapters {

extern const Family k_deepseek_v3;
extern const Family k_deepseek_v4;
extern const Family k_dense_combined;
extern const Family k_ernie4_5;
extern const Family k_ernie4_5_moe;
extern const Family k_gemma;
extern const Family k_gemma3;
extern const Family k_gemma4_moe;
extern const Family k_glm4_moe;
extern const Family k_gpt_oss;
extern const Family k_hy_v3;
extern const Family k_kimi_linear;
extern const Family k_laguna;
extern const Family k_ling_v2;
extern const Family k_llama;
extern const Family k_mimo;
extern const Family k_minimax_m1;
extern const Family k_minimax_m2;
extern const Family k_mistral;
extern const Family k_mistral3_fp8_causal;
extern const Family k_mistral3_fp8_vlm;
extern const Family k_mistral4;
extern const Family k_mixtral;
extern const Family k_nemotron_v3;
extern const Family k_phi3;
extern const Family k_qwen2;
extern const Family k_qwen3;
extern const Family k_qwen3_5;
extern const Family k_qwen3_5_moe;
extern const Family k_qwen3_moe;
extern const Family k_qwen3_next;
extern const Family k_qwen3_omni_moe;
extern const Family k_qwen3_vl;
extern const Family k_qwen3_vl_moe;
extern const Family k_smollm3;
extern const Family k_step3p5;

}  // namespace weightproof::adapters
