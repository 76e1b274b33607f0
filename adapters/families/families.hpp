// SPDX-License-Identifier: Apache-2.0
// Every family's description, one per file of this folder.
#pragma once

#include "adapters/family.hpp"

namespace weightproof::adapters {

extern const Family k_gemma;
extern const Family k_llama;
extern const Family k_mistral;
extern const Family k_qwen2;
extern const Family k_qwen3;
extern const Family k_smollm3;

}  // namespace weightproof::adapters
