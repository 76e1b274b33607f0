// SPDX-License-Identifier: Apache-2.0
// The decode kernels on a GPU: twins of kernels.hpp over the same scalar functions, bit for bit. Where there is no CUDA
// toolkit the no_cuda twin is linked, and device_status() says so; nothing else in the tree knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "loader/codec/kernels.hpp"
#include "loader/core/dtype.hpp"

namespace weightproof::codec {

struct DeviceStatus {
  bool is_available = false;
  std::string reason;  ///< why not, or the device's name
};
/// Asks the driver once a call; cheap. Never throws.
DeviceStatus device_status();

/// A stream of the CUDA runtime, as an opaque handle; null is the default stream.
using Stream = void*;

/// All pointers are device memory; counts may be 0. Work is queued on `stream`. Errors: device_unavailable where there
/// is no device, device_error naming the call. Thread-safe; ordering is the stream's.
void device_bytes(const std::uint8_t* codes, std::size_t code_stride, std::size_t rows, std::size_t cols,
                  ByteFormat format, const ColumnScales& scales, DType target, void* out, std::size_t out_stride,
                  Stream stream);
/// groups of 32 E2M1 codes; `rows` x `cols` values are written at out + col * out_stride + row * width when
/// `is_transposed`, else densely.
void device_mxfp4(const std::uint8_t* packed, std::size_t rows, std::size_t groups_per_row, const std::uint8_t* scales,
                  DType target, void* out, std::size_t out_stride, bool is_transposed, Stream stream);
void device_nvfp4(const std::uint8_t* packed, std::size_t groups, const float* scales, DType target, void* out,
                  Stream stream);
void device_int4(const std::uint8_t* packed, std::size_t n, int zero, float scale, DType target, void* out,
                 Stream stream);
void device_round(const std::uint32_t* values, std::size_t n, DType target, void* out, Stream stream);

}  // namespace weightproof::codec
