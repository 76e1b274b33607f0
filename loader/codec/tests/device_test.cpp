// SPDX-License-Identifier: Apache-2.0
// The GPU twins against the scalar tier, bit for bit. Without a device each test skips with the reason that
// device_status() gives.
#include "loader/codec/device.hpp"

#include <gtest/gtest.h>

#if defined(WEIGHTPROOF_TEST_CUDA)
#include <cuda_runtime_api.h>
#endif

#include <cstring>
#include <new>
#include <vector>

#include "loader/codec/kernels.hpp"
#include "loader/core/error.hpp"

namespace weightproof::codec {
namespace {

#if defined(WEIGHTPROOF_TEST_CUDA)
/// Device memory of exactly the asked size.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes) : bytes_(bytes) {
    if (cudaMalloc(&data_, bytes == 0 ? 1 : bytes) != cudaSuccess) throw std::bad_alloc();
  }
  DeviceBytes(const void* host, std::size_t bytes) : DeviceBytes(bytes) {
    cudaMemcpy(data_, host, bytes, cudaMemcpyHostToDevice);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { cudaFree(data_); }
  template <typename T>
  T* as() {
    return static_cast<T*>(data_);
  }
  std::vector<std::byte> read() {
    std::vector<std::byte> host(bytes_);
    EXPECT_EQ(cudaMemcpy(host.data(), data_, bytes_, cudaMemcpyDeviceToHost), cudaSuccess);
    return host;
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};
#else
/// Without the toolkit the tests are there all the same, to say why they are skipped: none of this is reached.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t) { throw std::bad_alloc(); }
  DeviceBytes(const void*, std::size_t) { throw std::bad_alloc(); }
  template <typename T>
  T* as() {
    return nullptr;
  }
  std::vector<std::byte> read() { return {}; }
};
#endif

constexpr DType k_targets[] = {DType::bf16, DType::f16, DType::f32};

std::vector<std::uint8_t> codes_of(std::size_t n) {
  std::vector<std::uint8_t> codes(n);
  for (std::size_t i = 0; i < n; ++i) codes[i] = static_cast<std::uint8_t>(i * 37 + i / 256);
  return codes;
}

TEST(Device, ByteCodesOfEveryFormat) {
  if (const DeviceStatus status = device_status(); !status.is_available) GTEST_SKIP() << status.reason;
  const std::size_t rows = 130, cols = 300;
  const std::vector<std::uint8_t> codes = codes_of(rows * cols);
  const std::vector<float> scales = {0.37f, -2.5f, 1e-30f, 3e38f};
  DeviceBytes device_codes(codes.data(), codes.size()), device_scales(scales.data(), scales.size() * 4);
  for (const DType target : k_targets)
    for (int format = 0; format < 5; ++format) {
      const std::size_t width = target == DType::f32 ? 4 : 2;
      std::vector<std::byte> want(rows * cols * width);
      available_kernels()[0]->bytes(codes.data(), cols, rows, cols, static_cast<ByteFormat>(format),
                                    {scales.data(), 44, 128}, target, want.data(), cols * width);
      DeviceBytes out(want.size());
      device_bytes(device_codes.as<std::uint8_t>(), cols, rows, cols, static_cast<ByteFormat>(format),
                   {device_scales.as<float>(), 44, 128}, target, out.as<void>(), cols * width, nullptr);
      EXPECT_EQ(out.read(), want) << "format " << format;
    }
}

TEST(Device, FourBitCodesAtEveryBoundary) {
  if (const DeviceStatus status = device_status(); !status.is_available) GTEST_SKIP() << status.reason;
  const Kernels& scalar = *available_kernels()[0];
  for (const DType target : k_targets)
    for (const std::size_t groups :
         {std::size_t{0}, std::size_t{1}, std::size_t{31}, std::size_t{32}, std::size_t{33}, std::size_t{1027}}) {
      const std::size_t width = target == DType::f32 ? 4 : 2;
      const std::vector<std::uint8_t> packed = codes_of(groups * 16);
      std::vector<std::uint8_t> exponents(groups);
      for (std::size_t i = 0; i < groups; ++i) exponents[i] = static_cast<std::uint8_t>(i * 3);
      std::vector<float> scales(groups * 2);
      for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<float>(i) * 0.013f - 1.0f;
      DeviceBytes device_packed(packed.data(), packed.size()), device_exponents(exponents.data(), groups),
          device_scales(scales.data(), scales.size() * 4), out(groups * 32 * width);
      std::vector<std::byte> want(groups * 32 * width);
      scalar.mxfp4(packed.data(), groups, exponents.data(), target, want.data());
      device_mxfp4(device_packed.as<std::uint8_t>(), 1, groups, device_exponents.as<std::uint8_t>(), target,
                   out.as<void>(), want.size(), false, nullptr);
      EXPECT_EQ(out.read(), want);
      scalar.nvfp4(packed.data(), groups * 2, scales.data(), target, want.data());
      device_nvfp4(device_packed.as<std::uint8_t>(), groups * 2, device_scales.as<float>(), target, out.as<void>(),
                   nullptr);
      EXPECT_EQ(out.read(), want);
      scalar.int4(packed.data(), groups * 32, 8, 0.0371f, target, want.data());
      device_int4(device_packed.as<std::uint8_t>(), groups * 32, 8, 0.0371f, target, out.as<void>(), nullptr);
      EXPECT_EQ(out.read(), want);
    }
}

TEST(Device, TransposedWriteLandsWhereAHostTransposeDoes) {
  if (const DeviceStatus status = device_status(); !status.is_available) GTEST_SKIP() << status.reason;
  const std::size_t rows = 5, groups = 3, cols = groups * 32;
  const std::vector<std::uint8_t> packed = codes_of(rows * cols / 2);
  const std::vector<std::uint8_t> exponents(rows * groups, 120);
  std::vector<std::byte> dense(rows * cols * 2), want(dense.size());
  available_kernels()[0]->mxfp4(packed.data(), rows * groups, exponents.data(), DType::bf16, dense.data());
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) std::memcpy(&want[(c * rows + r) * 2], &dense[(r * cols + c) * 2], 2);
  DeviceBytes device_packed(packed.data(), packed.size()), device_exponents(exponents.data(), exponents.size()),
      out(want.size());
  device_mxfp4(device_packed.as<std::uint8_t>(), rows, groups, device_exponents.as<std::uint8_t>(), DType::bf16,
               out.as<void>(), rows * 2, true, nullptr);
  EXPECT_EQ(out.read(), want);
}

TEST(Device, WithoutADeviceTheReasonIsGivenAndTheErrorHasItsCode) {
  const DeviceStatus status = device_status();
  EXPECT_FALSE(status.reason.empty());
  if (status.is_available) GTEST_SKIP() << "a device is present: " << status.reason;
  std::uint32_t value = 0;
  try {
    device_round(&value, 1, DType::f32, &value, nullptr);
    FAIL() << "work was accepted without a device";
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::device_unavailable || error.code() == ErrorCode::device_error)
        << error.what();
  }
}

}  // namespace
}  // namespace weightproof::codec
