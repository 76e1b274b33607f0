// SPDX-License-Identifier: Apache-2.0
// Kernel arguments as plain data, shared by the launch code and the device code.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weightproof::codec::cuda {

enum class Target : std::uint8_t { bf16, f16, f32 };

struct BytesParams {
  const std::uint8_t* codes;
  const float* scales;
  void* out;
  std::size_t code_stride, rows, cols, first_cols, block_cols, out_stride;
  std::uint8_t format;
};

struct NibbleParams {
  const std::uint8_t* packed;
  const std::uint8_t* exponents;  ///< MXFP4: one E8M0 byte per 32 codes
  const float* scales;            ///< NVFP4: one per 16 codes
  void* out;
  std::size_t rows, cols, out_stride;
  float scale;  ///< int4
  int zero;
  bool is_transposed;
};

struct RoundParams {
  const std::uint32_t* values;
  void* out;
  std::size_t n;
};

}  // namespace weightproof::codec::cuda
