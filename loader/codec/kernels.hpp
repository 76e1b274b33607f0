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

/// target is bf16, f16 or f32; `out` has no alignment. Counts may be 0.
struct Kernels {
  std::string_view name;  ///< "scalar", "avx2", "avx512", "avx512_vbmi"

  /// rows x cols byte codes, out = RN(table[code] *f32 scale). `table`: 256 F32 patterns. Strides in bytes.
  void (*bytes_tile)(const std::uint8_t* codes, std::size_t code_stride, std::size_t rows, std::size_t cols,
                     const std::uint32_t* table, float scale, DType target, std::byte* out, std::size_t out_stride);
  /// n 4-bit codes, low nibble first; out = RN(table[code] *f32 scale). `table`: 16 F32 patterns.
  void (*nibbles)(const std::uint8_t* packed, std::size_t n, const std::uint32_t* table, float scale, DType target,
                  std::byte* out);
  /// groups of 32 E2M1 codes, low nibble first, each with one E8M0 scale.
  void (*mxfp4)(const std::uint8_t* packed, std::size_t groups, const std::uint8_t* scales, DType target,
                std::byte* out);
  /// groups of 16 E2M1 codes, low nibble first, each with an F32 scale.
  void (*nvfp4)(const std::uint8_t* packed, std::size_t groups, const float* scales, DType target, std::byte* out);
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
