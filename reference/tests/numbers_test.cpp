// SPDX-License-Identifier: Apache-2.0
// Scalar formats against the golden tables, and against two other people's: Eigen's half and bfloat16, and, where the
// header is installed, the host functions of the CUDA toolkit.
#include "reference/numbers.hpp"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cfloat>
#include <random>
#include <string>

#include "reference/json.hpp"
#include "reference/safetensors.hpp"

#ifdef WEIGHTPROOF_CUDA_HEADERS
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#endif

namespace weightproof::reference {
namespace {

const std::string k_golden = std::string(WEIGHTPROOF_SOURCE_DIR) + "/fixtures/golden/";

std::uint32_t hex(const Json& value) { return static_cast<std::uint32_t>(std::stoull(*value.text(), nullptr, 16)); }
bool is_nan(std::uint32_t f32_bits) { return (f32_bits & 0x7fffffff) > 0x7f800000; }

TEST(Numbers, ArithmeticModeIsIeee) {
  volatile float smallest_normal = FLT_MIN, half = 0.5f;
  EXPECT_EQ(bits_of_float(smallest_normal * half), 0x00400000u) << "subnormals are flushed in this process";
}

TEST(Numbers, DecodeTables) {
  const Json tables = parse_json(read_text(k_golden + "decode_tables.json"));
  int formats = 0;
  for (const auto& [name, table] : *tables.object()) {
    if (!table.find("f32_bits") || name.rfind("BNB_", 0) == 0) continue;  // Code books that files carry themselves.
    const Json::Array& codes = *table.find("f32_bits")->array();
    if (name == "F6_E2M3" || name == "F6_E3M2") {
      for (std::uint32_t code = 0; code < codes.size(); ++code)
        EXPECT_EQ(widen(name == "F6_E2M3" ? k_e2m3 : k_e3m2, code), hex(codes[code])) << name << " " << code;
      ++formats;
      continue;
    }
    const auto dtype = dtype_named(name == "E2M1" || name == "F4_E2M1" ? "F4" : name);
    ASSERT_TRUE(dtype) << name;
    for (std::uint32_t code = 0; code < codes.size(); ++code) {
      const std::uint32_t got = to_f32(*dtype, code), expected = hex(codes[code]);
      EXPECT_TRUE(got == expected || (is_nan(got) && is_nan(expected)))
          << name << " " << code << " " << std::hex << got;
      if (is_nan(got)) {
        EXPECT_EQ(got, k_nan_f32);
      }
    }
    ++formats;
  }
  EXPECT_EQ(formats, 8);
}

TEST(Numbers, SixteenBitSamples) {
  const Json samples = parse_json(read_text(k_golden + "decode_16bit_samples.json"));
  int count = 0;
  for (const auto& [name, table] : *samples.object()) {
    if (!table.is_object() || !dtype_named(name)) continue;
    for (const auto& [code, bits] : *table.object()) {
      const std::uint32_t got = to_f32(*dtype_named(name), std::stoul(code, nullptr, 16)), expected = hex(bits);
      EXPECT_TRUE(got == expected || (is_nan(got) && is_nan(expected))) << name << " " << code;
      ++count;
    }
  }
  EXPECT_GT(count, 256);
}

TEST(Numbers, RoundingRows) {
  const Json golden = parse_json(read_text(k_golden + "rounding_f32.json"));
  const Json::Array& rows = *golden.find("rows")->array();
  ASSERT_EQ(rows.size(), 9744u);
  ASSERT_EQ(golden.find("columns")->array()->size(), 16u);
  const auto check = [](const Json& cell, std::optional<std::uint32_t> got, const char* column, std::uint32_t input,
                        std::uint32_t nan_low, std::uint32_t nan_mask) {
    if (cell.is_null()) {
      EXPECT_FALSE(got) << column << std::hex << " " << input;
      return;
    }
    ASSERT_TRUE(got) << column << std::hex << " " << input;
    const bool both_nan = (hex(cell) & nan_mask) > nan_low && (*got & nan_mask) > nan_low;  // By class.
    EXPECT_TRUE(both_nan || *got == hex(cell))
        << column << std::hex << " " << input << " gave " << *got << " not " << hex(cell);
  };
  for (const Json& row : rows) {
    const Json::Array& cells = *row.array();
    const std::uint32_t u = hex(cells[0]);
    check(cells[1], narrow(k_bf16, u), "bf16", u, 0x7f80, 0x7fff);
    check(cells[2], static_cast<std::uint32_t>(cast(Dtype::f32, u, Dtype::bf16)), "bf16 kept", u, 0xffff,
          0xffff);  // Exact.
    check(cells[3], narrow(k_f16, u), "f16", u, 0x7c00, 0x7fff);
    check(cells[4], narrow(k_e4m3, u), "e4m3", u, 0x7e, 0x7f);
    check(cells[5], narrow(k_e4m3, u, Overflow::saturate), "e4m3 sat", u, 0x7e, 0x7f);
    check(cells[6], narrow(k_e5m2, u), "e5m2", u, 0x7c, 0x7f);
    check(cells[7], narrow(k_e5m2, u, Overflow::saturate), "e5m2 sat", u, 0x7c, 0x7f);
    check(cells[8], narrow(k_e4m3fnuz, u), "e4m3fnuz", u, 0xff, 0xff);
    check(cells[9], narrow(k_e4m3fnuz, u, Overflow::saturate), "e4m3fnuz sat", u, 0xff, 0xff);
    check(cells[10], narrow(k_e5m2fnuz, u), "e5m2fnuz", u, 0xff, 0xff);
    check(cells[11], narrow(k_e5m2fnuz, u, Overflow::saturate), "e5m2fnuz sat", u, 0xff, 0xff);
    check(cells[12], narrow_e8m0(u), "e8m0", u, 0xff, 0xff);
    check(cells[13], narrow(k_e2m3, u, Overflow::saturate), "e2m3", u, 0xff, 0xff);
    check(cells[14], narrow(k_e3m2, u, Overflow::saturate), "e3m2", u, 0xff, 0xff);
    check(cells[15], narrow(k_e2m1, u, Overflow::saturate), "e2m1", u, 0xff, 0xff);
  }
}

TEST(Numbers, NanOfEveryConversion) {
  EXPECT_EQ(cast(Dtype::bf16, 0xffff, Dtype::f32), 0x7fc00000u);
  EXPECT_EQ(cast(Dtype::bf16, 0xff81, Dtype::f16), 0x7e00u);
  EXPECT_EQ(cast(Dtype::f16, 0xfc01, Dtype::bf16), 0x7fc0u);
  EXPECT_EQ(cast(Dtype::f32, 0xff800001, Dtype::f16), 0x7e00u);
  EXPECT_EQ(cast(Dtype::f32, 0xff800001, Dtype::bf16),
            0xffc0u);  // A plain F32 to BF16 cast keeps sign and top payload.
  EXPECT_EQ(cast(Dtype::f32, 0x7fa55aa5, Dtype::bf16), 0x7fe5u);
  EXPECT_EQ(cast(Dtype::f32, 0xff800001, Dtype::f32), 0xff800001u);  // No conversion.
  EXPECT_EQ(cast(Dtype::f64, 0xfff0000000000001, Dtype::bf16), 0x7fc0u);
  EXPECT_EQ(from_f32(Dtype::bf16, 0xff800001), 0x7fc0u);
  EXPECT_EQ(from_f32(Dtype::f32, 0xffc00000), 0x7fc00000u);
  EXPECT_EQ(cast(Dtype::f64, std::bit_cast<std::uint64_t>(1.0 + 0x1p-8 + 0x1p-40), Dtype::bf16),
            0x3f80u);  // Through F32.
}

TEST(Numbers, EigenAgreesOnAll16BitCodesAndRandomF32) {
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const auto half = Eigen::numext::bit_cast<Eigen::half>(static_cast<std::uint16_t>(code));
    const auto brain = Eigen::numext::bit_cast<Eigen::bfloat16>(static_cast<std::uint16_t>(code));
    const std::uint32_t f16 = bits_of_float(static_cast<float>(half)), bf16 = bits_of_float(static_cast<float>(brain));
    ASSERT_TRUE(to_f32(Dtype::f16, code) == f16 || (is_nan(f16) && is_nan(to_f32(Dtype::f16, code)))) << code;
    ASSERT_TRUE(to_f32(Dtype::bf16, code) == bf16 || (is_nan(bf16) && is_nan(to_f32(Dtype::bf16, code)))) << code;
    if (!is_nan(f16)) {
      ASSERT_EQ(from_f32(Dtype::f16, f16), code);
    }
    if (!is_nan(bf16)) {
      ASSERT_EQ(from_f32(Dtype::bf16, bf16), code);
    }
  }
  std::mt19937 random(7);
  for (int i = 0; i < 1'000'000; ++i) {
    const auto u = static_cast<std::uint32_t>(random());
    if (is_nan(u)) continue;
    ASSERT_EQ(from_f32(Dtype::f16, u), Eigen::numext::bit_cast<std::uint16_t>(Eigen::half(as_float(u))))
        << std::hex << u;
    ASSERT_EQ(from_f32(Dtype::bf16, u), Eigen::numext::bit_cast<std::uint16_t>(Eigen::bfloat16(as_float(u))))
        << std::hex << u;
  }
}

TEST(Numbers, CudaHeadersAgree) {
#ifdef WEIGHTPROOF_CUDA_HEADERS
  std::mt19937 random(11);
  for (int i = 0; i < 300'000; ++i) {
    const auto u = i < 256 ? bits_of_float(static_cast<float>(i) / 4) : static_cast<std::uint32_t>(random());
    if (is_nan(u)) continue;
    const float x = as_float(u);
    ASSERT_EQ(*narrow(k_e4m3, u, Overflow::saturate), __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3))
        << std::hex << u;
    ASSERT_EQ(*narrow(k_e5m2, u, Overflow::saturate), __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2))
        << std::hex << u;
    ASSERT_EQ(*narrow(k_e5m2, u), __nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E5M2)) << std::hex << u;
    ASSERT_EQ(*narrow(k_f16, u), __half_as_ushort(__float2half_rn(x))) << std::hex << u;
    ASSERT_EQ(*narrow(k_bf16, u), __bfloat16_as_ushort(__float2bfloat16_rn(x))) << std::hex << u;
  }
  for (std::uint32_t code = 0; code < 256; ++code) {
    const auto compare = [&](FloatFormat format, __nv_fp8_interpretation_t kind) {
      const std::uint32_t through_half =
          bits_of_float(__half2float(__half(__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(code), kind))));
      const std::uint32_t own = widen(format, code);
      EXPECT_TRUE(own == through_half || (is_nan(own) && is_nan(through_half))) << code;
    };
    compare(k_e4m3, __NV_E4M3);
    compare(k_e5m2, __NV_E5M2);
  }
#else
  GTEST_SKIP() << "no cuda_fp8.h on this machine";
#endif
}

}  // namespace
}  // namespace weightproof::reference
