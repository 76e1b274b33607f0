// SPDX-License-Identifier: Apache-2.0
#include "loader/core/error.hpp"

#include <gtest/gtest.h>

#include <set>

#include "loader/core/check.hpp"
#include "loader/core/diagnostic.hpp"
#include "loader/core/dtype.hpp"

namespace weightproof {
namespace {

const ErrorCode k_all_codes[] = {
#define X(name, code, error_class, class_name, check) ErrorCode::name,
#include "loader/core/errors.def"
#undef X
};

TEST(Error, CodesAreUniqueUpperCaseAndReadBack) {
  std::set<std::string_view> seen;
  for (const ErrorCode code : k_all_codes) {
    const std::string_view text = to_string(code);
    EXPECT_TRUE(seen.insert(text).second) << text;
    EXPECT_EQ(text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), std::string_view::npos) << text;
    EXPECT_EQ(error_code_from_string(text), code);
  }
  EXPECT_EQ(error_code_from_string("header_too_small"), std::nullopt);
  EXPECT_EQ(error_code_from_string(""), std::nullopt);
}

TEST(Error, EveryCheckNamedByACodeExists) {
  for (const ErrorCode code : k_all_codes) {
    if (!check_of(code).empty()) {
      EXPECT_NE(find_check(check_of(code)), nullptr) << to_string(code);
    }
  }
}

TEST(Error, CarriesItsFactsAndIsCompletedOnTheWay) {
  ErrorFacts facts;
  facts.keys = {"a.weight"};
  Error error(ErrorCode::shape_mismatch, "tensor 'a.weight' has shape [2]", facts);
  EXPECT_STREQ(error.what(), "SHAPE_MISMATCH: tensor 'a.weight' has shape [2]");
  EXPECT_EQ(error.check(), "keys.shape");
  error.in_file("model.safetensors").in_file("other").on_rank(3).on_rank(4).note("first").note("second");
  EXPECT_EQ(error.facts().file, "model.safetensors") << "the innermost context wins";
  EXPECT_EQ(error.facts().rank, 3);
  EXPECT_EQ(error.facts().notes, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(class_of(error.code()), ErrorClass::coverage);
  EXPECT_EQ(to_string(ErrorClass::exporting), "export");
  EXPECT_EQ(format_name_of(ErrorCode::invalid_offset), "InvalidOffset");
  EXPECT_EQ(format_name_of(ErrorCode::usage), "");

  ErrorFacts other;
  other.check = "format.limits";
  EXPECT_EQ(Error(ErrorCode::limit_exceeded, "x", other).check(), "format.limits");
}

TEST(Error, MessageMayBeComposedFromTheFactsThatAreMoved) {
  ErrorFacts facts;
  facts.keys = {"a tensor with a name too long for the small buffer"};
  const Error error(ErrorCode::missing_keys, "no " + facts.keys[0], std::move(facts));
  EXPECT_EQ(error.message(), "no a tensor with a name too long for the small buffer");
  EXPECT_EQ(error.facts().keys.size(), 1u);
}

TEST(Error, BecomesADiagnostic) {
  ErrorFacts facts;
  facts.file = "config.json";
  facts.byte_offset = 12;
  const Diagnostic diagnostic = diagnostic_of(Error(ErrorCode::config_invalid, "config.json is not sound JSON", facts));
  EXPECT_EQ(diagnostic.check, "format.config");
  EXPECT_EQ(diagnostic.severity, Severity::fail);
  EXPECT_EQ(diagnostic.code, "CONFIG_INVALID");
  EXPECT_EQ(diagnostic.message, "config.json is not sound JSON");
  EXPECT_EQ(diagnostic.facts.byte_offset, 12u);
}

struct AssertSeen {
  std::string expression;
};

TEST(Error, AssertionCallsTheReplaceableHandler) {
  const AssertHandler before =
      set_assert_handler([](const char* expression, const char*, int) { throw AssertSeen{expression}; });
  try {
    WEIGHTPROOF_ASSERT(1 + 1 == 3);
    ADD_FAILURE() << "the assertion did not fire";
  } catch (const AssertSeen& seen) {
    EXPECT_EQ(seen.expression, "1 + 1 == 3");
  }
  set_assert_handler(before);
  WEIGHTPROOF_ASSERT(1 + 1 == 2);
}

TEST(ErrorDeathTest, AHandlerThatReturnsDoesNotLetTheFaultPass) {
  EXPECT_DEATH(
      {
        set_assert_handler([](const char*, const char*, int) {});
        WEIGHTPROOF_ASSERT(false);
      },
      "");
}

TEST(Check, TableIsSound) {
  std::set<std::string_view> seen;
  const std::set<std::string_view> severities = {"fail", "warn", "note", "error"};
  for (const CheckInfo& info : all_checks()) {
    EXPECT_TRUE(seen.insert(info.id).second) << info.id;
    EXPECT_NE(info.id.find('.'), std::string_view::npos) << info.id;
    EXPECT_FALSE(info.summary.empty()) << info.id;
    std::string_view rest = info.severities;
    while (!rest.empty()) {
      const std::size_t comma = rest.find(", ");
      EXPECT_TRUE(severities.contains(rest.substr(0, comma))) << info.id;
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 2);
    }
  }
  EXPECT_EQ(find_check("keys.missing")->group(), "keys");
  EXPECT_EQ(find_check("keys.nothing"), nullptr);
}

TEST(DType, TableMatchesTheFormat) {
  EXPECT_EQ(all_dtypes().size(), 22u);
  for (std::size_t i = 0; i < all_dtypes().size(); ++i) {
    const DType dtype = all_dtypes()[i];
    EXPECT_EQ(static_cast<std::size_t>(dtype), i) << "order is the writer's sort key";
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
  }
  EXPECT_EQ(bits_of(DType::f4), 4u);
  EXPECT_EQ(bits_of(DType::f6_e2m3), 6u);
  EXPECT_EQ(bits_of(DType::bool8), 8u);
  EXPECT_EQ(bits_of(DType::c64), 64u);
  EXPECT_EQ(name_of(DType::bool8), "BOOL");
  EXPECT_EQ(kind_of(DType::f8_e8m0), DTypeKind::floating);
  EXPECT_LT(DType::f16, DType::bf16);
  EXPECT_LT(DType::i64, DType::u64);
  EXPECT_EQ(dtype_from_name("bf16"), std::nullopt) << "names are case sensitive";
  EXPECT_EQ(dtype_from_name("BF16 "), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
}

TEST(DType, ConfigNames) {
  EXPECT_EQ(dtype_from_config_name("bfloat16"), DType::bf16);
  EXPECT_EQ(dtype_from_config_name("torch.float16"), DType::f16);
  EXPECT_EQ(dtype_from_config_name("half"), DType::f16);
  EXPECT_EQ(dtype_from_config_name("torch.float8_e4m3fn"), DType::f8_e4m3);
  EXPECT_EQ(dtype_from_config_name("auto"), std::nullopt);
  EXPECT_EQ(dtype_from_config_name("torch."), std::nullopt);
  EXPECT_TRUE(is_ordinary_float(DType::f64));
  EXPECT_FALSE(is_ordinary_float(DType::f8_e4m3));
}

}  // namespace
}  // namespace weightproof
