// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "adapters/lora_internal.hpp"

namespace weightproof::adapters::detail {

ModuleNames::ModuleNames(const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) positions_.try_emplace(names[i], i);
}

std::size_t ModuleNames::first(std::string_view module) const { return first(module, {}); }

std::size_t ModuleNames::first(std::string_view module, std::string_view part) const {
  constexpr unsigned parts_max = 64;  // names come from files
  if (positions_.empty()) return SIZE_MAX;
  std::size_t least = SIZE_MAX;
  const auto look = [&](std::string_view end) {
    if (end.find(part) == std::string_view::npos) return;
    if (const auto found = positions_.find(end); found != positions_.end()) least = std::min(least, found->second);
  };
  look(module);
  std::size_t dot = module.rfind('.');
  for (unsigned i = 0; i < parts_max && dot != std::string_view::npos; ++i) {
    look(module.substr(dot + 1));
    dot = dot == 0 ? std::string_view::npos : module.rfind('.', dot - 1);
  }
  return least;
}

LoraTargets::LoraTargets(const LoraConfig& config)
    : config_(config),
      modules_(config.target_modules),
      excluded_(config.excluded_modules),
      parameters_(config.target_parameters),
      saved_(config.modules_to_save),
      layers_(config.layers) {
  for (const auto& [name, rank] : config.rank_pattern) ranked_names_.push_back(name);
  ranked_ = ModuleNames(ranked_names_);
  std::sort(layers_.begin(), layers_.end());
}

bool LoraTargets::is_in_layers(std::uint32_t layer) const {
  return layers_.empty() || std::binary_search(layers_.begin(), layers_.end(), layer);
}

bool LoraTargets::asks_module(std::string_view module, std::uint32_t layer) const {
  return is_in_layers(layer) && modules_.names(module) && !excluded_.names(module);
}

bool LoraTargets::asks(const LoraLinear& linear) const {
  return asks_module(linear.stored, linear.layer) || asks_module(linear.native, linear.layer);
}

bool LoraTargets::asks_expert(const LoraExperts& experts, std::string_view native_name, std::string_view stored_name,
                              bool is_by_name) const {
  // A list that names single experts names all of them; the first stands for the rest.
  for (const std::string& first :
       {experts.stored + ".0." + std::string(stored_name), experts.native + ".0." + std::string(native_name)}) {
    if (asks_module(first, experts.layer) && (!is_by_name || modules_.first(first, "experts") != SIZE_MAX)) return true;
  }
  return false;
}

bool LoraTargets::asks_parameter(const LoraExperts& experts, std::string_view parameter) const {
  return is_in_layers(experts.layer) && (parameters_.names(experts.stored + "." + std::string(parameter)) ||
                                         parameters_.names(experts.native + "." + std::string(parameter)));
}

bool LoraTargets::asks_packed_input(const LoraExperts& experts) const {
  return asks_parameter(experts, experts.is_gated ? "gate_up_proj" : "up_proj");
}
bool LoraTargets::asks_packed_output(const LoraExperts& experts) const { return asks_parameter(experts, "down_proj"); }

std::uint64_t LoraTargets::rank(std::string_view stored, std::string_view native) const {
  const std::size_t first = std::min(ranked_.first(stored), ranked_.first(native));
  return first == SIZE_MAX ? config_.rank : config_.rank_pattern[first].second;
}

std::uint64_t LoraTargets::rank(const LoraExperts& experts) const {
  std::size_t first = SIZE_MAX;
  for (const char* matrix : {"gate_proj", "up_proj", "down_proj", "gate_up_proj"}) {
    first =
        std::min({first, ranked_.first(experts.native + "." + matrix), ranked_.first(experts.native + ".0." + matrix)});
  }
  return first == SIZE_MAX ? config_.rank : config_.rank_pattern[first].second;
}

bool LoraTargets::saves(std::string_view key) const {
  const std::size_t dot = key.rfind('.');
  const std::string_view module = dot == std::string_view::npos ? key : key.substr(0, dot);
  if (saved_.names(module) || saved_.names(key)) return true;
  if (config_.bias != "none" && key.ends_with(".bias")) return true;
  // Heads of tasks are trained without being named.
  if (config_.task_type == "SEQ_CLS" || config_.task_type == "TOKEN_CLS" || config_.task_type == "QUESTION_ANS") {
    const std::string_view last = module.substr(module.rfind('.') + 1);
    return last == "score" || last == "classifier" || last == "qa_outputs";
  }
  return false;
}

}  // namespace weightproof::adapters::detail
