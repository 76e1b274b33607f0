// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <map>

#include "reference/failure.hpp"
#include "reference/families/families_internal.hpp"

namespace weightproof::reference {
namespace {

using Maker = std::function<Family(const Config&, const MappingOptions&)>;

const std::map<std::string, Maker>& makers() {
  namespace f = families;
  static const std::map<std::string, Maker> all = [] {
    std::map<std::string, Maker> map;
    const auto plain = [&](const std::string& id, Family (*maker)()) {
      map[id] = [maker](const Config&, const MappingOptions&) { return maker(); };
    };
    for (const char* id : {"llama", "qwen2", "qwen3", "mistral", "smollm3", "gemma", "ernie4_5"})
      map[id] = [id](const Config&, const MappingOptions&) { return f::dense(id); };
    plain("identity", f::identity);
    plain("phi3", f::phi3);
    plain("mimo", f::mimo);
    plain("dense_combined", f::dense_combined);
    plain("qwen3_moe", f::qwen3_moe);
    plain("ernie4_5_moe", f::ernie4_5_moe);
    plain("glm4_moe", f::glm4_moe);
    plain("hy_v3", f::hy_v3);
    plain("hy_mt2", f::hy_v3);
    plain("laguna", f::laguna);
    plain("mixtral", f::mixtral);
    plain("minimax_m1", f::minimax_m1);
    plain("minimax_m2", f::minimax_m2);
    plain("step3p5", f::step3p5);
    plain("ling_v2", f::ling_v2);
    plain("qwen3_next", f::qwen3_next);
    plain("kimi_linear", f::kimi_linear);
    plain("deepseek_v3", f::deepseek_v3);
    plain("mistral3_fp8_causal", f::mistral3_causal);
    plain("mistral3_fp8_vlm", f::mistral3_vlm);
    plain("gemma3", f::gemma3);
    plain("qwen3_omni_moe", f::qwen3_omni_moe);
    const auto either = [&](const std::string& id, Family (*maker)(bool), bool which) {
      map[id] = [maker, which](const Config&, const MappingOptions&) { return maker(which); };
    };
    either("gpt_oss", f::gpt_oss, true);
    either("gpt_oss_bf16", f::gpt_oss, false);
    either("qwen3_5", f::qwen3_5, false);
    either("qwen3_5_moe", f::qwen3_5, true);
    either("qwen3_vl", f::qwen3_vl, false);
    either("qwen3_vl_moe", f::qwen3_vl, true);
    const auto asking = [&](const std::string& id, Family (*maker)(const Config&)) {
      map[id] = [maker](const Config& config, const MappingOptions&) { return maker(config); };
    };
    asking("nemotron_v3", f::nemotron_v3);
    asking("deepseek_v4", f::deepseek_v4);
    asking("mistral4", f::mistral4);
    map["gemma4_moe"] = [](const Config&, const MappingOptions& options) { return f::gemma4_moe(options); };
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
