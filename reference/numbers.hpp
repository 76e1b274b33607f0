// SPDX-License-Identifier: Apache-2.0
// Scalar number formats by bit arithmetic, straight from their definitions: sign, exponent e, mantissa m, M mantissa
// bits.
//   normal     (-1)^s * 2^(e-bias) * (1 + m/2^M)
//   subnormal  (-1)^s * 2^(1-bias) * (m/2^M)          (e == 0)
// No table, no floating point instruction that could round, flush or quiet. Thread safe: pure functions.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weightproof::reference {

/// Storage types of the container. The order is of no meaning here.
enum class Dtype {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64
};

std::optional<Dtype> dtype_named(std::string_view name);
std::string_view name_of(Dtype dtype);
/// Bits per element: 4, 6, 8, 16, 32 or 64.
unsigned bits_of(Dtype dtype);
/// True for the types that hold a floating value and may be cast: F4 to F64, without F6 and C64.
bool is_floating(Dtype dtype);

/// What a format has besides finite numbers.
enum class Specials { ieee, fn, fnuz, finite };  // fn: NaN is all ones, no inf. fnuz: NaN is 10..0, no -0, no inf.
struct FloatFormat {
  unsigned exponent_bits, mantissa_bits;
  int bias;
  Specials specials;
};
inline constexpr FloatFormat k_e2m1{2, 1, 1, Specials::finite};
inline constexpr FloatFormat k_e2m3{2, 3, 1, Specials::finite};
inline constexpr FloatFormat k_e3m2{3, 2, 3, Specials::finite};
inline constexpr FloatFormat k_e4m3{4, 3, 7, Specials::fn};
inline constexpr FloatFormat k_e5m2{5, 2, 15, Specials::ieee};
inline constexpr FloatFormat k_e4m3fnuz{4, 3, 8, Specials::fnuz};
inline constexpr FloatFormat k_e5m2fnuz{5, 2, 16, Specials::fnuz};
inline constexpr FloatFormat k_f16{5, 10, 15, Specials::ieee};
inline constexpr FloatFormat k_bf16{8, 7, 127, Specials::ieee};

inline constexpr std::uint32_t k_nan_f32 = 0x7fc00000;

/// The exact value of a code as binary32 bits; every NaN becomes 7fc00000.
std::uint32_t widen(FloatFormat format, std::uint32_t code);
/// E8M0: 2^(code-127); code 0 is the subnormal 2^-127, code 255 is NaN.
std::uint32_t widen_e8m0(std::uint32_t code);

/// What happens above the largest finite value. `standard`: inf, or NaN where the format has no inf.
enum class Overflow { standard, saturate };
/// Binary32 bits to the format, to nearest, ties to even. NaN: the format's NaN with the sign of the input
/// (IEEE: quiet bit only; FNUZ: 80); std::nullopt where the format has none.
std::optional<std::uint32_t> narrow(FloatFormat format, std::uint32_t f32_bits, Overflow overflow = Overflow::standard);
/// E8M0 by nearest exponent, sign ignored; inf and NaN give ff.
std::uint32_t narrow_e8m0(std::uint32_t f32_bits);

/// One stored element (its code in the low bits) as binary32. Integers and F64 round to nearest even; BOOL is 0 or 1.
/// NaN becomes 7fc00000. C64 and F6 are refused (Failure).
std::uint32_t to_f32(Dtype dtype, std::uint64_t code);
/// A computed value to BF16, F16 or F32; NaN becomes 7fc0, 7e00 or 7fc00000. Other targets are refused (Failure).
std::uint32_t from_f32(Dtype target, std::uint32_t f32_bits);
/// A cast of a stored element. Equal types: the code itself. F32 to BF16 keeps sign and top payload of a NaN, quieted;
/// every other conversion gives the canonical NaN.
std::uint64_t cast(Dtype source, std::uint64_t code, Dtype target);

inline float as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline std::uint32_t bits_of_float(float value) { return std::bit_cast<std::uint32_t>(value); }

}  // namespace weightproof::reference
