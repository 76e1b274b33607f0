// SPDX-License-Identifier: Apache-2.0
// Plain casts of stored values between F16, BF16, F32 and F64. Nearest even; a NaN keeps its sign and the top of its
// payload, quieted; F64 becomes a narrow format by way of F32.
#pragma once

#include <cstddef>

#include "loader/core/dtype.hpp"

namespace weightproof::exec {

/// `count` elements; neither side has an alignment. Equal dtypes copy the bytes.
void convert(const std::byte* source, DType from, std::byte* target, DType to, std::size_t count);

/// Bytes of one element with this value, for constants. Integers must hold it exactly: Error(dtype_unsupported).
void encode_value(double value, DType dtype, std::byte* target);

}  // namespace weightproof::exec
