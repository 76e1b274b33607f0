// SPDX-License-Identifier: Apache-2.0
// Grouping stored tensors by name: which companion belongs to which weight. Names only group; they never decide the
// arithmetic.
#include <array>

#include "loader/codec/detect_internal.hpp"

namespace weightproof::codec {
namespace {

struct Spelling {
  std::string_view suffix;         ///< of the companion
  std::string_view weight_suffix;  ///< what replaces it in the weight's stored name
  Role role;
};

// Longest suffixes first: ".weight_scale_inv" before "_scale_inv".
constexpr std::array k_spellings = {
    Spelling{".weight.nested_absmax", ".weight", Role::nested_absmax},
    Spelling{".weight.nested_quant_map", ".weight", Role::nested_quant_map},
    Spelling{".weight.quant_state.bitsandbytes__nf4", ".weight", Role::quant_state},
    Spelling{".weight.quant_state.bitsandbytes__fp4", ".weight", Role::quant_state},
    Spelling{".weight.absmax", ".weight", Role::scale},
    Spelling{".weight.quant_map", ".weight", Role::quant_map},
    Spelling{".SCB", ".weight", Role::scale},
    Spelling{".weight_format", ".weight", Role::weight_format},
    Spelling{".weight_zero_point", ".weight_packed", Role::zero_point},
    Spelling{".weight_zero_point", ".weight", Role::zero_point},
    Spelling{".weight_g_idx", ".weight_packed", Role::group_index},
    Spelling{".weight_shape", ".weight_packed", Role::weight_shape},
    Spelling{".weight_global_scale", ".weight_packed", Role::global_scale},
    Spelling{".input_global_scale", ".weight_packed", Role::unused},
    Spelling{".weight_scale_2", ".weight", Role::global_scale},
    Spelling{".weight_scale_inv", ".weight", Role::scale},
    Spelling{".weight_scale", ".weight_packed", Role::scale},
    Spelling{".weight_scale", ".weight", Role::scale},
    Spelling{"._weight_scale", "._weight_qdata", Role::scale},
    Spelling{"._weight_zero_point", "._weight_qdata", Role::zero_point},
    Spelling{".qzeros", ".qweight", Role::zero_point},
    Spelling{".g_idx", ".qweight", Role::group_index},
    Spelling{".scales", ".blocks", Role::scale},
    Spelling{".scales", ".qweight", Role::scale},
    Spelling{"_scales", "_blocks", Role::scale},
    Spelling{"_scales_inv", "", Role::scale},
    Spelling{"_scale_inv", "", Role::scale},
    Spelling{"_activation_scale", "", Role::unused},
    Spelling{".scale", ".weight", Role::scale},
    Spelling{".activation_scale", ".weight", Role::unused},
    Spelling{".input_scale", ".weight", Role::unused},
    Spelling{".input_scale", ".weight_packed", Role::unused},
    Spelling{".k_scale", ".weight", Role::unused},
    Spelling{".v_scale", ".weight", Role::unused},
};

/// Suffixes that alone say "companion": without a weight they are orphans.
constexpr std::array<std::string_view, 7> k_orphan_suffixes = {
    ".weight_scale_inv", "_scale_inv", "_scales_inv", ".weight_scale", ".weight_scale_2", ".absmax", ".SCB"};

std::string replaced(std::string_view key, std::string_view suffix, std::string_view by) {
  return std::string(key.substr(0, key.size() - suffix.size())) + std::string(by);
}

/// Logical name and spelling of a weight's stored name.
std::pair<std::string, Family::Spelling> logical_of(std::string_view key) {
  if (key.ends_with(".weight_packed")) return {replaced(key, ".weight_packed", ".weight"), Family::Spelling::packed};
  if (key.ends_with("._weight_qdata")) return {replaced(key, "._weight_qdata", ".weight"), Family::Spelling::torchao};
  if (key.ends_with(".qweight")) return {replaced(key, ".qweight", ".weight"), Family::Spelling::qweight};
  if (key.ends_with("_blocks")) return {replaced(key, "_blocks", ""), Family::Spelling::blocks};
  if (key.ends_with(".blocks")) return {replaced(key, ".blocks", ""), Family::Spelling::blocks};
  return {std::string(key), Family::Spelling::plain};
}

bool is_small_float(const StoredTensor& tensor) {
  if (!tensor.is_described) return false;
  switch (tensor.dtype) {
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::f8_e4m3fnuz:
    case DType::f8_e5m2fnuz:
    case DType::f4:
      return true;
    default:
      return false;
  }
}

Family& family_of(Grouping& grouping, const StoredTensor& weight) {
  auto [logical, spelling] = logical_of(weight.key);
  Family& family = grouping.families[logical];
  if (family.weight == nullptr) {
    family.key = logical;
    family.weight = &weight;
    family.spelling = spelling;
  }
  return family;
}

/// A weight that could carry such a companion: anything but an ordinary float, where the dtype is known. An ordinary
/// float beside a scale is a leftover, not a pair.
bool can_be_quantized(const StoredTensor& weight) { return !weight.is_described || !is_ordinary_float(weight.dtype); }

}  // namespace

const StoredTensor* Family::companion(Role role) const {
  for (const auto& [r, tensor] : companions)
    if (r == role) return tensor;
  return nullptr;
}

Grouping group_by_name(const Catalog& catalog) {
  Grouping grouping;
  for (const StoredTensor& tensor : catalog.tensors()) {
    const std::string_view key = tensor.key;
    // Most keys: no companion is spelled like a plain weight or bias, and only a small float makes one quantized.
    if ((key.ends_with(".weight") || key.ends_with(".bias")) && !is_small_float(tensor)) continue;
    if (key.find(".lora_") != std::string_view::npos) continue;  // an adapter's factors are never quantized by name
    if (key.ends_with(".pre_quant_scale") || key.ends_with(".svdquant_lora_a") || key.ends_with(".svdquant_lora_b")) {
      grouping.refused.push_back(&tensor);
      grouping.refused_scheme =
          "a weight stored for pre-scaled activations (" + std::string(key.substr(key.rfind('.') + 1)) + ")";
      continue;
    }
    if (key.ends_with(".biases") || key.ends_with(".scales")) {
      const std::string_view suffix = key.substr(key.rfind('.'));
      const StoredTensor* affine = catalog.find(replaced(key, suffix, ".weight"));
      if (affine != nullptr && catalog.find(replaced(key, suffix, ".biases")) != nullptr &&
          catalog.find(replaced(key, suffix, ".scales")) != nullptr) {
        grouping.refused.push_back(&tensor);
        grouping.refused_scheme = "MLX affine quantization";
        continue;
      }
    }
    bool is_claimed = false;
    bool is_beside_plain = false;
    for (const Spelling& spelling : k_spellings) {
      if (!key.ends_with(spelling.suffix) || key.size() == spelling.suffix.size()) continue;
      const StoredTensor* weight = catalog.find(replaced(key, spelling.suffix, spelling.weight_suffix));
      if (weight == nullptr || weight == &tensor) continue;
      if (!can_be_quantized(*weight)) {
        is_beside_plain = true;
        continue;
      }
      Family& family = family_of(grouping, *weight);
      family.companions.emplace_back(spelling.role, &tensor);
      if (spelling.role == Role::scale) family.scales.push_back(&tensor);
      is_claimed = true;
      break;
    }
    if (is_claimed) continue;
    const auto [logical, spelling] = logical_of(key);
    const bool is_packed = spelling == Family::Spelling::packed || spelling == Family::Spelling::torchao ||
                           spelling == Family::Spelling::qweight ||
                           (spelling == Family::Spelling::blocks && tensor.is_described && tensor.dtype == DType::u8 &&
                            tensor.shape.rank() >= 3 && tensor.shape[tensor.shape.rank() - 1] == 16);
    if (is_packed || is_small_float(tensor)) {
      family_of(grouping, tensor);
      continue;
    }
    if (is_beside_plain) {
      grouping.orphans.push_back(&tensor);
      continue;
    }
    for (const std::string_view suffix : k_orphan_suffixes)
      if (key.ends_with(suffix)) {
        grouping.orphans.push_back(&tensor);
        break;
      }
  }
  return grouping;
}

}  // namespace weightproof::codec
