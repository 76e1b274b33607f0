// SPDX-License-Identifier: Apache-2.0
// Every kernel tier of this machine against the formula, element by element: all codes under all scale classes, all
// lengths around the vector widths, buffers that end where the next page is not mapped.
#include "loader/codec/kernels.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "loader/codec/scalar.hpp"

namespace weightproof::codec {
namespace {

/// Memory whose last byte is followed by a page that must not be touched.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (bytes + page - 1) / page * page + page;
    base_ = static_cast<std::byte*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(base_ + mapped_ - page, page, PROT_NONE);
    data_ = base_ + mapped_ - page - bytes;
  }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  ~GuardedBytes() { munmap(base_, mapped_); }
  std::byte* data() { return data_; }

 private:
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t mapped_ = 0;
};

std::uint32_t rounded(float value, DType target) {
  const std::uint32_t bits = bits_of_float(value);
  if (target == DType::bf16) return f32_bits_to_bf16(bits);
  if (target == DType::f16) return f32_bits_to_f16(bits);
  return canonical_f32_bits(bits);
}

std::uint32_t element(const std::byte* out, std::size_t i, DType target) {
  std::uint32_t value = 0;
  const std::size_t width = target == DType::f32 ? 4 : 2;
  std::memcpy(&value, out + i * width, width);
  return value;
}

constexpr DType k_targets[] = {DType::bf16, DType::f16, DType::f32};
constexpr ByteFormat k_formats[] = {ByteFormat::e4m3fn, ByteFormat::e5m2, ByteFormat::e4m3fnuz, ByteFormat::e5m2fnuz,
                                    ByteFormat::int8};

/// Scale patterns of every kind: zeros, subnormals, ties, powers, huge, infinities, NaN, both signs.
std::vector<std::uint32_t> scale_patterns() {
  std::vector<std::uint32_t> bits = {0x00000000, 0x00000001, 0x00400000, 0x007fffff, 0x00800000, 0x0f000000, 0x33000000,
                                     0x33800000, 0x3a83126f, 0x3cf4712e, 0x3d050000, 0x3f000000, 0x3f6471c8, 0x3f800000,
                                     0x3f800001, 0x40490fdb, 0x477fe000, 0x477ff000, 0x7b000000, 0x7e800000, 0x7f000000,
                                     0x7f7fffff, 0x7f800000, 0x7fc00000, 0x7f800001, 0x0d7fffff, 0x0d800000, 0x0d800001,
                                     0x717fffff, 0x71800000, 0x71800001};
  const std::size_t n = bits.size();
  for (std::size_t i = 0; i < n; ++i) bits.push_back(bits[i] | 0x80000000u);
  std::uint32_t state = 12345;
  for (int i = 0; i < 40; ++i) {
    state = state * 1664525u + 1013904223u;
    bits.push_back(state);
  }
  return bits;
}

TEST(Kernels, EveryByteCodeUnderEveryScaleOnEveryTier) {
  std::vector<std::uint8_t> codes(64 * 64);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i * 37 + i / 256);
  std::vector<std::byte> out(codes.size() * 4);
  std::size_t compared = 0;
  for (const Kernels* tier : available_kernels())
    for (const ByteFormat format : k_formats)
      for (const DType target : k_targets)
        for (const std::uint32_t scale_bits : scale_patterns())
          for (const bool is_small : {false, true}) {  // small tiles take another way than large ones
            const float scale = float_of_bits(scale_bits);
            const std::size_t rows = is_small ? 4 : 64;
            tier->bytes(codes.data(), 64, rows, 64, format, {&scale, 64, 64}, target, out.data(),
                        64 * (target == DType::f32 ? 4 : 2));
            for (std::size_t i = 0; i < rows * 64; ++i) {
              const float want = multiply_f32(float_of_bits(byte_table(format)[codes[i]]), scale);
              ASSERT_EQ(element(out.data(), i, target), rounded(want, target))
                  << tier->name << " format " << static_cast<int>(format) << " code " << int{codes[i]} << " scale "
                  << std::hex << scale_bits;
              ++compared;
            }
          }
  std::printf("byte codes: %zu products compared\n", compared);
}

TEST(Kernels, EveryFourBitCodeUnderEveryPowerOfTwo) {
  std::uint8_t packed[16];
  for (unsigned i = 0; i < 16; ++i) packed[i] = static_cast<std::uint8_t>((2 * i + 1) % 16 << 4 | (2 * i) % 16);
  for (const Kernels* tier : available_kernels())
    for (const DType target : k_targets)
      for (unsigned scale = 0; scale < 256; ++scale) {
        const auto code = static_cast<std::uint8_t>(scale);
        std::byte out[128];
        tier->mxfp4(packed, 1, &code, target, out);
        for (unsigned i = 0; i < 32; ++i) {
          const float want = multiply_f32(float_of_bits(e2m1_to_f32_bits(static_cast<std::uint8_t>(i % 16))),
                                          float_of_bits(e8m0_to_f32_bits(code)));
          ASSERT_EQ(element(out, i, target), rounded(want, target))
              << tier->name << " code " << i << " scale " << scale;
        }
      }
}

TEST(Kernels, FourBitCodesWithFloatScalesAndIntegersOfEveryLength) {
  std::vector<std::uint8_t> packed(256);
  for (std::size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<std::uint8_t>(i * 29 + 3);
  const std::vector<std::uint32_t> patterns = scale_patterns();
  std::vector<float> scales;
  for (const std::uint32_t bits : patterns) scales.push_back(float_of_bits(bits));
  for (const Kernels* tier : available_kernels())
    for (const DType target : k_targets) {
      const std::size_t width = target == DType::f32 ? 4 : 2;
      for (std::size_t groups = 0; groups <= 9; ++groups)
        for (std::size_t first = 0; first + groups <= scales.size(); first += 7) {
          GuardedBytes in(groups * 8), out(groups * 16 * width);
          std::memcpy(in.data(), packed.data(), groups * 8);
          tier->nvfp4(reinterpret_cast<const std::uint8_t*>(in.data()), groups, scales.data() + first, target,
                      out.data());
          for (std::size_t i = 0; i < groups * 16; ++i) {
            const auto code = static_cast<std::uint8_t>((packed[i / 2] >> (4 * (i % 2))) & 15);
            ASSERT_EQ(element(out.data(), i, target),
                      rounded(multiply_f32(float_of_bits(e2m1_to_f32_bits(code)), scales[first + i / 16]), target))
                << tier->name << " nvfp4 " << i << " of " << groups << " groups";
          }
        }
      for (std::size_t n = 0; n <= 140; n += 2)
        for (const int zero : {0, 8, 15, -3}) {
          GuardedBytes in(n / 2), out(n * width);
          std::memcpy(in.data(), packed.data(), n / 2);
          const float scale = scales[(n + 8) % scales.size()];
          tier->int4(reinterpret_cast<const std::uint8_t*>(in.data()), n, zero, scale, target, out.data());
          for (std::size_t i = 0; i < n; ++i) {
            const int code = (packed[i / 2] >> (4 * (i % 2))) & 15;
            ASSERT_EQ(element(out.data(), i, target),
                      rounded(multiply_f32(static_cast<float>(code - zero), scale), target))
                << tier->name << " int4 " << i << " of " << n;
          }
        }
    }
}

TEST(Kernels, EveryLengthEndsWhereTheBufferEnds) {
  for (const Kernels* tier : available_kernels())
    for (const DType target : k_targets)
      for (std::size_t cols = 0; cols <= 150; ++cols)
        for (const std::size_t rows : {std::size_t{1}, std::size_t{17}}) {
          const std::size_t width = target == DType::f32 ? 4 : 2;
          GuardedBytes in(rows * cols), out(rows * cols * width), values(cols * 4), values_out(cols * width);
          for (std::size_t i = 0; i < rows * cols; ++i) in.data()[i] = static_cast<std::byte>(i * 11 + cols);
          const auto* codes = reinterpret_cast<const std::uint8_t*>(in.data());
          const float block_scales[] = {0.37f, 2.5f, -0.001f, 3e38f, 0.37f, 2.5f, -0.001f, 3e38f};
          tier->bytes(codes, cols, rows, cols, ByteFormat::e4m3fn, {block_scales, 13, 37}, target, out.data(),
                      cols * width);
          for (std::size_t i = 0; i < rows * cols; ++i)
            ASSERT_EQ(element(out.data(), i, target),
                      rounded(multiply_f32(float_of_bits(e4m3fn_to_f32_bits(codes[i])),
                                           block_scales[i % cols < 13 ? 0 : 1 + (i % cols - 13) / 37]),
                              target))
                << tier->name << " " << rows << "x" << cols << " at " << i;
          for (std::size_t i = 0; i < cols; ++i) {
            const std::uint32_t bits = static_cast<std::uint32_t>(i) * 0x01234567u + 0x33000000u;
            std::memcpy(values.data() + 4 * i, &bits, 4);
          }
          tier->round(reinterpret_cast<const std::uint32_t*>(values.data()), cols, target, values_out.data());
          for (std::size_t i = 0; i < cols; ++i)
            ASSERT_EQ(element(values_out.data(), i, target),
                      rounded(float_of_bits(element(values.data(), i, DType::f32)), target));
        }
}

}  // namespace
}  // namespace weightproof::codec
