// SPDX-License-Identifier: Apache-2.0
#include "reference/requantize.hpp"

#include <cmath>

#include "reference/failure.hpp"

namespace weightproof::reference {

std::uint32_t nearest_code(FloatFormat format, double value) {
  const unsigned bits = 1 + format.exponent_bits + format.mantissa_bits;
  const bool is_negative = std::signbit(value);
  std::uint32_t best = 0;
  double best_distance = HUGE_VAL;
  for (std::uint32_t code = 0; code < (1u << (bits - 1)); ++code) {
    const double candidate = as_float(widen(format, code));
    if (!std::isfinite(candidate)) continue;
    const double distance = std::fabs(candidate - std::fabs(value));
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) {
      best = code;
      best_distance = distance;
    }
  }
  return is_negative ? best | (1u << (bits - 1)) : best;
}

Requantized requantize_fp8(const std::vector<float>& values, std::uint64_t columns, std::uint64_t block_rows,
                           std::uint64_t block_columns) {
  Requantized out;
  out.codes.resize(values.size());
  if (values.empty()) return out;
  const std::uint64_t rows = values.size() / columns;
  if (block_rows == 0) block_rows = rows;
  if (block_columns == 0) block_columns = columns;
  for (std::uint64_t top = 0; top < rows; top += block_rows)
    for (std::uint64_t left = 0; left < columns; left += block_columns) {
      const auto visit = [&](auto&& f) {
        for (std::uint64_t r = top; r < rows && r < top + block_rows; ++r)
          for (std::uint64_t c = left; c < columns && c < left + block_columns; ++c) f(r * columns + c);
      };
      float amax = 0;
      visit([&](std::uint64_t at) {
        if (!std::isfinite(values[at])) throw Failure("NAN_NOT_ENCODABLE", "a value is not finite");
        amax = std::fmax(amax, std::fabs(values[at]));
      });
      const float scale = amax == 0 ? 1.0f : std::fmax(amax / 448.0f, 0x1p-126f);
      out.scales.push_back(scale);
      visit([&](std::uint64_t at) {
        out.codes[at] = static_cast<std::uint8_t>(nearest_code(k_e4m3, static_cast<double>(values[at] / scale)));
      });
    }
  return out;
}

Requantized requantize_mxfp4(const std::vector<float>& values, std::uint64_t columns) {
  if (columns % 32 != 0) throw Failure("SCALE_SHAPE", "columns are no multiple of 32");
  Requantized out;
  for (std::uint64_t group = 0; group < values.size(); group += 32) {
    float amax = 0;
    for (std::uint64_t i = 0; i < 32; ++i) {
      if (!std::isfinite(values[group + i])) throw Failure("NAN_NOT_ENCODABLE", "a value is not finite");
      amax = std::fmax(amax, std::fabs(values[group + i]));
    }
    // 2^e <= amax < 2^(e+1), found by trying.
    int exponent = 2;
    if (amax != 0) {
      exponent = -149;
      while (std::ldexp(1.0, exponent + 1) <= static_cast<double>(amax)) ++exponent;
    }
    const int shared = exponent - 2 < -127 ? -127 : exponent - 2;
    out.exponents.push_back(static_cast<std::uint8_t>(shared + 127));
    for (std::uint64_t i = 0; i < 32; ++i)
      out.codes.push_back(static_cast<std::uint8_t>(
          nearest_code(k_e2m1, static_cast<double>(values[group + i]) / std::ldexp(1.0, shared))));
  }
  return out;
}

}  // namespace weightproof::reference
