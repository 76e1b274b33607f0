// SPDX-License-Identifier: Apache-2.0
// Scalar number formats as integer arithmetic on bit patterns. Every function is usable on the host and in device code,
// allocates nothing and reads no table: kernels build their tables from these, so exactness is inherited.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define WEIGHTPROOF_HD __host__ __device__ inline
#else
#define WEIGHTPROOF_HD inline
#endif

namespace weightproof::codec {

inline constexpr std::uint32_t k_nan_f32 = 0x7fc00000u;  ///< the one NaN that a decode writes
inline constexpr std::uint16_t k_nan_bf16 = 0x7fc0u;
inline constexpr std::uint16_t k_nan_f16 = 0x7e00u;

WEIGHTPROOF_HD float float_of_bits(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

WEIGHTPROOF_HD std::uint32_t bits_of_float(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

WEIGHTPROOF_HD bool is_nan_bits(std::uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }

/// F32 pattern of a small float: sign, `exponent_bits`, `mantissa_bits`, `bias`. Exact, subnormals included; special
/// codes are the caller's.
WEIGHTPROOF_HD std::uint32_t widen_small(std::uint32_t code, int exponent_bits, int mantissa_bits, int bias) {
  const std::uint32_t sign = (code >> (exponent_bits + mantissa_bits)) & 1u;
  const std::uint32_t exponent = (code >> mantissa_bits) & ((1u << exponent_bits) - 1u);
  std::uint32_t mantissa = code & ((1u << mantissa_bits) - 1u);
  if (exponent == 0) {
    if (mantissa == 0) return sign << 31;
    int shift = 0;
    while ((mantissa & (1u << mantissa_bits)) == 0) {
      mantissa <<= 1;
      ++shift;
    }
    const std::uint32_t biased = static_cast<std::uint32_t>(127 + 1 - bias - shift);
    return (sign << 31) | (biased << 23) | ((mantissa & ((1u << mantissa_bits) - 1u)) << (23 - mantissa_bits));
  }
  const std::uint32_t biased = static_cast<std::uint32_t>(static_cast<int>(exponent) + 127 - bias);
  return (sign << 31) | (biased << 23) | (mantissa << (23 - mantissa_bits));
}

/// E4M3FN: bias 7, no infinity, 7f and ff are NaN.
WEIGHTPROOF_HD std::uint32_t e4m3fn_to_f32_bits(std::uint8_t code) {
  return (code & 0x7fu) == 0x7fu ? k_nan_f32 : widen_small(code, 4, 3, 7);
}

/// E5M2: the upper byte of binary16.
WEIGHTPROOF_HD std::uint32_t e5m2_to_f32_bits(std::uint8_t code) {
  const std::uint32_t magnitude = code & 0x7fu;
  if (magnitude > 0x7cu) return k_nan_f32;
  if (magnitude == 0x7cu) return (static_cast<std::uint32_t>(code & 0x80u) << 24) | 0x7f800000u;
  return widen_small(code, 5, 2, 15);
}

/// FNUZ twins: bias one larger, 80 is the only NaN, no negative zero.
WEIGHTPROOF_HD std::uint32_t e4m3fnuz_to_f32_bits(std::uint8_t code) {
  return code == 0x80u ? k_nan_f32 : widen_small(code, 4, 3, 8);
}
WEIGHTPROOF_HD std::uint32_t e5m2fnuz_to_f32_bits(std::uint8_t code) {
  return code == 0x80u ? k_nan_f32 : widen_small(code, 5, 2, 16);
}

/// E8M0: 2^(code - 127); 0 is the subnormal 2^-127, 255 is NaN.
WEIGHTPROOF_HD std::uint32_t e8m0_to_f32_bits(std::uint8_t code) {
  if (code == 255u) return k_nan_f32;
  return code == 0u ? 0x00400000u : static_cast<std::uint32_t>(code) << 23;
}

/// E2M1 (4 bits): 0 0.5 1 1.5 2 3 4 6 and the negatives; 8 is -0.
WEIGHTPROOF_HD std::uint32_t e2m1_to_f32_bits(std::uint8_t code) { return widen_small(code & 0xfu, 2, 1, 1); }

WEIGHTPROOF_HD std::uint32_t bf16_to_f32_bits(std::uint16_t code) { return static_cast<std::uint32_t>(code) << 16; }

/// Infinities kept; a NaN keeps sign and payload and is quieted.
WEIGHTPROOF_HD std::uint32_t f16_to_f32_bits(std::uint16_t code) {
  const std::uint32_t magnitude = code & 0x7fffu;
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x8000u) << 16;
  if (magnitude >= 0x7c00u) {
    const std::uint32_t payload = (magnitude & 0x3ffu) << 13;
    return sign | 0x7f800000u | (payload != 0 ? payload | 0x00400000u : 0u);
  }
  return widen_small(code, 5, 10, 15);
}

/// Round to nearest even. NaN becomes the canonical NaN: for values that a decode produced.
WEIGHTPROOF_HD std::uint16_t f32_bits_to_bf16(std::uint32_t bits) {
  if (is_nan_bits(bits)) return k_nan_bf16;
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// Round to nearest even. NaN keeps sign and top payload, quieted: for a plain cast of stored values.
WEIGHTPROOF_HD std::uint16_t f32_bits_to_bf16_keep_nan(std::uint32_t bits) {
  if (is_nan_bits(bits)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// Round to nearest even; from 65520 upward infinity; NaN becomes `nan`.
WEIGHTPROOF_HD std::uint16_t f32_bits_to_f16_with_nan(std::uint32_t bits, std::uint16_t nan) {
  const std::uint16_t sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return nan;
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {                                            // below 2^-14: quantum 2^-24
    if (magnitude <= 0x33000000u) return sign;                              // 2^-25 is a tie to even, zero
    const std::uint32_t exponent = magnitude >> 23;                         // 102..112
    const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;  // value = significand * 2^(exponent - 150)
    const std::uint32_t shift = 126u - exponent;                            // to units of 2^-24
    const std::uint32_t half = 1u << (shift - 1u);
    const std::uint32_t quotient = significand >> shift;
    const std::uint32_t rest = significand & ((1u << shift) - 1u);
    const std::uint32_t up = rest > half || (rest == half && (quotient & 1u) != 0) ? 1u : 0u;
    return static_cast<std::uint16_t>(sign | (quotient + up));
  }
  const std::uint32_t rebased = magnitude - 0x38000000u;  // exponent bias 127 -> 15
  return static_cast<std::uint16_t>(sign | ((rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13));
}

WEIGHTPROOF_HD std::uint16_t f32_bits_to_f16(std::uint32_t bits) { return f32_bits_to_f16_with_nan(bits, k_nan_f16); }

/// Plain cast of stored values: NaN keeps sign and top payload, quieted.
WEIGHTPROOF_HD std::uint16_t f32_bits_to_f16_keep_nan(std::uint32_t bits) {
  return f32_bits_to_f16_with_nan(
      bits, static_cast<std::uint16_t>(((bits >> 16) & 0x8000u) | 0x7e00u | ((bits >> 13) & 0x1ffu)));
}

WEIGHTPROOF_HD std::uint32_t canonical_f32_bits(std::uint32_t bits) { return is_nan_bits(bits) ? k_nan_f32 : bits; }

/// One IEEE binary32 product, never contracted and never flushed.
WEIGHTPROOF_HD float multiply_f32(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

/// F32 magnitude rounded to an unsigned small float with `mantissa_bits` and `bias` (nearest even, subnormals
/// included). The exponent field may run past the format: the caller compares with its largest code. `magnitude` is a
/// finite pattern without sign.
WEIGHTPROOF_HD std::uint32_t round_small(std::uint32_t magnitude, int mantissa_bits, int bias) {
  const int exponent = static_cast<int>(magnitude >> 23);
  if (exponent == 0) return 0;  // an F32 subnormal is far below every small format
  const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
  const int target = exponent - 127 + bias;  // biased exponent in the small format
  int shift = 23 - mantissa_bits;
  if (target < 1) shift += 1 - target;
  if (shift > 25) return 0;
  const std::uint32_t quotient = significand >> shift;
  const std::uint32_t rest = significand & ((1u << shift) - 1u);
  const std::uint32_t half = 1u << (shift - 1);
  const std::uint32_t up = rest > half || (rest == half && (quotient & 1u) != 0) ? 1u : 0u;
  const std::uint32_t rounded = quotient + up;
  if (target < 1) return rounded;  // a carry into the implicit bit is the smallest normal
  return (static_cast<std::uint32_t>(target - 1) << mantissa_bits) + rounded;
}

/// F32 -> E4M3FN. Saturating: magnitudes above 448 become 448. Otherwise: up to 464 rounds to 448, above is NaN with
/// the sign.
WEIGHTPROOF_HD std::uint8_t f32_bits_to_e4m3fn(std::uint32_t bits, bool saturate) {
  const std::uint8_t sign = static_cast<std::uint8_t>((bits >> 24) & 0x80u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint8_t>(sign | 0x7fu);
  if (magnitude == 0x7f800000u) return static_cast<std::uint8_t>(sign | (saturate ? 0x7eu : 0x7fu));
  const std::uint32_t code = round_small(magnitude, 3, 7);
  if (code > 0x7eu) return static_cast<std::uint8_t>(sign | (saturate ? 0x7eu : 0x7fu));
  return static_cast<std::uint8_t>(sign | code);
}

/// F32 -> E5M2. Saturating: overflow and infinity become 57344. Otherwise infinity from 61440 upward.
WEIGHTPROOF_HD std::uint8_t f32_bits_to_e5m2(std::uint32_t bits, bool saturate) {
  const std::uint8_t sign = static_cast<std::uint8_t>((bits >> 24) & 0x80u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint8_t>(sign | 0x7fu);
  const std::uint8_t over = saturate ? 0x7bu : 0x7cu;
  if (magnitude == 0x7f800000u) return static_cast<std::uint8_t>(sign | over);
  const std::uint32_t code = round_small(magnitude, 2, 15);
  return static_cast<std::uint8_t>(sign | (code > 0x7bu ? over : code));
}

/// F32 -> E2M1, always saturating. The caller refuses NaN: the format has no code for it.
WEIGHTPROOF_HD std::uint8_t f32_bits_to_e2m1(std::uint32_t bits) {
  const std::uint8_t sign = static_cast<std::uint8_t>((bits >> 28) & 0x8u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) return static_cast<std::uint8_t>(sign | 7u);
  const std::uint32_t code = round_small(magnitude, 1, 1);
  return static_cast<std::uint8_t>(sign | (code > 7u ? 7u : code));
}

/// F32 -> FNUZ twins: NaN and, unless saturating, overflow become 80; whatever rounds to zero is 00.
WEIGHTPROOF_HD std::uint8_t f32_bits_to_fnuz(std::uint32_t bits, int mantissa_bits, int bias, bool saturate) {
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x80u;
  const std::uint8_t sign = static_cast<std::uint8_t>((bits >> 24) & 0x80u);
  const std::uint8_t over = saturate ? static_cast<std::uint8_t>(sign | 0x7fu) : std::uint8_t{0x80u};
  if (magnitude == 0x7f800000u) return over;
  const std::uint32_t code = round_small(magnitude, mantissa_bits, bias);
  if (code > 0x7fu) return over;
  return code == 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(sign | code);
}
WEIGHTPROOF_HD std::uint8_t f32_bits_to_e4m3fnuz(std::uint32_t bits, bool saturate) {
  return f32_bits_to_fnuz(bits, 3, 8, saturate);
}
WEIGHTPROOF_HD std::uint8_t f32_bits_to_e5m2fnuz(std::uint32_t bits, bool saturate) {
  return f32_bits_to_fnuz(bits, 2, 16, saturate);
}

/// F32 -> E8M0, nearest power of two by the exponent and mantissa fields, sign ignored; infinity and NaN are 255.
WEIGHTPROOF_HD std::uint8_t f32_bits_to_e8m0_nearest(std::uint32_t bits) {
  const std::uint32_t exponent = (bits >> 23) & 0xffu;
  const std::uint32_t mantissa = bits & 0x7fffffu;
  if (exponent == 255u) return 255u;
  const bool up = mantissa > 0x400000u || (mantissa == 0x400000u && exponent > 0);
  return static_cast<std::uint8_t>(exponent + (up ? 1u : 0u));
}

/// F32 -> six-bit MX elements, always saturating; the caller refuses NaN.
WEIGHTPROOF_HD std::uint8_t f32_bits_to_e2m3(std::uint32_t bits) {
  const std::uint8_t sign = static_cast<std::uint8_t>((bits >> 26) & 0x20u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t code = magnitude >= 0x7f800000u ? 0x1fu : round_small(magnitude, 3, 1);
  return static_cast<std::uint8_t>(sign | (code > 0x1fu ? 0x1fu : code));
}
WEIGHTPROOF_HD std::uint8_t f32_bits_to_e3m2(std::uint32_t bits) {
  const std::uint8_t sign = static_cast<std::uint8_t>((bits >> 26) & 0x20u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t code = magnitude >= 0x7f800000u ? 0x1fu : round_small(magnitude, 2, 3);
  return static_cast<std::uint8_t>(sign | (code > 0x1fu ? 0x1fu : code));
}

}  // namespace weightproof::codec
