// SPDX-License-Identifier: Apache-2.0
#include "suites/explanations/rounding.hpp"

#include <algorithm>
#include <cmath>

#include "loader/codec/scalar.hpp"

namespace weightproof::suites {
namespace {

constexpr std::uint16_t k_sign = 0x8000;

using Rounded = std::array<std::uint16_t, k_rounding_modes>;

std::uint16_t infinity_of(DType dtype) { return dtype == DType::f16 ? 0x7c00 : 0x7f80; }

std::uint16_t nearest(DType dtype, std::uint32_t wide) {
  return dtype == DType::f16 ? codec::f32_bits_to_f16(wide) : codec::f32_bits_to_bf16(wide);
}

std::uint32_t widened(DType dtype, std::uint16_t bits) {
  return dtype == DType::f16 ? codec::f16_to_f32_bits(bits) : codec::bf16_to_f32_bits(bits);
}

// Infinity counts as the number that would follow the largest one: roundings look no further.
double magnitude(DType dtype, std::uint16_t bits) {
  bits = static_cast<std::uint16_t>(bits & ~k_sign);
  if (bits == infinity_of(dtype)) {
    return dtype == DType::f16 ? 0x1p16 : 0x1p128;
  }
  return static_cast<double>(codec::float_of_bits(widened(dtype, bits)));
}

double largest(DType dtype) { return magnitude(dtype, static_cast<std::uint16_t>(infinity_of(dtype) - 1)); }

// What every mode gives for a finite value.
Rounded round_all(float value, DType dtype) {
  const std::uint32_t wide = codec::bits_of_float(value);
  const std::uint16_t even = nearest(dtype, wide);
  const DType other = dtype == DType::bf16 ? DType::f16 : DType::bf16;
  Rounded out;
  out.fill(even);
  out[static_cast<std::size_t>(RoundingMode::twice)] = nearest(dtype, widened(other, nearest(other, wide)));
  const double size = std::fabs(static_cast<double>(value));
  if (size == magnitude(dtype, even) && size <= largest(dtype)) {
    return out;
  }
  // Neighbouring magnitudes are neighbouring bit patterns.
  const auto sign = static_cast<std::uint16_t>(even & k_sign);
  auto below = static_cast<std::uint16_t>(even & ~k_sign);
  if (size > largest(dtype)) {
    below = static_cast<std::uint16_t>(infinity_of(dtype) - 1);
  } else if (magnitude(dtype, below) > size) {
    --below;
  }
  const auto above = static_cast<std::uint16_t>(below + 1);
  const bool is_upper_half = size - magnitude(dtype, below) >= magnitude(dtype, above) - size;
  const auto set = [&](RoundingMode mode, bool is_above) {
    out[static_cast<std::size_t>(mode)] = static_cast<std::uint16_t>(sign | (is_above ? above : below));
  };
  set(RoundingMode::toward_zero, false);
  set(RoundingMode::away_from_zero, true);
  set(RoundingMode::ties_away, is_upper_half);
  set(RoundingMode::up, sign == 0);
  set(RoundingMode::down, sign != 0);
  return out;
}

}  // namespace

std::string_view to_string(RoundingMode mode) {
  constexpr std::array<std::string_view, k_rounding_modes> names = {"to nearest, ties to even",
                                                                    "toward zero (truncated)",
                                                                    "to nearest, ties away from zero",
                                                                    "away from zero",
                                                                    "upward",
                                                                    "downward",
                                                                    "twice (through the other 16-bit float)"};
  return names[static_cast<std::size_t>(mode)];
}

double least_normal(DType dtype) { return dtype == DType::f16 ? 0x1p-14 : dtype == DType::f64 ? 0x1p-1022 : 0x1p-126; }

std::uint16_t round_to(float value, DType dtype, RoundingMode mode) {
  return std::isfinite(value) ? round_all(value, dtype)[static_cast<std::size_t>(mode)]
                              : nearest(dtype, codec::bits_of_float(value));
}

void RoundingVote::add(float value, std::uint16_t found, DType dtype) {
  if (!std::isfinite(value)) {
    return;
  }
  const auto object = [this] {
    ++voters;
    ++none;
    for (std::uint64_t& count : objects) {
      ++count;
    }
  };
  const auto bits = static_cast<std::uint16_t>(found & ~k_sign);
  if (value == 0) {
    if (bits != 0) {
      object();
    }
    return;
  }
  const double size = std::fabs(static_cast<double>(value));
  const Rounded modes = round_all(value, dtype);
  if (size > largest(dtype)) {
    const bool is_end =
        std::signbit(value) == ((found & k_sign) != 0) && bits + 1 >= infinity_of(dtype) && bits <= infinity_of(dtype);
    if (!is_end) {
      object();
      return;
    }
    saturated += bits != infinity_of(dtype) && found != modes[0] ? 1U : 0U;
    return;
  }
  const bool is_flushed = bits == 0 && size < least_normal(dtype) && found != modes[0];
  const bool decides = std::any_of(modes.begin(), modes.end(), [&](std::uint16_t each) { return each != modes[0]; });
  bool is_known = is_flushed;
  for (std::size_t mode = 0; mode < k_rounding_modes; ++mode) {
    const bool agreed = modes[mode] == found;
    is_known = is_known || agreed;
    agrees[mode] += agreed && decides ? 1U : 0U;
    objects[mode] += agreed || is_flushed ? 0U : 1U;
  }
  ++voters;
  decisive += decides ? 1U : 0U;
  flushed += is_flushed ? 1U : 0U;
  none += is_known ? 0U : 1U;
}

std::optional<RoundingMode> RoundingVote::winner() const {
  if (decisive == 0 && flushed == 0) {
    return std::nullopt;
  }
  const auto found = std::find(objects.begin(), objects.end(), 0U);
  return found == objects.end() ? std::nullopt : std::optional(static_cast<RoundingMode>(found - objects.begin()));
}

}  // namespace weightproof::suites
