// SPDX-License-Identifier: Apache-2.0
// The 22 element types of the safetensors format. Order is the format's rank.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace weightproof {

enum class DType : std::uint8_t {
#define X(enumerator, name, bits, kind) enumerator,
#include "loader/core/dtypes.def"
#undef X
};
inline constexpr unsigned k_dtype_count = 22;

enum class DTypeKind : std::uint8_t { boolean, signed_integer, unsigned_integer, floating, complex };

std::string_view name_of(DType dtype);
/// Width of one element in bits: 4, 6, 8, 16, 32 or 64.
unsigned bits_of(DType dtype);
DTypeKind kind_of(DType dtype);
/// Case-sensitive, as in a header. Nothing for an unknown name.
std::optional<DType> dtype_from_name(std::string_view name);
std::span<const DType> all_dtypes();

/// Ordinary floating type: F16, BF16, F32 or F64 (a value by itself, no scale needed).
inline bool is_ordinary_float(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64;
}

/// dtype named by a config's `torch_dtype`/`dtype` ("bfloat16", "torch.float16", ...). Nothing when unknown.
std::optional<DType> dtype_from_config_name(std::string_view name);

}  // namespace weightproof
