// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "adapters/lora.hpp"
#include "loader/core/error.hpp"

namespace weightproof::adapters {
namespace {

constexpr const char* k_file = "adapter_config.json";
constexpr const char* k_stamp_file = "automodel_peft_config.json";

[[noreturn]] void refuse(const char* file, std::string_view field, std::string expected, std::string actual) {
  ErrorFacts facts;
  facts.file = file;
  facts.keys = {file};
  facts.expected = std::move(expected);
  facts.actual = std::move(actual);
  facts.hint = "correct the field '" + std::string(field) + "' in " + file;
  facts.check = "adapter.config";
  throw Error(ErrorCode::config_invalid, std::string(file) + ": field '" + std::string(field) + "' cannot be used",
              std::move(facts));
}

/// Members by their plain name: names of modules hold dots, which ConfigValue::find() would follow.
const ConfigValue* member(const ConfigValue& object, std::string_view name) {
  for (const auto& [key, value] : object.members()) {
    if (key == name) return value.is_null() ? nullptr : &value;
  }
  return nullptr;
}

std::uint64_t rank_of(std::string_view field, const ConfigValue& value) {
  const auto number = value.as_integer();
  if (!value.is_number() || !number || *number < 1 || static_cast<std::uint64_t>(*number) > LoraConfig::k_rank_max) {
    refuse(k_file, field, "an integer from 1 to " + std::to_string(LoraConfig::k_rank_max), value.dump());
  }
  return static_cast<std::uint64_t>(*number);
}

bool flag(const char* file, const ConfigValue& config, std::string_view name) {
  const ConfigValue* value = member(config, name);
  if (value == nullptr) return false;
  const auto flag = value->as_bool();
  if (!flag) refuse(file, name, "true or false", value->dump());
  return *flag;
}

std::string text(const char* file, const ConfigValue& config, std::string_view name, std::string when_absent = {}) {
  const ConfigValue* value = member(config, name);
  if (value == nullptr) return when_absent;
  const auto text = value->as_string();
  if (!text) refuse(file, name, "a text", value->dump());
  return std::string(*text);
}

std::vector<std::string> names(std::string_view field, const ConfigValue& value) {
  std::vector<std::string> result;
  if (!value.is_array()) refuse(k_file, field, "a list of names", value.dump());
  for (const ConfigValue& item : value.items()) {
    const auto name = item.as_string();
    if (!name || name->empty()) refuse(k_file, field, "a list of names", item.dump());
    result.emplace_back(*name);
  }
  return result;
}

std::vector<std::string> names_of(const ConfigValue& config, std::string_view field) {
  const ConfigValue* value = member(config, field);
  return value == nullptr ? std::vector<std::string>{} : names(field, *value);
}

bool is_set(const ConfigValue& config, std::string_view name) {
  const ConfigValue* value = member(config, name);
  return value != nullptr && value->as_bool() != false && !(value->is_object() && value->members().empty()) &&
         !(value->is_array() && value->items().empty());
}

void read_targets(const ConfigValue& config, LoraConfig& out) {
  const ConfigValue* modules = member(config, "target_modules");
  if (modules != nullptr && modules->is_string()) {
    out.target_pattern = std::string(*modules->as_string());
    if (out.target_pattern.empty()) refuse(k_file, "target_modules", "names of modules", "\"\"");
  } else if (modules != nullptr) {
    out.target_modules = names("target_modules", *modules);
  }
  out.target_parameters = names_of(config, "target_parameters");
  if (out.target_pattern.empty() && out.target_modules.empty() && out.target_parameters.empty()) {
    refuse(k_file, "target_modules", "names of modules", modules == nullptr ? "absent" : modules->dump());
  }
  const ConfigValue* excluded = member(config, "exclude_modules");
  if (excluded != nullptr && excluded->is_string()) {
    out.has_other_conditions = true;
  } else if (excluded != nullptr) {
    out.excluded_modules = names("exclude_modules", *excluded);
  }
  if (const ConfigValue* layers = member(config, "layers_to_transform")) {
    const auto add = [&](const ConfigValue& item) {
      const auto number = item.as_integer();
      if (!number || *number < 0) refuse(k_file, "layers_to_transform", "numbers of layers", layers->dump());
      out.layers.push_back(static_cast<std::uint64_t>(*number));
    };
    if (layers->is_array()) {
      for (const ConfigValue& item : layers->items()) add(item);
    } else {
      add(*layers);
    }
  }
  for (const char* other : {"layers_pattern", "layer_replication", "megatron_config", "trainable_token_indices"}) {
    if (is_set(config, other)) out.has_other_conditions = true;
  }
}

}  // namespace

LoraConfig read_lora_config(const ConfigValue& config, const ConfigValue* stamp) {
  LoraConfig out;
  const auto need = [&](const char* name) -> const ConfigValue& {
    const ConfigValue* value = member(config, name);
    if (value == nullptr) refuse(k_file, name, "a value", "absent");
    return *value;
  };
  if (need("peft_type").as_string() != "LORA") refuse(k_file, "peft_type", "\"LORA\"", need("peft_type").dump());
  out.rank = rank_of("r", need("r"));
  const auto alpha = need("lora_alpha").as_number();
  if (!alpha || !std::isfinite(*alpha) || *alpha <= 0) {
    refuse(k_file, "lora_alpha", "a number above 0", need("lora_alpha").dump());
  }
  out.alpha = *alpha;
  out.use_dora = flag(k_file, config, "use_dora");
  out.has_swapped_weights = flag(k_file, config, "fan_in_fan_out");
  out.bias = text(k_file, config, "bias", "none");
  if (out.bias != "none" && out.bias != "all" && out.bias != "lora_only") {
    refuse(k_file, "bias", "none, all or lora_only", '"' + out.bias + '"');
  }
  out.task_type = text(k_file, config, "task_type");
  read_targets(config, out);
  out.modules_to_save = names_of(config, "modules_to_save");
  if (const ConfigValue* pattern = member(config, "rank_pattern")) {
    if (!pattern->is_object()) refuse(k_file, "rank_pattern", "an object of ranks", pattern->dump());
    for (const auto& [name, rank] : pattern->members()) {
      out.rank_pattern.emplace_back(name, rank_of("rank_pattern", rank));
    }
  }
  if (stamp != nullptr) {
    if (member(*stamp, "paramwrapper_layout") != nullptr) {
      out.packing_stamp = text(k_stamp_file, *stamp, "paramwrapper_layout");
    }
    out.has_scaled_expert_rank = flag(k_stamp_file, *stamp, "moe_rank_scaling");
  }
  return out;
}

}  // namespace weightproof::adapters
