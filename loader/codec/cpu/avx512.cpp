// SPDX-License-Identifier: Apache-2.0
// AVX-512 (F, BW, VL). Byte codes are looked up in a table of 128 BF16 words, made for the tile's scale by the scalar
// functions; four-bit codes in one register of 16 or 32 words. Compiled a second time with VBMI, where bytes can be
// permuted directly.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "loader/codec/cpu/tiers_internal.hpp"
#include "loader/codec/scalar.hpp"

#if defined(__AVX512VBMI__)
#define WEIGHTPROOF_TIER k_avx512_vbmi_kernels
#define WEIGHTPROOF_TIER_NAME "avx512_vbmi"
#else
#define WEIGHTPROOF_TIER k_avx512_kernels
#define WEIGHTPROOF_TIER_NAME "avx512"
#endif

namespace weightproof::codec {
namespace {

inline __m512i round_bf16(__m512 values) {
  const __m512i bits = _mm512_castps_si512(values);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded =
      _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
  return _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q),
                               _mm512_set1_epi32(k_nan_bf16));
}

inline void store16(__m512 values, DType target, std::byte* out) {
  const __mmask16 is_nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
  if (target == DType::f32) {
    _mm512_storeu_si512(out, _mm512_mask_mov_epi32(_mm512_castps_si512(values), is_nan,
                                                   _mm512_set1_epi32(static_cast<int>(k_nan_f32))));
  } else if (target == DType::bf16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_cvtepi32_epi16(round_bf16(values)));
  } else {
    const __m256i half = _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                        _mm256_mask_mov_epi16(half, is_nan, _mm256_set1_epi16(static_cast<short>(k_nan_f16))));
  }
}

/// 128 words in four registers; where the codes' upper half only changes the sign. NaN entries are restored by the
/// caller.
struct WordTable {
  __m512i part[4];
};

inline WordTable load_table(const std::uint16_t* words) {
  return {{_mm512_loadu_si512(words), _mm512_loadu_si512(words + 32), _mm512_loadu_si512(words + 64),
           _mm512_loadu_si512(words + 96)}};
}

/// Codes (zero-extended to words) -> table words, sign included. NaN words lose their sign.
inline __m512i look_up(const WordTable& table, __m512i codes) {
  const __m512i below = _mm512_permutex2var_epi16(table.part[0], codes, table.part[1]);
  const __m512i above = _mm512_permutex2var_epi16(table.part[2], codes, table.part[3]);
  const __mmask32 is_above = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(0x40));
  const __m512i word = _mm512_mask_mov_epi16(below, is_above, above);
  const __m512i sign = _mm512_slli_epi16(_mm512_and_si512(codes, _mm512_set1_epi16(0x80)), 8);
  const __m512i signed_word = _mm512_xor_si512(word, sign);
  const __mmask32 is_nan =
      _mm512_cmpeq_epi16_mask(_mm512_and_si512(word, _mm512_set1_epi16(0x7fff)), _mm512_set1_epi16(k_nan_bf16));
  return _mm512_mask_mov_epi16(signed_word, is_nan, word);
}

bool is_sign_symmetric(ByteFormat format) { return format == ByteFormat::e4m3fn || format == ByteFormat::e5m2; }

#if defined(__AVX512VBMI__)
/// The same table as bytes: 64 codes at a time.
struct ByteTable {
  __m512i low[2], high[2];
};

inline ByteTable load_bytes(const std::uint16_t* split) {
  return {{_mm512_load_si512(split), _mm512_load_si512(split + 32)},
          {_mm512_load_si512(split + 64), _mm512_load_si512(split + 96)}};
}

inline void look_up64(const ByteTable& table, const std::uint8_t* codes, std::byte* out) {
  const __m512i c = _mm512_loadu_si512(codes);
  // Order the codes so that the unpacks below leave 32 consecutive elements in each register.
  const __m512i ordered = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), c);
  const __m512i low = _mm512_permutex2var_epi8(table.low[0], ordered, table.low[1]);
  __m512i high = _mm512_permutex2var_epi8(table.high[0], ordered, table.high[1]);
  const __m512i sign = _mm512_and_si512(ordered, _mm512_set1_epi8(static_cast<char>(0x80)));
  const __mmask64 may_be_nan = _mm512_cmpeq_epi8_mask(high, _mm512_set1_epi8(0x7f));
  if (__builtin_expect(may_be_nan != 0, 0)) {
    const __mmask64 is_nan = may_be_nan & _mm512_cmpeq_epi8_mask(low, _mm512_set1_epi8(static_cast<char>(0xc0)));
    high = _mm512_xor_si512(high, _mm512_maskz_mov_epi8(static_cast<__mmask64>(~is_nan), sign));
  } else {
    high = _mm512_xor_si512(high, sign);
  }
  _mm512_storeu_si512(out, _mm512_unpacklo_epi8(low, high));
  _mm512_storeu_si512(out + 64, _mm512_unpackhi_epi8(low, high));
}
#endif

/// 128 products of non-negative codes with the scale, as BF16; NaN keeps the canonical pattern.
inline void scaled_words(ByteFormat format, float scale, std::uint16_t* words) {
  const std::uint32_t* table = byte_table(format);
  const __m512 factor = _mm512_set1_ps(scale);
  for (unsigned i = 0; i < 128; i += 16) {
    const __m512 product = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_loadu_si512(table + i)), factor);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + i), _mm512_cvtepi32_epi16(round_bf16(product)));
  }
}

/// The table in the form that copy_segment reads: words, or with VBMI all low bytes and then all high bytes.
inline void make_table(ByteFormat format, float scale, std::uint16_t* table) {
#if defined(__AVX512VBMI__)
  alignas(64) std::uint16_t words[128];
  scaled_words(format, scale, words);
  const __m512i low_bytes = _mm512_set1_epi16(0xff);
  for (unsigned half = 0; half < 2; ++half) {
    const __m512i a = _mm512_load_si512(words + 64 * half);
    const __m512i b = _mm512_load_si512(words + 64 * half + 32);
    const __m512i low = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(_mm512_and_si512(a, low_bytes))),
                                           _mm512_cvtepi16_epi8(_mm512_and_si512(b, low_bytes)), 1);
    const __m512i high = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(_mm512_srli_epi16(a, 8))),
                                            _mm512_cvtepi16_epi8(_mm512_srli_epi16(b, 8)), 1);
    _mm512_store_si512(table + 32 * half, low);
    _mm512_store_si512(table + 64 + 32 * half, high);
  }
#else
  scaled_words(format, scale, table);
#endif
}

/// The codes themselves as BF16 words, for products formed one by one.
inline void plain_words(ByteFormat format, std::uint16_t* words) {
  const std::uint32_t* table = byte_table(format);
  for (unsigned i = 0; i < 128; ++i) words[i] = static_cast<std::uint16_t>(table[i] >> 16);
}

inline void multiply_words(__m512i words, __m512 factor, DType target, std::byte* out, std::size_t width) {
  const __m512i low = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(words)), 16);
  const __m512i high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(words, 1)), 16);
  store16(_mm512_mul_ps(_mm512_castsi512_ps(low), factor), target, out);
  store16(_mm512_mul_ps(_mm512_castsi512_ps(high), factor), target, out + 16 * width);
}

/// One row segment under one table of products.
inline void copy_segment(const std::uint16_t* words, const std::uint8_t* in, std::size_t n, ByteFormat format,
                         float scale, std::byte* to) {
  std::size_t i = 0;
#if defined(__AVX512VBMI__)
  if (n >= 64) {
    const ByteTable bytes = load_bytes(words);
    for (; i + 64 <= n; i += 64) look_up64(bytes, in + i, to + i * 2);
  }
#else
  if (n >= 32) {
    const WordTable table = load_table(words);
    for (; i + 32 <= n; i += 32) {
      const __m512i c = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i)));
      _mm512_storeu_si512(to + i * 2, look_up(table, c));
    }
  }
#endif
  if (i < n) k_avx2_kernels.bytes(in + i, 0, 1, n - i, format, {&scale, n - i, n - i}, DType::bf16, to + i * 2, 0);
}

/// Products formed one by one from the codes as BF16 words.
inline void multiply_segment(const WordTable& table, const std::uint8_t* in, std::size_t n, ByteFormat format,
                             float scale, DType target, std::byte* to, std::size_t width) {
  const __m512 factor = _mm512_set1_ps(scale);
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m512i c = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i)));
    multiply_words(look_up(table, c), factor, target, to + i * width, width);
  }
  if (i < n) k_avx2_kernels.bytes(in + i, 0, 1, n - i, format, {&scale, n - i, n - i}, target, to + i * width, 0);
}

void bytes(const std::uint8_t* codes, std::size_t code_stride, std::size_t rows, std::size_t cols, ByteFormat format,
           const ColumnScales& scales, DType target, std::byte* out, std::size_t out_stride) {
  constexpr std::size_t table_pays_from =
      1024;  // codes under one scale: below, forming the table costs more than it saves
  if (!is_sign_symmetric(format))
    return k_avx2_kernels.bytes(codes, code_stride, rows, cols, format, scales, target, out, out_stride);
  const std::size_t width = target == DType::f32 ? 4 : 2;
  const std::size_t blocks =
      cols <= scales.first_cols ? 1 : 1 + (cols - scales.first_cols + scales.block_cols - 1) / scales.block_cols;
  const bool has_scaled_tables =
      target == DType::bf16 && blocks <= k_column_blocks_max && rows * cols >= table_pays_from * blocks;
  alignas(64) std::uint16_t tables[k_column_blocks_max][128];
  if (has_scaled_tables)
    for (std::size_t block = 0; block < blocks; ++block) make_table(format, scales.values[block], tables[block]);
  else
    plain_words(format, tables[0]);
  const WordTable plain = load_table(tables[0]);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::uint8_t* in = codes + row * code_stride;
    std::byte* to = out + row * out_stride;
    std::size_t block = 0;
    for (std::size_t col = 0; col < cols; ++block) {
      const std::size_t n = std::min(cols - col, block == 0 ? scales.first_cols : scales.block_cols);
      if (has_scaled_tables)
        copy_segment(tables[block], in + col, n, format, scales.values[block], to + col * 2);
      else
        multiply_segment(plain, in + col, n, format, scales.values[block], target, to + col * width, width);
      col += n;
    }
  }
}

void mxfp4(const std::uint8_t* packed, std::size_t groups, const std::uint8_t* scales, DType target, std::byte* out) {
  const MxTables& tables = mx_tables();
  for (std::size_t group = 0; group < groups; ++group) {
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(packed + group * 16)));
    // Each dword becomes two word indices: the low nibble, then the high one.
    const __m512i index = _mm512_or_si512(_mm512_and_si512(bytes, _mm512_set1_epi32(15)),
                                          _mm512_slli_epi32(_mm512_and_si512(bytes, _mm512_set1_epi32(0xf0)), 12));
    const std::uint16_t* table = target == DType::f16 ? tables.f16[scales[group]] : tables.bf16[scales[group]];
    const __m512i words = _mm512_permutexvar_epi16(
        index, _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(table))));
    if (target != DType::f32) {
      _mm512_storeu_si512(out + group * 64, words);
      continue;
    }
    const __m512i low = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(words)), 16);
    const __m512i high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(words, 1)), 16);
    _mm512_storeu_si512(out + group * 128, low);
    _mm512_storeu_si512(out + group * 128 + 64, high);
  }
}

/// 32 products in element order from the even and the odd ones.
inline void store_interleaved(__m512 even, __m512 odd, DType target, std::byte* out, std::size_t width) {
  if (target == DType::bf16) {
    _mm512_storeu_si512(out, _mm512_or_si512(round_bf16(even), _mm512_slli_epi32(round_bf16(odd), 16)));
    return;
  }
  const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i second = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  store16(_mm512_permutex2var_ps(even, first, odd), target, out);
  store16(_mm512_permutex2var_ps(even, second, odd), target, out + 16 * width);
}

void nvfp4(const std::uint8_t* packed, std::size_t groups, const float* scales, DType target, std::byte* out) {
  const std::size_t width = target == DType::f32 ? 4 : 2;
  const __m512 table = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f, -1.0f, -1.5f, -2.0f,
                                      -3.0f, -4.0f, -6.0f);
  std::size_t group = 0;
  for (; group + 2 <= groups; group += 2) {
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(packed + group * 8)));
    const __m512 scale = _mm512_mask_mov_ps(_mm512_set1_ps(scales[group]), 0xff00, _mm512_set1_ps(scales[group + 1]));
    const __m512 even = _mm512_mul_ps(_mm512_permutexvar_ps(bytes, table), scale);  // the index uses the low four bits
    const __m512 odd = _mm512_mul_ps(_mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), table), scale);
    store_interleaved(even, odd, target, out + group * 16 * width, width);
  }
  if (group < groups)
    k_avx2_kernels.nvfp4(packed + group * 8, groups - group, scales + group, target, out + group * 16 * width);
}

void int4(const std::uint8_t* packed, std::size_t n, int zero, float scale, DType target, std::byte* out) {
  const std::size_t width = target == DType::f32 ? 4 : 2;
  const __m512i shift = _mm512_set1_epi32(zero);
  const __m512 factor = _mm512_set1_ps(scale);
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(packed + i / 2)));
    const __m512i low = _mm512_sub_epi32(_mm512_and_si512(bytes, _mm512_set1_epi32(15)), shift);
    const __m512i high = _mm512_sub_epi32(_mm512_srli_epi32(bytes, 4), shift);
    store_interleaved(_mm512_mul_ps(_mm512_cvtepi32_ps(low), factor), _mm512_mul_ps(_mm512_cvtepi32_ps(high), factor),
                      target, out + i * width, width);
  }
  if (i < n) k_avx2_kernels.int4(packed + i / 2, n - i, zero, scale, target, out + i * width);
}

void round_values(const std::uint32_t* values, std::size_t n, DType target, std::byte* out) {
  const std::size_t width = target == DType::f32 ? 4 : 2;
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) store16(_mm512_castsi512_ps(_mm512_loadu_si512(values + i)), target, out + i * width);
  if (i < n) k_avx2_kernels.round(values + i, n - i, target, out + i * width);
}

}  // namespace

const Kernels WEIGHTPROOF_TIER = {WEIGHTPROOF_TIER_NAME, bytes, mxfp4, nvfp4, int4, round_values};

}  // namespace weightproof::codec
