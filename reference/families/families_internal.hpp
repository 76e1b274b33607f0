// SPDX-License-Identifier: Apache-2.0
// The building blocks that family files share, and the family functions themselves.
#pragma once

#include <string>
#include <vector>

#include "reference/family.hpp"

namespace weightproof::reference::families {

std::vector<Line> operator+(std::vector<Line> left, const std::vector<Line>& right);

// Blocks. `layers` is the prefix in front of the layer number.
std::vector<Line> top();                                 // embed_tokens, norm, lm_head
std::vector<Line> norms(const std::string& layers);      // input and post_attention layernorm
std::vector<Line> attention(const std::string& layers);  // q, k, v, o with bias; q and k norm
std::vector<Line> mlp(const std::string& layers);        // gate, up, down with bias

Family identity();
Family dense(const std::string& id);  // llama, qwen2, qwen3, mistral, smollm3, gemma, ernie4_5
Family phi3();
Family mimo();
Family dense_combined();

}  // namespace weightproof::reference::families
