// SPDX-License-Identifier: Apache-2.0
// Which number format a checkpoint's weights are stored in, as far as config and names tell; and which stored tensors
// are companions of a weight. Recognising is not decoding: unknown methods are named too, and refused later.
#pragma once

#include <string>
#include <string_view>

#include "loader/core/catalog.hpp"
#include "loader/core/config.hpp"

namespace weightproof::adapters {

/// "" plain, else one of: fp8_block, fp8_tensor, fp8_channel, fp8, mxfp8, mxfp4, nvfp4, fp4_e8m0, nf4, fp4, bnb_int8,
/// gptq, awq, compressed_tensors.<format>, modelopt.<algorithm>, torchao, fbgemm_fp8, mlx_affine, unknown.<method>. The
/// config speaks first (quantization_config or quantization, at the top, in text_config or in llm_config), then the
/// names, then the dtypes.
std::string recognise_quantization(const ConfigValue* config, const Catalog& catalog);

/// The quantization object of a config, or null.
const ConfigValue* quantization_config(const ConfigValue& config);

/// A companion: a stored tensor that belongs to a weight and owns no parameter.
struct Companion {
  std::string_view role;  ///< "scale", "zero_point", "activation_scale", ... empty: the key is no companion
  std::string weight;     ///< the weight's key as a plain checkpoint spells it
};
/// By name alone.
Companion companion_of(std::string_view key);

}  // namespace weightproof::adapters
