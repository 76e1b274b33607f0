// SPDX-License-Identifier: Apache-2.0
// The inner loops of decoding, once per CPU tier. Every tier gives the same bits; tests walk all tiers that this
// machine has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "loader/core/dtype.hpp"

namespace weightproof::codec {

/// What a byte code means.
enum class ByteFormat : std::uint8_t { e4m3fn, e5m2, e4m3fnuz, e5m2fnuz, int8 };

/// F32 patterns of the 256 codes, made by the scalar functions. All of them are BF16 values.
const std::uint32_t* byte_table(ByteFormat format);

/// Scales of consecutive column blocks. Column 0 may lie inside a block: the first block then has only `first_cols`
/// columns.
struct ColumnScales {
  const float* values = nullptr;
  std::size_t first_cols = 0;
  std::size_t block_cols = 0;
};
inline constexpr std::size_t k_column_blocks_max =
    64;  ///< blocks of one call: their tables stay in the first-level cache

/// target is bf16, f16 or f32; `out` has no alignment. Counts may be 0.
struct Kernels {
  std::string_view name;  ///< "scalar", "avx2", "avx512", "avx512_vbmi"

  /// rows x cols byte codes, out = RN(F32(code) *f32 scale of the column's block). Strides in bytes.
  void (*bytes)(const std::uint8_t* codes, std::size_t code_stride, std::size_t rows, std::size_t cols,
                ByteFormat format, const ColumnScales& scales, DType target, std::byte* out, std::size_t out_stride);
  /// groups of 32 E2M1 codes, low nibble first, each with one E8M0 scale.
  void (*mxfp4)(const std::uint8_t* packed, std::size_t groups, const std::uint8_t* scales, DType target,
                std::byte* out);
  /// groups of 16 E2M1 codes, low nibble first, each with an F32 scale.
  void (*nvfp4)(const std::uint8_t* packed, std::size_t groups, const float* scales, DType target, std::byte* out);
  /// n unsigned 4-bit codes (n even), low nibble first, out = RN(F32(code - zero) *f32 scale).
  void (*int4)(const std::uint8_t* packed, std::size_t n, int zero, float scale, DType target, std::byte* out);
  /// F32 patterns -> target, nearest even, canonical NaN.
  void (*round)(const std::uint32_t* values, std::size_t n, DType target, std::byte* out);
};

/// Tiers that this CPU can run, slowest first; the scalar one is always there.
std::span<const Kernels* const> available_kernels();
/// The fastest available tier, or the one forced by force_kernels().
const Kernels& kernels();
/// For tests and benchmarks: null returns to the fastest. Not thread-safe against running decodes.
void force_kernels(const Kernels* kernels);

}  // namespace weightproof::codec
