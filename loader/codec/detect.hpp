// SPDX-License-Identifier: Apache-2.0
// Which stored tensors are quantized, by which scheme, with which companions. Names group tensors; dtypes and shapes
// settle the scheme; the config must agree. Where they differ both facts are told. An unknown method is refused by name
// and never copied as is.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "loader/codec/codec.hpp"
#include "loader/core/catalog.hpp"
#include "loader/core/config.hpp"
#include "loader/core/diagnostic.hpp"

namespace weightproof::codec {

/// One logical tensor that a codec yields.
struct QuantizedTensor {
  std::string key;  ///< logical name: "x.weight" for x.weight_packed, "experts.gate_up_proj" for ..._blocks
  Scheme scheme;
  std::vector<Component> components;  ///< in catalog order of roles; dtypes and shapes as stored
};

struct Quantization {
  std::string method;  ///< quant_method of the config, or "" where none
  std::string source;  ///< where the config was found: "quantization_config", "hf_quant_config.json", "tensors", ""
  std::vector<QuantizedTensor> tensors;  ///< sorted by key
  std::vector<Diagnostic> diagnostics;   ///< quant.* findings: fail, warn, note
  /// Stored keys that belong to a quantized tensor (weights and companions), sorted: consumed exactly once.
  std::vector<std::string> consumed;
  /// Stored keys of companions of a scheme that cannot be decoded, sorted: known by name, read by nobody.
  std::vector<std::string> refused;

  bool is_quantized() const { return !tensors.empty() || !method.empty(); }
  /// Null where the logical key is not quantized.
  const QuantizedTensor* find(std::string_view key) const;
};

/// `config` may be null. `companions`: parsed hf_quant_config.json, quantize_config.json, quant_config.json where
/// present. A catalog without shapes (an index alone) gives groups by name, with schemes as far as the config fixes
/// them, and no shape findings.
Quantization detect_quantization(const ConfigValue* config, const std::map<std::string, ConfigValue>& companions,
                                 const Catalog& catalog);

}  // namespace weightproof::codec
