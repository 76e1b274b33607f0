// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "loader/codec/scalar.hpp"
#include "loader/core/error.hpp"
#include "loader/exec/cast_internal.hpp"

namespace weightproof::exec {
namespace {

using codec::bf16_to_f32_bits;
using codec::f16_to_f32_bits;
using codec::f32_bits_to_bf16_keep_nan;
using codec::f32_bits_to_f16_keep_nan;

/// A value of 64 bits, nearest F32. The pattern is built by hand where the value is no number, so that no hardware has
/// a say in what is left of it.
std::uint32_t f64_to_f32_bits(std::uint64_t bits) {
  if ((bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u) {
    return static_cast<std::uint32_t>(bits >> 63 << 31) | 0x7fc00000u |
           static_cast<std::uint32_t>((bits >> 29) & 0x3fffffu);
  }
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return codec::bits_of_float(static_cast<float>(value));
}

std::uint64_t f32_bits_to_f64(std::uint32_t bits) {
  if (codec::is_nan_bits(bits)) {
    return static_cast<std::uint64_t>(bits >> 31) << 63 | 0x7ff8000000000000u |
           static_cast<std::uint64_t>(bits & 0x3fffffu) << 29;
  }
  const double value = static_cast<double>(codec::float_of_bits(bits));
  std::uint64_t result = 0;
  std::memcpy(&result, &value, sizeof result);
  return result;
}

std::uint32_t same_f32(std::uint32_t bits) { return bits; }

template <typename In, typename Out, typename Widen, typename Narrow>
void convert_all(const std::byte* source, std::byte* target, std::size_t count, Widen widen, Narrow narrow) {
  for (std::size_t i = 0; i < count; ++i) {
    In in;
    std::memcpy(&in, source + i * sizeof in, sizeof in);
    const Out out = narrow(widen(in));
    std::memcpy(target + i * sizeof out, &out, sizeof out);
  }
}

template <typename In, typename Widen>
void convert_from(const std::byte* source, Widen widen, std::byte* target, DType to, std::size_t count) {
  switch (to) {
    case DType::bf16:
      return convert_all<In, std::uint16_t>(source, target, count, widen,
                                            [](std::uint32_t bits) { return f32_bits_to_bf16_keep_nan(bits); });
    case DType::f16:
      return convert_all<In, std::uint16_t>(source, target, count, widen,
                                            [](std::uint32_t bits) { return f32_bits_to_f16_keep_nan(bits); });
    case DType::f32:
      return convert_all<In, std::uint32_t>(source, target, count, widen, same_f32);
    case DType::f64:
      return convert_all<In, std::uint64_t>(source, target, count, widen, f32_bits_to_f64);
    default:
      break;
  }
  throw Error(ErrorCode::dtype_unsupported, "nothing is cast to " + std::string(name_of(to)));
}

}  // namespace

void convert(const std::byte* source, DType from, std::byte* target, DType to, std::size_t count) {
  if (from == to) {
    if (count != 0) std::memcpy(target, source, count * bits_of(from) / 8);
    return;
  }
  switch (from) {
    case DType::bf16:
      return convert_from<std::uint16_t>(
          source, [](std::uint16_t code) { return bf16_to_f32_bits(code); }, target, to, count);
    case DType::f16:
      return convert_from<std::uint16_t>(
          source, [](std::uint16_t code) { return f16_to_f32_bits(code); }, target, to, count);
    case DType::f32:
      return convert_from<std::uint32_t>(source, same_f32, target, to, count);
    case DType::f64:
      return convert_from<std::uint64_t>(source, f64_to_f32_bits, target, to, count);
    default:
      break;
  }
  throw Error(ErrorCode::dtype_unsupported, "nothing is cast from " + std::string(name_of(from)));
}

void encode_value(double value, DType dtype, std::byte* target) {
  if (is_ordinary_float(dtype)) {
    std::byte bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    return convert(bytes, DType::f64, target, dtype, 1);
  }
  const DTypeKind kind = kind_of(dtype);
  const unsigned bits = bits_of(dtype);
  const bool is_integer =
      kind == DTypeKind::signed_integer || kind == DTypeKind::unsigned_integer || kind == DTypeKind::boolean;
  const double limit = kind == DTypeKind::boolean
                           ? 2
                           : std::ldexp(1.0, static_cast<int>(bits) - (kind == DTypeKind::signed_integer ? 1 : 0));
  const double least = kind == DTypeKind::signed_integer ? -limit : 0;
  if (value == 0 && bits % 8 == 0) {
    // All zero bits are zero in every format but one without a zero.
    if (dtype != DType::f8_e8m0) {
      std::memset(target, 0, bits / 8);
      return;
    }
  }
  if (!is_integer || bits % 8 != 0 || std::trunc(value) != value || value < least || value >= limit) {
    ErrorFacts facts;
    facts.expected = "a value that " + std::string(name_of(dtype)) + " holds";
    facts.actual = std::to_string(value);
    throw Error(ErrorCode::dtype_unsupported,
                "a constant of " + facts.actual + " cannot be written as " + std::string(name_of(dtype)),
                std::move(facts));
  }
  const std::uint64_t code =
      value < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value)) : static_cast<std::uint64_t>(value);
  std::memcpy(target, &code, bits / 8);
}

}  // namespace weightproof::exec
