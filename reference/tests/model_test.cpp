// SPDX-License-Identifier: Apache-2.0
// Regions of native state: windows and boxes agree with single elements, and the literal values of the known traps.
#include "reference/model.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include <random>

#include "reference/tests/reference_testing.hpp"
#include "reference/tests/small_models_testing.hpp"

namespace weightproof::reference {
namespace {

using testing::bytes_of;
using testing::Tensor;

// A model of one directory with a config and one file.
class Written {
 public:
  Written(const std::string& config, const std::vector<Tensor>& tensors) {
    directory_.write("model.safetensors", testing::safetensors_of(tensors));
    if (!config.empty()) directory_.write("config.json", config);
  }
  Model open(const ModelOptions& options = {}) const { return Model::open(directory_.path(), options); }
  std::string failure(const ModelOptions& options = {}) const {
    try {
      open(options);
      return "none";
    } catch (const Failure& failure) {
      return failure.what();
    }
  }
  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  testing::TemporaryDirectory directory_;
};

Tensor f32(const std::string& key, const Shape& shape, const std::vector<float>& values) {
  return {key, "F32", shape, bytes_of(values)};
}
Tensor u8(const std::string& key, const std::string& dtype, const Shape& shape,
          const std::vector<std::uint8_t>& values) {
  return {key, dtype, shape, bytes_of(values)};
}
Tensor u16(const std::string& key, const std::string& dtype, const Shape& shape,
           const std::vector<std::uint16_t>& values) {
  return {key, dtype, shape, bytes_of(values)};
}

std::vector<float> floats(const Bytes& bytes) {
  std::vector<float> values(bytes.size() / 4);
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}
std::vector<float> native(const Model& model, const std::string& name, Dtype dtype = Dtype::f32) {
  const int id = model.mapping().native_id(name);
  EXPECT_GE(id, 0) << name;
  if (id < 0) return {};
  return floats(model.region(id, whole(model.mapping().native_tensors()[static_cast<std::size_t>(id)].shape), dtype));
}

using Floats = std::vector<float>;

TEST(Model, BoxesWindowsAndSingleElementsAgreeInEveryFamily) {
  std::mt19937 random(5);
  int compared = 0;
  for (const testing::SmallModel& small : testing::small_models()) {
    if (small.family == "gpt_oss") continue;  // Its logical keys are no stored keys; see the scheme tests.
    SCOPED_TRACE(small.family + " " + small.name_space);
    std::vector<Tensor> tensors;
    for (const Key& key : small.keys) {
      std::vector<std::uint16_t> values(static_cast<std::size_t>(count_of(key.shape)));
      for (auto& value : values) value = static_cast<std::uint16_t>(random());
      tensors.push_back(u16(key.name, "BF16", key.shape, values));
    }
    const Written written(small.config, tensors);
    ModelOptions options;
    if (small.family == "dense_combined") options.family = small.family;
    const Model model = written.open(options);
    EXPECT_TRUE(model.tied_copies_agree());
    for (std::size_t n = 0; n < model.mapping().native_tensors().size(); ++n) {
      const NativeTensor& tensor = model.mapping().native_tensors()[n];
      const int id = static_cast<int>(n);
      for (const Dtype dtype : {model.native_dtype(id), Dtype::f32, Dtype::f16}) {
        const unsigned width = bits_of(dtype) / 8;
        const Bytes all = model.region(id, whole(tensor.shape), dtype);
        ASSERT_EQ(all.size(), count_of(tensor.shape) * width);
        // A random box, element by element.
        Box box = whole(tensor.shape);
        for (std::size_t axis = 0; axis < box.start.size(); ++axis) {
          if (tensor.shape[axis] == 0) continue;
          box.start[axis] = random() % tensor.shape[axis];
          box.extent[axis] = 1 + random() % (tensor.shape[axis] - box.start[axis]);
        }
        const Bytes part = model.region(id, box, dtype);
        for (std::uint64_t i = 0; i < count_of(box.extent); ++i) {
          Coord at;
          std::uint64_t rest = i, flat = 0;
          for (std::size_t axis = box.start.size(); axis-- > 0; rest /= box.extent[axis])
            at[axis] = box.start[axis] + rest % box.extent[axis];
          for (std::size_t axis = 0; axis < box.start.size(); ++axis) flat = flat * tensor.shape[axis] + at[axis];
          const std::uint64_t value = model.element(id, at, dtype);
          for (unsigned b = 0; b < width; ++b) {
            ASSERT_EQ(part[i * width + b], static_cast<std::byte>(value >> (8 * b))) << tensor.name;
            ASSERT_EQ(part[i * width + b], all[flat * width + b]) << tensor.name;
          }
          ++compared;
        }
      }
      for (const std::uint64_t bytes : std::initializer_list<std::uint64_t>{1, 12, 100, 1u << 20}) {
        Bytes joined;
        std::uint64_t largest = 0;
        model.for_each_window(id, bytes, [&](const Box&, const Bytes& window) {
          joined.insert(joined.end(), window.begin(), window.end());
          largest = std::max<std::uint64_t>(largest, window.size());
        });
        ASSERT_EQ(joined, model.region(id, whole(tensor.shape))) << tensor.name;
        const std::uint64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
        EXPECT_LE(largest, std::max(bytes, row * bits_of(model.native_dtype(id)) / 8)) << tensor.name;
      }
    }
  }
  EXPECT_GT(compared, 5000);
}

TEST(Model, ExportsToItsOwnAndToAnotherForm) {
  std::mt19937 random(9);
  int tensors_compared = 0;
  for (const testing::SmallModel& small : testing::small_models()) {
    if (small.family == "gpt_oss" || small.family == "dense_combined") continue;
    std::vector<Tensor> tensors;
    for (const Key& key : small.keys) {
      std::vector<std::uint16_t> values(static_cast<std::size_t>(count_of(key.shape)));
      for (auto& value : values) value = static_cast<std::uint16_t>(random() & 0x7f7f);  // No NaN.
      tensors.push_back(u16(key.name, "BF16", key.shape, values));
    }
    const Written written(small.config, tensors);
    const Model model = written.open();
    for (std::size_t k = 0; k < model.mapping().keys().size(); ++k) {
      const Key& key = model.mapping().keys()[k];
      if (model.mapping().fate(static_cast<int>(k)).use != Use::weight) continue;
      ASSERT_EQ(export_region(model, model.mapping(), static_cast<int>(k), whole(key.shape), Dtype::bf16),
                model.stored_region(key.name, whole(key.shape)))
          << key.name;
      ++tensors_compared;
    }
  }
  EXPECT_GT(tensors_compared, 300);

  // Per-expert keys to stacked ones.
  const std::string layer = "model.layers.0.mlp.experts.";
  const Written single(
      R"({"model_type":"qwen3_moe"})",
      {f32("model.embed_tokens.weight", {1, 2}, {0, 0}), f32("lm_head.weight", {1, 2}, {0, 0}),
       f32(layer + "0.gate_proj.weight", {1, 2}, {1, 2}), f32(layer + "0.up_proj.weight", {1, 2}, {3, 4}),
       f32(layer + "0.down_proj.weight", {2, 1}, {5, 6})});
  const Mapping stacked = Mapping::build("qwen3_moe", Config("{}"),
                                         {{"model.embed_tokens.weight", {1, 2}},
                                          {"lm_head.weight", {1, 2}},
                                          {layer + "gate_up_proj", {1, 2, 2}},
                                          {layer + "down_proj", {1, 2, 1}}});
  const Bytes bytes =
      export_region(single.open(), stacked, stacked.key_id(layer + "gate_up_proj"), whole({1, 2, 2}), Dtype::f32);
  EXPECT_EQ(floats(bytes), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Model, QuantizationConfigInAFileOfItsOwn) {
  const testing::TemporaryDirectory directory;
  directory.write("model.safetensors",
                  testing::safetensors_of({u8("x.weight", "F8_E4M3", {1}, {0x38}), f32("x.weight_scale", {}, {2})}));
  directory.write("config.json", "{}");
  directory.write("hf_quant_config.json", R"({"producer":{"name":"modelopt"},"quantization":{"quant_algo":"FP8"}})");
  const Model model = Model::open(directory.path());
  EXPECT_EQ(model.detection().quantization, "modelopt");
  EXPECT_EQ(model.element(0, {}, Dtype::f32), 0x40000000u);
}

TEST(Model, SmallCacheGivesTheSameBytes) {
  std::vector<std::uint16_t> values(64 * 512);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i);
  const Written written(R"({"model_type":"qwen3_moe"})",
                        {u16("model.embed_tokens.weight", "BF16", {1, 512}, std::vector<std::uint16_t>(512)),
                         u16("lm_head.weight", "BF16", {1, 512}, std::vector<std::uint16_t>(512)),
                         u16("model.layers.0.mlp.experts.0.down_proj.weight", "BF16", {64, 512}, values)});
  ModelOptions tight;
  tight.cache_bytes_max = 1;
  const Bytes expected = written.open().region("model.layers.0.mlp.experts.down_projs", whole({1, 512, 64}));
  EXPECT_EQ(written.open(tight).region("model.layers.0.mlp.experts.down_projs", whole({1, 512, 64})), expected);
  EXPECT_EQ(std::to_integer<int>(expected[2]) | std::to_integer<int>(expected[3]) << 8, 512);  // N[0][0][1] = S[1][0].
}

const std::string k_moe = R"({"model_type":"qwen3_moe"})";
std::vector<Tensor> with_top(std::vector<Tensor> tensors, std::uint64_t H = 2) {
  tensors.push_back(f32("model.embed_tokens.weight", {1, H}, Floats(H)));
  tensors.push_back(f32("lm_head.weight", {1, H}, Floats(H)));
  return tensors;
}

TEST(Traps, GateFirstConcatenatedTransposed) {
  const std::string e = "model.layers.0.mlp.experts.0.";
  const Written written(k_moe, with_top({f32(e + "gate_proj.weight", {2, 2}, {1, 2, 3, 4}),
                                         f32(e + "up_proj.weight", {2, 2}, {5, 6, 7, 8}),
                                         f32(e + "down_proj.weight", {2, 2}, {9, 10, 11, 12})}));
  const Model model = written.open();
  EXPECT_EQ(native(model, "model.layers.0.mlp.experts.gate_and_up_projs"), (Floats{1, 3, 5, 7, 2, 4, 6, 8}));
  EXPECT_EQ(native(model, "model.layers.0.mlp.experts.down_projs"), (Floats{9, 11, 10, 12}));
}

TEST(Traps, SquareShapesHideAMissingTranspose) {
  const auto experts = [](const std::string& type) {
    const std::string layer = "model.language_model.layers.0.mlp.";
    const Written written(
        R"({"model_type":")" + type + R"("})",
        {f32("model.language_model.embed_tokens.weight", {1, 2}, {0, 0}), f32("lm_head.weight", {1, 2}, {0, 0}),
         f32(layer + "experts.gate_up_proj", {1, 2, 2}, {1, 2, 3, 4}),
         f32(layer + "experts.down_proj", {1, 2, 1}, {5, 6})});
    return native(written.open(), layer + "experts.gate_and_up_projs");
  };
  EXPECT_EQ(experts("qwen3_vl_moe"), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(experts("qwen3_5_moe"), (Floats{1, 3, 2, 4}));
}

TEST(Traps, Mxfp4OrientationNibblesAndInterleave) {
  // Row 0: ones; row 1: fours. Native [in=32][out=2]: every row is [1,4].
  std::vector<std::uint8_t> blocks(32, 0x22);
  std::fill(blocks.begin() + 16, blocks.end(), std::uint8_t{0x44});
  const std::string layer = "model.layers.0.mlp.experts.";
  const Written written(R"({"model_type":"gpt_oss","quantization_config":{"quant_method":"mxfp4"}})",
                        with_top({u8(layer + "gate_up_proj_blocks", "U8", {1, 2, 1, 16}, blocks),
                                  u8(layer + "gate_up_proj_scales", "U8", {1, 2, 1}, {127, 128}),
                                  u8(layer + "down_proj_blocks", "U8", {1, 4, 1, 16},
                                     [] {
                                       std::vector<std::uint8_t> bytes(64, 0);
                                       bytes[0] = 0x12, bytes[16] = 0xf1, bytes[32] = 0x80, bytes[48] = 0x73;
                                       return bytes;
                                     }()),
                                  u8(layer + "down_proj_scales", "U8", {1, 4, 1}, {127, 128, 126, 125})}));
  const Model model = written.open();
  const Floats gate_up = native(model, layer + "gate_and_up_projs");
  ASSERT_EQ(gate_up.size(), 64u);
  for (std::size_t i = 0; i < 64; i += 2) {
    EXPECT_EQ(gate_up[i], 1.0f);
    EXPECT_EQ(gate_up[i + 1], 8.0f / 2);
  }
  const Floats down = native(model, layer + "down_projs");  // [32][4]
  EXPECT_EQ(Floats(down.begin(), down.begin() + 8), (Floats{1.0f, 1.0f, 0.0f, 0.375f, 0.5f, -12.0f, -0.0f, 1.5f}));
  EXPECT_TRUE(std::signbit(down[6]));
  EXPECT_FALSE(std::signbit(down[2]));
}

TEST(Traps, TwoFusedQkvOrders) {
  // Nq=4, Nk=2, D=1: the Ling file is q0..q3, k0, k1, v0, v1.
  const std::string config =
      R"("num_attention_heads":4,"num_key_value_heads":2,"head_dim":1,"hidden_size":1,"num_hidden_layers":1})";
  const Written ling(R"({"model_type":"bailing_moe",)" + config,
                     {f32("model.word_embeddings.weight", {1, 1}, {0}), f32("lm_head.weight", {1, 1}, {0}),
                      f32("model.layers.0.attention.query_key_value.weight", {8, 1}, {0, 1, 2, 3, 10, 11, 20, 21})});
  const Model model = ling.open();
  EXPECT_EQ(native(model, "model.layers.0.self_attn.q_proj.weight"), (Floats{0, 1, 2, 3}));
  EXPECT_EQ(native(model, "model.layers.0.self_attn.k_proj.weight"), (Floats{10, 11}));
  EXPECT_EQ(native(model, "model.layers.0.self_attn.v_proj.weight"), (Floats{20, 21}));
  const std::string at = "model.layers.0.self_attn.";
  const Written llama(R"({"model_type":"llama",)" + config, with_top({f32(at + "q_proj.weight", {4, 1}, {0, 1, 2, 3}),
                                                                      f32(at + "k_proj.weight", {2, 1}, {10, 11}),
                                                                      f32(at + "v_proj.weight", {2, 1}, {20, 21})},
                                                                     1));
  ModelOptions options;
  options.family = "dense_combined";
  EXPECT_EQ(native(llama.open(options), at + "qkv_proj.weight"), (Floats{0, 1, 10, 20, 2, 3, 11, 21}));
}

TEST(Traps, ScaleMultipliesInF32WithOneRounding) {
  const auto decode = [](const Tensor& weight, const Tensor& scale, Dtype dtype, const std::string& config = "{}") {
    const Written written(config, {weight, scale});
    const Model model = written.open();
    return model.region(model.mapping().native_id(weight.key), whole(weight.shape), dtype);
  };
  const auto one = [&](std::uint8_t code, const Tensor& scale, Dtype dtype) {
    const Bytes bytes = decode(u8("x.weight", "F8_E4M3", {1}, {code}), scale, dtype);
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes.data(), bytes.size());
    return bits;
  };
  // -240 * 1e-5 in BF16; products of BF16 would give bb1e.
  EXPECT_EQ(as_float(one(0xf7, f32("x.weight_scale_inv", {}, {1e-5f}), Dtype::bf16) << 16), -0.0023956298828125f);
  EXPECT_EQ(as_float(one(0x39, f32("x.weight_scale_inv", {}, {0.10009765625f}), Dtype::f32)), 0.11260986328125f);
  EXPECT_EQ(one(0x39, f32("x.weight_scale_inv", {1}, {as_float(0x3f6471c8)}), Dtype::bf16),
            0x3f80u);  // Twice rounded, by definition.
  EXPECT_EQ(one(0x7a, f32("x.weight_scale_inv", {}, {as_float(0x3cf4712e)}), Dtype::bf16),
            0x4119u);  // The scale is not rounded first.
  EXPECT_EQ(one(0x45, f32("x.weight_scale_inv", {}, {as_float(0x3a83126f)}), Dtype::f32), 0x3b54fdf4u);
  EXPECT_EQ(one(0xb2, u16("x.weight_scale_inv", "BF16", {}, {0x3c23}), Dtype::f32), 0xbbcbc000u);
  EXPECT_EQ(one(0x7e, u8("x.weight_scale_inv", "U8", {1}, {118}), Dtype::f32), 0x3f600000u);
  // Global block index with an edge block.
  const Bytes rows = decode(u8("x.weight", "F8_E4M3", {6, 1}, std::vector<std::uint8_t>(6, 0x38)),
                            f32("x.weight_scale_inv", {2, 1}, {1, 10}), Dtype::f32,
                            R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[4,4]}})");
  EXPECT_EQ(floats(rows), (Floats{1, 1, 1, 1, 10, 10}));
}

TEST(Traps, Gemma4FoldAndKeep) {
  const std::string layer = "model.language_model.layers.0.";
  const auto written = [&](const Tensor& scale, const Tensor& down) {
    return Written(R"({"model_type":"gemma4","tie_word_embeddings":true,"text_config":{"enable_moe_block":true}})",
                   {u16("model.language_model.embed_tokens.weight", "BF16", {1, 2}, {0, 0}),
                    u16(layer + "experts.gate_up_proj", "BF16", {1, 2, 2}, {0, 0, 0, 0}), down, scale});
  };
  ModelOptions fold;
  fold.mapping.fold_expert_scale = true;
  const std::string down = layer + "moe.experts.down_projs";
  const auto whole_numbers = written(f32(layer + "router.per_expert_scale", {1}, {2}),
                                     f32(layer + "experts.down_proj", {1, 2, 2}, {1, 2, 3, 4}));
  EXPECT_EQ(native(whole_numbers.open(fold), down), (Floats{2, 6, 4, 8}));
  const Model keep = whole_numbers.open();
  EXPECT_EQ(native(keep, down), (Floats{1, 3, 2, 4}));
  EXPECT_EQ(native(keep, layer + "moe.gate.per_expert_scale"), (Floats{2}));
  // 1.671875 * 0.3: the product in F32, then one rounding: 0.5. A scale rounded first would give 0.50390625.
  const auto rounded = written(f32(layer + "router.per_expert_scale", {1}, {0.3f}),
                               u16(layer + "experts.down_proj", "BF16", {1, 1, 1}, {0x3fd6}));
  EXPECT_EQ(rounded.open(fold).element(rounded.open(fold).mapping().native_id(down), {}, Dtype::bf16), 0x3f00u);
  const auto none =
      Written(R"({"model_type":"gemma4","tie_word_embeddings":true,"text_config":{"enable_moe_block":true}})",
              {u16("model.language_model.embed_tokens.weight", "BF16", {1, 2}, {0, 0}),
               u16(layer + "experts.gate_up_proj", "BF16", {1, 2, 2}, {0, 0, 0, 0}),
               u16(layer + "experts.down_proj", "BF16", {1, 1, 1}, {0})});
  EXPECT_NE(none.failure().find("per_expert_scale"), std::string::npos);
}

TEST(Traps, TiedHeadSecondCopyIsCompared) {
  const auto agree = [](float last) {
    const Written written(
        R"({"model_type":"llama","tie_word_embeddings":true})",
        {f32("model.embed_tokens.weight", {2, 2}, {1, 2, 3, 4}), f32("lm_head.weight", {2, 2}, {1, 2, 3, last})});
    const Model model = written.open();
    EXPECT_EQ(native(model, "lm_head.weight"), (Floats{1, 2, 3, 4}));  // The embedding's storage.
    return model.tied_copies_agree();
  };
  EXPECT_TRUE(agree(4));
  EXPECT_FALSE(agree(5));
}

TEST(Traps, StateAndBiasesAreF32AndExact) {
  const std::string layer = "backbone.layers.0.mixer.";
  const Written written(
      R"({"model_type":"nemotron_h","hybrid_override_pattern":"M"})",
      {u16("backbone.embeddings.weight", "BF16", {1, 1}, {0}), u16("lm_head.weight", "BF16", {1, 1}, {0}),
       u16(layer + "A_log", "BF16", {1}, {0x402d}), f32(layer + "dt_bias", {1}, {1.0009765625f})});
  ModelOptions options;
  options.dtype = Dtype::bf16;
  const Model model = written.open(options);
  const int a_log = model.mapping().native_id("model.layers.0.mixer._fp32_params.A_log");
  EXPECT_EQ(model.native_dtype(a_log), Dtype::f32);
  EXPECT_EQ(floats(model.region(a_log, whole({1}))), (Floats{2.703125f}));
  EXPECT_EQ(floats(model.region("model.layers.0.mixer._fp32_params.dt_bias", whole({1}))), (Floats{1.0009765625f}));
  // A router stored as F32 is not narrowed either.
  const std::string moe = "model.layers.0.block_sparse_moe.";
  const Written router(R"({"model_type":"minimax_m2"})", with_top({f32(moe + "gate.weight", {1, 2}, {1, 2}),
                                                                   f32(moe + "e_score_correction_bias", {1}, {3})}));
  const Model narrow = router.open(options);
  EXPECT_EQ(narrow.native_dtype(narrow.mapping().native_id("model.layers.0.mlp.gate.weight")), Dtype::f32);
  EXPECT_EQ(narrow.native_dtype(narrow.mapping().native_id("lm_head.weight")), Dtype::bf16);
}

TEST(Traps, DefaultsAreConstants) {
  const std::string moe = "model.layers.0.moe.";
  const Written written(R"({"model_type":"step3p5","torch_dtype":"bfloat16"})",
                        with_top({f32(moe + "gate.weight", {3, 2}, Floats(6)),
                                  f32(moe + "gate_proj.weight", {3, 1, 2}, {1, 2, 3, 4, 5, 6}),
                                  f32(moe + "up_proj.weight", {3, 1, 2}, {7, 8, 9, 10, 11, 12}),
                                  f32(moe + "down_proj.weight", {3, 2, 1}, Floats(6))}));
  const Model model = written.open();
  EXPECT_EQ(native(model, moe + "gate.e_score_correction_bias"), (Floats{0, 0, 0}));
  EXPECT_EQ(model.mapping().defaulted().size(), 1u);
  EXPECT_EQ(native(model, moe + "experts.gate_and_up_projs"), (Floats{1, 7, 2, 8, 3, 9, 4, 10, 5, 11, 6, 12}));
}

TEST(Model, IdentityNeverQuiets) {
  const Written written("", {u16("t", "BF16", {2}, {0x7f81, 0xff81}), f32("u", {1}, {as_float(0x7f800001)})});
  const Model model = written.open();
  EXPECT_EQ(model.region("t", whole({2})), model.stored_region("t", whole({2})));
  const Bytes widened = model.region(0, whole({2}), Dtype::f32);
  EXPECT_EQ(std::to_integer<int>(widened[2]), 0xc0);  // 7fc00000.
  EXPECT_EQ(std::to_integer<int>(widened[7]), 0x7f);
}

TEST(Model, IntegersKeepTheirDtype) {
  const Written written("", {{"n", "I64", {1}, bytes_of(std::vector<std::int64_t>{-1})}, f32("x", {1}, {1})});
  ModelOptions options;
  options.dtype = Dtype::bf16;
  const Model model = written.open(options);
  EXPECT_EQ(model.native_dtype(0), Dtype::i64);
  EXPECT_EQ(model.region("n", whole({1})), Bytes(8, std::byte{0xff}));
  EXPECT_EQ(model.native_dtype(1), Dtype::bf16);
}

}  // namespace
}  // namespace weightproof::reference
