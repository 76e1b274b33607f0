// SPDX-License-Identifier: Apache-2.0
// Launches of the decode kernels and the one place where a CUDA status becomes an Error.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "loader/codec/cuda/decode.cuh"
#include "loader/codec/device.hpp"
#include "loader/core/error.hpp"

namespace weightproof::codec {
namespace {

using cuda::Target;

void require(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  const bool is_absent = status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver;
  throw Error(is_absent ? ErrorCode::device_unavailable : ErrorCode::device_error,
              std::string(call) + ": " + cudaGetErrorName(status) + " (" + cudaGetErrorString(status) + ")");
}

constexpr unsigned k_threads = 256;

unsigned blocks_for(std::size_t work) {
  constexpr std::size_t blocks_max = 65536;  // loops inside the kernels take the rest
  return static_cast<unsigned>(std::clamp<std::size_t>((work + k_threads - 1) / k_threads, 1, blocks_max));
}

Target target_of(DType target) {
  switch (target) {
    case DType::bf16:
      return Target::bf16;
    case DType::f16:
      return Target::f16;
    case DType::f32:
      return Target::f32;
    default:
      throw Error(ErrorCode::dtype_unsupported,
                  "a quantized tensor decodes to BF16, F16 or F32, not " + std::string(name_of(target)));
  }
}

std::size_t width_of(DType target) { return target == DType::f32 ? 4 : 2; }

/// Calls f.template operator()<Target>() for the run-time target.
template <typename F>
void with_target(DType target, F&& f) {
  switch (target_of(target)) {
    case Target::bf16:
      f.template operator()<Target::bf16>();
      break;
    case Target::f16:
      f.template operator()<Target::f16>();
      break;
    case Target::f32:
      f.template operator()<Target::f32>();
      break;
  }
  require(cudaGetLastError(), "kernel launch");
}

template <int Kind>
void launch_nibbles(const cuda::NibbleParams& params, DType target, Stream stream) {
  if (params.rows * params.cols == 0) return;
  with_target(target, [&]<Target T>() {
    cuda::nibbles_kernel<T, Kind>
        <<<blocks_for(params.rows * params.cols / 2), k_threads, 0, static_cast<cudaStream_t>(stream)>>>(params);
  });
}

}  // namespace

DeviceStatus device_status() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return {false, std::string("no CUDA device: ") + cudaGetErrorString(status)};
  }
  if (count == 0) return {false, "no CUDA device"};
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return {false, "the CUDA device does not answer"};
  return {true, properties.name};
}

void device_bytes(const std::uint8_t* codes, std::size_t code_stride, std::size_t rows, std::size_t cols,
                  ByteFormat format, const ColumnScales& scales, DType target, void* out, std::size_t out_stride,
                  Stream stream) {
  if (rows * cols == 0) return;
  const cuda::BytesParams params{codes,
                                 scales.values,
                                 out,
                                 code_stride,
                                 rows,
                                 cols,
                                 scales.first_cols,
                                 std::max<std::size_t>(scales.block_cols, 1),
                                 out_stride,
                                 static_cast<std::uint8_t>(format)};
  with_target(target, [&]<Target T>() {
    cuda::bytes_kernel<T><<<blocks_for(rows * cols), k_threads, 0, static_cast<cudaStream_t>(stream)>>>(params);
  });
}

void device_mxfp4(const std::uint8_t* packed, std::size_t rows, std::size_t groups_per_row, const std::uint8_t* scales,
                  DType target, void* out, std::size_t out_stride, bool is_transposed, Stream stream) {
  launch_nibbles<0>({packed, scales, nullptr, out, rows, groups_per_row * 32, out_stride, 0.0f, 0, is_transposed},
                    target, stream);
}

void device_nvfp4(const std::uint8_t* packed, std::size_t groups, const float* scales, DType target, void* out,
                  Stream stream) {
  launch_nibbles<1>({packed, nullptr, scales, out, 1, groups * 16, groups * 16 * width_of(target), 0.0f, 0, false},
                    target, stream);
}

void device_int4(const std::uint8_t* packed, std::size_t n, int zero, float scale, DType target, void* out,
                 Stream stream) {
  launch_nibbles<2>({packed, nullptr, nullptr, out, 1, n, n * width_of(target), scale, zero, false}, target, stream);
}

void device_round(const std::uint32_t* values, std::size_t n, DType target, void* out, Stream stream) {
  if (n == 0) return;
  const cuda::RoundParams params{values, out, n};
  with_target(target, [&]<Target T>() {
    cuda::round_kernel<T><<<blocks_for(n), k_threads, 0, static_cast<cudaStream_t>(stream)>>>(params);
  });
}

}  // namespace weightproof::codec
