// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "adapters/lora_targets_internal.hpp"

namespace weightproof::adapters::detail {

bool names_module(std::string_view target, std::string_view module) {
  if (!module.ends_with(target)) return false;
  return module.size() == target.size() || module[module.size() - target.size() - 1] == '.';
}

bool LoraTargets::is_in_layers(std::uint32_t layer) const {
  return config_.layers.empty() ||
         std::find(config_.layers.begin(), config_.layers.end(), layer) != config_.layers.end();
}

bool LoraTargets::asks_module(std::string_view module, std::uint32_t layer) const {
  const auto is_named = [&](const std::string& name) { return names_module(name, module); };
  return is_in_layers(layer) && std::any_of(config_.target_modules.begin(), config_.target_modules.end(), is_named) &&
         std::none_of(config_.excluded_modules.begin(), config_.excluded_modules.end(), is_named);
}

bool LoraTargets::asks(const LoraLinear& linear) const {
  return asks_module(linear.stored, linear.layer) || asks_module(linear.native, linear.layer);
}

bool LoraTargets::asks_expert(const LoraExperts& experts, std::string_view native_name, std::string_view stored_name,
                              bool is_by_name) const {
  for (const auto& [parent, name] : {std::pair<std::string_view, std::string_view>{experts.stored, stored_name},
                                     std::pair<std::string_view, std::string_view>{experts.native, native_name}}) {
    const std::string first = std::string(parent) + ".0." + std::string(name);
    for (const std::string& target : config_.target_modules) {
      if (is_by_name && target.find("experts") == std::string::npos) continue;
      // A list that names single experts names all of them; the first stands for the rest.
      if (names_module(target, first) && asks_module(first, experts.layer)) return true;
    }
  }
  return false;
}

bool LoraTargets::asks_parameter(const LoraExperts& experts, std::string_view parameter) const {
  if (!is_in_layers(experts.layer)) return false;
  for (const std::string& parent : {experts.stored, experts.native}) {
    const std::string name = parent + "." + std::string(parameter);
    for (const std::string& target : config_.target_parameters) {
      if (names_module(target, name)) return true;
    }
  }
  return false;
}

bool LoraTargets::asks_packed_input(const LoraExperts& experts) const {
  return asks_parameter(experts, experts.is_gated ? "gate_up_proj" : "up_proj");
}
bool LoraTargets::asks_packed_output(const LoraExperts& experts) const { return asks_parameter(experts, "down_proj"); }

std::uint64_t LoraTargets::rank(std::string_view stored, std::string_view native) const {
  for (const auto& [name, rank] : config_.rank_pattern) {
    if (names_module(name, stored) || names_module(name, native)) return rank;
  }
  return config_.rank;
}

std::uint64_t LoraTargets::rank(const LoraExperts& experts) const {
  for (const auto& [name, rank] : config_.rank_pattern) {
    for (const std::string_view matrix : {"gate_proj", "up_proj", "down_proj", "gate_up_proj"}) {
      if (names_module(name, experts.native + "." + std::string(matrix)) ||
          names_module(name, experts.native + ".0." + std::string(matrix))) {
        return rank;
      }
    }
  }
  return config_.rank;
}

bool LoraTargets::saves(std::string_view key) const {
  const std::size_t dot = key.rfind('.');
  const std::string_view module = dot == std::string_view::npos ? key : key.substr(0, dot);
  for (const std::string& name : config_.modules_to_save) {
    if (names_module(name, module) || names_module(name, key)) return true;
  }
  if (config_.bias != "none" && key.ends_with(".bias")) return true;
  // Heads of tasks are trained without being named.
  if (config_.task_type == "SEQ_CLS" || config_.task_type == "TOKEN_CLS" || config_.task_type == "QUESTION_ANS") {
    for (const std::string_view head : {"score", "classifier", "qa_outputs"}) {
      if (names_module(head, module)) return true;
    }
  }
  return false;
}

}  // namespace weightproof::adapters::detail
