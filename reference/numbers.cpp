// SPDX-License-Identifier: Apache-2.0
#include "reference/numbers.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "reference/failure.hpp"

namespace weightproof::reference {
namespace {

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  unsigned bits;
};
constexpr std::array<DtypeRow, 22> k_dtypes{{{Dtype::boolean, "BOOL", 8},
                                             {Dtype::f4, "F4", 4},
                                             {Dtype::f6_e2m3, "F6_E2M3", 6},
                                             {Dtype::f6_e3m2, "F6_E3M2", 6},
                                             {Dtype::u8, "U8", 8},
                                             {Dtype::i8, "I8", 8},
                                             {Dtype::f8_e5m2, "F8_E5M2", 8},
                                             {Dtype::f8_e4m3, "F8_E4M3", 8},
                                             {Dtype::f8_e8m0, "F8_E8M0", 8},
                                             {Dtype::f8_e4m3fnuz, "F8_E4M3FNUZ", 8},
                                             {Dtype::f8_e5m2fnuz, "F8_E5M2FNUZ", 8},
                                             {Dtype::i16, "I16", 16},
                                             {Dtype::u16, "U16", 16},
                                             {Dtype::f16, "F16", 16},
                                             {Dtype::bf16, "BF16", 16},
                                             {Dtype::i32, "I32", 32},
                                             {Dtype::u32, "U32", 32},
                                             {Dtype::f32, "F32", 32},
                                             {Dtype::c64, "C64", 64},
                                             {Dtype::f64, "F64", 64},
                                             {Dtype::i64, "I64", 64},
                                             {Dtype::u64, "U64", 64}}};

const DtypeRow& row_of(Dtype dtype) { return k_dtypes[static_cast<std::size_t>(dtype)]; }

constexpr std::uint32_t k_infinity_f32 = 0x7f800000;

}  // namespace

std::optional<Dtype> dtype_named(std::string_view name) {
  for (const DtypeRow& row : k_dtypes)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}
std::string_view name_of(Dtype dtype) { return row_of(dtype).name; }
unsigned bits_of(Dtype dtype) { return row_of(dtype).bits; }

bool is_floating(Dtype dtype) {
  switch (dtype) {
    case Dtype::f4:
    case Dtype::f8_e5m2:
    case Dtype::f8_e4m3:
    case Dtype::f8_e8m0:
    case Dtype::f8_e4m3fnuz:
    case Dtype::f8_e5m2fnuz:
    case Dtype::f16:
    case Dtype::bf16:
    case Dtype::f32:
    case Dtype::f64:
      return true;
    default:
      return false;
  }
}

std::uint32_t widen(FloatFormat format, std::uint32_t code) {
  const unsigned M = format.mantissa_bits;
  const std::uint32_t exponent_ones = (1u << format.exponent_bits) - 1, mantissa_ones = (1u << M) - 1;
  const std::uint32_t m = code & mantissa_ones, e = (code >> M) & exponent_ones;
  const std::uint32_t sign = (code >> (M + format.exponent_bits)) & 1;

  if (format.specials == Specials::ieee && e == exponent_ones)
    return m != 0 ? k_nan_f32 : (sign << 31) | k_infinity_f32;
  if (format.specials == Specials::fn && e == exponent_ones && m == mantissa_ones) return k_nan_f32;
  if (format.specials == Specials::fnuz && sign == 1 && e == 0 && m == 0) return k_nan_f32;
  if (e == 0 && m == 0) return sign << 31;

  // value = significand * 2^exponent, significand an integer of at most M+1 bits.
  std::uint32_t significand = e == 0 ? m : m | (1u << M);
  int exponent = (e == 0 ? 1 : static_cast<int>(e)) - format.bias - static_cast<int>(M);
  // Binary32 wants significand in [2^23, 2^24), or exponent -149 below that.
  while (significand < (1u << 23) && exponent > -149) {
    significand <<= 1;
    --exponent;
  }
  if (significand < (1u << 23)) return (sign << 31) | significand;
  return (sign << 31) | (static_cast<std::uint32_t>(exponent + 23 + 127) << 23) | (significand & 0x7fffff);
}

std::uint32_t widen_e8m0(std::uint32_t code) {
  if (code == 255) return k_nan_f32;
  if (code == 0) return 0x00400000;  // 2^-127 = 2^22 * 2^-149.
  return code << 23;                 // The exponent field of binary32 has the same bias.
}

std::optional<std::uint32_t> narrow(FloatFormat format, std::uint32_t u, Overflow overflow) {
  const unsigned M = format.mantissa_bits, E = format.exponent_bits;
  const std::uint32_t sign = u >> 31, exponent_field = (u >> 23) & 0xff, mantissa_field = u & 0x7fffff;
  const std::uint32_t sign_bit = sign << (M + E), exponent_ones = ((1u << E) - 1) << M, mantissa_ones = (1u << M) - 1;

  std::uint32_t nan = 0, largest = 0;
  std::optional<std::uint32_t> beyond;  // The code of a value above the largest finite one.
  switch (format.specials) {
    case Specials::ieee:
      nan = sign_bit | exponent_ones | (1u << (M - 1));
      largest = (exponent_ones | mantissa_ones) - (1u << M);
      beyond = sign_bit | exponent_ones;
      break;
    case Specials::fn:
      nan = sign_bit | exponent_ones | mantissa_ones;
      largest = (exponent_ones | mantissa_ones) - 1;
      beyond = nan;
      break;
    case Specials::fnuz:
      nan = 1u << (M + E);
      largest = exponent_ones | mantissa_ones;
      beyond = nan;
      break;
    case Specials::finite:
      largest = exponent_ones | mantissa_ones;
      beyond = sign_bit | largest;
      break;
  }
  if (exponent_field == 255 && mantissa_field != 0) {
    if (format.specials == Specials::finite) return std::nullopt;
    return nan;
  }
  if (overflow == Overflow::saturate) beyond = sign_bit | largest;
  if (exponent_field == 255) return beyond;

  // |x| = significand * 2^exponent exactly.
  std::uint64_t significand = exponent_field == 0 ? mantissa_field : mantissa_field | 0x800000;
  const int exponent = (exponent_field == 0 ? 1 : static_cast<int>(exponent_field)) - 127 - 23;
  std::uint32_t magnitude = 0;
  if (significand != 0) {
    // The quantum: the value of the last mantissa bit where x lies, never below that of the subnormals.
    const int leading = exponent + 63 - std::countl_zero(significand);
    const int quantum = std::max(leading, 1 - format.bias) - static_cast<int>(M);
    const int shift = quantum - exponent;
    std::uint64_t steps = 0;
    if (shift <= 0) {
      steps = significand << -shift;
    } else if (shift < 63) {
      steps = significand >> shift;
      const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1),
                          half = std::uint64_t{1} << (shift - 1);
      if (rest > half || (rest == half && (steps & 1))) ++steps;
    }
    // steps * 2^quantum; a carry to 2^(M+1) walks into the next exponent by plain addition of the fields.
    const int field =
        quantum + static_cast<int>(M) + format.bias;  // Exponent field of a normal result, 1 for subnormals.
    magnitude = static_cast<std::uint32_t>(field - 1) * (1u << M) + static_cast<std::uint32_t>(steps);
    if (magnitude > largest) return beyond;
  }
  if (format.specials == Specials::fnuz && magnitude == 0) return 0;
  return sign_bit | magnitude;
}

std::uint32_t narrow_e8m0(std::uint32_t u) {
  const std::uint32_t e = (u >> 23) & 0xff, m = u & 0x7fffff;
  if (e == 255) return 255;
  return e + (m > 0x400000 || (m == 0x400000 && e > 0) ? 1u : 0u);
}

std::uint32_t to_f32(Dtype dtype, std::uint64_t code) {
  const auto low = static_cast<std::uint32_t>(code);
  switch (dtype) {
    case Dtype::boolean:
      return bits_of_float(low != 0 ? 1.0f : 0.0f);
    case Dtype::f4:
      return widen(k_e2m1, low);
    case Dtype::u8:
    case Dtype::u16:
    case Dtype::u32:
    case Dtype::u64:
      return bits_of_float(static_cast<float>(code));
    case Dtype::i8:
      return bits_of_float(static_cast<float>(static_cast<std::int8_t>(code)));
    case Dtype::i16:
      return bits_of_float(static_cast<float>(static_cast<std::int16_t>(code)));
    case Dtype::i32:
      return bits_of_float(static_cast<float>(static_cast<std::int32_t>(code)));
    case Dtype::i64:
      return bits_of_float(static_cast<float>(static_cast<std::int64_t>(code)));
    case Dtype::f8_e5m2:
      return widen(k_e5m2, low);
    case Dtype::f8_e4m3:
      return widen(k_e4m3, low);
    case Dtype::f8_e8m0:
      return widen_e8m0(low);
    case Dtype::f8_e4m3fnuz:
      return widen(k_e4m3fnuz, low);
    case Dtype::f8_e5m2fnuz:
      return widen(k_e5m2fnuz, low);
    case Dtype::f16:
      return widen(k_f16, low);
    case Dtype::bf16:
      return widen(k_bf16, low);
    case Dtype::f32:
      return (low & 0x7fffffff) > k_infinity_f32 ? k_nan_f32 : low;
    case Dtype::f64: {
      const bool is_nan = (code & 0x7fffffffffffffff) > 0x7ff0000000000000;
      return is_nan ? k_nan_f32 : bits_of_float(static_cast<float>(std::bit_cast<double>(code)));
    }
    case Dtype::f6_e2m3:
    case Dtype::f6_e3m2:
    case Dtype::c64:
      break;
  }
  throw Failure("DTYPE_UNSUPPORTED", std::string(name_of(dtype)) + " has no value as F32");
}

std::uint32_t from_f32(Dtype target, std::uint32_t u) {
  const bool is_nan = (u & 0x7fffffff) > k_infinity_f32;
  switch (target) {
    case Dtype::f32:
      return is_nan ? k_nan_f32 : u;
    case Dtype::bf16:
      return is_nan ? 0x7fc0 : *narrow(k_bf16, u);
    case Dtype::f16:
      return is_nan ? 0x7e00 : *narrow(k_f16, u);
    default:
      throw Failure("DTYPE_UNSUPPORTED", "cannot produce " + std::string(name_of(target)));
  }
}

std::uint64_t cast(Dtype source, std::uint64_t code, Dtype target) {
  if (source == target) return code;
  if (source == Dtype::f32 && target == Dtype::bf16 && (code & 0x7fffffff) > k_infinity_f32) return (code >> 16) | 0x40;
  return from_f32(target, to_f32(source, code));
}

}  // namespace weightproof::reference
