// SPDX-License-Identifier: Apache-2.0
#include "reference/detect.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "reference/failure.hpp"

namespace weightproof::reference {
namespace {

bool starts_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}
bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool match_from(const std::string& pattern, std::size_t p, const std::string& key, std::size_t k,
                std::vector<std::string>& captures) {
  for (; p < pattern.size(); ++p) {
    const char c = pattern[p];
    if (c == '#') {
      std::size_t end = k;
      while (end < key.size() && is_digit(key[end])) ++end;
      if (end == k) return false;
      captures.push_back(key.substr(k, end - k));
      k = end;
    } else if (c == '*') {
      if (k == key.size()) return false;
      captures.push_back(key.substr(k));
      return true;
    } else if (c == '{') {
      const std::size_t close = pattern.find('}', p);
      for (std::size_t word = p + 1; word <= close;) {
        const std::size_t stop = std::min(pattern.find(',', word), close);
        const std::string option = pattern.substr(word, stop - word);
        if (key.compare(k, option.size(), option) == 0) {
          const std::size_t kept = captures.size();
          captures.push_back(option);
          if (match_from(pattern, close + 1, key, k + option.size(), captures)) return true;
          captures.resize(kept);
        }
        word = stop + 1;
      }
      return false;
    } else {
      if (k >= key.size() || key[k] != c) return false;
      ++k;
    }
  }
  return k == key.size();
}

// "layers.<digits>." right after the prefix: the keys that show how a file is spelled.
bool is_layer_key(const std::string& key, const std::string& prefix) {
  return starts_with(key, prefix) && matches("layers.#.*", key.substr(prefix.size()));
}

bool any_key(const std::vector<std::string>& keys, const std::string& pattern) {
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) { return matches(pattern, key); });
}
bool any_key_contains(const std::vector<std::string>& keys, const std::string& part) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](const std::string& key) { return key.find(part) != std::string::npos; });
}

bool has_architecture(const Config& config, const std::string& name) {
  const auto names = config.architectures();
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The prefix in front of "layers.#." that most keys have.
std::string common_prefix(const std::vector<std::string>& keys) {
  std::map<std::string, std::size_t> counts;
  for (const std::string& key : keys) {
    for (std::size_t at = key.find("layers."); at != std::string::npos; at = key.find("layers.", at + 1)) {
      if ((at > 0 && key[at - 1] != '.') || !is_layer_key(key, key.substr(0, at))) continue;
      ++counts[key.substr(0, at)];
      break;
    }
  }
  std::string best;
  std::size_t most = 0;
  for (const auto& [prefix, count] : counts)
    if (count > most) {
      best = prefix;
      most = count;
    }
  return best;
}

// Where nothing else tells: names that one family alone has. Everything else is taken as it is.
std::string family_of_names(const std::vector<std::string>& keys) {
  const std::string layer = common_prefix(keys) + "layers.#.";
  std::set<std::string> kinds;
  std::vector<std::string> captures;
  for (const std::string& key : keys) {
    captures.clear();
    if (!matches(layer + "*", key, &captures)) continue;
    const std::string rest = captures.back();
    std::vector<std::string> expert;
    kinds.insert(matches("mlp.experts.#.*", rest, &expert) ? "mlp.experts.#." + expert.back() : rest);
  }
  const auto has = [&](const char* kind) { return kinds.count(kind) != 0; };
  const bool has_head_norm = has("self_attn.q_norm.weight"), has_router = has("mlp.gate.weight");
  const bool has_mlp = has("mlp.gate_proj.weight"), has_q_bias = has("self_attn.q_proj.bias");
  const bool has_more = has("mlp.shared_expert.up_proj.weight") || has("mlp.shared_experts.up_proj.weight") ||
                        has("mlp.gate.e_score_correction_bias") || has("mlp.experts.e_score_correction_bias");
  if (has_head_norm && has_router && has("mlp.experts.#.gate_proj.weight") && !has_more) return "qwen3_moe";
  if (has_router || !has_mlp) return "identity";
  if (has_head_norm && !has_q_bias && has("post_attention_layernorm.weight") &&
      !has("pre_feedforward_layernorm.weight"))
    return "qwen3";
  if (has_q_bias && !has_head_norm && !has("self_attn.o_proj.bias")) return "qwen2";
  return "identity";
}

// The class that the config names, where its model_type says nothing.
std::string family_of_architecture(const Config& config) {
  static const std::map<std::string, std::string> by_class{
      {"LlamaForCausalLM", "llama"},
      {"Qwen2ForCausalLM", "qwen2"},
      {"Qwen3ForCausalLM", "qwen3"},
      {"MistralForCausalLM", "mistral"},
      {"SmolLM3ForCausalLM", "smollm3"},
      {"GemmaForCausalLM", "gemma"},
      {"Gemma3ForConditionalGeneration", "gemma3"},
      {"Gemma3ForCausalLM", "gemma3"},
      {"Phi3ForCausalLM", "phi3"},
      {"MiMoForCausalLM", "mimo"},
      {"MixtralForCausalLM", "mixtral"},
      {"MiniMaxM1ForCausalLM", "minimax_m1"},
      {"MiniMaxM2ForCausalLM", "minimax_m2"},
      {"NemotronHForCausalLM", "nemotron_v3"},
      {"BailingMoeV2ForCausalLM", "ling_v2"},
      {"Ministral3ForCausalLM", "mistral3_fp8_causal"},
      {"Mistral4ForCausalLM", "mistral4"},
      {"GptOssForCausalLM", "gpt_oss"},
      {"Qwen3MoeForCausalLM", "qwen3_moe"},
      {"Qwen3NextForCausalLM", "qwen3_next"},
      {"Qwen3OmniMoeForConditionalGeneration", "qwen3_omni_moe"},
      {"Qwen3OmniMoeThinkerForConditionalGeneration", "qwen3_omni_moe"},
      {"Qwen3VLForConditionalGeneration", "qwen3_vl"},
      {"Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe"},
      {"Qwen3_5ForConditionalGeneration", "qwen3_5"},
      {"Qwen3_5ForCausalLM", "qwen3_5"},
      {"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe"},
      {"Qwen3_5MoeForCausalLM", "qwen3_5_moe"},
      {"Ernie4_5ForCausalLM", "ernie4_5"},
      {"Ernie4_5_MoeForCausalLM", "ernie4_5_moe"},
      {"Glm4MoeForCausalLM", "glm4_moe"},
      {"HYV3ForCausalLM", "hy_v3"},
      {"LagunaForCausalLM", "laguna"},
      {"DeepseekV3ForCausalLM", "deepseek_v3"},
      {"KimiLinearForCausalLM", "kimi_linear"},
      {"Step3p5ForCausalLM", "step3p5"},
      {"DeepseekV4ForCausalLM", "deepseek_v4"},
  };
  std::string found;
  for (const std::string& name : config.architectures()) {
    std::string family = by_class.count(name) ? by_class.at(name) : "";
    if (name == "Mistral3ForConditionalGeneration")
      family = config.language_type() == "mistral4" ? "mistral4" : "mistral3_fp8_vlm";
    if (name == "Gemma4ForConditionalGeneration" || name == "Gemma4ForCausalLM")
      family = config.truth("enable_moe_block") ? "gemma4_moe" : "";
    if (family.empty() || family == found) continue;
    if (!found.empty()) return "";  // Two classes of different families.
    found = family;
  }
  return found;
}

std::string family_id(const Config& config, const std::vector<std::string>& keys, std::vector<std::string>& evidence) {
  const std::string type = config.exists() ? config.model_type() : "", inner = config.language_type();
  if (type.empty()) {
    std::string family = family_of_architecture(config);
    const char* why = "architectures";
    if (family.empty()) {
      family = family_of_names(keys);
      why = family == "identity" ? "every key under its own name" : "the names of its layers";
    }
    evidence.push_back(std::string(config.exists() ? "no model_type: " : "no config: ") + why);
    return family_as_stored(family, keys);
  }
  evidence.push_back("model_type '" + type + "'" + (inner.empty() ? "" : ", language model_type '" + inner + "'"));

  if (type == "mistral3" || type == "mistral4" || type == "ministral3") {
    if (type == "mistral4" || inner == "mistral4") return "mistral4";
    return type == "ministral3" ? "mistral3_fp8_causal" : "mistral3_fp8_vlm";
  }
  if (type == "gpt_oss") {
    const std::string form = family_as_stored("gpt_oss", keys);
    evidence.push_back(form == "gpt_oss" ? "keys ending _blocks" : "no keys ending _blocks");
    return form;
  }
  if (type == "gemma4" || type == "gemma4_text") {
    evidence.push_back(std::string("enable_moe_block is ") + (config.truth("enable_moe_block") ? "true" : "not true"));
    return config.truth("enable_moe_block") ? "gemma4_moe" : "identity";
  }
  if (type == "bailing_moe" || type == "bailing_moe_v2") {
    // The first Ling shares the model_type; only its architecture tells.
    if (has_architecture(config, "BailingMoeForCausalLM")) {
      evidence.push_back("architecture BailingMoeForCausalLM is another model");
      return "identity";
    }
    return "ling_v2";
  }
  if (type == "minimax") return has_architecture(config, "MiniMaxM2ForCausalLM") ? "minimax_m2" : "identity";

  static const std::map<std::string, std::string> by_type{
      {"llama", "llama"},
      {"qwen2", "qwen2"},
      {"qwen3", "qwen3"},
      {"mistral", "mistral"},
      {"smollm3", "smollm3"},
      {"gemma", "gemma"},
      {"gemma3", "gemma3"},
      {"gemma3_text", "gemma3"},
      {"phi3", "phi3"},
      {"mimo", "mimo"},
      {"mixtral", "mixtral"},
      {"minimax_m1", "minimax_m1"},
      {"minimax_m2", "minimax_m2"},
      {"nemotron_h", "nemotron_v3"},
      {"qwen3_moe", "qwen3_moe"},
      {"qwen3_next", "qwen3_next"},
      {"qwen3_omni_moe", "qwen3_omni_moe"},
      {"qwen3_omni_moe_thinker", "qwen3_omni_moe"},
      {"qwen3_vl", "qwen3_vl"},
      {"qwen3_vl_moe", "qwen3_vl_moe"},
      {"qwen3_5", "qwen3_5"},
      {"qwen3_5_text", "qwen3_5"},
      {"qwen3_5_moe", "qwen3_5_moe"},
      {"qwen3_5_moe_text", "qwen3_5_moe"},
      {"ernie4_5", "ernie4_5"},
      {"ernie4_5_moe", "ernie4_5_moe"},
      {"glm4_moe", "glm4_moe"},
      {"hy_v3", "hy_v3"},
      {"hy_mt2", "hy_v3"},
      {"laguna", "laguna"},
      {"deepseek_v3", "deepseek_v3"},
      {"kimi_k2", "deepseek_v3"},
      {"kimi_linear", "kimi_linear"},
      {"step3p5", "step3p5"},
      {"deepseek_v4", "deepseek_v4"},
  };
  const auto known = by_type.find(type);
  if (known != by_type.end()) return known->second;
  const std::string family = family_of_architecture(config);
  evidence.push_back(std::string("no family has this model_type: ") +
                     (family.empty() ? "every key under its own name" : "architectures"));
  return family.empty() ? "identity" : family_as_stored(family, keys);
}

std::string quantization_of(const Config& config, const Json* beside, const std::vector<std::string>& keys,
                            std::vector<std::string>& evidence) {
  if (const Json* mlx = config.root().find("quantization");
      mlx && mlx->is_object() && any_key_contains(keys, ".scales"))
    throw Failure("QUANT_UNSUPPORTED", "MLX affine quantization (config 'quantization', tensors .scales/.biases)");
  const Json* quantization = config.quantization() ? config.quantization() : beside;
  if (quantization) {
    const Json* method = quantization->find("quant_method");
    std::string name = method && method->text() ? *method->text() : "";
    // Files of their own name no method: ModelOpt's has an algorithm, GPTQ's the order of its groups, AWQ's its own
    // words.
    if (!method && quantization == beside) {
      if (quantization->find("quant_algo")) name = "modelopt";
      if (quantization->find("desc_act")) name = "gptq";
      if (quantization->find("q_group_size") || quantization->find("zero_point")) name = "awq";
    }
    static const std::set<std::string> known{"fp8",          "mxfp4",   "compressed-tensors", "modelopt", "awq", "gptq",
                                             "bitsandbytes", "torchao", "fbgemm_fp8"};
    evidence.push_back("quantization_config.quant_method '" + name + "'");
    if (known.count(name)) return name;
    throw Failure("QUANT_UNSUPPORTED", "quant_method '" + name + "' is not known");
  }
  // No config: what the companion tensors name.
  const auto any_ends = [&](const std::string& end) {
    return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) { return ends_with(key, end); });
  };
  const auto named = [&](const std::string& method, const std::string& why) {
    evidence.push_back("no quantization_config; keys ending " + why);
    return method;
  };
  if (any_ends("_blocks") && any_ends("_scales")) return named("mxfp4", "_blocks");
  if (any_ends(".weight_packed")) return named("compressed-tensors", ".weight_packed");
  if (any_ends(".weight_scale_2")) return named("modelopt", ".weight_scale_2");
  if (any_ends(".weight.absmax") || any_ends(".SCB")) return named("bitsandbytes", ".absmax or .SCB");
  if (any_ends(".qweight"))
    return any_ends(".g_idx") ? named("gptq", ".g_idx") : named("awq", ".qweight without .g_idx");
  if (any_ends("._weight_qdata")) return named("torchao", "._weight_qdata");
  if (any_ends("_scale_inv") || any_ends("_scales_inv") || any_ends(".weight_scale"))
    return named("fp8", "_scale_inv or _scale");
  return "none";
}

}  // namespace

std::string experts_of(const std::vector<std::string>& keys) {
  bool per_expert = false, stacked = false, blocks = false;
  for (const std::string& key : keys) {
    const std::size_t at = key.find(".experts.");
    if (starts_with(key, "mtp.") || key.find(".mtp") != std::string::npos) continue;
    if (at != std::string::npos && is_digit(key[std::min(at + 9, key.size() - 1)])) per_expert = true;
    if (ends_with(key, "_proj_blocks")) blocks = true;
    for (const char* name : {".experts.gate_up_proj", ".experts.down_proj", ".moe.gate_up_proj", ".moe.down_proj",
                             ".moe.gate_proj.weight", ".moe.up_proj.weight", ".moe.down_proj.weight"})
      if (ends_with(key, name)) stacked = true;
  }
  if (per_expert + stacked + blocks > 1) throw Failure("EXPERTS_MIXED", "experts are stored in two layouts at once");
  return per_expert ? "per_expert" : stacked ? "stacked" : blocks ? "mxfp4_blocks" : "none";
}

std::string family_as_stored(const std::string& id, const std::vector<std::string>& keys) {
  if (id == "hy_mt2") return "hy_v3";
  if (id != "gpt_oss" && id != "gpt_oss_bf16") return id;
  return any_key_contains(keys, "_proj_blocks") ? "gpt_oss" : "gpt_oss_bf16";
}

std::string family_of_model(const Config& config, const std::vector<std::string>& keys,
                            std::vector<std::string>* evidence) {
  std::vector<std::string> found;
  const std::string id = family_id(config, keys, found);
  if (evidence) *evidence = std::move(found);
  return id;
}

bool matches(const std::string& pattern, const std::string& key, std::vector<std::string>* captures) {
  std::vector<std::string> found;
  if (!match_from(pattern, 0, key, 0, found)) return false;
  if (captures) *captures = std::move(found);
  return true;
}

Spelling spelling_of(const Family& family, const std::vector<std::string>& keys) {
  std::vector<Spelling> candidates = family.spellings;
  if (candidates.empty()) {
    candidates.push_back({"model.", {}});
    candidates.push_back({"", {{"lm_head.", "lm_head."}, {"", "model."}}});
  }
  // Every layer key votes once, for the longest prefix that fits. Towers and MTP have prefixes of their own and do not
  // vote.
  std::vector<std::size_t> votes(candidates.size(), 0);
  for (const std::string& key : keys) {
    std::size_t best = candidates.size();
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (is_layer_key(key, candidates[i].name) &&
          (best == candidates.size() || candidates[i].name.size() > candidates[best].name.size()))
        best = i;
    if (best < candidates.size()) ++votes[best];
  }
  std::size_t winner = 0, winners = 0;
  std::string all;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (votes[i] == 0) continue;
    winner = i;
    ++winners;
    all += (all.empty() ? "'" : ", '") + candidates[i].name + "' " + std::to_string(votes[i]);
  }
  if (winners > 1) throw Failure("NAMESPACE_MIXED", "decoder layers are spelled in two ways: " + all);
  return candidates[winner];
}

std::string respell(const Spelling& spelling, const std::string& key) {
  for (const auto& [from, to] : spelling.prefixes)
    if (starts_with(key, from)) return to + key.substr(from.size());
  return key;
}

Detection detect(const Config& config, const std::vector<std::string>& keys, const Json* quantization) {
  Detection found;
  found.family = family_id(config, keys, found.evidence);
  const Family family = family_of(found.family, config);
  if (family.takes_any_key) {
    for (const char* prefix : {"model.language_model.", "language_model.model.", "backbone.", "model.", ""})
      if (any_key(keys, std::string(prefix) + "layers.#.*")) {
        found.name_space = prefix;
        break;
      }
  } else {
    found.name_space = spelling_of(family, keys).name;
  }
  found.quantization = quantization_of(config, quantization, keys, found.evidence);
  found.experts = experts_of(keys);
  return found;
}

Detection detect(const std::string& config_text, const std::vector<std::string>& keys) {
  return detect(Config(config_text), keys);
}

}  // namespace weightproof::reference
