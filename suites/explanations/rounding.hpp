// SPDX-License-Identifier: Apache-2.0
// How a value may be rounded to a 16-bit float, and a vote over elements beside the values that they were made of.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "loader/core/dtype.hpp"

namespace weightproof::suites {

/// The plainest first: where two of them explain a tensor alike, it is called by the first.
enum class RoundingMode : std::uint8_t { nearest_even, toward_zero, ties_away, away_from_zero, up, down, twice };
inline constexpr std::size_t k_rounding_modes = 7;
/// In words that follow "rounded": "to nearest, ties to even".
std::string_view to_string(RoundingMode mode);

/// Smallest normal magnitude of F16, BF16, F32 or F64.
double least_normal(DType dtype);

/// Bits of `value` in F16 or BF16 under a mode. `twice` goes through the other of the two first.
std::uint16_t round_to(float value, DType dtype, RoundingMode mode);

/// Who gave these elements? NaN and infinity are not asked, nor are zeros and what the narrower float cannot hold: all
/// roundings treat them alike, and whatever became of them has a check of its own.
struct RoundingVote {
  std::uint64_t voters = 0;
  std::uint64_t decisive = 0;                             ///< of those, for which the modes differ
  std::array<std::uint64_t, k_rounding_modes> agrees{};   ///< decisive ones that are what a mode gives
  std::array<std::uint64_t, k_rounding_modes> objects{};  ///< voters that are not, flushed ones aside
  std::uint64_t flushed = 0;      ///< subnormal, and zero instead of what is nearest; a zero may have either sign
  std::uint64_t saturated = 0;    ///< beyond the largest number, and that number instead of infinity
  std::uint64_t none = 0;         ///< what no mode gives
  bool is_first_rounded = false;  ///< the first side is the narrow one: it was made of what the second holds

  /// `found`: bits in `dtype`, F16 or BF16, of what became of `value`.
  void add(float value, std::uint16_t found, DType dtype);
  /// The mode that explains every voter. Nothing where none does, or where there is nothing to tell modes by.
  std::optional<RoundingMode> winner() const;
  bool has_flushed() const { return flushed > 0 && winner() == RoundingMode::nearest_even; }
  /// True where one rule explains every voter, and it is not rounding to nearest, ties to even.
  bool is_wrong() const {
    return has_flushed() || winner().value_or(RoundingMode::nearest_even) != RoundingMode::nearest_even;
  }
};

}  // namespace weightproof::suites
