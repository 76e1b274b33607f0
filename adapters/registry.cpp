// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "adapters/families/families.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array k_families = {
    &k_gemma, &k_llama, &k_mistral, &k_qwen2, &k_qwen3, &k_smollm3,
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
