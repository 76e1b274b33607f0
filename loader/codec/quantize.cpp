// SPDX-License-Identifier: Apache-2.0
#include "loader/codec/quantize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "loader/codec/scalar.hpp"
#include "loader/core/error.hpp"

namespace weightproof::codec {
namespace {

constexpr std::array<std::string_view, 3> k_ids = {"fp8_block.amax_448.1", "fp8_tensor.amax_448.1",
                                                   "mxfp4.floor_log2.1"};
constexpr float k_e4m3_max = 448.0f;
constexpr float k_e2m1_max = 6.0f;
/// The quotient and the product are rounded once each: that much of the value on top of half a step.
constexpr double k_slack = 0x1p-22;

/// Distance between the codes on either side of a magnitude.
double step_at(double magnitude, int mantissa_bits, int least_exponent) {
  const int exponent = magnitude == 0 ? least_exponent : std::max(least_exponent, std::ilogb(magnitude));
  return std::ldexp(1.0, exponent - mantissa_bits);
}

[[noreturn]] void throw_outside(std::string_view key, float value, float back) {
  throw Error(ErrorCode::internal, std::string(key) + ": a quantized value is outside its bound",
              {.keys = {std::string(key)}, .expected = std::to_string(value), .actual = std::to_string(back)});
}

/// Error of one element in half steps; checks the bound.
double checked_error(float value, float quotient, float code, float scale, double step, std::string_view key) {
  const double error = std::abs(static_cast<double>(quotient) - static_cast<double>(code)) / (step / 2);
  const double real_error =
      std::abs(static_cast<double>(code) * static_cast<double>(scale) - static_cast<double>(value));
  const double bound = step / 2 * static_cast<double>(scale) + std::abs(static_cast<double>(value)) * k_slack;
  // A subnormal quotient or product has fewer digits: a quantum of F32 more.
  if (!(real_error <= bound + 0x1p-149 * (1 + static_cast<double>(scale)))) throw_outside(key, value, code * scale);
  return error;
}

}  // namespace

std::string_view formula_id(FreshFormula formula) { return k_ids[static_cast<std::size_t>(formula)]; }

std::optional<FreshFormula> formula_of(std::string_view id) {
  for (std::size_t i = 0; i < k_ids.size(); ++i)
    if (k_ids[i] == id) return static_cast<FreshFormula>(i);
  return std::nullopt;
}

void FreshStatistics::add(const FreshStatistics& other) {
  elements += other.elements;
  saturated += other.saturated;
  outside += other.outside;
  error_max = std::max(error_max, other.error_max);
  saturated_error_max = std::max(saturated_error_max, other.saturated_error_max);
}

float largest_magnitude(std::span<const float> values, std::string_view key) {
  float amax = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i]))
      throw Error(
          ErrorCode::nan_not_encodable,
          std::string(key) + " holds " + (std::isnan(values[i]) ? "NaN" : "an infinity") + " and cannot be quantized",
          {.keys = {std::string(key)},
           .expected = "finite values",
           .actual = std::isnan(values[i]) ? "NaN" : "infinity",
           .hint = "mend the source, or leave this tensor out with --exclude"});
    amax = std::max(amax, std::abs(values[i]));
  }
  return amax;
}

float fp8_scale(float amax) {
  if (amax == 0) return 1.0f;
  return std::max(amax / k_e4m3_max, 0x1p-126f);  // a subnormal scale would have too few digits
}

std::uint8_t mxfp4_scale(float amax) {
  if (amax == 0) return 127;
  const int exponent = std::ilogb(amax) - 2;  // 2 is the exponent of the largest power of two in E2M1
  return static_cast<std::uint8_t>(std::clamp(exponent, -127, 127) + 127);
}

void fp8_codes(std::span<const float> values, float scale, std::string_view key, std::byte* codes,
               FreshStatistics& statistics) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float quotient = values[i] / scale;
    const std::uint8_t code = f32_bits_to_e4m3fn(bits_of_float(quotient), true);
    codes[i] = static_cast<std::byte>(code);
    const float back = float_of_bits(e4m3fn_to_f32_bits(code));
    const double step = step_at(std::min(std::abs(static_cast<double>(quotient)), 448.0), 3, -6);
    statistics.error_max = std::max(statistics.error_max, checked_error(values[i], quotient, back, scale, step, key));
  }
  statistics.elements += values.size();
}

void mxfp4_codes(std::span<const float> values, std::uint8_t scale_code, std::string_view key, std::byte* codes,
                 FreshStatistics& statistics) {
  const float scale = float_of_bits(e8m0_to_f32_bits(scale_code));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float quotient = values[i] / scale;
    const std::uint8_t code = f32_bits_to_e2m1(bits_of_float(quotient));
    codes[i / 2] = i % 2 == 0 ? static_cast<std::byte>(code) : codes[i / 2] | static_cast<std::byte>(code << 4);
    const float back = float_of_bits(e2m1_to_f32_bits(code));
    if (std::abs(quotient) > k_e2m1_max) {
      if (!(std::abs(quotient) < 8.0f) || std::abs(back) != k_e2m1_max) throw_outside(key, values[i], back * scale);
      // The last step is from 4 to 6: half of it is 1.
      const double error = std::abs(static_cast<double>(quotient)) - static_cast<double>(k_e2m1_max);
      ++statistics.saturated;
      statistics.outside += error > 1 ? 1U : 0U;
      statistics.saturated_error_max = std::max(statistics.saturated_error_max, error);
      continue;
    }
    const double step = step_at(std::abs(static_cast<double>(quotient)), 1, 0);
    statistics.error_max = std::max(statistics.error_max, checked_error(values[i], quotient, back, scale, step, key));
  }
  statistics.elements += values.size();
}

}  // namespace weightproof::codec
