// SPDX-License-Identifier: Apache-2.0
#include "loader/core/config.hpp"

#include <gtest/gtest.h>

#include "loader/core/error.hpp"
#include "loader/core/limits.hpp"

namespace weightproof {
namespace {

ConfigValue parse(std::string_view text) { return ConfigValue::parse(text, "config.json"); }

struct Outcome {
  ErrorCode code = ErrorCode::usage;
  std::uint64_t offset = UINT64_MAX;
  std::string message;
};

Outcome outcome_of(std::string_view text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.facts().file, "config.json");
    return {error.code(), error.facts().byte_offset.value_or(UINT64_MAX), error.message()};
  }
  return {};
}

TEST(Config, ReadsAllKindsOfValues) {
  const ConfigValue value = parse(
      R"({"b":true,"i":-7,"u":18446744073709551615,"d":1.5,"e":2e3,"s":"a\u00e9\n","n":null,"a":[1,[2],{}],"o":{"x":{"y":3}}})");
  EXPECT_EQ(value.find("b")->as_bool(), true);
  EXPECT_EQ(value.find("i")->as_integer(), -7);
  EXPECT_EQ(value.find("u")->as_integer(), std::nullopt) << "does not fit";
  EXPECT_TRUE(value.find("u")->is_integer());
  EXPECT_EQ(value.find("u")->as_number(), 18446744073709551615.0);
  EXPECT_EQ(value.find("d")->as_integer(), std::nullopt);
  EXPECT_EQ(value.find("d")->as_number(), 1.5);
  EXPECT_EQ(value.find("e")->as_integer(), 2000) << "an integral double counts as one";
  EXPECT_EQ(value.find("s")->as_string(), "a\xC3\xA9\n");
  EXPECT_TRUE(value.find("n")->is_null());
  EXPECT_EQ(value.find("a")->items().size(), 3u);
  EXPECT_EQ(value.find("o.x.y")->as_integer(), 3);
  EXPECT_EQ(value.find("o.z"), nullptr);
  EXPECT_EQ(value.find("i.x"), nullptr);
  EXPECT_TRUE(value.has("o"));
  EXPECT_EQ(value.members()[0].first, "b") << "file order";
  EXPECT_EQ(value.find("b")->as_integer(), std::nullopt);
  EXPECT_EQ(value.find("s")->items().size(), 0u);
  EXPECT_EQ(value.dump(),
            "{\"b\":true,\"i\":-7,\"u\":18446744073709551615,\"d\":1.5,\"e\":2000.0,\"s\":\"a\xC3\xA9\\n\",\"n\":null,"
            "\"a\":[1,[2],{}],\"o\":{\"x\":{\"y\":3}}}");
  EXPECT_EQ(parse("5.0").dump(), "5.0");
  EXPECT_EQ(parse("\"\\u0001\\\"\\\\\"").dump(), "\"\\u0001\\\"\\\\\"");
}

TEST(Config, NamesWithDotsWinOverPaths) {
  const ConfigValue value = parse(R"({"a":{"b":1},"a.b":2,"c.d":{"e":3}})");
  EXPECT_EQ(value.find("a.b")->as_integer(), 2);
  EXPECT_EQ(value.find("c.d.e"), nullptr) << "only the whole rest of a path is tried as one name";
}

TEST(Config, IntegralDoubleAtTheEdge) {
  EXPECT_EQ(parse("9223372036854775808.0").as_integer(), std::nullopt);
  EXPECT_EQ(parse("-9223372036854775808.0").as_integer(), INT64_MIN);
}

TEST(Config, DuplicateNameIsRefusedWithItsOffset) {
  //                        0123456789012345678
  Outcome outcome = outcome_of(R"({"a":1,"b":2,"a":3})");
  EXPECT_EQ(outcome.code, ErrorCode::duplicate_key);
  EXPECT_EQ(outcome.offset, 13u);
  outcome = outcome_of(R"({"x":[{"\"q":1, "\"q" :2}]})");
  EXPECT_EQ(outcome.code, ErrorCode::duplicate_key);
  EXPECT_EQ(outcome.offset, 16u);
  EXPECT_EQ(outcome_of(R"({"a":1,"\u0061":2})").code, ErrorCode::duplicate_key) << "equal once decoded";
  EXPECT_EQ(outcome_of(R"({"a":{"a":1},"b":{"a":1}})").code, ErrorCode::usage) << "one object each";

  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += "\"k" + std::to_string(i) + "\":0,";
  EXPECT_EQ(outcome_of(many + "\"k100\":0}").code, ErrorCode::usage);
  EXPECT_EQ(outcome_of(many + "\"k3\":0}").offset, many.size());
  EXPECT_EQ(outcome_of(many + "\"k99\":0}").code, ErrorCode::duplicate_key);
}

TEST(Config, UnsoundTextIsRefusedWithItsOffset) {
  struct Case {
    std::string_view text;
    std::uint64_t offset;
  };
  const Case cases[] = {
      {"", 0},
      {"{", 1},
      {"{\"a\":1,}", 7},
      {"[1,2", 4},
      {"{\"a\" 1}", 5},
      {"nul", 3},
      {"{}x", 2},
      {"[NaN]", 1},
      {"[01]", 2},
      {"// c\n{}", 0},
      {"\"\x01\"", 1},
      {"\"\xFF\"", 1},
      {"\"\xC3(\"", 2},
      {"\"\\ud800\"", 7},
      {"[1e999]", 5},
      {"\"unended", 8},
      {"\xEF\xBB\xBF{}", 0},
      {std::string_view("{}\0x", 4), 2},
      {std::string_view("[\0]", 3), 1},
      {"\"\xED\xA0\x80\"", 2},
  };
  for (const Case& c : cases) {
    const Outcome outcome = outcome_of(c.text);
    EXPECT_EQ(outcome.code, ErrorCode::config_invalid) << c.text;
    EXPECT_EQ(outcome.offset, c.offset) << c.text << " " << outcome.message;
    for (const char byte : outcome.message) EXPECT_LT(static_cast<unsigned char>(byte), 0x80u) << c.text;
  }
}

TEST(Config, DepthIsCapped) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(outcome_of(nested(limits::json_depth_max)).code, ErrorCode::usage);
  const Outcome outcome = outcome_of(nested(limits::json_depth_max + 1));
  EXPECT_EQ(outcome.code, ErrorCode::limit_exceeded);
  EXPECT_EQ(outcome.offset, limits::json_depth_max);
  EXPECT_EQ(outcome_of(std::string(1'000'000, '[')).code, ErrorCode::limit_exceeded);
}

TEST(Config, SizeIsCapped) {
  std::string text = "{}";
  text.resize(limits::config_bytes_max, ' ');
  EXPECT_EQ(outcome_of(text).code, ErrorCode::usage);
  text += ' ';
  EXPECT_EQ(outcome_of(text).code, ErrorCode::limit_exceeded);
}

TEST(Config, NumberOfValuesIsCapped) {
  // The array itself is one value as well.
  const auto zeros = [](std::size_t count) {
    std::string text = "[0";
    for (std::size_t i = 1; i < count; ++i) text += ",0";
    return text + "]";
  };
  EXPECT_EQ(parse(zeros(limits::json_values_max - 1)).items().size(), limits::json_values_max - 1);
  EXPECT_EQ(outcome_of(zeros(limits::json_values_max)).code, ErrorCode::limit_exceeded);
}

TEST(Config, EveryPrefixAndEveryByteFlipIsHandled) {
  const std::string sound = R"({"a":[1,2.5,"x\u00e9"],"b":{"c":null,"d":false},"e":"\ud83d\ude00"})";
  ASSERT_EQ(outcome_of(sound).code, ErrorCode::usage);
  for (std::size_t i = 0; i < sound.size(); ++i) EXPECT_NE(outcome_of(sound.substr(0, i)).code, ErrorCode::usage) << i;
  for (std::size_t i = 0; i < sound.size(); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = sound;
      changed[i] = static_cast<char>(byte);
      const Outcome outcome = outcome_of(changed);
      if (outcome.code != ErrorCode::usage) {
        EXPECT_LE(outcome.offset, changed.size());
      }
    }
  }
}

}  // namespace
}  // namespace weightproof
