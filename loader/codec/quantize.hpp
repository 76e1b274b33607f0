// SPDX-License-Identifier: Apache-2.0
// Fresh quantization: codes and scales of values that never had any. Every formula has an id that travels with what it
// made, and a bound on what it may change, checked on every element while it works.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "loader/core/shape.hpp"

namespace weightproof::codec {

enum class FreshFormula : std::uint8_t {
  /// scale F32 = amax /f32 448 over blocks of 128 x 128, at least 2^-126, 1 where amax is 0; code = E4M3(x /f32 scale),
  /// saturating.
  fp8_block,
  /// The same over the whole tensor.
  fp8_tensor,
  /// scale 2^(floor(log2 amax) - 2) over 32 columns, as E8M0; code = E2M1(x / scale), saturating at 6; an all-zero
  /// group
  /// has scale 1.
  mxfp4
};
inline constexpr std::uint64_t k_fresh_block = 128;
inline constexpr std::uint64_t k_fresh_group = 32;

/// "fp8_block.amax_448.1": with a version, for reports and for whoever quantizes again.
std::string_view formula_id(FreshFormula formula);
std::optional<FreshFormula> formula_of(std::string_view id);

/// What one call saw. Errors are in halves of the step between codes at the value. `error_max` is that of values which
/// the codes span: at most 1, apart from rounding of the quotient. Values beyond the largest code take that code (mxfp4
/// alone: the largest value of a group is four to eight times its scale, the largest code is six) and are counted
/// apart.
struct FreshStatistics {
  std::uint64_t elements = 0;
  std::uint64_t saturated = 0;     ///< beyond the largest code
  std::uint64_t outside = 0;       ///< of those, further from it than half a step
  double error_max = 0;            ///< of all but the saturated
  double saturated_error_max = 0;  ///< below 2
  void add(const FreshStatistics& other);
};

/// Largest magnitude. Throws nan_not_encodable naming `key` where a value is NaN or infinite.
float largest_magnitude(std::span<const float> values, std::string_view key);

/// Scale for a block whose largest magnitude this is.
float fp8_scale(float amax);
std::uint8_t mxfp4_scale(float amax);

/// Codes of values that share one FP8 scale. Errors: internal, naming `key`, where an element is outside its bound.
void fp8_codes(std::span<const float> values, float scale, std::string_view key, std::byte* codes,
               FreshStatistics& statistics);
/// Codes of one group of at most 32 values (an even number of them), two a byte.
void mxfp4_codes(std::span<const float> values, std::uint8_t scale, std::string_view key, std::byte* codes,
                 FreshStatistics& statistics);

}  // namespace weightproof::codec
