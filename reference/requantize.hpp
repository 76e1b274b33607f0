// SPDX-License-Identifier: Apache-2.0
// Fresh quantization stated a second time: every code is the nearest one of all codes there are, by exact distance.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/numbers.hpp"

namespace weightproof::reference {

/// The code of a format whose value is nearest to a number; of two, the even code; beyond the largest value, that one.
/// The sign of zero is kept where the format has two. `value` is finite.
std::uint32_t nearest_code(FloatFormat format, double value);

struct Requantized {
  std::vector<std::uint8_t> codes;      // One a byte, also four-bit ones.
  std::vector<float> scales;            // FP8.
  std::vector<std::uint8_t> exponents;  // MXFP4.
};

/// rows x columns in blocks of block_rows x block_columns (0: all): scale = amax / 448 in F32, at least 2^-126, 1 for a
/// block of zeros; code = nearest E4M3 of the F32 quotient.
Requantized requantize_fp8(const std::vector<float>& values, std::uint64_t columns, std::uint64_t block_rows,
                           std::uint64_t block_columns);
/// Groups of 32 columns: scale 2^(floor(log2 amax) - 2), 2^0 for a group of zeros; code = nearest E2M1 of the quotient.
Requantized requantize_mxfp4(const std::vector<float>& values, std::uint64_t columns);

}  // namespace weightproof::reference
