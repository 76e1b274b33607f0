// SPDX-License-Identifier: Apache-2.0
// AVX2 with F16C. Eight-bit floats go through the half-precision converter, which is exact and not slowed by
// subnormals.
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "loader/codec/cpu/tiers_internal.hpp"
#include "loader/codec/scalar.hpp"

namespace weightproof::codec {
namespace {

inline __m256i nan_to(__m256i bits, __m256 values, int nan) {
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(bits, _mm256_set1_epi32(nan), is_nan);
}

/// BF16 patterns in the low halves of eight dwords; no value is a NaN.
inline __m256i round_numbers_bf16(__m256 values) {
  const __m256i bits = _mm256_castps_si256(values);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
}

/// BF16 patterns in the low halves of eight dwords.
inline __m256i round_bf16(__m256 values) { return nan_to(round_numbers_bf16(values), values, k_nan_bf16); }

inline __m128i pack_words(__m256i dwords) {
  const __m256i packed = _mm256_packus_epi32(dwords, dwords);
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}

inline __m128i round_f16(__m256 values) {
  const __m128i half = _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
  const __m128i mask = _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packs_epi32(is_nan, is_nan), 0x08));
  return _mm_blendv_epi8(half, _mm_set1_epi16(static_cast<short>(k_nan_f16)), mask);
}

inline void store8(__m256 values, DType target, std::byte* out) {
  if (target == DType::f32)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                        nan_to(_mm256_castps_si256(values), values, static_cast<int>(k_nan_f32)));
  else
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                     target == DType::bf16 ? pack_words(round_bf16(values)) : round_f16(values));
}

/// Eight codes as F32, exactly. `codes` in the low eight bytes.
inline __m256 widen(__m128i codes, ByteFormat format) {
  if (format == ByteFormat::int8) return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes));
  const __m128i words = _mm_cvtepu8_epi16(codes);
  if (format == ByteFormat::e5m2) return _mm256_cvtph_ps(_mm_slli_epi16(words, 8));
  // E4M3 as a half with the exponent field 8 too small: value = half * 2^8 (FN) or * 2^7 (FNUZ).
  const __m128i sign = _mm_slli_epi16(_mm_and_si128(words, _mm_set1_epi16(0x80)), 8);
  const __m128i magnitude = _mm_slli_epi16(_mm_and_si128(words, _mm_set1_epi16(0x7f)), 7);
  const __m256 half = _mm256_cvtph_ps(_mm_or_si128(sign, magnitude));
  const bool is_fn = format == ByteFormat::e4m3fn;
  const __m256 values = _mm256_mul_ps(half, _mm256_set1_ps(is_fn ? 256.0f : 128.0f));
  const __m256i dwords = _mm256_cvtepu8_epi32(codes);
  const __m256i is_nan =
      is_fn ? _mm256_cmpeq_epi32(_mm256_and_si256(dwords, _mm256_set1_epi32(0x7f)), _mm256_set1_epi32(0x7f))
            : _mm256_cmpeq_epi32(dwords, _mm256_set1_epi32(0x80));
  return _mm256_blendv_ps(values, _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(k_nan_f32))),
                          _mm256_castsi256_ps(is_nan));
}

/// What the code is short of its value when it is taken for a half.
template <ByteFormat format>
constexpr float k_half_to_value = format == ByteFormat::e4m3fn ? 256.0f : format == ByteFormat::e4m3fnuz ? 128.0f : 1.0f;

/// True where one of 32 codes is no number.
template <ByteFormat format>
inline bool has_special(__m256i codes) {
  if constexpr (format == ByteFormat::int8) return false;
  constexpr bool is_fnuz = format == ByteFormat::e4m3fnuz;
  constexpr char mask = static_cast<char>(is_fnuz ? 0xff : format == ByteFormat::e4m3fn ? 0x7f : 0x7c);
  const __m256i special = _mm256_set1_epi8(is_fnuz ? static_cast<char>(0x80) : mask);
  return _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_and_si256(codes, _mm256_set1_epi8(mask)), special)) != 0;
}

/// Sixteen codes that are numbers, times a finite factor, as BF16.
template <ByteFormat format>
inline __m256i sixteen_bf16(__m128i codes, __m256 factor) {
  __m256 first;
  __m256 second;
  if constexpr (format == ByteFormat::int8) {
    first = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes));
    second = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(codes, 8)));
  } else {
    // The extended sign fills the two top bits after the shift; only the first of them is of the half.
    const __m256i words = _mm256_cvtepi8_epi16(codes);
    const __m256i halves = format == ByteFormat::e5m2
                               ? _mm256_slli_epi16(words, 8)
                               : _mm256_and_si256(_mm256_slli_epi16(words, 7),
                                                  _mm256_set1_epi16(static_cast<short>(0xbf80)));
    first = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    second = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
  }
  const __m256i packed = _mm256_packus_epi32(round_numbers_bf16(_mm256_mul_ps(first, factor)),
                                             round_numbers_bf16(_mm256_mul_ps(second, factor)));
  return _mm256_permute4x64_epi64(packed, 0xd8);
}

/// Codes to BF16, 32 at a time while all of them are numbers. Returns how many were done: the rest takes the slower way.
/// The power of two is multiplied into the scale instead of into every half: the same product of real numbers, rounded
/// once, as long as the scale stays finite.
template <ByteFormat format>
std::size_t numbers_bf16(const std::uint8_t* in, std::size_t n, float scale, std::byte* to) {
  const float factor = scale * k_half_to_value<format>;
  if (!std::isfinite(factor)) return 0;
  const __m256 factors = _mm256_set1_ps(factor);
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
    if (has_special<format>(codes)) break;
    auto* const out = reinterpret_cast<__m256i*>(to + i * 2);
    _mm256_storeu_si256(out, sixteen_bf16<format>(_mm256_castsi256_si128(codes), factors));
    _mm256_storeu_si256(out + 1, sixteen_bf16<format>(_mm256_extracti128_si256(codes, 1), factors));
  }
  return i;
}

/// Products of one scale as BF16, by mantissa: rounding looks at the mantissa alone while no product leaves the normal
/// numbers, and the exponent of the code is added to the pattern. Entries: the codes without an exponent, then the codes
/// of exponent 1, less that exponent. Low and high bytes apart.
struct ProductTable {
  alignas(16) std::uint8_t low[16];
  alignas(16) std::uint8_t high[16];
  bool is_usable = false;
};

constexpr unsigned mantissa_bits(ByteFormat format) {
  return format == ByteFormat::e4m3fn || format == ByteFormat::e4m3fnuz ? 3 : 2;
}

ProductTable product_table(ByteFormat format, float scale) {
  ProductTable table;
  // Wide of all limits: the codes reach from 2^-17 to 2^16.
  if (!(std::fabs(scale) >= 0x1p-100f && std::fabs(scale) <= 0x1p100f)) return table;
  constexpr std::uint8_t codes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const std::size_t entries = std::size_t{2} << mantissa_bits(format);
  std::uint16_t products[16] = {};
  k_scalar_kernels.bytes(codes, 0, 1, entries, format, {&scale, entries, entries}, DType::bf16,
                         reinterpret_cast<std::byte*>(products), 0);
  for (std::size_t i = 0; i < 16; ++i) {
    if (i >= entries / 2 && i < entries) products[i] = static_cast<std::uint16_t>(products[i] - 0x80);
    table.low[i] = static_cast<std::uint8_t>(products[i]);
    table.high[i] = static_cast<std::uint8_t>(products[i] >> 8);
  }
  table.is_usable = true;
  return table;
}

/// Codes to BF16 by a table, 32 at a time while all of them are numbers. Returns how many were done.
template <ByteFormat format>
std::size_t tabled_bf16(const std::uint8_t* in, std::size_t n, const ProductTable& table, std::byte* to) {
  constexpr unsigned m = mantissa_bits(format);
  const __m256i low = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table.low)));
  const __m256i high = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table.high)));
  const __m256i mantissa = _mm256_set1_epi8((1 << m) - 1);
  const __m256i exponent = _mm256_set1_epi8(0x7f & ~((1 << m) - 1));
  const __m256i one = _mm256_set1_epi8(1 << m);
  const __m256i sign = _mm256_set1_epi8(static_cast<char>(0x80));
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i loaded = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
    if (has_special<format>(loaded)) break;
    // So that what unpacks low are the first sixteen.
    const __m256i codes = _mm256_permute4x64_epi64(loaded, 0xd8);
    const __m256i entry = _mm256_or_si256(_mm256_and_si256(codes, mantissa),
                                          _mm256_min_epu8(_mm256_and_si256(codes, exponent), one));
    const __m256i product_low = _mm256_shuffle_epi8(low, entry);
    const __m256i product_high = _mm256_shuffle_epi8(high, entry);
    // The exponent from bit m to bit 7 of the pattern, the sign to bit 15. Two signs added are their product's.
    const __m256i added_low = _mm256_and_si256(_mm256_slli_epi16(codes, 7 - m), sign);
    const __m256i added_high =
        _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(codes, m + 1), _mm256_set1_epi8(0x7f >> (m + 1))),
                        _mm256_and_si256(codes, sign));
    auto* const out = reinterpret_cast<__m256i*>(to + i * 2);
    _mm256_storeu_si256(out, _mm256_add_epi16(_mm256_unpacklo_epi8(product_low, product_high),
                                              _mm256_unpacklo_epi8(added_low, added_high)));
    _mm256_storeu_si256(out + 1, _mm256_add_epi16(_mm256_unpackhi_epi8(product_low, product_high),
                                                  _mm256_unpackhi_epi8(added_low, added_high)));
  }
  return i;
}

/// The quick ways to BF16. Returns how many codes were done.
std::size_t numbers(const std::uint8_t* in, std::size_t n, ByteFormat format, float scale, const ProductTable* table,
                    std::byte* to) {
  const bool is_tabled = table != nullptr && table->is_usable;
  switch (format) {
    case ByteFormat::e4m3fn:
      return is_tabled ? tabled_bf16<ByteFormat::e4m3fn>(in, n, *table, to)
                       : numbers_bf16<ByteFormat::e4m3fn>(in, n, scale, to);
    case ByteFormat::e4m3fnuz:
      return is_tabled ? tabled_bf16<ByteFormat::e4m3fnuz>(in, n, *table, to)
                       : numbers_bf16<ByteFormat::e4m3fnuz>(in, n, scale, to);
    case ByteFormat::e5m2:
      return is_tabled ? tabled_bf16<ByteFormat::e5m2>(in, n, *table, to)
                       : numbers_bf16<ByteFormat::e5m2>(in, n, scale, to);
    case ByteFormat::int8:
      return numbers_bf16<ByteFormat::int8>(in, n, scale, to);
    case ByteFormat::e5m2fnuz:
      break;
  }
  return 0;
}

void segment(const std::uint8_t* in, std::size_t n, ByteFormat format, float scale, const ProductTable* table,
             DType target, std::byte* to, std::size_t width) {
  const __m256 factor = _mm256_set1_ps(scale);
  std::size_t i = 0;
  while (i < n) {
    if (target == DType::bf16) i += numbers(in + i, n - i, format, scale, table, to + i * width);
    // What stopped it: 32 codes with one that is no number, or the end of the segment.
    const std::size_t stop = target == DType::bf16 ? std::min(n, i + 32) : n;
    for (; i + 8 <= stop; i += 8)
      store8(_mm256_mul_ps(widen(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in + i)), format), factor), target,
             to + i * width);
    if (i + 8 > n) break;
  }
  if (i < n) k_scalar_kernels.bytes(in + i, 0, 1, n - i, format, {&scale, n - i, n - i}, target, to + i * width, 0);
}

/// Codes under one scale from which on a table of its products pays.
constexpr std::size_t k_table_codes = 1024;

void bytes(const std::uint8_t* codes, std::size_t code_stride, std::size_t rows, std::size_t cols, ByteFormat format,
           const ColumnScales& scales, DType target, std::byte* out, std::size_t out_stride) {
  // FNUZ E5M2 uses the half's infinity exponent for numbers: the table of all codes it is.
  if (format == ByteFormat::e5m2fnuz)
    return k_scalar_kernels.bytes(codes, code_stride, rows, cols, format, scales, target, out, out_stride);
  const std::size_t width = target == DType::f32 ? 4 : 2;
  std::array<ProductTable, k_column_blocks_max> tables;
  const bool has_tables = target == DType::bf16 && format != ByteFormat::int8 && cols != 0 &&
                          rows * std::min(cols, scales.block_cols) >= k_table_codes &&
                          (cols <= scales.first_cols ||
                           (cols - scales.first_cols - 1) / scales.block_cols + 2 <= k_column_blocks_max);
  if (has_tables) {
    std::size_t block = 0;
    for (std::size_t col = 0; col < cols; ++block) {
      tables[block] = product_table(format, scales.values[block]);
      col += block == 0 ? scales.first_cols : scales.block_cols;
    }
  }
  for (std::size_t row = 0; row < rows; ++row) {
    std::size_t block = 0;
    for (std::size_t col = 0; col < cols; ++block) {
      const std::size_t n = std::min(cols - col, block == 0 ? scales.first_cols : scales.block_cols);
      segment(codes + row * code_stride + col, n, format, scales.values[block],
              has_tables ? &tables[block] : nullptr, target, out + row * out_stride + col * width, width);
      col += n;
    }
  }
}

/// 32 codes of 16 packed bytes, in element order.
inline __m256i spread_nibbles(const std::uint8_t* packed) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed));
  const __m128i low = _mm_and_si128(bytes, _mm_set1_epi8(15));
  const __m128i high = _mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
  return _mm256_set_m128i(_mm_unpackhi_epi8(low, high), _mm_unpacklo_epi8(low, high));
}

void mxfp4(const std::uint8_t* packed, std::size_t groups, const std::uint8_t* scales, DType target, std::byte* out) {
  const MxTables& tables = mx_tables();
  for (std::size_t group = 0; group < groups; ++group) {
    const std::uint16_t* table = target == DType::f16 ? tables.f16[scales[group]] : tables.bf16[scales[group]];
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(table));
    const __m256i low_bytes = _mm256_and_si256(words, _mm256_set1_epi16(0xff));
    const __m256i high_bytes = _mm256_srli_epi16(words, 8);
    const __m256i low_packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(low_bytes, low_bytes), 0x08);
    const __m256i high_packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(high_bytes, high_bytes), 0x08);
    const __m256i low_table = _mm256_broadcastsi128_si256(_mm256_castsi256_si128(low_packed));
    const __m256i high_table = _mm256_broadcastsi128_si256(_mm256_castsi256_si128(high_packed));
    const __m256i codes = spread_nibbles(packed + group * 16);
    const __m256i low = _mm256_shuffle_epi8(low_table, codes);
    const __m256i high = _mm256_shuffle_epi8(high_table, codes);
    const __m256i a = _mm256_unpacklo_epi8(low, high);  // elements 0..7 and 16..23
    const __m256i b = _mm256_unpackhi_epi8(low, high);  // elements 8..15 and 24..31
    const __m256i first = _mm256_permute2x128_si256(a, b, 0x20);
    const __m256i second = _mm256_permute2x128_si256(a, b, 0x31);
    if (target != DType::f32) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + group * 64), first);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + group * 64 + 32), second);
      continue;
    }
    const __m128i parts[4] = {_mm256_castsi256_si128(first), _mm256_extracti128_si256(first, 1),
                              _mm256_castsi256_si128(second), _mm256_extracti128_si256(second, 1)};
    for (int part = 0; part < 4; ++part)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + group * 128 + static_cast<std::size_t>(part) * 32),
                          _mm256_slli_epi32(_mm256_cvtepu16_epi32(parts[part]), 16));
  }
}

/// Sixteen products in element order from the even and the odd ones.
inline void store_interleaved(__m256 even, __m256 odd, DType target, std::byte* out) {
  if (target == DType::bf16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                        _mm256_or_si256(round_bf16(even), _mm256_slli_epi32(round_bf16(odd), 16)));
    return;
  }
  const __m256 low = _mm256_unpacklo_ps(even, odd);
  const __m256 high = _mm256_unpackhi_ps(even, odd);
  const std::size_t width = target == DType::f32 ? 4 : 2;
  store8(_mm256_permute2f128_ps(low, high, 0x20), target, out);
  store8(_mm256_permute2f128_ps(low, high, 0x31), target, out + 8 * width);
}

inline __m256 e2m1(__m256i codes) {
  const __m256 magnitudes = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f);
  const __m256 value = _mm256_permutevar8x32_ps(magnitudes, codes);
  const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(codes, _mm256_set1_epi32(8)), 28);
  return _mm256_or_ps(value, _mm256_castsi256_ps(sign));
}

void nvfp4(const std::uint8_t* packed, std::size_t groups, const float* scales, DType target, std::byte* out) {
  const std::size_t width = target == DType::f32 ? 4 : 2;
  for (std::size_t group = 0; group < groups; ++group) {
    const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(packed + group * 8)));
    const __m256 scale = _mm256_set1_ps(scales[group]);
    const __m256 even = _mm256_mul_ps(e2m1(_mm256_and_si256(bytes, _mm256_set1_epi32(15))), scale);
    const __m256 odd = _mm256_mul_ps(e2m1(_mm256_srli_epi32(bytes, 4)), scale);
    store_interleaved(even, odd, target, out + group * 16 * width);
  }
}

void int4(const std::uint8_t* packed, std::size_t n, int zero, float scale, DType target, std::byte* out) {
  const std::size_t width = target == DType::f32 ? 4 : 2;
  const __m256i shift = _mm256_set1_epi32(zero);
  const __m256 factor = _mm256_set1_ps(scale);
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(packed + i / 2)));
    const __m256i low = _mm256_sub_epi32(_mm256_and_si256(bytes, _mm256_set1_epi32(15)), shift);
    const __m256i high = _mm256_sub_epi32(_mm256_srli_epi32(bytes, 4), shift);
    store_interleaved(_mm256_mul_ps(_mm256_cvtepi32_ps(low), factor), _mm256_mul_ps(_mm256_cvtepi32_ps(high), factor),
                      target, out + i * width);
  }
  if (i < n) k_scalar_kernels.int4(packed + i / 2, n - i, zero, scale, target, out + i * width);
}

void round_values(const std::uint32_t* values, std::size_t n, DType target, std::byte* out) {
  const std::size_t width = target == DType::f32 ? 4 : 2;
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    store8(_mm256_castsi256_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + i))), target,
           out + i * width);
  if (i < n) k_scalar_kernels.round(values + i, n - i, target, out + i * width);
}

}  // namespace

const Kernels k_avx2_kernels = {"avx2", bytes, mxfp4, nvfp4, int4, round_values};

}  // namespace weightproof::codec
