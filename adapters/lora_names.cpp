// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "adapters/lora_internal.hpp"

namespace weightproof::adapters::detail {

LoraNames::LoraNames(const LoraBase& base) : base_(base) {
  for (std::uint32_t i = 0; i < base.linears.size(); ++i) {
    linears_.try_emplace(base.linears[i].stored, Entry{i, false});
  }
  for (std::uint32_t i = 0; i < base.linears.size(); ++i) {
    linears_.try_emplace(base.linears[i].native, Entry{i, true});
  }
  for (std::uint32_t i = 0; i < base.experts.size(); ++i) {
    parents_.try_emplace(base.experts[i].stored, Entry{i, false});
  }
  for (std::uint32_t i = 0; i < base.experts.size(); ++i) {
    parents_.try_emplace(base.experts[i].native, Entry{i, true});
  }
}

LoraPlace LoraNames::find(std::string_view module) const {
  LoraPlace place;
  if (const auto found = linears_.find(module); found != linears_.end()) {
    place.kind = LoraPlace::Kind::linear;
    place.index = found->second.index;
    place.is_native = found->second.is_native;
    return place;
  }
  place.is_inner = module.ends_with(k_lora_inner);
  const std::string_view parent = place.is_inner ? module.substr(0, module.size() - k_lora_inner.size()) : module;
  if (const auto found = parents_.find(parent); found != parents_.end()) {
    place.kind = LoraPlace::Kind::packed;
    place.index = found->second.index;
    place.is_native = found->second.is_native;
    return place;
  }
  return place.is_inner ? LoraPlace{} : find_expert(module);
}

LoraPlace LoraNames::find_expert(std::string_view module) const {
  const std::size_t last = module.rfind('.');
  if (last == std::string_view::npos || last == 0) return {};
  const std::size_t before = module.rfind('.', last - 1);
  if (before == std::string_view::npos) return {};
  const std::string_view digits = module.substr(before + 1, last - before - 1);
  const auto found = parents_.find(module.substr(0, before));
  if (found == parents_.end() || digits.empty() || digits.size() > 9 || (digits[0] == '0' && digits.size() > 1)) {
    return {};
  }
  LoraPlace place;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), place.expert);
  const LoraExperts& experts = base_.experts[found->second.index];
  if (error != std::errc() || end != digits.data() + digits.size() || place.expert >= experts.count) return {};
  const std::string_view name = module.substr(last + 1);
  const bool is_one_parent = experts.stored == experts.native;
  const auto matrix = [&](std::string_view gate, std::string_view up, std::string_view down) {
    if (experts.is_gated && name == gate) return std::optional(LoraPlace::Matrix::gate);
    if (name == up) return std::optional(LoraPlace::Matrix::up);
    return name == down ? std::optional(LoraPlace::Matrix::down) : std::nullopt;
  };
  auto is = found->second.is_native && !is_one_parent ? std::nullopt : matrix(experts.gate, experts.up, experts.down);
  if (!is && (found->second.is_native || is_one_parent)) {
    is = matrix("gate_proj", "up_proj", "down_proj");
    place.is_native = true;
  }
  if (!is) return {};
  place.kind = LoraPlace::Kind::expert;
  place.index = found->second.index;
  place.matrix = *is;
  return place;
}

}  // namespace weightproof::adapters::detail
