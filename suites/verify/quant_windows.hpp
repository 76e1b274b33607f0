// SPDX-License-Identifier: Apache-2.0
// A quantized tensor in windows: how checks walk over what a codec decodes.
#pragma once

#include <functional>
#include <vector>

#include "suites/verify/quantization.hpp"

namespace weightproof::suites {

/// Decoded bytes of a window, in F32.
inline constexpr std::size_t k_quant_window_bytes = std::size_t{1} << 20U;

/// Boxes on the codec's granule that tile the tensor: bands of rows of one matrix. `f` ends the walk by false.
bool for_each_quant_window(const codec::Codec& decoder, const std::function<bool(const Box&)>& f);

/// The stored bytes that a box needs, one run of bytes for each component, as Codec::decode takes them.
std::vector<std::vector<std::byte>> read_parts(const codec::Codec& decoder, const Box& box, const Catalog& keys,
                                               ComponentReader& reader);
std::vector<std::span<const std::byte>> views_of_parts(const std::vector<std::vector<std::byte>>& parts);

}  // namespace weightproof::suites
