// SPDX-License-Identifier: Apache-2.0
// The known ways to get a checkpoint wrong, each with its literal values in a file: what a load must make of it, what a
// plausible mistake gives instead, and that a loader which makes the mistake is caught under the tensor's name.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>
#include <cstdlib>

#include "fixtures/schema.hpp"
#include "fixtures/writer.hpp"
#include "loader/plan/placement.hpp"
#include "suites/tests/literal_testing.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;

TEST(TrapValues, T01_GateFirstConcatenatedTransposed) {
  const TemporaryDirectory directory;
  const auto path = Literal(moe_config(1))
                        .set(k_experts + "0.gate_proj.weight", {1, 2, 3, 4})
                        .set(k_experts + "0.up_proj.weight", {5, 6, 7, 8})
                        .set(k_experts + "0.down_proj.weight", {9, 10, 11, 12})
                        .write(directory);
  const Numbers native = loaded(path, k_experts + "gate_and_up_projs");
  EXPECT_EQ(native, (Numbers{1, 3, 5, 7, 2, 4, 6, 8}));
  EXPECT_NE(native, (Numbers{1, 2, 5, 6, 3, 4, 7, 8}));
  EXPECT_EQ(loaded(path, k_experts + "down_projs"), (Numbers{9, 11, 10, 12}));
  EXPECT_EQ(findings_of(judged(path)), std::vector<std::string>{"value.all_zero warn"});
  expect_caught(path, "swap_gate_up");
  expect_caught(path, "transpose_gate_up");
  expect_caught(path, "interleave");
}

TEST(TrapValues, T02_SquareShapesHideAMissingTranspose) {
  const std::string text =
      R"("text_config": {"num_hidden_layers": 1, "hidden_size": 2, "num_attention_heads": 1, "num_key_value_heads": 1,
      "head_dim": 1, "intermediate_size": 2, "vocab_size": 2, "num_experts": 1, "moe_intermediate_size": 1,
      "shared_expert_intermediate_size": 1, "linear_num_key_heads": 1, "linear_num_value_heads": 1,
      "linear_key_head_dim": 1, "linear_value_head_dim": 1, "linear_conv_kernel_dim": 1, "full_attention_interval": 1}})";
  const std::string key = "model.language_model.layers.0.mlp.experts.";
  for (const auto& [type, expected] :
       {std::pair<std::string, Numbers>{"qwen3_vl_moe", {1, 2, 3, 4}}, {"qwen3_5_moe", {1, 3, 2, 4}}}) {
    const TemporaryDirectory directory;
    const auto path =
        Literal(R"({"model_type": ")" + type + "\", " + text).set(key + "gate_up_proj", {1, 2, 3, 4}).write(directory);
    EXPECT_EQ(loaded(path, key + "gate_and_up_projs"), expected) << type;
    expect_caught(path, "transpose_gate_up");
  }
}

std::string gpt_oss_config(bool has_blocks) {
  return std::string(R"({"model_type": "gpt_oss", "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
      "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 1, "num_local_experts": 1, "vocab_size": 2)") +
         (has_blocks ? R"(, "quantization_config": {"quant_method": "mxfp4"}})" : "}");
}

TEST(TrapValues, T03_InterleavedGateAndUpStayInterleaved) {
  const TemporaryDirectory directory;
  Numbers all(32 * 64, 0);
  std::copy_n(Numbers{1, 2, 3, 4}.begin(), 4, all.begin());
  const auto path = Literal(gpt_oss_config(false)).set(k_experts + "gate_up_proj", all).write(directory);
  const Numbers row = loaded(path, k_experts + "gate_and_up_projs");
  EXPECT_EQ((Numbers{row[0], row[2]}), (Numbers{1, 3}));  // gate
  EXPECT_EQ((Numbers{row[1], row[3]}), (Numbers{2, 4}));  // up
  expect_caught(path, "interleave");
  expect_caught(path, "swap_gate_up");
}

// Codes of the rows of gate_up_proj, 16 bytes each, and the scale of each row.
Numbers mxfp4_rows(const std::vector<std::pair<Codes, std::uint8_t>>& rows, const LoadAs& how = {}) {
  const TemporaryDirectory directory;
  Codes blocks(64 * 16, 0);
  Codes scales(64, 127);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::copy(rows[r].first.begin(), rows[r].first.end(), blocks.begin() + static_cast<std::ptrdiff_t>(r * 16));
    scales[r] = rows[r].second;
  }
  const auto path = Literal(gpt_oss_config(true))
                        .codes(k_experts + "gate_up_proj_blocks", blocks)
                        .codes(k_experts + "gate_up_proj_scales", scales)
                        .write(directory);
  return loaded(path, k_experts + "gate_and_up_projs", how);
}

TEST(TrapValues, T04_NibblesLowFirstAndTheSignOfZero) {
  const Numbers native = mxfp4_rows({{{0x12}, 127}, {{0xF1}, 128}, {{0x80}, 126}, {{0x73}, 125}});
  const auto pair = [&](std::size_t row) { return Numbers{native[row], native[64 + row]}; };
  EXPECT_EQ(pair(0), (Numbers{1, 0.5}));
  EXPECT_NE(pair(0), (Numbers{0.5, 1}));  // high nibble first
  EXPECT_EQ(pair(1), (Numbers{1, -12}));
  EXPECT_EQ(pair(2), (Numbers{0, 0}));
  EXPECT_FALSE(std::signbit(native[2]));
  EXPECT_TRUE(std::signbit(native[64 + 2]));
  EXPECT_EQ(pair(3), (Numbers{0.375, 1.5}));
}

TEST(TrapValues, T05_BlocksAreOutByInAndTransposed) {
  const Numbers native = mxfp4_rows({{Codes(16, 0x22), 127}, {Codes(16, 0x44), 128}});
  for (std::size_t in = 0; in < 32; ++in) {
    EXPECT_EQ((Numbers{native[in * 64], native[in * 64 + 1]}), (Numbers{1, 4}));
  }
  EXPECT_NE(native[1], 1);  // [2][32]
}

TEST(TrapValues, T29_EndsOfTheExponentScale) {
  const Numbers native = mxfp4_rows({{{0x02}, 0}, {{0x02}, 255}, {{0x08}, 127}});
  EXPECT_EQ(native[0], std::ldexp(1.0, -127));  // a subnormal BF16, not flushed, not zero
  EXPECT_TRUE(std::isnan(native[1]));
  EXPECT_TRUE(std::isnan(native[64 + 1])) << "zero codes of the block as well";
  EXPECT_TRUE(native[2] == 0 && std::signbit(native[2]));
}

std::string fp8_config() {
  return std::string(R"({"model_type": "ministral3", "quantization_config": {"quant_method": "fp8",
      "activation_scheme": "static", "weight_block_size": null}, )") +
         k_small_sizes + "}";
}

const std::string k_query = "model.layers.0.self_attn.q_proj.weight";
constexpr std::uint8_t k_one = 0x38, k_two = 0x40, k_three = 0x44, k_four = 0x48;

TEST(TrapValues, T06_T08_TheInverseScaleMultipliesAndIsNeverLost) {
  const TemporaryDirectory directory;
  const auto path = Literal(fp8_config())
                        .codes(k_query, {k_one, k_two, k_three, k_four})
                        .set(k_query + "_scale_inv", {0.5})
                        .write(directory);
  for (const auto dtype : {plan::TargetDType::stored, plan::TargetDType::bf16, plan::TargetDType::f32}) {
    const Numbers native = loaded(path, k_query, {.dtype = dtype});
    EXPECT_EQ(native, (Numbers{0.5, 1, 1.5, 2}));
    EXPECT_NE(native, (Numbers{2, 4, 6, 8}));  // divided
    EXPECT_NE(native, (Numbers{1, 2, 3, 4}));  // cast on read, scale lost
  }
}

TEST(TrapValues, T07_T44_OneRoundingInF32AndTheScaleInItsStoredDtype) {
  const auto value = [](std::uint8_t code, float scale, const std::string& dtype, plan::TargetDType target) {
    const TemporaryDirectory directory;
    const auto path =
        Literal(fp8_config()).codes(k_query, {code}).set(k_query + "_scale_inv", {scale}, dtype).write(directory);
    return loaded(path, k_query, {.dtype = target}).front();
  };
  EXPECT_EQ(value(0xF7, 1e-5F, "F32", plan::TargetDType::bf16), -0.0023956298828125);
  EXPECT_NE(value(0xF7, 1e-5F, "F32", plan::TargetDType::bf16), -0.002410888671875);  // BF16 by BF16
  EXPECT_EQ(value(0x39, 0.10009765625F, "F32", plan::TargetDType::f32), 0.11260986328125);
  EXPECT_NE(value(0x39, 0.10009765625F, "F32", plan::TargetDType::f32), 0.11279296875);  // by way of BF16
  EXPECT_EQ(value(k_one, 0.1F, "F32", plan::TargetDType::f32), static_cast<double>(0.1F));
  EXPECT_EQ(value(k_one, 0.10009765625F, "BF16", plan::TargetDType::f32), 0.10009765625);
}

// Blocks of 4 rows: six rows of ones under the scales 1 and 10, on two ranks of three rows.
TEST(TrapValues, T09_BlockScalesOfAnUnalignedShard) {
  const std::string config = R"({"model_type": "minimax_m2", "hidden_size": 6, "num_hidden_layers": 1,
      "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 4, "num_local_experts": 1,
      "vocab_size": 2, "quantization_config": {"quant_method": "fp8", "weight_block_size": [4, 4]}})";
  const std::string key = "model.layers.0.self_attn.o_proj.weight";
  const TemporaryDirectory directory;
  const auto path =
      Literal(config).codes(key, Codes(24, k_one)).set(key + "_scale_inv", {1, 10}, "F32").write(directory);
  const Numbers whole = loaded(path, key);
  for (std::size_t row = 0; row < 6; ++row) {
    EXPECT_EQ(whole[row * 4], row < 4 ? 1 : 10);
  }
  Numbers rows;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const Numbers part = loaded(path, key, {.topology = {.fsdp = 2}, .rank = rank});
    ASSERT_EQ(part.size(), 12U);
    for (std::size_t row = 0; row < 3; ++row) {
      rows.push_back(part[row * 4]);
    }
  }
  EXPECT_EQ(rows, (Numbers{1, 1, 1, 1, 10, 10}));
  EXPECT_NE((Numbers{rows[3], rows[4], rows[5]}), (Numbers{1, 1, 1}));     // blocks counted from the rank's first row
  EXPECT_NE((Numbers{rows[3], rows[4], rows[5]}), (Numbers{10, 10, 10}));  // height guessed from the scales
}

TEST(TrapValues, T11_TwoFusedOrdersOfQueryKeyValue) {
  const TemporaryDirectory ling_directory;
  const std::string layer = "model.layers.0.";
  const auto ling = Literal(R"({"model_type": "bailing_moe", "hidden_size": 1, "num_hidden_layers": 1,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 1, "intermediate_size": 1,
      "moe_intermediate_size": 1, "num_experts": 1, "first_k_dense_replace": 1, "vocab_size": 1, "use_qkv_bias": true})")
                        .set(layer + "attention.query_key_value.weight", {0, 1, 2, 3, 10, 11, 20, 21})
                        .set(layer + "attention.query_key_value.bias", {0, 1, 2, 3, 10, 11, 20, 21})
                        .write(ling_directory);
  for (const std::string leaf : {"weight", "bias"}) {
    EXPECT_EQ(loaded(ling, layer + "self_attn.q_proj." + leaf), (Numbers{0, 1, 2, 3}));
    EXPECT_EQ(loaded(ling, layer + "self_attn.k_proj." + leaf), (Numbers{10, 11}));
    EXPECT_EQ(loaded(ling, layer + "self_attn.v_proj." + leaf), (Numbers{20, 21}));
  }
  expect_caught(ling, "bias_not_split");
  expect_caught(ling, "swap_kv");
  const TemporaryDirectory directory;
  Literal combined(R"({"model_type": "qwen2", "hidden_size": 1, "num_hidden_layers": 1, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 1, "intermediate_size": 2, "vocab_size": 1, "tie_word_embeddings": false})",
                   "dense_combined");
  for (const std::string leaf : {"weight", "bias"}) {
    combined.set(layer + "self_attn.q_proj." + leaf, {0, 1, 2, 3})
        .set(layer + "self_attn.k_proj." + leaf, {10, 11})
        .set(layer + "self_attn.v_proj." + leaf, {20, 21});
  }
  combined.set(layer + "mlp.gate_proj.weight", {1, 2}).set(layer + "mlp.up_proj.weight", {3, 4});
  const auto path = combined.write(directory);
  const LoadAs how{.family = "dense_combined"};
  for (const std::string leaf : {"weight", "bias"}) {
    EXPECT_EQ(loaded(path, layer + "self_attn.qkv_proj." + leaf, how), (Numbers{0, 1, 10, 20, 2, 3, 11, 21}));
  }
  EXPECT_EQ(loaded(path, layer + "mlp.gate_up_proj.weight", how), (Numbers{1, 3, 2, 4}));
  expect_caught(path, "swap_kv", "dense_combined");
}

TEST(TrapValues, T15_ATiedHeadIsOneStorage) {
  const std::string config = R"({"model_type": "llama", "hidden_size": 2, "num_hidden_layers": 1,
      "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 2, "intermediate_size": 2, "vocab_size": 2,
      "tie_word_embeddings": true})";
  const std::string embedding = "model.embed_tokens.weight";
  const TemporaryDirectory once;
  const auto path = Literal(config).set(embedding, {1, 2, 3, 4}).write(once);
  EXPECT_EQ(loaded(path, embedding), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(record_of(judged(path), "layout.mapping").status, Status::pass);
  expect_caught(path, "tie_lost");
  const TemporaryDirectory twice;
  const auto differs =
      Literal(config).set(embedding, {1, 2, 3, 4}).more("lm_head.weight", "BF16", {2, 2}, {1, 2, 3, 5}).write(twice);
  EXPECT_EQ(record_of(judged(differs), "tied.mismatch").status, Status::fail);
  LoadedModel model(differs);
  EXPECT_EQ(model.load().outcome(), exec::Outcome::failed);
  const TemporaryDirectory untied;
  std::string text = config;
  text.replace(text.find("true"), 4, "false");
  const auto headless = Literal(text).without("lm_head.weight").write(untied);
  const reports::Report report = judged(headless);
  EXPECT_EQ(record_of(report, "tied.head_missing").status, Status::fail);
  EXPECT_THROW(LoadedModel{headless}, Error);  // never copied from the embedding
}

TEST(TrapValues, T21_StateIsNeverNarrowed) {
  const std::string config = R"({"model_type": "nemotron_h", "hidden_size": 2, "num_hidden_layers": 1,
      "hybrid_override_pattern": "M", "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 2,
      "vocab_size": 2, "mamba_num_heads": 1, "mamba_head_dim": 2, "ssm_state_size": 2, "n_groups": 1, "conv_kernel": 2})";
  const std::string stored = "backbone.layers.0.mixer.A_log";
  const std::string native = "model.layers.0.mixer._fp32_params.A_log";
  const double exact = static_cast<double>(2.7080502510F);
  const TemporaryDirectory wide;
  const auto path = Literal(config).set(stored, {exact}, "F32").write(wide);
  for (const auto dtype : {plan::TargetDType::stored, plan::TargetDType::bf16, plan::TargetDType::f16}) {
    EXPECT_EQ(loaded(path, native, {.dtype = dtype}), Numbers{exact});
    EXPECT_NE(loaded(path, native, {.dtype = dtype}), Numbers{2.703125});
  }
  EXPECT_NEAR(std::exp(exact), 15.0, 1e-5);
  expect_caught(path, "state_narrowed");
  const TemporaryDirectory narrow;
  const auto widened = Literal(config).set(stored, {2.703125}).write(narrow);
  EXPECT_EQ(loaded(widened, native, {.dtype = plan::TargetDType::f32}), Numbers{2.703125});
}

TEST(TrapValues, T22_ACopyOfADestinationIsNoticed) {
  const TemporaryDirectory directory;
  const auto path = Literal(moe_config(1)).set(k_experts + "0.down_proj.weight", {7, 7, 7, 7}).write(directory);
  expect_caught(path, "view_becomes_copy");
}

TEST(TrapValues, T23_ATransposedStorageIsWrittenInTheOrderOfTheFile) {
  const TemporaryDirectory directory;
  const std::string key = k_experts + "0.down_proj.weight";
  const auto path = Literal(moe_config(1)).set(key, {1, 3, 2, 4}).write(directory);
  EXPECT_EQ(loaded(path, k_experts + "down_projs"), (Numbers{1, 2, 3, 4}));  // storage
  EXPECT_EQ(run_tool({"export", path.string(), "--dtype", "stored", "--out", (directory / "back").string()}).status, 0);
  const storage::Checkpoint back = storage::open_checkpoint(directory / "back", {});
  const DecodedState state(back, {});
  std::vector<std::byte> bytes(8);
  state.read(*state.find(key), 0, bytes);
  EXPECT_EQ(bytes, encoded("BF16", {1, 3, 2, 4}));
  EXPECT_NE(bytes, encoded("BF16", {1, 2, 3, 4}));
}

TEST(TrapValues, T24_ScalarsKeepTheirShape) {
  for (const std::vector<std::uint64_t>& shape : {std::vector<std::uint64_t>{}, {1}}) {
    const TemporaryDirectory directory;
    const auto path = Literal(fp8_config())
                          .codes(k_query, {k_four})
                          .set(k_query + "_scale_inv", {0.5})
                          .shaped(k_query + "_scale_inv", shape)
                          .write(directory);
    EXPECT_EQ(loaded(path, k_query).front(), 2);
    EXPECT_EQ(record_of(judged(path), "value.exact").status, Status::pass);
  }
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory / "model");
  fixtures::FileSpec spec;
  spec.tensors.push_back({"scalar", "BF16", {}, fixtures::literal_payload(encoded("BF16", {3}))});
  spec.tensors.push_back({"vector", "BF16", {1}, fixtures::literal_payload(encoded("BF16", {4}))});
  fixtures::write_safetensors(directory / "model" / "model.safetensors", spec);
  EXPECT_EQ(run_tool({"export", (directory / "model").string(), "--out", (directory / "back").string()}).status, 0);
  const storage::Checkpoint back = storage::open_checkpoint(directory / "back", {});
  EXPECT_EQ(back.catalog.find("scalar")->shape, Shape{});
  EXPECT_EQ(back.catalog.find("vector")->shape, Shape{1});
}

// Reads fail once a number of them is done.
class FailingCalls final : public storage::FileCalls {
 public:
  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override {
    return may() ? storage::FileCalls::pread(fd, buffer, bytes, offset) : -1;
  }
  std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) override {
    return may() ? storage::FileCalls::preadv(fd, parts, count, offset) : -1;
  }
  bool is_failing = false;

 private:
  bool may() {
    errno = EIO;
    return !is_failing;
  }
};

TEST(TrapValues, T25_ASecondAttemptStartsAnew) {
  const TemporaryDirectory directory;
  const auto path = Literal(moe_config(1)).set(k_experts + "0.down_proj.weight", {9, 10, 11, 12}).write(directory);
  FailingCalls calls;
  LoadedModel model(path, {.calls = &calls});
  calls.is_failing = true;
  EXPECT_EQ(model.load().outcome(), exec::Outcome::failed);
  EXPECT_TRUE(model.load().completed_keys().empty());
  calls.is_failing = false;
  const exec::LoadAttempt& second = model.load();
  second.require_complete();
  EXPECT_EQ(second.completed_keys().size(), model.plan().tensors().size());
  EXPECT_EQ(model.numbers(k_experts + "down_projs"), (Numbers{9, 11, 10, 12}));
  for (const plan::PlannedTensor& tensor : model.plan().tensors()) {
    for (const double value : model.numbers(tensor.key)) {
      EXPECT_FALSE(std::isnan(value)) << tensor.key;  // the fill
    }
  }
}

TEST(TrapValues, T30_RouterBiasesStayApart) {
  const std::string config = std::string(R"({"model_type": "glm4_moe", "n_routed_experts": 2, "n_shared_experts": 1,
      "moe_intermediate_size": 2, "first_k_dense_replace": 0, )") +
                             k_small_sizes + "}";
  const std::string key = "model.layers.0.mlp.gate.e_score_correction_bias";
  const TemporaryDirectory directory;
  const auto path = Literal(config).set(key, {1.0009765625, 1}, "F32").write(directory);
  const Numbers native = loaded(path, key, {.dtype = plan::TargetDType::bf16});
  EXPECT_EQ(native, (Numbers{1.0009765625, 1}));
  EXPECT_GT(native[0], native[1]);     // expert 0 wins
  EXPECT_NE(native, (Numbers{1, 1}));  // a tie
  expect_caught(path, "state_narrowed");
}

TEST(TrapValues, T31_T34_ErnieBiasesAreMergedAndExtentsOfOneStay) {
  const std::string config = R"({"model_type": "ernie4_5_moe", "hidden_size": 2, "num_hidden_layers": 1,
      "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 1, "intermediate_size": 2,
      "moe_intermediate_size": 2, "moe_num_experts": 2, "moe_layer_start_index": 0, "vocab_size": 2, "use_bias": true})";
  const std::string statics = "model.layers.0.mlp.moe_statics.e_score_correction_bias";
  const TemporaryDirectory directory;
  const auto path = Literal(config)
                        .set(k_experts + "0.gate_proj.bias", {1, 2})
                        .set(k_experts + "0.up_proj.bias", {3, 4})
                        .set(k_experts + "1.gate_proj.bias", {5, 6})
                        .set(k_experts + "1.up_proj.bias", {7, 8})
                        .set(statics, {0.5, 0.25}, "F32")
                        .write(directory);
  EXPECT_EQ(loaded(path, k_experts + "gate_up_proj_bias"), (Numbers{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(loaded(path, "model.layers.0.mlp.gate.e_score_correction_bias"), (Numbers{0.5, 0.25}));
  expect_caught(path, "bias_not_split");
  EXPECT_EQ(run_tool({"export", path.string(), "--out", (directory / "back").string()}).status, 0);
  const storage::Checkpoint back = storage::open_checkpoint(directory / "back", {});
  EXPECT_EQ(back.catalog.find(statics)->shape, (Shape{1, 2}));
}

TEST(TrapValues, T32_WhatIsQuantizedIsToldByTheFile) {
  const TemporaryDirectory plain;
  const auto path = Literal(fp8_config())
                        .set(k_query, {1, 2, 3, 4})
                        .without(k_query + "_scale_inv")
                        .without("model.layers.0.self_attn.q_proj.activation_scale")
                        .write(plain);
  EXPECT_EQ(loaded(path, k_query), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(record_of(judged(path), "value.exact").status, Status::pass);
  const TemporaryDirectory bare;
  const auto lost = Literal(fp8_config()).codes(k_query, {k_four}).without(k_query + "_scale_inv").write(bare);
  const reports::CheckRecord record = record_of(judged(lost), "quant.scale_missing");
  EXPECT_EQ(record.status, Status::fail);
  EXPECT_TRUE(names(record, k_query));
  EXPECT_THROW(LoadedModel{lost}, Error);  // raw codes never pass for values
}

TEST(TrapValues, T36_UngatedExpertsAreAsWideAsOne) {
  const TemporaryDirectory directory;
  const auto path = Literal(R"({"model_type": "nemotron_h", "hidden_size": 2, "num_hidden_layers": 1,
      "hybrid_override_pattern": "E", "num_attention_heads": 1, "head_dim": 1, "vocab_size": 2, "n_routed_experts": 1,
      "n_shared_experts": 0, "moe_intermediate_size": 2})")
                        .set("backbone.layers.0.mixer.experts.0.up_proj.weight", {1, 2, 3, 4})
                        .write(directory);
  EXPECT_EQ(loaded(path, "model.layers.0.mixer.experts.gate_and_up_projs"), (Numbers{1, 3, 2, 4}));
  expect_caught(path, "transpose_gate_up");
}

TEST(TrapValues, T37_T47_TheStorageOfExpertsFollowsFromTheWorldThatIsGiven) {
  const auto storage = [](plan::Dispatcher dispatcher, std::uint32_t world) {
    return plan::expert_storage(dispatcher, plan::ExpertBackend::te, world).storage;
  };
  ::setenv("WORLD_SIZE", "8", 1);  // left over from another run
  EXPECT_EQ(storage(plan::Dispatcher::deepep, 1), ExpertStorage::grouped);
  ::unsetenv("WORLD_SIZE");
  EXPECT_EQ(storage(plan::Dispatcher::deepep, 1), ExpertStorage::grouped);
  EXPECT_EQ(storage(plan::Dispatcher::deepep, 2), ExpertStorage::te);
  EXPECT_EQ(storage(plan::Dispatcher::torch, 1), ExpertStorage::grouped);
}

TEST(TrapValues, T38_OtherStoragesKeepTheOrientationOfTheFile) {
  const TemporaryDirectory directory;
  const auto path = Literal(moe_config(1))
                        .set(k_experts + "0.gate_proj.weight", {1, 2, 3, 4})
                        .set(k_experts + "0.up_proj.weight", {5, 6, 7, 8})
                        .set(k_experts + "0.down_proj.weight", {9, 10, 11, 12})
                        .write(directory);
  const LoadAs te{.storage = ExpertStorage::te};
  EXPECT_EQ(loaded(path, k_experts + "gate_up_linear.weight0", te), (Numbers{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(loaded(path, k_experts + "down_linear.weight0", te), (Numbers{9, 10, 11, 12}));
}

// Names and shapes of a model of 671 billion parameters take no memory for them.
TEST(TrapValues, T41_ListingKeysAllocatesNoTensor) {
  const std::string config = *fixtures::preset_config("deepseek_v3", "full");
  const ConfigValue parsed = ConfigValue::parse(config, "config.json");
  const adapters::Family* family = adapters::find_family("deepseek_v3");
  const auto before = ::mallinfo2();
  const Schema schema = family->describe(parsed, family->find_form(parsed, Catalog()), ExpertStorage::grouped);
  const auto after = ::mallinfo2();
  const std::uint64_t taken = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
  EXPECT_GT(schema.stored_tensors().size(), 45000U);
  EXPECT_LT(taken, 128ULL << 20U);  // 673 GB are stored
}

}  // namespace
}  // namespace weightproof::suites::test
