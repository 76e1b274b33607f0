// SPDX-License-Identifier: Apache-2.0
#include "adapters/quantization.hpp"

#include <array>

namespace weightproof::adapters {
namespace {

struct Ending {
  std::string_view suffix;
  std::string_view role;
  std::string_view weight_suffix;  ///< what the weight has in the place of `suffix`
};

// Longer endings first: the first that fits decides.
constexpr std::array k_endings = {
    Ending{".weight.quant_state.bitsandbytes__nf4", "quant_state", ".weight"},
    Ending{".weight.quant_state.bitsandbytes__fp4", "quant_state", ".weight"},
    Ending{".weight.nested_quant_map", "nested_quant_map", ".weight"},
    Ending{".weight.nested_absmax", "nested_absmax", ".weight"},
    Ending{".weight.quant_map", "quant_map", ".weight"},
    Ending{".weight.absmax", "absmax", ".weight"},
    Ending{".weight_format", "weight_format", ".weight"},
    Ending{".SCB", "scale", ".weight"},
    Ending{".weight_activation_scale", "activation_scale", ".weight"},
    Ending{"_activation_scale", "activation_scale", ""},
    Ending{".activation_scale", "activation_scale", ".weight"},
    Ending{".weight_global_scale", "global_scale", ".weight"},
    Ending{".input_global_scale", "activation_scale", ".weight"},
    Ending{".weight_zero_point", "zero_point", ".weight"},
    Ending{".weight_scale_inv", "scale", ".weight"},
    Ending{".weight_scale_2", "global_scale", ".weight"},
    Ending{".weight_scale", "scale", ".weight"},
    Ending{".weight_shape", "weight_shape", ".weight"},
    Ending{".weight_g_idx", "g_idx", ".weight"},
    Ending{".input_scale", "activation_scale", ".weight"},
    Ending{".input_zero_point", "activation_zero_point", ".weight"},
    Ending{"_scale_inv", "scale", ""},
    Ending{"_scales", "scale", ""},
    Ending{".scale", "scale", ".weight"},
    Ending{".scales", "scale", ".weight"},
    Ending{".biases", "zero_point", ".weight"},
    Ending{".qzeros", "zero_point", ".weight"},
    Ending{".g_idx", "g_idx", ".weight"},
    Ending{".k_scale", "cache_scale", ".weight"},
    Ending{".v_scale", "cache_scale", ".weight"},
};

bool is_float8(DType dtype) {
  return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2 || dtype == DType::f8_e4m3fnuz ||
         dtype == DType::f8_e5m2fnuz;
}

std::string from_config(const ConfigValue& quantization) {
  const auto text = [&](std::string_view name) {
    const ConfigValue* value = quantization.find(name);
    const auto found = value == nullptr ? std::nullopt : value->as_string();
    return found ? std::string(*found) : std::string();
  };
  const auto flag = [&](std::string_view name) {
    const ConfigValue* value = quantization.find(name);
    return value != nullptr && value->as_bool().value_or(false);
  };
  const std::string method = text("quant_method");
  if (method == "fp8") {
    const ConfigValue* block = quantization.find("weight_block_size");
    if (block == nullptr || !block->is_array()) return "fp8_tensor";
    const ConfigValue::Array& extents = block->items();
    if (extents.size() == 2 && extents[0].as_integer() == 1 && extents[1].as_integer() == 32) return "mxfp8";
    return "fp8_block";
  }
  if (method == "mxfp4") return "mxfp4";
  if (method == "gptq") return "gptq";
  if (method == "awq") return "awq";
  if (method == "torchao") return "torchao";
  if (method == "fbgemm_fp8") return "fbgemm_fp8";
  if (method == "compressed-tensors" || method == "compressed_tensors") {
    const std::string format = text("format");
    return "compressed_tensors." + (format.empty() ? std::string("unstated") : format);
  }
  if (method.starts_with("modelopt")) {
    const std::string algorithm = text("quant_algo");
    return "modelopt." + (algorithm.empty() ? std::string("unstated") : algorithm);
  }
  if (method == "bitsandbytes") {
    if (flag("load_in_8bit") || flag("_load_in_8bit")) return "bnb_int8";
    return text("bnb_4bit_quant_type") == "nf4" ? "nf4" : "fp4";
  }
  if (!method.empty()) return "unknown." + method;
  // MLX writes bits and group_size without a method.
  if (quantization.has("group_size") && quantization.has("bits")) return "mlx_affine";
  if (quantization.has("producer") || quantization.has("quant_algo")) {
    const std::string algorithm = text("quant_algo");
    return "modelopt." + (algorithm.empty() ? std::string("unstated") : algorithm);
  }
  return quantization.members().empty() ? std::string() : std::string("unknown.unstated");
}

std::string from_names(const Catalog& catalog) {
  bool has_scales = false;
  bool has_biases = false;
  bool has_qweight = false;
  bool has_g_idx = false;
  bool has_absmax = false;
  bool has_scale_inv = false;
  bool has_scalar_scale_inv = false;
  bool has_scale_2 = false;
  bool has_scale = false;
  bool has_packed = false;
  bool has_blocks = false;
  bool has_float8 = false;
  bool has_e8m0_scale = false;
  for (const StoredTensor& tensor : catalog.tensors()) {
    const std::string_view key = tensor.key;
    if (tensor.is_described && is_float8(tensor.dtype)) has_float8 = true;
    if (key.ends_with(".weight") || key.ends_with(".bias")) continue;
    if (key.ends_with(".quant_state.bitsandbytes__nf4")) return "nf4";
    if (key.ends_with(".quant_state.bitsandbytes__fp4")) return "fp4";
    if (key.ends_with(".SCB")) return "bnb_int8";
    if (key.ends_with("._weight_qdata")) return "torchao";
    has_scales |= key.ends_with(".scales");
    has_biases |= key.ends_with(".biases");
    has_qweight |= key.ends_with(".qweight");
    has_g_idx |= key.ends_with(".g_idx");
    has_absmax |= key.ends_with(".absmax");
    has_scale_2 |= key.ends_with(".weight_scale_2");
    has_packed |= key.ends_with(".weight_packed");
    has_blocks |= key.ends_with("_blocks") && catalog.find(std::string(key.substr(0, key.size() - 7)) + "_scales");
    if (key.ends_with("_scale_inv")) {
      has_scale_inv = true;
      has_scalar_scale_inv |= tensor.is_described && tensor.shape.rank() < 2;
    }
    has_scale |= key.ends_with(".weight_scale");
    if (key.ends_with(".scale") && (!tensor.is_described || tensor.dtype == DType::f8_e8m0)) {
      has_e8m0_scale |= catalog.find(std::string(key.substr(0, key.size() - 5)) + "weight") != nullptr;
    }
  }
  if (has_absmax) return "nf4";
  if (has_qweight) return has_g_idx ? "gptq" : "awq";
  if (has_scales && has_biases) return "mlx_affine";
  if (has_packed) return "compressed_tensors.unstated";
  if (has_blocks) return "mxfp4";
  if (has_scale_inv) return has_scalar_scale_inv ? "fp8_tensor" : "fp8_block";
  if (has_scale_2) return "nvfp4";
  if (has_e8m0_scale) return "fp4_e8m0";
  if (has_scale) return "fp8_channel";
  return has_float8 ? "fp8" : "";
}

}  // namespace

const ConfigValue* quantization_config(const ConfigValue& config) {
  constexpr std::array<std::string_view, 6> places = {
      "quantization_config", "text_config.quantization_config", "llm_config.quantization_config",
      "quantization",        "text_config.quantization",        "compression_config"};
  for (const std::string_view place : places) {
    const ConfigValue* found = config.find(place);
    if (found != nullptr && found->is_object()) return found;
  }
  return nullptr;
}

std::string recognise_quantization(const ConfigValue* config, const Catalog& catalog) {
  if (config != nullptr) {
    const ConfigValue* quantization = quantization_config(*config);
    if (quantization != nullptr) {
      const std::string found = from_config(*quantization);
      if (!found.empty()) return found;
    }
  }
  return from_names(catalog);
}

Companion companion_of(std::string_view key) {
  for (const Ending& ending : k_endings) {
    if (!key.ends_with(ending.suffix) || key.size() == ending.suffix.size()) continue;
    return {ending.role,
            std::string(key.substr(0, key.size() - ending.suffix.size())) + std::string(ending.weight_suffix)};
  }
  return {};
}

}  // namespace weightproof::adapters
