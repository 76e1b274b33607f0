// SPDX-License-Identifier: Apache-2.0
// Detection: which scheme each spelling is, what is refused and how it says so. Values of schemes for which there is no
// golden file are worked by hand in the comments.
#include "loader/codec/detect.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "loader/codec/codec.hpp"
#include "loader/codec/scalar.hpp"

namespace weightproof::codec {
namespace {

struct Stored {
  std::string key;
  DType dtype;
  Shape shape;
};

Catalog catalog_of(const std::vector<Stored>& tensors, bool is_described = true) {
  CatalogBuilder builder;
  builder.add_file("model.safetensors");
  for (const Stored& t : tensors) {
    StoredTensor row{
        .key = t.key, .shape = t.shape, .begin = 0, .bytes = byte_count(t.shape, t.dtype).value(), .file = 0};
    row.dtype = t.dtype;
    row.is_described = is_described;
    builder.add_copy(row);
  }
  return std::move(builder).finish();
}

Quantization detect(const std::string& config, const std::vector<Stored>& tensors,
                    const std::map<std::string, ConfigValue>& companions = {}) {
  const ConfigValue value = ConfigValue::parse(config, "config.json");
  return detect_quantization(&value, companions, catalog_of(tensors));
}

/// The one failing diagnostic.
const Diagnostic& failure(const Quantization& q, const std::string& check) {
  const Diagnostic* found = nullptr;
  for (const Diagnostic& d : q.diagnostics)
    if (d.severity == Severity::fail) {
      EXPECT_EQ(found, nullptr) << "a second failure: " << d.check << " " << d.message;
      found = &d;
    }
  if (found == nullptr) throw std::runtime_error("nothing failed; expected " + check);
  EXPECT_EQ(found->check, check) << found->message;
  return *found;
}

bool names(const Diagnostic& d, const std::string& key) {
  for (const std::string& k : d.facts.keys)
    if (k == key) return true;
  return false;
}

std::string scheme_of(const std::string& config, const std::vector<Stored>& tensors) {
  const Quantization q = detect(config, tensors);
  for (const Diagnostic& d : q.diagnostics) EXPECT_NE(d.severity, Severity::fail) << d.check << ": " << d.message;
  EXPECT_EQ(q.tensors.size(), 1u);
  EXPECT_EQ(q.consumed.size(), tensors.size());
  return q.tensors.empty() ? "" : q.tensors[0].scheme.id;
}

constexpr const char* k_fp8 = R"({"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic"}})";

TEST(Detect, SpellingsOfEightBitFloats) {
  // AutoFP8: a scale without "_inv", one element.
  EXPECT_EQ(scheme_of(k_fp8, {{"l.weight", DType::f8_e4m3, {8, 16}},
                              {"l.weight_scale", DType::f32, {1}},
                              {"l.input_scale", DType::f32, {}}}),
            "fp8_tensor");
  // fbgemm: one scale a row.
  EXPECT_EQ(scheme_of(R"({"quantization_config": {"quant_method": "fbgemm_fp8"}})",
                      {{"l.weight", DType::f8_e4m3, {8, 16}}, {"l.weight_scale", DType::f32, {8, 1}}}),
            "fp8_channel");
  // ModelOpt per channel: a one-dimensional scale.
  EXPECT_EQ(
      scheme_of(R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}})",
                {{"l.weight", DType::f8_e4m3, {8, 16}}, {"l.weight_scale", DType::f32, {8}}}),
      "fp8_channel");
  // A scale of shape [1,1] on a matrix is one element, whatever its rank.
  EXPECT_EQ(scheme_of(k_fp8, {{"l.weight", DType::f8_e4m3, {256, 256}}, {"l.weight_scale_inv", DType::f32, {1, 1}}}),
            "fp8_tensor");
  // Stacked experts with one scale each keep their leading axis even when there is one expert.
  EXPECT_EQ(scheme_of(k_fp8, {{"e.gate_up_proj", DType::f8_e4m3, {1, 4, 4}},
                              {"e.gate_up_proj_scale_inv", DType::bf16, {1, 1, 1}}}),
            "fp8_tensor");
}

TEST(Detect, SpellingsOfIntegers) {
  EXPECT_EQ(scheme_of(R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"}})",
                      {{"l.weight", DType::u8, {4, 32}}, {"l.weight_scale", DType::f32, {8, 2}}}),
            "modelopt_w4");
  EXPECT_EQ(scheme_of(R"({"quantization_config": {"quant_method": "torchao"}})",
                      {{"l._weight_qdata", DType::i8, {4, 8}},
                       {"l._weight_scale", DType::f32, {4, 1}},
                       {"l._weight_zero_point", DType::i8, {4, 1}}}),
            "torchao_int8");
  EXPECT_EQ(scheme_of(R"({"quantization_config": {"quant_method": "compressed-tensors", "format": "naive-quantized",
                          "config_groups": {"g": {"weights": {"num_bits": 8, "type": "int", "symmetric": false}}}}})",
                      {{"l.weight", DType::i8, {4, 8}},
                       {"l.weight_scale", DType::bf16, {4, 1}},
                       {"l.weight_zero_point", DType::i8, {4, 1}}}),
            "int8");
  // A separate quantize_config.json, GPTQ without checkpoint_format: version 1.
  const ConfigValue empty = ConfigValue::parse("{}", "config.json");
  std::map<std::string, ConfigValue> companions;
  companions["quantize_config.json"] =
      ConfigValue::parse(R"({"bits": 4, "group_size": 32, "sym": true})", "quantize_config.json");
  const Quantization q = detect_quantization(
      &empty, companions,
      catalog_of(
          {{"l.qweight", DType::i32, {8, 32}}, {"l.qzeros", DType::i32, {2, 4}}, {"l.scales", DType::f16, {2, 32}}}));
  ASSERT_EQ(q.tensors.size(), 1u);
  EXPECT_EQ(q.tensors[0].scheme.id, "gptq");
  EXPECT_EQ(q.tensors[0].scheme.version, 1u);
  EXPECT_EQ(q.source, "quantize_config.json");
}

TEST(Detect, RefusalsNameSchemeAndTensors) {
  const Diagnostic missing = failure(detect(k_fp8, {{"a.weight", DType::f8_e4m3, {4, 4}}}), "quant.scale_missing");
  EXPECT_TRUE(names(missing, "a.weight"));
  const Diagnostic orphan = failure(detect(k_fp8, {{"a.weight", DType::f8_e4m3, {4, 4}},
                                                   {"a.weight_scale_inv", DType::f32, {1}},
                                                   {"b.weight_scale_inv", DType::f32, {1}}}),
                                    "quant.scale_orphan");
  EXPECT_TRUE(names(orphan, "b.weight_scale_inv"));
  const Diagnostic both = failure(detect(k_fp8, {{"a.weight", DType::f8_e4m3, {4, 4}},
                                                 {"a.weight_scale", DType::f32, {1}},
                                                 {"a.weight_scale_inv", DType::f32, {1}}}),
                                  "quant.scale_names");
  EXPECT_TRUE(names(both, "a.weight_scale"));
  const Diagnostic leftover = failure(detect(k_fp8, {{"a.weight", DType::bf16, {4, 4}}}), "quant.config_mismatch");
  EXPECT_EQ(leftover.facts.file, "config.json");
  const Diagnostic unknown =
      failure(detect(R"({"quantization_config": {"quant_method": "hqq"}})", {{"a.weight", DType::u8, {4, 4}}}),
              "quant.unsupported");
  EXPECT_NE(unknown.message.find("hqq"), std::string::npos);
  EXPECT_EQ(
      failure(detect(R"({"quantization_config": {"quant_method": "something_new"}})", {{"a.weight", DType::bf16, {4}}}),
              "quant.unsupported")
          .facts.actual,
      "quantization method something_new");
  failure(
      detect(R"({"quantization_config": {"quant_method": "awq", "bits": 4, "version": "gemv"}})",
             {{"l.qweight", DType::i32, {64, 4}}, {"l.qzeros", DType::i32, {4, 4}}, {"l.scales", DType::f16, {4, 32}}}),
      "quant.unsupported");
  // Config says AWQ, shapes say GPTQ: both facts are told.
  const Diagnostic facts = failure(
      detect(R"({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 32}})",
             {{"l.qweight", DType::i32, {8, 32}}, {"l.qzeros", DType::i32, {2, 4}}, {"l.scales", DType::f16, {2, 32}}}),
      "quant.config_mismatch");
  EXPECT_TRUE(names(facts, "l.qweight"));
  EXPECT_FALSE(facts.facts.expected.empty());
  EXPECT_FALSE(facts.facts.actual.empty());
  // A one-dimensional U8 scale is a kernel's swizzled layout.
  failure(detect(R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}})",
                 {{"l.weight", DType::u8, {16, 32}},
                  {"l.weight_scale", DType::u8, {512}},
                  {"l.weight_scale_2", DType::f32, {}}}),
          "quant.unsupported");
  failure(
      detect(R"({"quantization": {"group_size": 64, "bits": 4}})",
             {{"l.weight", DType::u32, {4, 4}}, {"l.scales", DType::bf16, {4, 1}}, {"l.biases", DType::bf16, {4, 1}}}),
      "quant.unsupported");
  const Diagnostic affine = failure(
      detect("{}",
             {{"l.weight", DType::u32, {4, 4}}, {"l.scales", DType::bf16, {4, 1}}, {"l.biases", DType::bf16, {4, 1}}}),
      "quant.unsupported");
  EXPECT_TRUE(names(affine, "l.biases"));
  failure(detect(R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4_AWQ"}})",
                 {{"l.weight", DType::u8, {16, 32}},
                  {"l.weight_scale", DType::f8_e4m3, {16, 4}},
                  {"l.weight_scale_2", DType::f32, {}},
                  {"l.pre_quant_scale", DType::bf16, {64}}}),
          "quant.unsupported");
}

TEST(Detect, BareFloatsAreAWarningAndAdaptersAreNotQuantized) {
  const Quantization bare = detect("{}", {{"t", DType::f8_e4m3, {4, 4}}});
  ASSERT_EQ(bare.diagnostics.size(), 1u);
  EXPECT_EQ(bare.diagnostics[0].check, "quant.unscaled");
  EXPECT_EQ(bare.diagnostics[0].severity, Severity::warn);
  ASSERT_EQ(bare.tensors.size(), 1u);
  EXPECT_EQ(bare.tensors[0].scheme.id, "fp8_bare");
  const Quantization lora = detect("{}", {{"experts.0.gate_proj.lora_A.weight", DType::bf16, {4, 4}}});
  EXPECT_FALSE(lora.is_quantized());
}

TEST(Detect, NamesAloneGroupWhatAnIndexLists) {
  const ConfigValue config = ConfigValue::parse(
      R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})", "config.json");
  const Quantization q = detect_quantization(
      &config, {},
      catalog_of(
          {{"a.weight", DType::u8, {1}}, {"a.weight_scale_inv", DType::u8, {1}}, {"norm.weight", DType::u8, {1}}},
          false));
  ASSERT_EQ(q.tensors.size(), 1u);
  EXPECT_EQ(q.tensors[0].key, "a.weight");
  EXPECT_EQ(q.tensors[0].scheme.id, "fp8_block");
  EXPECT_EQ(q.consumed, (std::vector<std::string>{"a.weight", "a.weight_scale_inv"}));
}

TEST(Detect, TargetsChooseTheGroup) {
  const char* config =
      R"({"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {
      "g0": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "int", "symmetric": true, "strategy": "group", "group_size": 32}},
      "g1": {"targets": ["re:.*mlp.*"], "weights": {"num_bits": 4, "type": "int", "symmetric": true, "strategy": "group", "group_size": 64}}}}})";
  const Quantization q = detect(config, {{"m.mlp.up.weight_packed", DType::i32, {8, 16}},
                                         {"m.mlp.up.weight_scale", DType::bf16, {8, 2}},
                                         {"m.mlp.up.weight_shape", DType::i64, {2}},
                                         {"m.self_attn.q.weight_packed", DType::i32, {8, 16}},
                                         {"m.self_attn.q.weight_scale", DType::bf16, {8, 2}},
                                         {"m.self_attn.q.weight_shape", DType::i64, {2}}});
  ASSERT_EQ(q.tensors.size(), 2u);
  EXPECT_EQ(q.tensors[0].scheme.bits, 4u);
  EXPECT_EQ(q.tensors[0].scheme.group_size, 64u);
  EXPECT_EQ(q.tensors[1].scheme.bits, 8u);
  EXPECT_EQ(q.tensors[1].scheme.group_size, 32u);
}

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int v : values) bytes.push_back(static_cast<std::byte>(v & 0xff));
  return bytes;
}

template <typename T>
std::vector<std::byte> raw(std::initializer_list<T> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

std::vector<float> decode(const Codec& codec, const std::vector<std::vector<std::byte>>& whole) {
  const Box box = Box::whole(codec.natural_shape());
  std::vector<std::span<const std::byte>> parts(whole.begin(), whole.end());
  std::vector<float> out(box.element_count());
  codec.decode(box, parts, DType::f32, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

TEST(HandValues, ModelOptPacksFourBitsAlongTheOutputAxisAsTwosComplement) {
  // Byte (0,0) = 0x8f: row 0 is -1 (f), row 1 is -8 (8); byte (0,1) = 0x70: row 0 is 0, row 1 is 7. Scales 0.5 for row
  // 0, 2 for row 1.
  const auto codec = make_codec({.id = "modelopt_w4", .bits = 4},
                                {{Role::weight, "w", DType::u8, {1, 2}}, {Role::scale, "s", DType::f32, {2, 1}}});
  EXPECT_EQ(decode(*codec, {bytes_of({0x8f, 0x70}), raw<float>({0.5f, 2.0f})}),
            (std::vector<float>{-0.5f, 0.0f, -16.0f, 14.0f}));
}

TEST(HandValues, IntegersWithZeroPointsAndPerExpertScales) {
  // (q - z) * s by row: (-3 - 1) * 0.25 = -1, (127 - 1) * 0.25 = 31.5; (5 + 2) * 2 = 14, (-128 + 2) * 2 = -252.
  const auto codec = make_codec({.id = "int8", .bits = 8}, {{Role::weight, "w", DType::i8, {2, 2}},
                                                            {Role::scale, "s", DType::f32, {2, 1}},
                                                            {Role::zero_point, "z", DType::i8, {2, 1}}});
  EXPECT_EQ(decode(*codec, {bytes_of({-3, 127, 5, -128}), raw<float>({0.25f, 2.0f}), bytes_of({1, -2})}),
            (std::vector<float>{-1.0f, 31.5f, 14.0f, -252.0f}));
  // E4M3 38h = 1.0 and b2h = -0.625 under expert scales 2 and 4.
  const auto experts = make_codec({.id = "fp8_tensor"}, {{Role::weight, "w", DType::f8_e4m3, {2, 1, 2}},
                                                         {Role::scale, "s", DType::f32, {2, 1, 1}}});
  EXPECT_EQ(decode(*experts, {bytes_of({0x38, 0xb2, 0x38, 0xb2}), raw<float>({2.0f, 4.0f})}),
            (std::vector<float>{2.0f, -1.25f, 4.0f, -2.5f}));
}

TEST(HandValues, SymmetricGptqThatHoldsVersionTwoZeroPoints) {
  // One word row of 4-bit codes 0..7 per column, scale 1: z = 8 in version 2 (field 8), z = 9 if the field were read as
  // version 1.
  const Scheme stated{.id = "gptq", .group_size = 32, .bits = 4, .is_symmetric = true, .version = 1};
  const std::vector<Component> components = {{Role::weight, "qweight", DType::i32, {4, 32}},
                                             {Role::scale, "scales", DType::f16, {1, 32}},
                                             {Role::zero_point, "qzeros", DType::i32, {1, 4}}};
  std::vector<std::byte> weight, scales(64), zeros(16, std::byte{0x88});
  for (int i = 0; i < 4 * 32; ++i)
    for (const std::byte b : raw<std::uint32_t>({0x76543210u})) weight.push_back(b);
  for (std::size_t i = 0; i < 32; ++i) {
    scales[2 * i] = std::byte{0x00};
    scales[2 * i + 1] = std::byte{0x3c};
  }
  ASSERT_EQ(probes_of(stated, components).size(), 1u);
  EXPECT_EQ(
      decode(*make_codec(stated, components, std::vector<std::vector<std::byte>>{zeros}), {weight, scales, zeros})[1],
      -7.0f);
  const std::vector<std::byte> sevens(16, std::byte{0x77});
  EXPECT_EQ(
      decode(*make_codec(stated, components, std::vector<std::vector<std::byte>>{sevens}), {weight, scales, sevens})[1],
      -7.0f);
}

TEST(HandValues, TheFormatsOwnExamples) {
  // 45h (3.25) x 0.001f = 3b54fdf4; FNUZ reads half of FN: 38h is 0.5.
  const auto block = make_codec({.id = "fp8_tensor"},
                                {{Role::weight, "w", DType::f8_e4m3, {1, 1}}, {Role::scale, "s", DType::f32, {}}});
  EXPECT_EQ(bits_of_float(decode(*block, {bytes_of({0x45}), raw<std::uint32_t>({0x3a83126f})})[0]), 0x3b54fdf4u);
  const auto fnuz = make_codec({.id = "fp8_tensor"},
                               {{Role::weight, "w", DType::f8_e4m3fnuz, {1, 2}}, {Role::scale, "s", DType::f32, {}}});
  const std::vector<float> values = decode(*fnuz, {bytes_of({0x38, 0x80}), raw<float>({1.0f})});
  EXPECT_EQ(values[0], 0.5f);
  EXPECT_EQ(bits_of_float(values[1]), k_nan_f32);
  // NVFP4: 1.5 under 6bh and 3b6c5032: scales first, then the code: 3ef3b2b3 (the other order gives ...b4).
  const auto nv = make_codec({.id = "nvfp4_modelopt"}, {{Role::weight, "w", DType::u8, {1, 8}},
                                                        {Role::scale, "s", DType::f8_e4m3, {1, 1}},
                                                        {Role::global_scale, "g", DType::f32, {}}});
  EXPECT_EQ(bits_of_float(decode(
                *nv, {bytes_of({3, 0, 0, 0, 0, 0, 0, 0}), bytes_of({0x6b}), raw<std::uint32_t>({0x3b6c5032})})[0]),
            0x3ef3b2b3u);
}

TEST(Codec, ShapesThatDoNotFitNameBothTensors) {
  const auto refused = [](const Scheme& scheme, std::vector<Component> components, ErrorCode code) {
    try {
      make_codec(scheme, std::move(components));
      ADD_FAILURE() << scheme.id << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_FALSE(error.facts().keys.empty());
    }
  };
  refused({.id = "fp8_block", .block_rows = 128, .block_cols = 128},
          {{Role::weight, "w", DType::f8_e4m3, {300, 300}}, {Role::scale, "s", DType::f32, {2, 3}}},
          ErrorCode::scale_shape);
  refused({.id = "mxfp4_blocks"},
          {{Role::weight, "w_blocks", DType::u8, {2, 8, 2, 16}}, {Role::scale, "w_scales", DType::u8, {2, 8, 3}}},
          ErrorCode::scale_shape);
  refused({.id = "nvfp4_ct"}, {{Role::weight, "w", DType::u8, {2, 8}}, {Role::scale, "s", DType::f8_e4m3, {2, 1}}},
          ErrorCode::scale_missing);
  refused({.id = "bnb8"}, {{Role::weight, "w", DType::i8, {2, 8}}, {Role::scale, "w.SCB", DType::f32, {3}}},
          ErrorCode::scale_shape);
  refused({.id = "no_such_scheme"}, {{Role::weight, "w", DType::i8, {2, 8}}}, ErrorCode::quant_unsupported);
  // A grid larger than needed is cropped, not refused.
  EXPECT_NO_THROW(
      make_codec({.id = "fp8_block", .block_rows = 128, .block_cols = 128},
                 {{Role::weight, "w", DType::f8_e4m3, {300, 300}}, {Role::scale, "s", DType::f32, {4, 4}}}));
}

}  // namespace
}  // namespace weightproof::codec
