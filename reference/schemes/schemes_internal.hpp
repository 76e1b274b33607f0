// SPDX-License-Identifier: Apache-2.0
// One function per scheme: given the stored tensors, the logical tensor and its decoder.
#pragma once

#include <optional>
#include <string>

#include "reference/quantized.hpp"

namespace weightproof::reference::schemes {

using Entry = const TensorEntry*;

// F32 bits with the one NaN.
inline std::uint32_t canonical(float value) {
  const std::uint32_t bits = bits_of_float(value);
  return (bits & 0x7fffffff) > 0x7f800000 ? k_nan_f32 : bits;
}
inline std::uint64_t ceil_divide(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0); }
[[noreturn]] void refuse_shape(Entry weight, Entry companion, const std::string& why);

/// The value of element `flat` of a scale tensor. U8 is an E8M0 byte.
float scale_value(Blocks& blocks, Entry scale, std::uint64_t flat);
/// A stored integer (any integer type), sign extended.
std::int64_t integer_value(Blocks& blocks, Entry tensor, std::uint64_t flat);
/// Field `index` of `bits` bits in a little-endian bit stream that begins at 32-bit word `first_word` of an I32 tensor.
std::uint32_t stream_field(Blocks& blocks, Entry words, std::uint64_t first_word, std::uint64_t index, unsigned bits);
/// A named integer of a JSON object, or nothing.
std::optional<std::uint64_t> number_in(const Json* object, std::string_view name);
std::string text_in(const Json* object, std::string_view name);

struct Grid {
  std::uint64_t rows = 0, columns = 0;  // Block size; 0: not known.
};

// FP8 of any kind with a scale of any shape. `heads`: rows of q, k, v in a fused projection with three scales, or
// empty.
Logical fp8(const std::string& name, Entry weight, Entry scale, Grid grid, const Shape& heads);
// Two codes per byte, E8M0 scale per 32.
Logical mxfp4_blocks(const std::string& name, Entry blocks, Entry scales);
Logical mxfp4_packed(const std::string& name, Entry weight, Entry scale);
Logical nvfp4(const std::string& name, Entry weight, Entry scale, Entry global, bool global_divides);
// compressed-tensors and other integers.
Logical ct_pack(const std::string& name, Entry packed, Entry scale, Entry shape, Entry zero, Entry group_index,
                std::optional<unsigned> bits, std::optional<std::uint64_t> group_size, const Checkpoint& checkpoint);
Logical int8_affine(const std::string& name, Entry weight, Entry scale, Entry zero);
Logical int4_rows(const std::string& name, Entry weight, Entry scale);
Logical awq(const std::string& name, Entry qweight, Entry qzeros, Entry scales);
Logical gptq(const std::string& name, Entry qweight, Entry qzeros, Entry scales, Entry g_idx, const Json* config);
Logical bnb4(const std::string& name, Entry weight, Entry absmax, Entry map, Entry state, Entry nested_absmax,
             Entry nested_map, const Checkpoint& checkpoint);
Logical bnb8(const std::string& name, Entry weight, Entry scb);

}  // namespace weightproof::reference::schemes
