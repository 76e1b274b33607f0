// SPDX-License-Identifier: Apache-2.0
// Device code of the decode kernels. One thread decodes one element or one packed byte; products are IEEE binary32
// multiplications that the compiler may not contract, rounding is the integer arithmetic of scalar.hpp.
#pragma once

#include "loader/codec/cuda/decode_params.hpp"
#include "loader/codec/scalar.hpp"

namespace weightproof::codec::cuda {

template <Target T>
__device__ __forceinline__ void store(std::uint32_t bits, void* out, std::size_t index) {
  if constexpr (T == Target::f32)
    static_cast<std::uint32_t*>(out)[index] = canonical_f32_bits(bits);
  else if constexpr (T == Target::bf16)
    static_cast<std::uint16_t*>(out)[index] = f32_bits_to_bf16(bits);
  else
    static_cast<std::uint16_t*>(out)[index] = f32_bits_to_f16(bits);
}

template <Target T>
__host__ __device__ constexpr std::size_t width_of() {
  return T == Target::f32 ? 4 : 2;
}

__device__ __forceinline__ std::uint32_t widen_byte(std::uint8_t code, std::uint8_t format) {
  switch (format) {
    case 0:
      return e4m3fn_to_f32_bits(code);
    case 1:
      return e5m2_to_f32_bits(code);
    case 2:
      return e4m3fnuz_to_f32_bits(code);
    case 3:
      return e5m2fnuz_to_f32_bits(code);
    default:
      return bits_of_float(static_cast<float>(static_cast<std::int8_t>(code)));
  }
}

__device__ __forceinline__ std::size_t thread_index() {
  return blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
}
__device__ __forceinline__ std::size_t thread_count() { return gridDim.x * static_cast<std::size_t>(blockDim.x); }

template <Target T>
__global__ void bytes_kernel(BytesParams p) {
  // The 256 codes widened once a block: look-ups replace the arithmetic in the loop.
  __shared__ std::uint32_t table[256];
  for (unsigned i = threadIdx.x; i < 256; i += blockDim.x)
    table[i] = widen_byte(static_cast<std::uint8_t>(i), p.format);
  __syncthreads();
  const std::size_t total = p.rows * p.cols;
  for (std::size_t i = thread_index(); i < total; i += thread_count()) {
    const std::size_t row = i / p.cols;
    const std::size_t col = i - row * p.cols;
    const std::size_t block = col < p.first_cols ? 0 : 1 + (col - p.first_cols) / p.block_cols;
    const float product = multiply_f32(float_of_bits(table[p.codes[row * p.code_stride + col]]), p.scales[block]);
    store<T>(bits_of_float(product), static_cast<char*>(p.out) + row * p.out_stride, col);
  }
}

template <Target T>
__device__ __forceinline__ void store_at(const NibbleParams& p, std::size_t row, std::size_t col, std::uint32_t bits) {
  if (p.is_transposed)
    store<T>(bits, static_cast<char*>(p.out) + col * p.out_stride, row);
  else
    store<T>(bits, static_cast<char*>(p.out) + row * p.out_stride, col);
}

/// Kind 0: MXFP4, 1: NVFP4, 2: unsigned integers with a zero point.
template <Target T, int Kind>
__global__ void nibbles_kernel(NibbleParams p) {
  const std::size_t row_bytes = p.cols / 2;
  const std::size_t total = p.rows * row_bytes;
  for (std::size_t i = thread_index(); i < total; i += thread_count()) {
    const std::size_t row = i / row_bytes;
    const std::size_t col = (i - row * row_bytes) * 2;
    const std::uint8_t pair = p.packed[i];
    for (int half = 0; half < 2; ++half) {
      const std::uint8_t code = static_cast<std::uint8_t>((pair >> (4 * half)) & 15);
      float product;
      if constexpr (Kind == 0)
        product = multiply_f32(float_of_bits(e2m1_to_f32_bits(code)),
                               float_of_bits(e8m0_to_f32_bits(p.exponents[(row * p.cols + col) / 32])));
      else if constexpr (Kind == 1)
        product = multiply_f32(float_of_bits(e2m1_to_f32_bits(code)), p.scales[(row * p.cols + col) / 16]);
      else
        product = multiply_f32(static_cast<float>(static_cast<int>(code) - p.zero), p.scale);
      store_at<T>(p, row, col + static_cast<std::size_t>(half), bits_of_float(product));
    }
  }
}

template <Target T>
__global__ void round_kernel(RoundParams p) {
  for (std::size_t i = thread_index(); i < p.n; i += thread_count()) store<T>(p.values[i], p.out, i);
}

}  // namespace weightproof::codec::cuda
