// SPDX-License-Identifier: Apache-2.0
// Each kind of difference planted and named; what is no rule is not called one.
#include "suites/explanations/explanation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "suites/explanations/order.hpp"
#include "suites/explanations/rounding.hpp"
#include "suites/state/elements.hpp"

namespace weightproof::suites {
namespace {

using Bytes = std::vector<std::byte>;

template <typename Word>
Bytes bytes_of(const std::vector<Word>& words) {
  Bytes out(words.size() * sizeof(Word));
  std::memcpy(out.data(), words.data(), out.size());
  return out;
}
template <typename Word>
std::vector<Word> words_of(const Bytes& bytes) {
  std::vector<Word> out(bytes.size() / sizeof(Word));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// Values without repetition to speak of, as weights are.
std::vector<float> weights(std::size_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> out(count);
  std::generate(out.begin(), out.end(), [&] { return normal(random); });
  return out;
}
Bytes cast(const std::vector<float>& values, DType to) {
  const Bytes from = bytes_of(values);
  Bytes out(values.size() * bits_of(to) / 8);
  cast_elements(DType::f32, from, to, out);
  return out;
}
Bytes bf16(std::size_t count, unsigned seed = 1) { return cast(weights(count, seed), DType::bf16); }

// found[i] = declared[order(i)], in lines of `size` bytes.
template <typename Order>
Bytes reordered(const Bytes& from, std::size_t size, const Order& order) {
  Bytes out(from.size());
  for (std::size_t i = 0; i * size < from.size(); ++i) {
    std::memcpy(out.data() + i * size, from.data() + order(i) * size, size);
  }
  return out;
}
Bytes transposed(const Bytes& from, std::size_t rows, std::size_t columns, std::size_t width = 2) {
  Bytes out(from.size());
  const std::size_t matrices = from.size() / width / rows / columns;
  for (std::size_t m = 0; m < matrices; ++m) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) {
        std::memcpy(out.data() + (m * rows * columns + c * rows + r) * width,
                    from.data() + (m * rows * columns + r * columns + c) * width, width);
      }
    }
  }
  return out;
}

Explanation explain(std::string_view key, const Shape& shape, DType dtype, const Bytes& expected, const Bytes& actual,
                    const RelatedTensors& related = {}, const ExplainOptions& options = {}) {
  return explain_difference(key, source_of(shape, dtype, expected), source_of(shape, dtype, actual), related, options);
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::set<std::string>& planted() {
  static std::set<std::string> kinds;
  return kinds;
}

// The kind and its certainty; remembered, so that a kind without a test is seen.
void expect_kind(const Explanation& seen, std::string_view kind, Certainty certainty, std::string_view part = {}) {
  EXPECT_EQ(seen.kind, kind) << seen.title << ": " << seen.text;
  EXPECT_EQ(to_string(seen.certainty), to_string(certainty)) << seen.title;
  EXPECT_TRUE(has(seen.title + ": " + seen.text, part)) << seen.title << ": " << seen.text;
  EXPECT_FALSE(seen.title.empty());
  planted().insert(seen.kind);
}

void plantTransposedSquareRectangularAndStacked() {
  const Bytes square = bf16(64 * 64);
  expect_kind(explain("w", {64, 64}, DType::bf16, square, transposed(square, 64, 64)), "transposed", Certainty::certain,
              "square");
  const Bytes wide = bf16(24 * 40);
  expect_kind(explain("w", {24, 40}, DType::bf16, wide, transposed(wide, 24, 40)), "transposed", Certainty::certain);
  const TensorSource declared = source_of({24, 40}, DType::bf16, wide);
  const Bytes turned = transposed(wide, 24, 40);
  expect_kind(explain_difference("w", declared, source_of({40, 24}, DType::bf16, turned)), "transposed",
              Certainty::certain, "[40,24]");
  const Bytes experts = bf16(6 * 16 * 16);
  expect_kind(explain("experts.w", {6, 16, 16}, DType::bf16, experts, transposed(experts, 16, 16)), "transposed",
              Certainty::certain, "all 6 experts");
  Bytes one = experts;
  const Bytes all = transposed(experts, 16, 16);
  std::copy(all.begin() + 512, all.begin() + 1024, one.begin() + 512);
  expect_kind(explain("experts.w", {6, 16, 16}, DType::bf16, experts, one), "transposed", Certainty::certain,
              "in expert 1");
}

void plantAnotherShapeAndAnotherDtype() {
  const Bytes values = bf16(24 * 40);
  expect_kind(
      explain_difference("w", source_of({24, 40}, DType::bf16, values), source_of({20, 48}, DType::bf16, values)),
      "shape", Certainty::certain, "[20,48]");
  const std::vector<float> wide = weights(1000);
  const Bytes source = bytes_of(wide);
  const Bytes narrow = cast(wide, DType::bf16);
  expect_kind(explain_difference("w", source_of({1000}, DType::f32, source), source_of({1000}, DType::bf16, narrow)),
              "dtype", Certainty::certain, "every value is what a cast to BF16 gives");
}

void plantRowsAndColumnsInAnotherOrder() {
  const Bytes values = bf16(8 * 32);
  const std::vector<std::size_t> order = {0, 2, 1, 3, 4, 5, 6, 7};
  const auto moved = [&](std::size_t i) { return order[i]; };
  const Explanation two = explain("w", {8, 32}, DType::bf16, values, reordered(values, 64, moved));
  expect_kind(two, "rows_permuted", Certainty::certain, "rows 1 and 2 exchanged");
  ASSERT_TRUE(two.order.has_value());
  EXPECT_EQ(two.order->found[1], "2");
  EXPECT_EQ(two.differing, 64U);
  EXPECT_EQ(to_string(*two.first), "[1,0]");
  ASSERT_TRUE(two.where.has_value());
  EXPECT_EQ(two.where->rows, 8U);
  EXPECT_EQ(two.where->shares[32], 1.0) << "the second row differs";
  EXPECT_EQ(two.where->shares[0], 0.0) << "the first does not";

  const std::vector<std::size_t> blocks = {0, 2, 1, 3, 5, 4, 7, 6};
  const auto by_block = [&](std::size_t i) { return blocks[i / 16] * 16 + i % 16; };
  const Bytes tall = bf16(128 * 8);
  expect_kind(explain("w", {128, 8}, DType::bf16, tall, reordered(tall, 16, by_block)), "rows_permuted",
              Certainty::certain, "blocks of 16 rows in order 0, 2, 1, 3, 5, 4, 7, 6");
  const Bytes turned =
      transposed(reordered(transposed(values, 8, 32), 16, [](std::size_t i) { return i ^ 5U; }), 32, 8);
  expect_kind(explain("w", {8, 32}, DType::bf16, values, turned), "columns_permuted", Certainty::certain);
  const auto back = [](std::size_t i) { return 127 - i; };
  expect_kind(explain("w", {128, 8}, DType::bf16, tall, reordered(tall, 16, back)), "rows_permuted", Certainty::certain,
              "in reverse order");
}

void plantGateAndUpInOneTensor() {
  const std::string key = "model.layers.3.mlp.gate_up_proj.weight";
  const Bytes values = bf16(64 * 16);
  const Explanation halves =
      explain(key, {64, 16}, DType::bf16, values, reordered(values, 32, [](std::size_t i) { return (i + 32) % 64; }));
  expect_kind(halves, "gate_up_swapped", Certainty::certain, "Gate and up swapped");
  EXPECT_EQ(halves.check, "layout.gate_up_order");
  EXPECT_EQ(halves.order->declared, (std::vector<std::string>{"G", "U"}));
  EXPECT_EQ(halves.order->found, (std::vector<std::string>{"U", "G"}));
  const auto shuffle = [](std::size_t i) { return i % 2 * 32 + i / 2; };
  const auto apart = [](std::size_t i) { return i % 32 * 2 + i / 32; };
  expect_kind(explain(key, {64, 16}, DType::bf16, values, reordered(values, 32, shuffle)), "gate_up_interleaved",
              Certainty::certain, "Gate and up interleaved");
  expect_kind(explain(key, {64, 16}, DType::bf16, values, reordered(values, 32, apart)), "gate_up_interleaved",
              Certainty::certain, "side by side instead of interleaved");
  const auto pairs = [](std::size_t i) { return i ^ 1U; };
  expect_kind(explain(key, {64, 16}, DType::bf16, values, reordered(values, 32, pairs)), "gate_up_swapped",
              Certainty::certain, "in every group of 2 rows");
  // Columns of stacked experts.
  const Bytes experts = bf16(4 * 8 * 16);
  const auto columns = [](std::size_t i) { return i / 16 * 16 + (i % 16 + 8) % 16; };
  expect_kind(explain("experts.gate_up_proj", {4, 8, 16}, DType::bf16, experts, reordered(experts, 2, columns)),
              "gate_up_swapped", Certainty::certain, "all 4 experts");
}

void plantRotaryRowsAndFusedQkv() {
  const Bytes values = bf16(64 * 16);
  const auto rotary = [](std::size_t i) { return i / 16 * 16 + i % 2 * 8 + i % 16 / 2; };
  expect_kind(
      explain("model.layers.0.self_attn.q_proj.weight", {64, 16}, DType::bf16, values, reordered(values, 32, rotary)),
      "rotary_order", Certainty::certain, "in every group of 16 rows");
  const std::vector<std::size_t> parts = {1, 2, 0};
  const Bytes fused = bf16(96 * 16);
  const auto qkv = [&](std::size_t i) { return parts[i / 32] * 32 + i % 32; };
  const Explanation seen = explain("h.0.attn.qkv_proj.weight", {96, 16}, DType::bf16, fused, reordered(fused, 32, qkv));
  EXPECT_TRUE(seen.kind == "qkv_order" || seen.kind == "shifted") << seen.kind;
  const auto grouped_heads = [](std::size_t i) { return i / 8 % 3 * 32 + i / 24 * 8 + i % 8; };
  expect_kind(explain("h.0.attn.qkv_proj.weight", {96, 16}, DType::bf16, fused, reordered(fused, 32, grouped_heads)),
              "qkv_order", Certainty::certain, "blocks of 8 rows");
}

void plantExpertsInTextOrderPermutedAndCopied() {
  const Bytes experts = bf16(12 * 8 * 8);
  const std::vector<std::uint64_t> text = text_order(12);
  expect_kind(explain("model.layers.0.mlp.experts.down_proj", {12, 8, 8}, DType::bf16, experts,
                      reordered(experts, 128, [&](std::size_t i) { return text[i]; })),
              "experts_text_order", Certainty::certain, "0, 1, 10, 11, 2");
  expect_kind(explain("model.layers.0.mlp.experts.down_proj", {12, 8, 8}, DType::bf16, experts,
                      reordered(experts, 128, [](std::size_t i) { return i ^ 1U; })),
              "experts_permuted", Certainty::certain);
  const Explanation later =
      explain("model.layers.0.mlp.experts.down_proj", {12, 8, 8}, DType::bf16, experts,
              reordered(experts, 128, [](std::size_t i) { return i == 11 ? std::size_t{11} : i + 1; }));
  expect_kind(later, "shifted", Certainty::certain, "Experts shifted by 1");
  const Explanation copied = explain("model.layers.0.mlp.experts.down_proj", {12, 8, 8}, DType::bf16, experts,
                                     reordered(experts, 128, [](std::size_t i) { return i == 7 ? 3 : i; }));
  expect_kind(copied, "lines_copied", Certainty::certain, "Expert 7 holds expert 3");
  EXPECT_EQ(copied.where->unit, "expert");
}

void plantShiftedElementsBytesAndRows() {
  const Bytes values = bf16(4000);
  Bytes later(values.size());
  std::copy(values.begin(), values.end() - 6, later.begin() + 6);
  expect_kind(explain("w", {4000}, DType::bf16, values, later), "shifted", Certainty::certain, "3 elements later");
  Bytes odd(values.size());
  std::copy(values.begin() + 3, values.end(), odd.begin());
  expect_kind(explain("w", {4000}, DType::bf16, values, odd), "shifted", Certainty::certain, "3 bytes earlier");
  const Bytes rows = bf16(64 * 200);
  Bytes down(rows.size());
  std::copy(rows.begin(), rows.end() - 400, down.begin() + 400);
  expect_kind(explain("w", {64, 200}, DType::bf16, rows, down), "shifted", Certainty::certain, "1 row holds");
  const auto around = [](std::size_t i) { return (i + 60) % 64; };
  expect_kind(explain("w", {64, 200}, DType::bf16, rows, reordered(rows, 400, around)), "shifted", Certainty::certain);
}

void plantRatioOffsetSignZerosAndBytes() {
  const std::vector<float> values = weights(64 * 64);
  const Bytes expected = cast(values, DType::bf16);
  const auto with = [&](auto&& f) {
    std::vector<float> out = values;
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = f(out[i], i);
    }
    return cast(out, DType::bf16);
  };
  const auto look = [&](const Bytes& actual) { return explain("w", {64, 64}, DType::bf16, expected, actual); };
  const Explanation ratio = look(with([](float v, std::size_t) { return v * 65536.0F; }));
  expect_kind(ratio, "ratio", Certainty::certain, "65536 (2^16)");
  EXPECT_TRUE(ratio.histogram.has_value());
  expect_kind(look(with([](float v, std::size_t) { return v + 1.0F; })), "offset", Certainty::certain, "offset 1");
  const Bytes offset = with([](float v, std::size_t) { return v + 1.0F; });
  expect_kind(explain("model.norm.weight", {4096}, DType::bf16, expected, offset), "norm_offset", Certainty::certain);
  expect_kind(look(with([](float v, std::size_t) { return -v; })), "negated", Certainty::certain);
  expect_kind(look(with([](float, std::size_t) { return 0.0F; })), "zeros", Certainty::certain, "everywhere");
  expect_kind(look(with([](float v, std::size_t i) { return i >= 64 * 63 ? 0.0F : v; })), "zeros", Certainty::certain,
              "in the 64 elements that differ");
  expect_kind(look(with([](float v, std::size_t i) { return v * (1.0F + static_cast<float>(i / 64)); })), "row_ratio",
              Certainty::likely);
  expect_kind(look(with([](float v, std::size_t i) { return v * (1.0F + static_cast<float>(i % 64)); })),
              "column_ratio", Certainty::likely);
  Bytes swapped = expected;
  for (std::size_t i = 0; i < swapped.size(); i += 2) {
    std::swap(swapped[i], swapped[i + 1]);
  }
  expect_kind(look(swapped), "byte_swapped", Certainty::certain);
  Bytes flipped = expected;
  flipped[2 * 700 + 1] ^= std::byte{0x40};
  const Explanation bit = look(flipped);
  expect_kind(bit, "bit_flipped", Certainty::certain, "bit 14");
  EXPECT_EQ(to_string(*bit.first), "[10,60]");
  EXPECT_EQ(bit.differing, 1U);
  expect_kind(look(Bytes(expected.size(), std::byte{0xFF})), "filled", Certainty::likely);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_kind(look(with([&](float, std::size_t) { return nan; })), "nan", Certainty::certain, "NaN stands everywhere");
  expect_kind(look(with([&](float v, std::size_t i) { return i < 96 ? nan : v; })), "nan", Certainty::certain,
              "in the 96 elements that differ");
}

void plantRoundingWithItsSourceIsCertain() {
  std::vector<float> values = weights(5000);
  values[17] = 1.00390625F;  // halfway between two BF16 values
  const Bytes source = bytes_of(values);
  const Bytes expected = cast(values, DType::bf16);
  ExplainOptions options;
  options.source = source_of({5000}, DType::f32, source);
  const struct {
    RoundingMode mode;
    const char* kind;
  } cases[] = {{RoundingMode::toward_zero, "truncated"},     {RoundingMode::ties_away, "ties_away"},
               {RoundingMode::away_from_zero, "rounded_up"}, {RoundingMode::up, "rounded_ceiling"},
               {RoundingMode::down, "rounded_floor"},        {RoundingMode::twice, "double_rounded"}};
  for (const auto& row : cases) {
    std::vector<std::uint16_t> rounded;
    for (const float value : values) {
      rounded.push_back(round_to(value, DType::bf16, row.mode));
    }
    const Explanation seen = explain("w", {5000}, DType::bf16, expected, bytes_of(rounded), {}, options);
    expect_kind(seen, row.kind, Certainty::certain);
    EXPECT_EQ(seen.check, "value.rounding");
    EXPECT_EQ(seen.votes.size(), k_rounding_modes);
    EXPECT_FALSE(seen.source.hex.empty());
  }
  EXPECT_EQ(round_to(1.00390625F, DType::bf16, RoundingMode::nearest_even), 0x3F80);
  EXPECT_EQ(round_to(1.00390625F, DType::bf16, RoundingMode::ties_away), 0x3F81);
  EXPECT_EQ(round_to(-1.0078F, DType::bf16, RoundingMode::toward_zero), 0xBF80);
  EXPECT_EQ(round_to(-1.0001F, DType::bf16, RoundingMode::away_from_zero), 0xBF81);
  EXPECT_EQ(round_to(-1.0001F, DType::bf16, RoundingMode::up), 0xBF80);
  EXPECT_EQ(round_to(-1.0001F, DType::bf16, RoundingMode::down), 0xBF81);
  // The end of the range: 65520 is halfway between the largest number and what would follow it.
  EXPECT_EQ(round_to(65519.0F, DType::f16, RoundingMode::nearest_even), 0x7BFF);
  EXPECT_EQ(round_to(65520.0F, DType::f16, RoundingMode::nearest_even), 0x7C00);
  EXPECT_EQ(round_to(65519.0F, DType::f16, RoundingMode::ties_away), 0x7BFF);
  EXPECT_EQ(round_to(65520.0F, DType::f16, RoundingMode::ties_away), 0x7C00);
  EXPECT_EQ(round_to(1e30F, DType::f16, RoundingMode::toward_zero), 0x7BFF);
  EXPECT_EQ(round_to(-65505.0F, DType::f16, RoundingMode::up), 0xFBFF);
}

void plantRoundingWithoutItsSourceIsLikely() {
  const std::vector<float> values = weights(5000);
  const Bytes expected = cast(values, DType::bf16);
  std::vector<std::uint16_t> cut;
  for (const float value : values) {
    cut.push_back(round_to(value, DType::bf16, RoundingMode::toward_zero));
  }
  const Explanation seen = explain("w", {5000}, DType::bf16, expected, bytes_of(cut));
  expect_kind(seen, "truncated", Certainty::likely, "Truncated instead of rounded to BF16");
  ASSERT_TRUE(seen.histogram.has_value());
  EXPECT_EQ(seen.histogram->bins.size(), 5U);
  std::vector<std::uint16_t> jitter = words_of<std::uint16_t>(expected);
  for (std::size_t i = 0; i < jitter.size(); i += 300) {
    jitter[i] = static_cast<std::uint16_t>(i % 600 == 0 ? jitter[i] + 1 : jitter[i] - 1);
  }
  expect_kind(explain("w", {5000}, DType::bf16, expected, bytes_of(jitter)), "double_rounded", Certainty::possible);

  std::vector<float> tiny = values;
  tiny[5] = 1e-39F;
  tiny[77] = -3e-39F;
  std::vector<float> flushed = tiny;
  flushed[5] = flushed[77] = 0;
  expect_kind(explain("w", {5000}, DType::f32, bytes_of(tiny), bytes_of(flushed)), "flushed", Certainty::certain,
              "2 subnormal values");
  std::vector<std::uint32_t> nan(100, 0x7FC00000U);
  std::vector<std::uint32_t> other(100, 0x7FC00000U);
  other[3] = 0xFFC00001U;
  expect_kind(explain("w", {100}, DType::f32, bytes_of(nan), bytes_of(other)), "nan_payload", Certainty::certain);
}

// A model of small tensors, as declared and as found.
struct State {
  std::map<std::string, Bytes, std::less<>> tensors;
  Shape shape{16, 16};
  RelatedTensors::Open open() const {
    return [this](std::string_view key) -> std::optional<TensorSource> {
      const auto found = tensors.find(key);
      return found == tensors.end() ? std::nullopt : std::optional(source_of(shape, DType::bf16, found->second));
    };
  }
};

struct Related {
  Related() {
    unsigned seed = 1;
    for (int layer = 0; layer < 3; ++layer) {
      for (const char* module : {"gate_proj", "up_proj", "other_proj"}) {
        add("model.layers." + std::to_string(layer) + ".mlp." + module + ".weight", ++seed);
      }
      for (int expert = 0; expert < 12; ++expert) {
        add("model.layers." + std::to_string(layer) + ".mlp.experts." + std::to_string(expert) + ".down_proj.weight",
            ++seed);
      }
    }
    actual_ = expected_;
  }
  void add(const std::string& key, unsigned seed) {
    expected_.tensors[key] = bf16(256, seed);
    related_.keys.push_back(key);
  }
  Explanation look(const std::string& key) {
    related_.expected = expected_.open();
    related_.actual = actual_.open();
    return explain(key, {16, 16}, DType::bf16, expected_.tensors.at(key), actual_.tensors.at(key), related_);
  }
  State expected_;
  State actual_;
  RelatedTensors related_;
};

void plantSwappedWithASibling() {
  Related model;
  const std::string gate = "model.layers.1.mlp.gate_proj.weight";
  const std::string up = "model.layers.1.mlp.up_proj.weight";
  std::swap(model.actual_.tensors.at(gate), model.actual_.tensors.at(up));
  expect_kind(model.look(gate), "gate_up_swapped", Certainty::certain, "Gate and up swapped");
  const std::string other = "model.layers.0.mlp.other_proj.weight";
  std::swap(model.actual_.tensors.at("model.layers.0.mlp.up_proj.weight"), model.actual_.tensors.at(other));
  expect_kind(model.look(other), "swapped", Certainty::certain, "Swapped with up_proj");
}

void plantEqualToAnotherTensor() {
  Related model;
  const std::string key = "model.layers.0.mlp.up_proj.weight";
  model.actual_.tensors.at(key) = model.expected_.tensors.at("model.layers.0.mlp.other_proj.weight");
  expect_kind(model.look(key), "other_tensor", Certainty::certain, "Equal to other_proj");
  model.actual_.tensors.at(key) = model.expected_.tensors.at("model.layers.2.mlp.up_proj.weight");
  expect_kind(model.look(key), "other_layer", Certainty::certain, "Holds layer 2");
  const std::string expert = "model.layers.0.mlp.experts.2.down_proj.weight";
  model.actual_.tensors.at(expert) = model.expected_.tensors.at("model.layers.0.mlp.experts.3.down_proj.weight");
  expect_kind(model.look(expert), "other_expert", Certainty::certain, "Holds expert 3");
  model.actual_.tensors.at(expert) = model.expected_.tensors.at("model.layers.0.mlp.experts.10.down_proj.weight");
  expect_kind(model.look(expert), "experts_text_order", Certainty::certain, "in text order");
}

void plantAStaleCopyIsTheOlderState() {
  Related model;
  const std::string key = "model.layers.0.mlp.up_proj.weight";
  State earlier;
  earlier.tensors[key] = bf16(256, 99);
  model.actual_.tensors.at(key) = earlier.tensors.at(key);
  EXPECT_EQ(model.look(key).kind, "");
  model.related_.earlier = earlier.open();
  expect_kind(model.look(key), "stale", Certainty::certain, "Stale copy");
}

void plantAmbiguousCopiesAreOnlyLikely() {
  Related model;
  const std::string key = "model.layers.0.mlp.up_proj.weight";
  model.expected_.tensors.at("model.layers.2.mlp.up_proj.weight") =
      model.expected_.tensors.at("model.layers.1.mlp.up_proj.weight");
  model.actual_.tensors.at(key) = model.expected_.tensors.at("model.layers.1.mlp.up_proj.weight");
  expect_kind(model.look(key), "other_layer", Certainty::likely);
}

TEST(Explanations, WhatFollowsNoRuleIsNotNamed) {
  const Bytes expected = bf16(64 * 64, 1);
  const Bytes noise = bf16(64 * 64, 2);
  const Explanation seen = explain("w", {64, 64}, DType::bf16, expected, noise);
  EXPECT_FALSE(seen.is_recognised()) << seen.title;
  EXPECT_GT(seen.differing, 4000U);
  EXPECT_EQ(to_string(*seen.first), "[0,0]");
  EXPECT_EQ(summary_of(seen), "");
  const reports::Finding finding = finding_of(seen, "value.exact");
  EXPECT_EQ(finding.title, "");
  EXPECT_TRUE(has(finding.explanation, "no single rule"));
  EXPECT_EQ(explain("w", {64, 64}, DType::bf16, expected, expected).differing, 0U);
  // Two unrelated changes in one tensor are no rule either.
  Bytes two = expected;
  two[100] ^= std::byte{1};
  two[5001] ^= std::byte{0x30};
  EXPECT_FALSE(explain("w", {64, 64}, DType::bf16, expected, two).is_recognised());
}

TEST(Explanations, WorkAndMemoryAreCapped) {
  const Bytes values = bf16(1U << 16U);
  Bytes other = values;
  other[10] ^= std::byte{1};
  other[2 * 60000] ^= std::byte{1};
  ExplainOptions options;
  options.elements_max = 4096;
  const Explanation seen = explain("w", {512, 128}, DType::bf16, values, other, {}, options);
  EXPECT_TRUE(seen.is_partial);
  EXPECT_EQ(seen.elements, 4096U);
  EXPECT_EQ(seen.differing, 1U);
  EXPECT_TRUE(std::any_of(seen.evidence.begin(), seen.evidence.end(), [](const reports::EvidenceLine& line) {
    return has(line.text, "4,096 elements were looked at");
  }));
  std::uint64_t largest = 0;
  const TensorSource watched{{512, 128}, DType::bf16, [&](std::uint64_t offset, std::span<std::byte> target) {
                               largest = std::max<std::uint64_t>(largest, target.size());
                               std::memcpy(target.data(), values.data() + offset, target.size());
                             }};
  explain_difference("w", watched, source_of({512, 128}, DType::bf16, other));
  EXPECT_LE(largest, std::uint64_t{1} << 20U) << "windows, not tensors";
}

TEST(Explanations, NarrowElementsAreComparedAsBytes) {
  Bytes codes(32 * 8);
  std::mt19937 random(3);
  std::generate(codes.begin(), codes.end(), [&] { return static_cast<std::byte>(random()); });
  const auto back = [](std::size_t i) { return 31 - i; };
  expect_kind(explain("w", {32, 16}, DType::f4, codes, reordered(codes, 8, back)), "rows_permuted", Certainty::certain,
              "reverse");
}

TEST(Explanations, BoxesAreReadAsOneTensor) {
  const Bytes values = bf16(6 * 10 * 14);
  const Shape shape{6, 10, 14};
  const TensorSource boxes = source_of_boxes(shape, DType::bf16, [&](const Coordinate& start, const Extents& length) {
    Bytes out;
    const std::uint64_t count = element_count(length).value_or(0);
    for (std::uint64_t i = 0; i < count; ++i) {
      Coordinate at = coordinate_of(length, i);
      for (unsigned axis = 0; axis < 3; ++axis) {
        at[axis] += start[axis];
      }
      const std::uint64_t from = linear_index(shape, at) * 2;
      out.insert(out.end(), values.begin() + static_cast<std::ptrdiff_t>(from),
                 values.begin() + static_cast<std::ptrdiff_t>(from) + 2);
    }
    return out;
  });
  for (const std::uint64_t offset : {0U, 2U, 28U, 500U, 1676U}) {
    Bytes piece(std::min<std::uint64_t>(300, values.size() - offset));
    boxes.read(offset, piece);
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), values.begin() + static_cast<std::ptrdiff_t>(offset))) << offset;
  }
}

TEST(Explanations, FindingsCarryWhatThePageShows) {
  const Bytes values = bf16(64 * 16);
  const Explanation seen = explain("model.layers.3.mlp.gate_up_proj.weight", {64, 16}, DType::bf16, values,
                                   reordered(values, 32, [](std::size_t i) { return (i + 32) % 64; }));
  const reports::Finding finding = finding_of(seen, "value.exact");
  EXPECT_EQ(finding.rule, "value.exact");
  EXPECT_EQ(finding.title, "Gate and up swapped");
  EXPECT_EQ(finding.keys, std::vector<std::string>{"model.layers.3.mlp.gate_up_proj.weight"});
  EXPECT_EQ(finding.coordinate, (std::vector<std::uint64_t>{0, 0}));
  EXPECT_EQ(finding.axes, (std::vector<std::string>{"row", "column"}));
  EXPECT_EQ(finding.expected.hex.size(), 6U);
  EXPECT_TRUE(finding.where && finding.order);
  EXPECT_EQ(finding.evidence.front().certainty, "certain");
}

TEST(Orders, AreDescribedInTheFewestWords) {
  const auto text = [](std::vector<std::uint64_t> order) { return describe_order(order).text("row"); };
  EXPECT_EQ(text({1, 0}), "the two halves (rows) exchanged");
  EXPECT_EQ(text({2, 3, 0, 1}), "the two halves (blocks of 2 rows) exchanged");
  EXPECT_EQ(text({0, 3, 2, 1}), "rows 1 and 3 exchanged");
  EXPECT_EQ(text({3, 0, 1, 2}), "rows rotated: number 3 stands first");
  EXPECT_EQ(text({0, 3, 1, 4, 2, 5}), "rows interleaved: 2 pieces shuffled into one another");
  EXPECT_EQ(text({3, 1, 0, 2}), "rows in order 3, 1, 0, 2");
  EXPECT_EQ(listed_order(text_order(12)), "0, 1, 10, 11, 2, 3, 4, 5, ... 9");
  EXPECT_FALSE(order_between(std::vector<std::uint64_t>{1, 2}, std::vector<std::uint64_t>{1, 3}).has_value());
  // Equal lines stay where they are.
  EXPECT_EQ(order_between(std::vector<std::uint64_t>{7, 7, 8}, std::vector<std::uint64_t>{7, 7, 8}),
            (std::vector<std::uint64_t>{0, 1, 2}));
}

// The tests that plant a kind, as a list: the last one runs them all and looks for a kind that nobody planted.
struct Planting {
  const char* name;
  void (*run)();
};
constexpr Planting k_plantings[] = {
    {"TransposedSquareRectangularAndStacked", &plantTransposedSquareRectangularAndStacked},
    {"AnotherShapeAndAnotherDtype", &plantAnotherShapeAndAnotherDtype},
    {"RowsAndColumnsInAnotherOrder", &plantRowsAndColumnsInAnotherOrder},
    {"GateAndUpInOneTensor", &plantGateAndUpInOneTensor},
    {"RotaryRowsAndFusedQkv", &plantRotaryRowsAndFusedQkv},
    {"ExpertsInTextOrderPermutedAndCopied", &plantExpertsInTextOrderPermutedAndCopied},
    {"ShiftedElementsBytesAndRows", &plantShiftedElementsBytesAndRows},
    {"RatioOffsetSignZerosAndBytes", &plantRatioOffsetSignZerosAndBytes},
    {"RoundingWithItsSourceIsCertain", &plantRoundingWithItsSourceIsCertain},
    {"RoundingWithoutItsSourceIsLikely", &plantRoundingWithoutItsSourceIsLikely},
    {"SwappedWithASibling", &plantSwappedWithASibling},
    {"EqualToAnotherTensor", &plantEqualToAnotherTensor},
    {"AStaleCopyIsTheOlderState", &plantAStaleCopyIsTheOlderState},
    {"AmbiguousCopiesAreOnlyLikely", &plantAmbiguousCopiesAreOnlyLikely},
};

class Plantings : public testing::TestWithParam<Planting> {};
TEST_P(Plantings, AreNamed) { GetParam().run(); }
INSTANTIATE_TEST_SUITE_P(Explanations, Plantings, testing::ValuesIn(k_plantings),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Explanations, EveryKindWasPlanted) {
  planted().clear();
  for (const Planting& planting : k_plantings) {
    planting.run();
  }
  for (const ExplanationKind& kind : explanation_kinds()) {
    EXPECT_TRUE(planted().count(std::string(kind.kind)) != 0) << kind.kind;
  }
}

}  // namespace
}  // namespace weightproof::suites
