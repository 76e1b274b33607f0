// SPDX-License-Identifier: Apache-2.0
// The tier that runs everywhere, and the meaning of the other tiers.
#include <cstring>

#include "loader/codec/cpu/tiers_internal.hpp"
#include "loader/codec/scalar.hpp"

namespace weightproof::codec {
namespace {

inline void store(std::uint32_t bits, DType target, std::byte* out, std::size_t index) {
  if (target == DType::f32) {
    const std::uint32_t value = canonical_f32_bits(bits);
    std::memcpy(out + 4 * index, &value, 4);
  } else {
    const std::uint16_t value = target == DType::bf16 ? f32_bits_to_bf16(bits) : f32_bits_to_f16(bits);
    std::memcpy(out + 2 * index, &value, 2);
  }
}

inline std::uint32_t product(std::uint32_t a, float scale) {
  return bits_of_float(multiply_f32(float_of_bits(a), scale));
}

void bytes(const std::uint8_t* codes, std::size_t code_stride, std::size_t rows, std::size_t cols, ByteFormat format,
           const ColumnScales& scales, DType target, std::byte* out, std::size_t out_stride) {
  const std::uint32_t* table = byte_table(format);
  for (std::size_t row = 0; row < rows; ++row) {
    std::size_t block = 0, block_end = scales.first_cols;
    for (std::size_t col = 0; col < cols; ++col) {
      if (col == block_end) {
        ++block;
        block_end += scales.block_cols;
      }
      store(product(table[codes[row * code_stride + col]], scales.values[block]), target, out + row * out_stride, col);
    }
  }
}

void mxfp4(const std::uint8_t* packed, std::size_t groups, const std::uint8_t* scales, DType target, std::byte* out) {
  for (std::size_t i = 0; i < groups * 32; ++i) {
    const std::uint8_t code = static_cast<std::uint8_t>((static_cast<unsigned>(packed[i / 2]) >> (4 * (i % 2))) & 15u);
    store(product(e2m1_to_f32_bits(code), float_of_bits(e8m0_to_f32_bits(scales[i / 32]))), target, out, i);
  }
}

void nvfp4(const std::uint8_t* packed, std::size_t groups, const float* scales, DType target, std::byte* out) {
  for (std::size_t i = 0; i < groups * 16; ++i) {
    const std::uint8_t code = static_cast<std::uint8_t>((static_cast<unsigned>(packed[i / 2]) >> (4 * (i % 2))) & 15u);
    store(product(e2m1_to_f32_bits(code), scales[i / 16]), target, out, i);
  }
}

void int4(const std::uint8_t* packed, std::size_t n, int zero, float scale, DType target, std::byte* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const int code = (packed[i / 2] >> (4 * (i % 2))) & 15;
    store(bits_of_float(multiply_f32(static_cast<float>(code - zero), scale)), target, out, i);
  }
}

void round_values(const std::uint32_t* values, std::size_t n, DType target, std::byte* out) {
  for (std::size_t i = 0; i < n; ++i) store(values[i], target, out, i);
}

}  // namespace

const Kernels k_scalar_kernels = {"scalar", bytes, mxfp4, nvfp4, int4, round_values};

}  // namespace weightproof::codec
