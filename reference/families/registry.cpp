// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "reference/failure.hpp"
#include "reference/families/families_internal.hpp"

namespace weightproof::reference {
namespace {

using Maker = std::function<Family(const Config&, const MappingOptions&)>;

const std::map<std::string, Maker>& makers() {
  namespace f = families;
  static const std::map<std::string, Maker> all = [] {
    std::map<std::string, Maker> map;
    for (const char* id : {"llama", "qwen2", "qwen3", "mistral", "smollm3", "gemma", "ernie4_5"})
      map[id] = [id](const Config& config, const MappingOptions&) { return f::dense(id, config); };
    const std::pair<const char*, Family (*)(const Config&)> plain[] = {
        {"identity", f::identity},
        {"phi3", f::phi3},
        {"mimo", f::mimo},
        {"dense_combined", f::dense_combined},
        {"qwen3_moe", f::qwen3_moe},
        {"ernie4_5_moe", f::ernie4_5_moe},
        {"glm4_moe", f::glm4_moe},
        {"hy_v3", f::hy_v3},
        {"hy_mt2", f::hy_v3},
        {"laguna", f::laguna},
        {"mixtral", f::mixtral},
        {"minimax_m1", f::minimax_m1},
        {"minimax_m2", f::minimax_m2},
        {"step3p5", f::step3p5},
        {"ling_v2", f::ling_v2},
        {"qwen3_next", f::qwen3_next},
        {"kimi_linear", f::kimi_linear},
        {"nemotron_v3", f::nemotron_v3},
        {"deepseek_v3", f::deepseek_v3},
        {"deepseek_v4", f::deepseek_v4},
        {"mistral4", f::mistral4},
        {"mistral3_fp8_causal", f::mistral3_causal},
        {"mistral3_fp8_vlm", f::mistral3_vlm},
        {"gemma3", f::gemma3},
        {"qwen3_omni_moe", f::qwen3_omni_moe},
    };
    for (const auto& [id, maker] : plain)
      map[id] = [make = maker](const Config& config, const MappingOptions&) { return make(config); };
    const std::tuple<const char*, Family (*)(const Config&, bool), bool> pairs[] = {
        {"gpt_oss", f::gpt_oss, true},     {"gpt_oss_bf16", f::gpt_oss, false}, {"qwen3_5", f::qwen3_5, false},
        {"qwen3_5_moe", f::qwen3_5, true}, {"qwen3_vl", f::qwen3_vl, false},    {"qwen3_vl_moe", f::qwen3_vl, true},
    };
    for (const auto& [id, maker, which] : pairs)
      map[id] = [make = maker, is = which](const Config& config, const MappingOptions&) { return make(config, is); };
    map["gemma4_moe"] = f::gemma4_moe;
    return map;
  }();
  return all;
}

}  // namespace

Family family_of(const std::string& id, const Config& config, const MappingOptions& options) {
  const auto found = makers().find(id);
  if (found == makers().end()) throw Failure("USAGE", "the reference knows no family '" + id + "'");
  return found->second(config, options);
}

std::vector<std::string> family_ids() {
  std::vector<std::string> ids;
  for (const auto& [id, maker] : makers()) ids.push_back(id);
  return ids;
}

}  // namespace weightproof::reference
