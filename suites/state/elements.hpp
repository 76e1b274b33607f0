// SPDX-License-Identifier: Apache-2.0
// Runs of elements of any dtype: casts as an export does them, and values as numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "loader/core/dtype.hpp"

namespace weightproof::suites {

/// Between ordinary floats: round to nearest even, once, through F32; NaN keeps sign and top payload. Equal dtypes are
/// copied. `target` holds as many elements as `source`. Throws Error(dtype_unsupported) for any other pair.
void cast_elements(DType from, std::span<const std::byte> source, DType to, std::span<std::byte> target);
bool can_cast(DType from, DType to);

/// Values as doubles: ordinary and small floats, integers, BOOL. False where a dtype has no single number (C64) or is
/// narrower than a byte.
bool has_numbers(DType dtype);
/// Element `index` of a run.
double number_at(DType dtype, std::span<const std::byte> run, std::size_t index);

/// Position of a floating value in the order of its dtype: adjacent values differ by one, both zeros are equal. For
/// F16, BF16, F32, F64 alone.
std::int64_t ordered_position(DType dtype, std::span<const std::byte> run, std::size_t index);

/// "0x3f80", most significant digit first.
std::string hex_of_element(DType dtype, std::span<const std::byte> run, std::size_t index);

}  // namespace weightproof::suites
