// SPDX-License-Identifier: Apache-2.0
// What a conversion does to values, seen beside its source: each mistake named with its tensor, and nothing said of
// what is no conversion.
#include <algorithm>
#include <bit>
#include <limits>

#include "suites/explanations/rounding.hpp"
#include "suites/tests/literal_testing.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;
using Names = std::vector<std::string>;

const std::string k_query = "model.layers.0.self_attn.q_proj.weight";

std::string llama_config() { return std::string(R"({"model_type": "llama", )") + k_small_sizes + "}"; }

// The record of one check where one matrix holds `before` in the base and `after` in what is verified.
reports::CheckRecord converted(const char* id, const Numbers& before, const std::string& before_dtype,
                               const Numbers& after, const std::string& after_dtype) {
  const TemporaryDirectory base;
  const TemporaryDirectory directory;
  VerifyOptions options;
  options.against = Literal(llama_config()).set(k_query, before, before_dtype).write(base).string();
  const auto path = Literal(llama_config()).set(k_query, after, after_dtype).write(directory);
  return record_of(verify(path, options), id);
}

void expect_named(const reports::CheckRecord& record) {
  EXPECT_EQ(record.status, Status::fail) << record.message << record.reason;
  EXPECT_EQ(record.subjects, Names{k_query}) << record.message;
}

// As BF16 holds them after a rounding; NaN stays as it is.
Numbers rounded(const Numbers& exact, RoundingMode mode) {
  Numbers out;
  for (const double value : exact) {
    const std::uint32_t bits = std::uint32_t{round_to(static_cast<float>(value), DType::bf16, mode)} << 16U;
    out.push_back(static_cast<double>(std::bit_cast<float>(bits)));
  }
  return out;
}

const double k_nan = std::numeric_limits<double>::quiet_NaN();
const double k_infinity = std::numeric_limits<double>::infinity();
constexpr double k_largest = 3.3895313892515355e38;  // of BF16
constexpr double k_subnormal = 1e-39;                // in BF16 and in F32

TEST(Conversions, RoundingIsToNearestEvenOnce) {
  const Numbers exact = {1.0077, -2.0155, 3.0235, 4.031};  // each nearer to the BF16 value that is larger
  const auto judge = [&](const Numbers& after) { return converted("value.rounding", exact, "F32", after, "BF16"); };
  EXPECT_EQ(judge(rounded(exact, RoundingMode::nearest_even)).status, Status::pass);
  ASSERT_NE(rounded(exact, RoundingMode::toward_zero), rounded(exact, RoundingMode::nearest_even));
  expect_named(judge(rounded(exact, RoundingMode::toward_zero)));
  // A tensor that holds something else was not rounded wrongly.
  EXPECT_EQ(judge({9, 8, 7, 6}).status, Status::pass);
}

TEST(Conversions, EveryRoundingIsNamed) {
  // A tie, a value just above one, which F16 makes a tie, and two of either sign near their larger neighbour.
  const Numbers exact = {1.00390625, 1.004150390625, 1.0077, -1.0077};
  for (const auto& [mode, words] : {std::pair(RoundingMode::toward_zero, "Truncated instead of rounded to BF16"),
                                    std::pair(RoundingMode::ties_away, "Ties rounded away in BF16"),
                                    std::pair(RoundingMode::up, "Rounded upward to BF16"),
                                    std::pair(RoundingMode::down, "Rounded downward to BF16"),
                                    std::pair(RoundingMode::twice, "Rounded twice to BF16")}) {
    ASSERT_NE(rounded(exact, mode), rounded(exact, RoundingMode::nearest_even)) << words;
    const reports::CheckRecord record = converted("value.rounding", exact, "F32", rounded(exact, mode), "BF16");
    expect_named(record);
    EXPECT_NE(record.message.find(words), std::string::npos) << record.message;
    EXPECT_NE(record.message.find("(certain)"), std::string::npos) << record.message;
  }
}

// One vote, whichever command asks: the sentence of `verify --against` is the explanation of `diff`, the counts are its
// evidence.
TEST(Conversions, DiffSaysWhatVerifySays) {
  const Numbers exact = {k_nan, 1.00390625, 1.0077, -1.0077};
  const TemporaryDirectory base;
  const TemporaryDirectory directory;
  VerifyOptions options;
  options.against = Literal(llama_config()).set(k_query, exact, "F32").write(base).string();
  Numbers after = rounded(exact, RoundingMode::ties_away);
  after[0] = 1;
  const auto path = Literal(llama_config()).set(k_query, after).write(directory);
  const reports::CheckRecord record = record_of(verify(path, options), "value.rounding");
  expect_named(record);
  const ProcessResult result = run_tool({"diff", options.against, path.string(), "--json"});
  EXPECT_EQ(result.status, 1) << result.err;
  const ConfigValue document = ConfigValue::parse(result.out, "stdout");
  for (const ConfigValue& row : document.find("tensors")->items()) {
    if (row.find("key")->as_string() != k_query) {
      continue;
    }
    EXPECT_EQ(record.message, k_query + ": " + std::string(*row.find("explanation")->as_string()));
    const ConfigValue& votes = *row.find("evidence")->find("rounding");
    EXPECT_EQ(votes.find("rounded")->as_string(), "b");
    EXPECT_EQ(votes.find("decisive")->as_integer(), 3) << "NaN has no vote";
    EXPECT_EQ(votes.find("nearest_away")->as_integer(), 3);
    EXPECT_EQ(votes.find("nearest_even")->as_integer(), 2);
    EXPECT_EQ(votes.find("toward_zero")->as_integer(), 0);
    EXPECT_EQ(votes.find("none")->as_integer(), 0);
  }
}

// What ends in F16 may have gone through BF16, eight times as coarse: no further than a rounding goes, and named.
TEST(Conversions, RoundingToF16ThroughBf16IsNamed) {
  const Numbers exact = {k_nan, 1.00341796875, -2.0155, 3.0235};
  Numbers after = rounded(exact, RoundingMode::nearest_even);
  const reports::CheckRecord record = converted("value.rounding", exact, "F32", after, "F16");
  expect_named(record);
  EXPECT_NE(record.message.find("Rounded twice to F16"), std::string::npos) << record.message;
  after[0] = 0;
  expect_named(converted("value.nan_lost", exact, "F32", after, "F16"));
  // Below 2^-14 F16 is subnormal: what keeps its value there is right, zero is flushed.
  const Numbers small = {0x1p-15, 0x1.8p-20, 1, 2};
  EXPECT_EQ(converted("value.rounding", small, "F32", small, "F16").status, Status::pass);
  const reports::CheckRecord flushed = converted("value.rounding", small, "F32", {0, 0, 1, 2}, "F16");
  expect_named(flushed);
  EXPECT_NE(flushed.message.find("2 subnormal values are zero"), std::string::npos) << flushed.message;
}

// What NaN or infinity became is the matter of another check; it hides no rounding beside it.
TEST(Conversions, RoundingIsNamedBesideNan) {
  for (const double source : {k_nan, k_infinity}) {
    const Numbers exact = {source, 1.004150390625, 1.0077, -1.0077};
    for (const double found : {source, 0.0}) {
      Numbers after = rounded(exact, RoundingMode::twice);
      after[0] = found;
      const reports::CheckRecord record = converted("value.rounding", exact, "F32", after, "BF16");
      expect_named(record);
      EXPECT_NE(record.message.find("Rounded twice to BF16"), std::string::npos) << record.message;
      after = rounded(exact, RoundingMode::nearest_even);
      after[0] = found;
      EXPECT_EQ(converted("value.rounding", exact, "F32", after, "BF16").status, Status::pass);
    }
  }
}

TEST(Conversions, FlushedSubnormalsAreNamedBesideNan) {
  for (const char* dtype : {"BF16", "F32"}) {
    for (const double found : {k_nan, 5.0}) {
      const Numbers before = {k_nan, k_subnormal, 2, 3};
      const reports::CheckRecord record = converted("value.rounding", before, "F32", {found, 0, 2, 3}, dtype);
      expect_named(record);
      EXPECT_NE(record.message.find("Subnormals flushed to zero"), std::string::npos) << record.message;
      const Numbers kept = {found, std::string(dtype) == "F32" ? k_subnormal : rounded(before, {})[1], 2, 3};
      EXPECT_EQ(converted("value.rounding", before, "F32", kept, dtype).status, Status::pass);
    }
  }
  // What is nearest to zero is no flushed value.
  EXPECT_EQ(converted("value.rounding", {1e-45, 1, 2, 3}, "F32", {0, 1, 2, 3}, "BF16").status, Status::pass);
}

TEST(Conversions, NanAndInfinityStay) {
  const double nan = k_nan;
  const double inf = k_infinity;
  const auto judge = [&](const Numbers& after) {
    return converted("value.nan_lost", {nan, 1, -inf, 2}, "F32", after, "BF16");
  };
  EXPECT_EQ(judge({nan, 1, -inf, 2}).status, Status::pass);
  expect_named(judge({0, 1, -inf, 2}));
  expect_named(judge({nan, 1, inf, 2}));
  expect_named(judge({nan, 1, -3e38, 2}));
  EXPECT_EQ(judge({0, 5, 6, 7}).status, Status::pass) << "nothing of it is a conversion of the base";
  expect_named(judge({0, 1, -inf, 7}));  // one damaged element hides nothing
}

TEST(Conversions, ZeroKeepsItsSign) {
  const auto judge = [](const Numbers& after) {
    return converted("value.signed_zero", {-0.0, 1, 0, 2}, "F32", after, "BF16");
  };
  EXPECT_EQ(judge({-0.0, 1, 0, 2}).status, Status::pass);
  const reports::CheckRecord record = judge({0, 1, 0, 2});
  expect_named(record);
  EXPECT_NE(record.message.find("[0,0]"), std::string::npos) << record.message;
  expect_named(judge({-0.0, 1, -0.0, 2}));
}

TEST(Conversions, NothingFiniteBecomesInfinite) {
  const auto judge = [](const Numbers& before, const Numbers& after) {
    return converted("value.overflow", before, "F32", after, "BF16");
  };
  EXPECT_EQ(judge({k_largest, 1, 2, 3}, {k_largest, 1, 2, 3}).status, Status::pass);
  EXPECT_EQ(judge({k_infinity, 1, 2, 3}, {k_infinity, 1, 2, 3}).status, Status::pass);
  expect_named(judge({3.4e38, 1, 2, 3}, {k_infinity, 1, 2, 3}));
}

// A cast that saturates is allowed: it is said, and it is neither an overflow nor a wrong rounding.
TEST(Conversions, ACastThatSaturatesIsNoted) {
  const Numbers before = {3.4e38, 1.0077, -3.4e38, 2};
  Numbers after = rounded(before, RoundingMode::nearest_even);
  after[0] = k_largest;
  after[2] = -k_largest;
  const reports::CheckRecord record = converted("value.overflow", before, "F32", after, "BF16");
  EXPECT_EQ(record.status, Status::pass);
  EXPECT_NE(record.explanation.find(k_query + "[0,0] is the largest number of its dtype"), std::string::npos)
      << record.explanation;
  EXPECT_NE(record.explanation.find("and 1 more of its elements"), std::string::npos) << record.explanation;
  EXPECT_EQ(converted("value.rounding", before, "F32", after, "BF16").status, Status::pass);
}

TEST(Conversions, OverflowIsAllowedByName) {
  const TemporaryDirectory base;
  const TemporaryDirectory directory;
  VerifyOptions options;
  options.against = Literal(llama_config()).set(k_query, {3.4e38, 1, 2, 3}, "F32").write(base).string();
  const auto path = Literal(llama_config()).set(k_query, {k_infinity, 1, 2, 3}).write(directory);
  options.expect_file = (directory / "expected.json").string();
  for (const auto& [tensor, status] :
       {std::pair(k_query, Status::skip), std::pair(std::string("other.*"), Status::fail)}) {
    write_file(options.expect_file, R"([{"check": "value.overflow", "tensor": ")" + tensor +
                                        R"(", "reason": "meant", "until": "2999-12-31"}])");
    const reports::CheckRecord record = record_of(verify(path, options), "value.overflow");
    EXPECT_EQ(record.status, status) << tensor << record.message << record.reason;
  }
}

// Sixteen values of a matrix and what became of them; all records.
reports::Report moved(const Numbers& before, const Numbers& after) {
  const TemporaryDirectory base;
  const TemporaryDirectory directory;
  VerifyOptions options;
  options.against = Literal(llama_config()).more(k_query, "F32", {4, 4}, before).write(base).string();
  return verify(Literal(llama_config()).more(k_query, "BF16", {4, 4}, after).write(directory), options);
}

TEST(Conversions, WhatIsElsewhereWasNotConverted) {
  const Numbers before = {k_nan, -0.0, 3.4e38, k_subnormal, 1.0077, -2.0155, 3.0235, 4.031, 5, 6, 7, 8, 9, 10, 11, 12};
  Numbers in_place = rounded(before, RoundingMode::nearest_even);
  in_place[0] = 0;
  in_place[1] = 0;
  in_place[3] = 0;
  ASSERT_EQ(in_place[2], k_infinity);
  Numbers turned = in_place;
  std::rotate(turned.begin(), turned.begin() + 5, turned.end());
  Numbers replaced = in_place;
  std::fill(replaced.begin() + 4, replaced.end(), 0.5);
  Numbers damaged = in_place;
  damaged[9] = 1e9;
  const std::vector<const char*> ids = {"value.nan_lost", "value.signed_zero", "value.overflow", "value.rounding"};
  for (const char* id : ids) {
    for (const Numbers& elsewhere : {turned, replaced}) {
      const reports::Report report = moved(before, elsewhere);
      EXPECT_EQ(record_of(report, id).status, Status::pass) << id << ": " << record_of(report, id).message;
      EXPECT_EQ(record_of(report, "value.manifest").subjects, Names{k_query});
    }
    for (const Numbers& here : {in_place, damaged}) {
      expect_named(record_of(moved(before, here), id));
    }
  }
}

// The base is the one that was rounded: nothing was done wrong to what is verified.
TEST(Conversions, TheSideThatIsWiderIsNotBlamed) {
  const Numbers exact = {1.00390625, 1.0077, -2.0155, 3.4e38};
  for (const RoundingMode mode : {RoundingMode::toward_zero, RoundingMode::nearest_even}) {
    Numbers narrow = rounded(exact, mode);
    narrow[3] = k_infinity;
    const TemporaryDirectory base;
    const TemporaryDirectory directory;
    VerifyOptions options;
    options.against = Literal(llama_config()).set(k_query, narrow, "BF16").write(base).string();
    const reports::Report report = verify(Literal(llama_config()).set(k_query, exact, "F32").write(directory), options);
    const reports::CheckRecord& record = record_of(report, "value.rounding");
    EXPECT_EQ(record.status, Status::pass) << record.message;
    const std::string words = "the base is what this holds, rounded " + std::string(to_string(mode));
    EXPECT_NE(record.explanation.find(words), std::string::npos) << record.explanation;
    EXPECT_EQ(record_of(report, "value.nan_lost").status, Status::pass) << "an infinity of the base's own making";
    const reports::CheckRecord& values = record_of(report, "value.manifest");
    EXPECT_EQ(values.subjects, Names{k_query});
    EXPECT_NE(values.explanation.find("the base is what the checkpoint holds, rounded"), std::string::npos)
        << values.explanation;
  }
}

TEST(Conversions, AreSkippedWithoutABase) {
  const TemporaryDirectory directory;
  const reports::Report report = judged(Literal(llama_config()).write(directory));
  for (const char* id : {"value.rounding", "value.nan_lost", "value.signed_zero", "value.overflow"}) {
    EXPECT_EQ(record_of(report, id).status, Status::skip) << id;
    EXPECT_NE(record_of(report, id).reason.find("--against"), std::string::npos) << id;
  }
}

}  // namespace
}  // namespace weightproof::suites::test
