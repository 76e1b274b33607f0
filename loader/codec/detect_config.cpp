// SPDX-License-Identifier: Apache-2.0
// Reading what a config says of quantization, from every place where tools write it.
#include <algorithm>
#include <array>
#include <regex>

#include "loader/codec/detect_internal.hpp"

namespace weightproof::codec {
namespace {

constexpr std::array<std::string_view, 12> k_refused_methods = {
    "hqq", "quanto", "aqlm", "vptq", "spqr", "higgs", "eetq", "bitnet", "quark", "fp_quant", "auto-round", "mlx"};

std::string text_of(const ConfigValue& value, std::string_view name) {
  const ConfigValue* found = value.find(name);
  const auto text = found == nullptr ? std::nullopt : found->as_string();
  return text ? std::string(*text) : std::string();
}

std::uint64_t number_of(const ConfigValue& value, std::string_view name) {
  const ConfigValue* found = value.find(name);
  const auto number = found == nullptr ? std::nullopt : found->as_integer();
  return number && *number > 0 ? static_cast<std::uint64_t>(*number) : 0;
}

bool flag_of(const ConfigValue& value, std::string_view name, bool otherwise) {
  const ConfigValue* found = value.find(name);
  return found == nullptr ? otherwise : found->as_bool().value_or(otherwise);
}

std::vector<std::string> texts_of(const ConfigValue& value, std::string_view name) {
  std::vector<std::string> texts;
  if (const ConfigValue* found = value.find(name))
    for (const ConfigValue& item : found->items())
      if (const auto text = item.as_string()) texts.emplace_back(*text);
  return texts;
}

void refuse(StatedQuantization& stated, const std::string& what) {
  stated.refusal =
      Error(ErrorCode::quant_unsupported, what + " cannot be decoded",
            {.expected = "a scheme of `weightproof doctor`",
             .actual = what,
             .hint = "decode it with the tool that wrote it, or check names alone: `weightproof verify --keys-only`"});
}

void read_block(const ConfigValue& value, StatedGroup& group) {
  if (const ConfigValue* block = value.find("weight_block_size"); block != nullptr && block->items().size() == 2) {
    group.block_rows =
        static_cast<std::uint64_t>(std::max<std::int64_t>(0, block->items()[0].as_integer().value_or(0)));
    group.block_cols =
        static_cast<std::uint64_t>(std::max<std::int64_t>(0, block->items()[1].as_integer().value_or(0)));
  }
}

void read_compressed_tensors(const ConfigValue& value, StatedQuantization& stated) {
  stated.format = text_of(value, "format");
  stated.ignored = texts_of(value, "ignore");
  if (const ConfigValue* groups = value.find("config_groups")) {
    for (const auto& [name, entry] : groups->members()) {
      const ConfigValue* weights = entry.find("weights");
      if (weights == nullptr || weights->is_null()) continue;
      StatedGroup group;
      group.targets = texts_of(entry, "targets");
      group.format = text_of(entry, "format");
      group.type = text_of(*weights, "type");
      group.strategy = text_of(*weights, "strategy");
      group.bits = static_cast<unsigned>(std::min<std::uint64_t>(64, number_of(*weights, "num_bits")));
      group.group_size = number_of(*weights, "group_size");
      group.is_symmetric = flag_of(*weights, "symmetric", true);
      if (const ConfigValue* block = weights->find("block_structure"); block != nullptr && block->items().size() == 2) {
        group.block_rows =
            static_cast<std::uint64_t>(std::max<std::int64_t>(0, block->items()[0].as_integer().value_or(0)));
        group.block_cols =
            static_cast<std::uint64_t>(std::max<std::int64_t>(0, block->items()[1].as_integer().value_or(0)));
      }
      stated.groups.push_back(std::move(group));
    }
  }
  for (const StatedGroup& group : stated.groups)
    for (const std::string& format : {stated.format, group.format})
      if (format == "marlin-24" || format == "sparse-24-bitmask" || format == "sparse-bitmask")
        return refuse(stated, "compressed-tensors format " + format);
}

void read_method(const ConfigValue& value, StatedQuantization& stated) {
  if (stated.method == "compressed-tensors") return read_compressed_tensors(value, stated);
  StatedGroup group;
  if (stated.method == "fp8" || stated.method == "fbgemm_fp8") {
    read_block(value, group);
  } else if (stated.method == "modelopt") {
    const ConfigValue* inner = value.find("quantization");
    const ConfigValue& place = inner != nullptr && inner->is_object() ? *inner : value;
    stated.algorithm = text_of(place, "quant_algo");
    group.group_size = number_of(place, "group_size");
    if (stated.algorithm == "NVFP4_SVD") refuse(stated, "ModelOpt NVFP4_SVD");
  } else if (stated.method == "awq" || stated.method == "gptq") {
    group.bits = static_cast<unsigned>(std::min<std::uint64_t>(64, number_of(value, "bits")));
    group.group_size = number_of(value, "group_size");
    group.is_symmetric = flag_of(value, "sym", false);
    stated.format = text_of(value, stated.method == "awq" ? "version" : "checkpoint_format");
    std::string version = stated.format;
    std::transform(version.begin(), version.end(), version.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (stated.method == "awq" && !version.empty() && version != "gemm") refuse(stated, "AWQ version " + stated.format);
    if (stated.method == "gptq" && !version.empty() && version != "gptq" && version != "gptq_v2")
      refuse(stated, "GPTQ checkpoint_format " + stated.format);
  } else if (stated.method != "mxfp4" && stated.method != "bitsandbytes" && stated.method != "torchao") {
    return refuse(stated, "quantization method " + stated.method);
  }
  stated.groups.push_back(std::move(group));
}

bool is_nested_quantifier(std::string_view pattern) {
  for (std::size_t i = 0; i + 1 < pattern.size(); ++i)
    if (pattern[i] == ')' && (pattern[i + 1] == '*' || pattern[i + 1] == '+' || pattern[i + 1] == '{')) return true;
  return false;
}

bool target_names(const std::string& target, std::string_view module) {
  if (target.starts_with("re:")) {
    constexpr std::size_t pattern_bytes_max =
        512;  // a regular expression from a file: short, and without repeated groups
    constexpr std::size_t module_bytes_max = 512;
    const std::string pattern = target.substr(3);
    if (pattern.size() > pattern_bytes_max || module.size() > module_bytes_max || is_nested_quantifier(pattern))
      return false;
    try {
      const std::regex expression(pattern, std::regex::ECMAScript);
      return std::regex_search(module.begin(), module.end(), expression, std::regex_constants::match_continuous);
    } catch (const std::regex_error&) {
      return false;
    }
  }
  return module == target || (module.size() > target.size() && module.ends_with(target) &&
                              module[module.size() - target.size() - 1] == '.');
}

}  // namespace

StatedQuantization read_stated(const ConfigValue* config, const std::map<std::string, ConfigValue>& companions) {
  StatedQuantization stated;
  const ConfigValue* found = nullptr;
  if (config != nullptr) {
    for (const char* place :
         {"quantization_config", "text_config.quantization_config", "llm_config.quantization_config"}) {
      const ConfigValue* value = config->find(place);
      if (value != nullptr && value->is_object()) {
        found = value;
        stated.source = place;
        break;
      }
    }
    if (found == nullptr) {
      const ConfigValue* mlx = config->find("quantization");
      if (mlx != nullptr && mlx->is_object() && mlx->has("group_size") && mlx->has("bits")) {
        stated.method = "mlx";
        stated.source = "quantization";
        refuse(stated, "MLX affine quantization");
        return stated;
      }
    }
  }
  if (found == nullptr)
    for (const char* name : {"hf_quant_config.json", "quantize_config.json", "quant_config.json"})
      if (const auto entry = companions.find(name); entry != companions.end() && entry->second.is_object()) {
        found = &entry->second;
        stated.source = name;
        stated.method = std::string_view(name) == "hf_quant_config.json" ? "modelopt" : "";
        break;
      }
  if (found == nullptr) return stated;
  const std::string method = text_of(*found, "quant_method");
  if (!method.empty()) stated.method = method;
  if (stated.method.empty()) stated.method = found->has("zero_point") ? "awq" : found->has("bits") ? "gptq" : "";
  if (stated.method.empty() && found->has("bits") && found->has("group_size")) stated.method = "mlx";
  if (stated.method.empty()) {
    refuse(stated, "a quantization config without quant_method");
    return stated;
  }
  if (std::find(k_refused_methods.begin(), k_refused_methods.end(), stated.method) != k_refused_methods.end()) {
    refuse(stated, "quantization method " + stated.method);
    return stated;
  }
  read_method(*found, stated);
  return stated;
}

const StatedGroup* group_for(const StatedQuantization& stated, std::string_view module) {
  if (stated.groups.empty()) return nullptr;
  if (stated.groups.size() > 1)
    for (const StatedGroup& group : stated.groups)
      for (const std::string& target : group.targets)
        if (target_names(target, module)) return &group;
  return &stated.groups.front();
}

}  // namespace weightproof::codec
