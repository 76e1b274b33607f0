// SPDX-License-Identifier: Apache-2.0
// Schemes and refusals that the golden files do not hold, with values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "reference/model.hpp"
#include "reference/tests/reference_testing.hpp"

namespace weightproof::reference {
namespace {

using testing::bytes_of;
using testing::Tensor;
using Floats = std::vector<float>;

Tensor f32(const std::string& key, const Shape& shape, const Floats& values) {
  return {key, "F32", shape, bytes_of(values)};
}
Tensor u8(const std::string& key, const std::string& dtype, const Shape& shape,
          const std::vector<std::uint8_t>& values) {
  return {key, dtype, shape, bytes_of(values)};
}
Tensor i32(const std::string& key, const Shape& shape, const std::vector<std::int32_t>& values) {
  return {key, "I32", shape, bytes_of(values)};
}

std::string config_of(const std::string& quantization) {
  return quantization.empty() ? "{}" : R"({"quantization_config":)" + quantization + "}";
}

// All elements of `name` as F32, or the failure.
Floats decode(const std::string& name, const std::vector<Tensor>& tensors, const std::string& quantization,
              const std::string& more_config = "") {
  const testing::TemporaryDirectory directory;
  directory.write("model.safetensors", testing::safetensors_of(tensors));
  directory.write("config.json", more_config.empty() ? config_of(quantization) : more_config);
  const Model model = Model::open(directory.path());
  const int id = model.mapping().native_id(name);
  if (id < 0) throw Failure("TensorNotFound", name);
  const Bytes bytes =
      model.region(id, whole(model.mapping().native_tensors()[static_cast<std::size_t>(id)].shape), Dtype::f32);
  Floats values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}
std::string failure_of(const std::vector<Tensor>& tensors, const std::string& quantization = "",
                       const std::string& name = "") {
  try {
    if (!name.empty()) decode(name, tensors, quantization);
    const testing::TemporaryDirectory directory;
    directory.write("model.safetensors", testing::safetensors_of(tensors));
    directory.write("config.json", config_of(quantization));
    Model::open(directory.path());
    return "none";
  } catch (const Failure& failure) {
    return failure.what();
  }
}

const std::vector<std::uint8_t> k_ones(12, 0x38);  // E4M3 1.0

TEST(Schemes, Fp8ScaleShapes) {
  const auto with = [](const Shape& shape, const Shape& scale_shape, const Floats& scales,
                       const std::string& quantization = "", const std::string& scale = "x.weight_scale") {
    return decode(
        "x.weight",
        {u8("x.weight", "F8_E4M3", shape, std::vector<std::uint8_t>(static_cast<std::size_t>(count_of(shape)), 0x38)),
         f32(scale, scale_shape, scales)},
        quantization);
  };
  EXPECT_EQ(with({3, 2}, {3}, {1, 2, 3}), (Floats{1, 1, 2, 2, 3, 3}));  // [O]: per output row.
  EXPECT_EQ(with({3, 2}, {3, 1}, {1, 2, 3}), (Floats{1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(with({4, 1}, {2}, {1, 2}), (Floats{1, 1, 2, 2}));              // Two fused projections.
  EXPECT_EQ(with({2, 2, 1}, {2}, {1, 2}), (Floats{1, 1, 2, 2}));           // Per expert.
  EXPECT_EQ(with({2, 2, 1}, {2, 2}, {1, 2, 3, 4}), (Floats{1, 2, 3, 4}));  // Per expert and row.
  EXPECT_EQ(with({2, 2, 1}, {2, 2, 1}, {1, 2, 3, 4}), (Floats{1, 2, 3, 4}));
  const std::string block = R"({"quant_method":"fp8","weight_block_size":[2,2]})";
  EXPECT_EQ(with({3, 3}, {2, 2}, {1, 2, 3, 4}, block, "x.weight_scale_inv"), (Floats{1, 1, 2, 1, 1, 2, 3, 3, 4}));
  EXPECT_EQ(with({3, 3}, {2, 3}, {1, 2, 9, 3, 4, 9}, block, "x.weight_scale_inv"),
            (Floats{1, 1, 2, 1, 1, 2, 3, 3, 4}));  // Padded grid: cropped.
  EXPECT_THROW(with({5, 3}, {2, 2}, {1, 2, 3, 4}, block, "x.weight_scale_inv"), Failure);
  EXPECT_THROW(with({3, 2}, {5}, {1, 2, 3, 4, 5}), Failure);
  // Three scales of a fused projection: rows of q, k and v.
  EXPECT_EQ(decode("x.weight",
                   {u8("x.weight", "F8_E4M3", {4, 1}, {0x38, 0x38, 0x38, 0x38}), f32("x.weight_scale", {3}, {1, 2, 3})},
                   "", R"({"num_attention_heads":2,"num_key_value_heads":1,"head_dim":1})"),
            (Floats{1, 1, 2, 3}));
}

TEST(Schemes, FnuzIsHalfOfFn) {
  EXPECT_EQ(decode("x.weight", {u8("x.weight", "F8_E4M3FNUZ", {2}, {0x40, 0x7f}), f32("x.weight_scale", {}, {2})}, ""),
            (Floats{2, 480}));
  EXPECT_EQ(decode("x.weight", {u8("x.weight", "F8_E5M2FNUZ", {1}, {0x40}), f32("x.weight_scale", {}, {2})}, ""),
            (Floats{2}));
  EXPECT_TRUE(std::isnan(
      decode("x.weight", {u8("x.weight", "F8_E4M3FNUZ", {1}, {0x80}), f32("x.weight_scale", {}, {2})}, "")[0]));
}

TEST(Schemes, NvFp4PerExpertAndExample) {
  std::vector<std::uint8_t> packed(16, 0);
  packed[0] = 0x07, packed[8] = 0x07;
  const Floats values =
      decode("x.weight",
             {u8("x.weight", "U8", {2, 1, 8}, packed), u8("x.weight_scale", "F8_E4M3", {2, 1, 1}, {0x2c, 0x2c}),
              f32("x.weight_scale_2", {2}, {0x1p-11f, 0x1p-10f})},
             "");
  EXPECT_EQ(values[0], 0.0010986328125f);
  EXPECT_EQ(values[16], 0.002197265625f);
  EXPECT_NE(failure_of({u8("x.weight", "U8", {1, 8}, std::vector<std::uint8_t>(8)),
                        u8("x.weight_scale", "U8", {4}, {0, 0, 0, 0}), f32("x.weight_scale_2", {}, {1})})
                .find("swizzled"),
            std::string::npos);
}

TEST(Schemes, PackedIntegersOldAndNewWidth) {
  // Fields, low first: 0,1,c,3,a,7,f,8.
  const auto packed = [](const std::vector<std::int32_t>& words, const Shape& shape, std::int64_t columns,
                         const std::string& bits) {
    return decode(
        "x.weight",
        {i32("x.weight_packed", shape, words),
         f32("x.weight_scale", {1, 1}, {1}),
         {"x.weight_shape", "I64", {2}, bytes_of(std::vector<std::int64_t>{1, columns})}},
        R"({"quant_method":"compressed-tensors","config_groups":{"g":{"targets":["re:x"],"weights":{"num_bits":)" +
            bits + "}}}}");
  };
  EXPECT_EQ(packed({static_cast<std::int32_t>(0x8f7a3c10u)}, {1, 1}, 8, "4"), (Floats{-8, -7, 4, -5, 2, -1, 7, 0}));
  // 3 bits, eleven columns: dense is 33 bits in two words; the old layout also has two, ten fields in the first.
  EXPECT_EQ(packed({0x7, 0x0}, {1, 2}, 11, "3")[0], 3.0f);
  // 3 bits, 21 columns: dense two words, old three.
  Floats old = packed({7 << 27, 7, 0}, {1, 3}, 21, "3");
  EXPECT_EQ(old[9], 3.0f);
  EXPECT_EQ(old[10], 3.0f);
  EXPECT_EQ(old[11], -4.0f);
}

TEST(Schemes, Int8WithZeroPointAndModelOptRows) {
  EXPECT_EQ(decode("x.weight",
                   {u8("x.weight", "I8", {2, 2}, {1, 0xff, 3, 4}), f32("x.weight_scale", {2, 1}, {1, 2}),
                    u8("x.weight_zero_point", "I8", {2, 1}, {1, 0xfe})},
                   ""),
            (Floats{0, -2, 10, 12}));
  EXPECT_EQ(decode("x.weight", {u8("x.weight", "I8", {2, 2}, {1, 2, 3, 4}), f32("x.weight_scale", {2}, {1, 2})}, ""),
            (Floats{1, 2, 6, 8}));
  // Rows 2r and 2r+1 in one byte, two's complement.
  EXPECT_EQ(decode("x.weight", {u8("x.weight", "U8", {1, 2}, {0xf1, 0x78}), f32("x.weight_scale", {2, 1}, {1, 2})}, ""),
            (Floats{1, -8, -2, 14}));
}

TEST(Schemes, TorchaoInt8) {
  EXPECT_EQ(decode("x.weight",
                   {u8("x._weight_qdata", "I8", {1, 2}, {5, 6}), f32("x._weight_scale", {1, 1}, {2}),
                    u8("x._weight_zero_point", "I8", {1, 1}, {1})},
                   R"({"quant_method":"torchao"})"),
            (Floats{8, 10}));
  EXPECT_NE(failure_of({i32("x._weight_qdata", {1, 2}, {5, 6}), f32("x._weight_scale", {1, 1}, {2})},
                       R"({"quant_method":"torchao"})")
                .find("QUANT_UNSUPPORTED: torchao"),
            std::string::npos);
}

TEST(Schemes, GptqSymmetricFieldsDecideTheVersion) {
  const auto weight = [](std::int32_t zero_word, const std::string& more) {
    return decode("x.weight",
                  {i32("x.qweight", {1, 8}, std::vector<std::int32_t>(8, 0x76543210)),
                   i32("x.qzeros", {1, 1}, {zero_word}), f32("x.scales", {1, 8}, Floats(8, 1.0f))},
                  R"({"quant_method":"gptq","bits":4,"group_size":8,"checkpoint_format":"gptq")" + more + "}");
  };
  EXPECT_EQ(weight(0x77777777, "")[0], -8.0f);
  EXPECT_EQ(weight(0x77777777, R"(,"sym":true)")[0], -8.0f);
  EXPECT_EQ(weight(static_cast<std::int32_t>(0x88888888u), R"(,"sym":true)")[0], -8.0f);  // Says v1, stores v2.
  EXPECT_EQ(weight(static_cast<std::int32_t>(0x88888888u), "")[0], -9.0f);
  EXPECT_EQ(weight(-1, "")[1], 1.0f);  // All ones wrap to 0: q - 0, row 1.
}

TEST(Schemes, AwqLanes) {
  const Floats values = decode(
      "x.weight",
      {i32("x.qweight", {1, 1}, {0x76543210}), i32("x.qzeros", {1, 1}, {0}), f32("x.scales", {1, 8}, Floats(8, 1.0f))},
      R"({"quant_method":"awq","version":"GEMM"})");
  EXPECT_EQ(values, (Floats{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_NE(
      failure_of({i32("x.qweight", {1, 1}, {0}), i32("x.qzeros", {1, 1}, {0}), f32("x.scales", {1, 8}, Floats(8))},
                 R"({"quant_method":"awq","version":"gemv"})")
          .find("QUANT_UNSUPPORTED"),
      std::string::npos);
}

TEST(Schemes, NativeF4WithScales) {
  const Floats values = decode(
      "x.weight",
      {u8("x.weight", "F4", {1, 32}, std::vector<std::uint8_t>(16, 0x72)), u8("x.scale", "F8_E8M0", {1, 1}, {128})},
      "");
  EXPECT_EQ(values[0], 2.0f);
  EXPECT_EQ(values[1], 12.0f);
}

TEST(Schemes, Refusals) {
  const Tensor weight = u8("x.weight", "F8_E4M3", {2, 2}, {1, 2, 3, 4});
  const std::string fp8 = R"({"quant_method":"fp8"})";
  EXPECT_EQ(failure_of({weight}), "none");  // Nothing names a scheme: legal storage.
  EXPECT_NE(failure_of({weight}, fp8).find("SCALE_MISSING: 'x.weight'"), std::string::npos);
  EXPECT_NE(failure_of({weight, u8("y.weight", "F8_E4M3", {1}, {1}), f32("y.weight_scale", {}, {1})})
                .find("SCALE_MISSING: 'x.weight'"),
            std::string::npos);
  EXPECT_NE(failure_of({f32("x.weight_scale_inv", {}, {1})}).find("SCALE_ORPHAN"), std::string::npos);
  EXPECT_NE(
      failure_of({f32("x.weight", {2, 2}, {1, 2, 3, 4}), f32("x.weight_scale_inv", {}, {1})}).find("SCALE_ORPHAN"),
      std::string::npos);
  EXPECT_NE(failure_of({weight, f32("x.weight_scale_inv", {}, {1}), f32("x.weight_scale", {}, {1})})
                .find("SCALE_NAMES_CONFLICT"),
            std::string::npos);
  EXPECT_NE(failure_of({weight}, R"({"quant_method":"hqq"})").find("QUANT_UNSUPPORTED: quant_method 'hqq'"),
            std::string::npos);
  EXPECT_NE(failure_of({u8("x_blocks", "U8", {1, 16}, std::vector<std::uint8_t>(16))}).find("SCALE_MISSING"),
            std::string::npos);
  EXPECT_NE(failure_of({u8("x.weight", "I8", {2, 2}, {1, 2, 3, 4}), f32("x.SCB", {2}, {1, 1}),
                        u8("x.weight_format", "U8", {}, {1})})
                .find("hardware layout"),
            std::string::npos);
  EXPECT_NE(failure_of({weight, f32("x.weight_scale", {}, {1})},
                       R"({"quant_method":"compressed-tensors","format":"marlin-24"})")
                .find("marlin-24"),
            std::string::npos);
  // A plain copy is possible, a plain weight is not.
  EXPECT_NE(failure_of({u8("x.weight", "U8", {1, 8}, std::vector<std::uint8_t>(8)),
                        u8("x.weight_scale", "F8_E4M3", {1, 1}, {0x38}), f32("x.weight_scale_2", {}, {1}),
                        f32("x.pre_quant_scale", {16}, Floats(16))},
                       "", "x.weight")
                .find("pre_quant_scale"),
            std::string::npos);
}

TEST(Schemes, RuntimeCompanionsAreListedNotMapped) {
  const testing::TemporaryDirectory directory;
  directory.write("model.safetensors",
                  testing::safetensors_of({u8("x.weight", "F8_E4M3", {1}, {0x38}), f32("x.weight_scale_inv", {}, {1}),
                                           f32("x.activation_scale", {}, {1}), f32("x.k_scale", {}, {1})}));
  const Model model = Model::open(directory.path());
  EXPECT_EQ(model.mapping().native_tensors().size(), 1u);
  EXPECT_EQ(model.overlay().consumed.size(), 3u);
  EXPECT_EQ(model.overlay().consumed.at("x.weight_scale_inv"), "part of x.weight");
}

TEST(Schemes, ScaleInAnotherShard) {
  const testing::TemporaryDirectory directory;
  directory.write("a.safetensors", testing::safetensors_of({u8("x.weight", "F8_E4M3", {1}, {0x38})}));
  directory.write("b.safetensors", testing::safetensors_of({f32("x.weight_scale_inv", {}, {3})}));
  directory.write("model.safetensors.index.json",
                  R"({"weight_map":{"x.weight":"a.safetensors","x.weight_scale_inv":"b.safetensors"}})");
  const Model model = Model::open(directory.path());
  EXPECT_EQ(model.element(0, {}, Dtype::f32), 0x40400000u);
  EXPECT_EQ(model.native_dtype(0), Dtype::bf16);
}

}  // namespace
}  // namespace weightproof::reference
