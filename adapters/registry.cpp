// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array k_families = {
    &k_deepseek_v3,
    &k_deepseek_v4,
    &k_dense_combined,
    &k_ernie4_5,
    &k_ernie4_5_moe,
    &k_gemma,
    &k_gemma3,
    &k_gemma4_moe,
    &k_glm4_moe,
    &k_gpt_oss,
    &k_hy_v3,
    &k_kimi_linear,
    &k_laguna,
    &k_ling_v2,
    &k_llama,
    &k_mimo,
    &k_minimax_m1,
    &k_minimax_m2,
    &k_mistral,
    &k_mistral3_fp8_causal,
    &k_mistral3_fp8_vlm,
    &k_mistral4,
    &k_mixtral,
    &k_nemotron_v3,
    &k_phi3,
    &k_qwen2,
    &k_qwen3,
    &k_qwen3_5,
    &k_qwen3_5_moe,
    &k_qwen3_moe,
    &k_qwen3_next,
    &k_qwen3_omni_moe,
    &k_qwen3_vl,
    &k_qwen3_vl_moe,
    &k_smollm3,
    &k_step3p5,
};

}  // namespace

std::span<const Family* const> all_families() { return k_families; }

const Family* find_family(std::string_view name) {
  for (const Family* family : k_families) {
    if (family->name == name) return family;
    if (std::find(family->aliases.begin(), family->aliases.end(), name) != family->aliases.end()) return family;
  }
  return nullptr;
}

}  // namespace weightproof::adapters
