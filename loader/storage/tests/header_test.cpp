// SPDX-License-Identifier: Apache-2.0
// Every verdict of the format on malformed and odd headers, as data.
#include "loader/storage/header.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "loader/core/limits.hpp"
#include "loader/storage/tests/storage_testing.hpp"

namespace weightproof::storage {
namespace {

using namespace std::string_literals;

Header scan(const std::string& text, std::uint64_t data_bytes) {
  auto owner = std::make_shared<std::string>(text);
  return scan_header(*owner, 8 + text.size() + data_bytes, "model.safetensors", owner);
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

// Padding with a comment-free, valid filler makes the short cut of the scanner see the entry as well: it only looks at
// entries that stand well before the end.
std::string padded(const std::string& text) { return text + std::string(512, ' '); }

struct Row {
  const char* name;
  std::string text;
  std::uint64_t data_bytes;
  std::string code;   // empty: accepted
  std::string check;  // of the error, or of the diagnostic that an accepted header must have (empty: none)
  std::string key;    // tensor that the error must name
};

std::string deep(unsigned levels) { return std::string(levels, '[') + std::string(levels, ']'); }

std::vector<Row> rows() {
  const std::string json = "INVALID_HEADER_DESERIALIZATION";
  const std::string whole = "[0,8]";
  const std::string a = entry("a", "I32", "[2]", whole);
  const std::string max = "18446744073709551615";
  return {
      {"plain", "{" + a + "}", 8, "", "", ""},
      {"leading_space", " {" + a + "}", 8, "", "format.leading_whitespace", ""},
      {"leading_newline", "\n\t{" + a + "}", 8, "", "format.leading_whitespace", ""},
      {"trailing_space", "{" + a + "} \t\r\n", 8, "", "", ""},
      {"trailing_nul", "{" + a + "}" + std::string(3, '\0'), 8, json, "format.json", ""},
      {"empty_text", "", 0, json, "format.json", ""},
      {"array", "[]", 0, json, "format.json", ""},
      {"number", "12", 0, json, "format.json", ""},
      {"byte_order_mark", "\xEF\xBB\xBF{}", 0, json, "format.json", ""},
      {"trailing_comma", "{" + a + ",}", 8, json, "format.name", ""},
      {"comment", "{/* */" + a + "}", 8, json, "format.name", ""},
      {"nan", "{\"a\":NaN}", 0, json, "format.json", "a"},
      {"second_document", "{}{}", 0, json, "format.json", ""},
      {"unterminated", "{" + a, 8, json, "format.json", ""},
      {"no_tensors", "{}", 0, "", "", ""},
      {"no_tensors_padded", "{}      ", 0, "", "", ""},
      {"no_tensors_with_data", "{}", 4, "METADATA_INCOMPLETE_BUFFER", "format.trailing", ""},
      {"duplicate_equal", "{" + a + "," + a + "}", 8, "DUPLICATE_KEY", "format.duplicate_key", "a"},
      {"duplicate_different", "{" + a + "," + entry("a", "I32", "[2]", "[8,16]") + "}", 16, "DUPLICATE_KEY",
       "format.duplicate_key", "a"},
      {"duplicate_by_escape", "{" + a + "," + entry("\\u0061", "I32", "[2]", "[8,16]") + "}", 16, "DUPLICATE_KEY",
       "format.duplicate_key", "a"},
      {"duplicate_before_fault", "{" + a + "," + a + ",\"b\":7}", 8, "DUPLICATE_KEY", "format.duplicate_key", "a"},
      {"metadata", "{\"__metadata__\":{\"format\":\"pt\"}," + a + "}", 8, "", "", ""},
      {"metadata_last", "{" + a + ",\"__metadata__\":{\"format\":\"pt\"}}", 8, "", "", ""},
      {"metadata_empty", "{\"__metadata__\":{}," + a + "}", 8, "", "", ""},
      {"metadata_twice", "{\"__metadata__\":{},\"__metadata__\":{}," + a + "}", 8, json, "format.metadata", ""},
      {"metadata_twice_null", "{\"__metadata__\":null,\"__metadata__\":{}," + a + "}", 8, json, "format.metadata", ""},
      {"metadata_inner_twice", "{\"__metadata__\":{\"x\":\"1\",\"x\":\"1\"}," + a + "}", 8, "DUPLICATE_KEY",
       "format.duplicate_key", ""},
      {"metadata_null", "{\"__metadata__\":null," + a + "}", 8, "", "format.metadata", ""},
      {"metadata_integer", "{\"__metadata__\":{\"x\":1}," + a + "}", 8, json, "format.metadata", ""},
      {"metadata_value_null", "{\"__metadata__\":{\"x\":null}," + a + "}", 8, json, "format.metadata", ""},
      {"metadata_value_object", "{\"__metadata__\":{\"x\":{}}," + a + "}", 8, json, "format.metadata", ""},
      {"metadata_tensor", "{" + entry("__metadata__", "I32", "[2]", whole) + "}", 8, json, "format.metadata", ""},
      {"metadata_string", "{\"__metadata__\":\"x\"," + a + "}", 8, json, "format.metadata", ""},
      {"metadata_surrogate", "{\"__metadata__\":{\"x\":\"\\ud800\"}," + a + "}", 8, json, "format.metadata", ""},
      {"extra_field", "{\"a\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":[{\"y\":[]},1.5e3,null]}}",
       8, "", "format.extra_field", "a"},
      {"extra_field_twice", "{\"a\":{\"x\":1,\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":2}}", 8,
       "DUPLICATE_KEY", "format.duplicate_key", "a"},
      {"extra_field_deepest",
       "{\"a\":{\"x\":" + deep(limits::json_depth_max) + ",\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
       "", "format.extra_field", "a"},
      {"extra_field_too_deep",
       "{\"a\":{\"x\":" + deep(limits::json_depth_max + 1) +
           ",\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
       8, "LIMIT_EXCEEDED", "format.limits", "a"},
      {"extra_field_bad", "{\"a\":{\"x\":[1,],\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, json,
       "format.json", "a"},
      {"missing_dtype", "{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, json, "format.json", "a"},
      {"missing_shape", "{\"a\":{\"dtype\":\"I32\",\"data_offsets\":[0,8]}}", 8, json, "format.json", "a"},
      {"missing_offsets", "{\"a\":{\"dtype\":\"I32\",\"shape\":[2]}}", 8, json, "format.json", "a"},
      {"field_twice", "{\"a\":{\"dtype\":\"I32\",\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, json,
       "format.json", "a"},
      {"empty_entry", "{\"a\":{}}", 0, json, "format.json", "a"},
      {"field_by_escape", "{\"a\":{\"dt\\u0079pe\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "", "", ""},
      {"other_order", "{\"a\":{\"data_offsets\":[0,8],\"shape\":[2],\"dtype\":\"I32\"}}", 8, "", "", ""},
      {"spaced", "{ \"a\" : { \"dtype\" : \"I32\" , \"shape\" : [ 2 ] , \"data_offsets\" : [ 0 , 8 ] } }", 8, "", "",
       ""},
      {"entry_as_array", "{\"a\":[\"I32\",[2],[0,8]]}", 8, json, "format.json", "a"},
      {"dtype_as_object", "{\"a\":{\"dtype\":{\"I32\":null},\"shape\":[2],\"data_offsets\":[0,8]}}", 8, json,
       "format.json", "a"},
      {"dtype_unknown", "{" + entry("a", "F99", "[2]", whole) + "}", 8, json, "format.dtype", "a"},
      {"dtype_lower_case", "{" + entry("a", "i32", "[2]", whole) + "}", 8, json, "format.dtype", "a"},
      {"dtype_prefix", "{" + entry("a", "F8_E4M3FN", "[8]", whole) + "}", 8, json, "format.dtype", "a"},
      {"integer_with_fraction", "{" + entry("a", "I32", "[2]", "[0,8.0]") + "}", 8, json, "format.json", "a"},
      {"integer_with_exponent", "{" + entry("a", "I32", "[2]", "[0,8e0]") + "}", 8, json, "format.json", "a"},
      {"integer_minus_zero", "{" + entry("a", "I32", "[2]", "[-0,8]") + "}", 8, json, "format.json", "a"},
      {"integer_as_string", "{" + entry("a", "I32", "[2]", "[0,\"8\"]") + "}", 8, json, "format.json", "a"},
      {"integer_leading_zero", "{" + entry("a", "I32", "[02]", whole) + "}", 8, json, "format.json", "a"},
      {"integer_double_zero", "{" + entry("a", "I32", "[2]", "[00,8]") + "}", 8, json, "format.json", "a"},
      {"integer_negative", "{" + entry("a", "I32", "[-2]", whole) + "}", 8, json, "format.json", "a"},
      {"integer_2_64", "{" + entry("a", "I32", "[18446744073709551616]", whole) + "}", 8, json, "format.json", "a"},
      {"integer_huge", "{" + entry("a", "I32", "[99999999999999999999999]", whole) + "}", 8, json, "format.json", "a"},
      {"offsets_one", "{" + entry("a", "I32", "[2]", "[8]") + "}", 8, json, "format.json", "a"},
      {"offsets_three", "{" + entry("a", "I32", "[2]", "[0,8,8]") + "}", 8, json, "format.json", "a"},
      {"offsets_none", "{" + entry("a", "I32", "[2]", "[]") + "}", 8, json, "format.json", "a"},
      {"shape_null", "{" + entry("a", "I32", "null", whole) + "}", 8, json, "format.json", "a"},
      {"hole_at_start", "{" + entry("a", "I32", "[2]", "[4,12]") + "}", 12, "INVALID_OFFSET", "format.offsets", "a"},
      {"gap", "{" + a + "," + entry("b", "I32", "[2]", "[12,20]") + "}", 20, "INVALID_OFFSET", "format.offsets", "b"},
      {"overlap", "{" + a + "," + entry("b", "I32", "[2]", "[4,12]") + "}", 12, "INVALID_OFFSET", "format.offsets",
       "b"},
      {"overlap_out_of_order", "{" + entry("b", "I32", "[2]", "[4,12]") + "," + a + "}", 12, "INVALID_OFFSET",
       "format.offsets", "b"},
      {"end_before_begin", "{" + entry("a", "I32", "[2]", "[8,0]") + "}", 8, "INVALID_OFFSET", "format.offsets", "a"},
      {"end_before_begin_at_boundary", "{" + a + "," + entry("b", "I32", "[0]", "[8,7]") + "}", 8, "INVALID_OFFSET",
       "format.offsets", "b"},
      {"shape_zero_first", "{" + entry("a", "I32", "[0," + max + ",2]", "[0,0]") + "}", 0, "VALIDATION_OVERFLOW",
       "format.overflow", "a"},
      {"shape_zero_last", "{" + entry("a", "I32", "[" + max + ",2,0]", "[0,0]") + "}", 0, "VALIDATION_OVERFLOW",
       "format.overflow", "a"},
      {"shape_zero_alone", "{" + entry("a", "I32", "[0," + max + "]", "[0,0]") + "}", 0, "", "", ""},
      {"bits_overflow", "{" + entry("a", "I32", "[2,9223372036854775807]", whole) + "}", 8, "VALIDATION_OVERFLOW",
       "format.overflow", "a"},
      {"f4_odd", "{" + entry("a", "F4", "[3]", "[0,2]") + "}", 2, "MISALIGNED_SLICE", "format.size", "a"},
      {"f6_odd", "{" + entry("a", "F6_E2M3", "[3]", "[0,3]") + "}", 3, "MISALIGNED_SLICE", "format.size", "a"},
      {"f4_even", "{" + entry("a", "F4", "[4]", "[0,2]") + "}", 2, "", "", ""},
      {"f6_even", "{" + entry("a", "F6_E3M2", "[4]", "[0,3]") + "}", 3, "", "", ""},
      {"wrong_size", "{" + entry("a", "I32", "[3]", whole) + "}", 8, "TENSOR_INVALID_INFO", "format.size", "a"},
      {"size_before_next_offset",
       "{" + entry("a", "I32", "[3]", whole) + "," + entry("b", "I32", "[2]", "[9,17]") + "}", 17,
       "TENSOR_INVALID_INFO", "format.size", "a"},
      {"zero_at_start", "{" + entry("z", "F32", "[0]", "[0,0]") + "," + a + "}", 8, "", "", ""},
      {"zero_at_end", "{" + a + "," + entry("z", "F32", "[0,5]", "[8,8]") + "}", 8, "", "", ""},
      {"zero_on_boundary",
       "{" + a + "," + entry("z", "F32", "[0]", "[8,8]") + "," + entry("b", "I32", "[2]", "[8,16]") + "}", 16, "", "",
       ""},
      {"zero_inside", "{" + a + "," + entry("z", "F32", "[0]", "[4,4]") + "}", 8, "INVALID_OFFSET", "format.offsets",
       "z"},
      {"zero_beyond", "{" + a + "," + entry("z", "F32", "[0]", "[9,9]") + "}", 8, "INVALID_OFFSET", "format.offsets",
       "z"},
      {"scalar", "{" + entry("a", "I64", "[]", whole) + "}", 8, "", "", ""},
      {"empty_name", "{" + entry("", "I32", "[2]", whole) + "}", 8, "", "format.name", ""},
      {"control_name", "{" + entry("a\\u0001", "I32", "[2]", whole) + "}", 8, "", "format.name", "a\x01"},
      {"delete_name", "{" + entry("a\x7F", "I32", "[2]", whole) + "}", 8, "", "format.name", "a\x7F"},
      {"lone_surrogate", "{" + entry("\\ud800", "I32", "[2]", whole) + "}", 8, json, "format.name", ""},
      {"trailing_surrogate", "{" + entry("\\udc00", "I32", "[2]", whole) + "}", 8, json, "format.name", ""},
      {"surrogate_then_letter", "{" + entry("\\ud800\\u0041", "I32", "[2]", whole) + "}", 8, json, "format.name", ""},
      {"raw_control", "{\"a\nb\":{}}", 0, json, "format.json", ""},
      {"bad_escape", "{" + entry("\\x41", "I32", "[2]", whole) + "}", 8, json, "format.json", ""},
      {"name_not_string", "{1:{}}", 0, json, "format.json", ""},
      {"file_short", "{" + a + "}", 7, "METADATA_INCOMPLETE_BUFFER", "format.truncated", "a"},
      {"file_long", "{" + a + "}", 9, "METADATA_INCOMPLETE_BUFFER", "format.trailing", ""},
      {"rank_max", "{" + entry("a", "I32", "[1,1,1,1,1,1,1,2]", whole) + "}", 8, "", "", ""},
      {"rank_above_max", "{" + entry("a", "I32", "[1,1,1,1,1,1,1,1,2]", whole) + "}", 8, "LIMIT_EXCEEDED",
       "format.limits", "a"},
      {"not_utf8", "{\"a\xFF\":{}}", 0, "INVALID_HEADER", "format.utf8", ""},
      {"utf8_overlong", "{\"a\xC0\x80\":{}}", 0, "INVALID_HEADER", "format.utf8", ""},
      {"utf8_surrogate", "{\"a\xED\xA0\x80\":{}}", 0, "INVALID_HEADER", "format.utf8", ""},
      {"utf8_cut", "{\"a\xE2\x82", 0, "INVALID_HEADER", "format.utf8", ""},
      {"utf8_name", "{" + entry("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "I32", "[2]", whole) + "}", 8, "", "", ""},
  };
}

void judge(const Row& row, const std::string& text) {
  SCOPED_TRACE(row.name);
  const Header header = scan(text, row.data_bytes);
  if (row.code.empty()) {
    ASSERT_FALSE(header.error.has_value()) << header.error->what();
    std::vector<std::string> checks;
    for (const Diagnostic& found : header.diagnostics) {
      EXPECT_NE(found.severity, Severity::fail);
      if (found.check == "format.alignment") continue;
      checks.push_back(found.check);
      EXPECT_EQ(found.check, row.check) << found.message;
      if (!row.key.empty()) {
        ASSERT_FALSE(found.facts.keys.empty());
        EXPECT_EQ(found.facts.keys[0], row.key);
      }
    }
    EXPECT_EQ(checks.size(), row.check.empty() ? 0U : 1U);
    return;
  }
  ASSERT_TRUE(header.error.has_value());
  EXPECT_EQ(to_string(header.error->code()), row.code) << header.error->what();
  EXPECT_EQ(header.error->facts().file, "model.safetensors");
  if (row.name == "trailing_comma"s || row.name == "comment"s) return;  // the name is what is missing there
  EXPECT_EQ(header.error->check(), row.check) << header.error->what();
  if (!row.key.empty()) {
    ASSERT_FALSE(header.error->facts().keys.empty()) << header.error->what();
    EXPECT_EQ(header.error->facts().keys[0], row.key);
  }
}

TEST(HeaderVerdict, AsTheFormatSays) {
  for (const Row& row : rows()) judge(row, row.text);
}

TEST(HeaderVerdict, SameOnTheShortCut) {
  for (const Row& row : rows()) {
    // White space at the end changes no verdict but lets the short cut see every entry.
    if (row.name == "unterminated"s || row.name == "utf8_cut"s) continue;
    judge(row, padded(row.text));
  }
}

TEST(HeaderVerdict, PositionOfTheFault) {
  const std::string good = entry("a", "I32", "[2]", "[0,8]");
  const Header number = scan("{" + good + ",\"b\":{\"dtype\":\"I32\",\"shape\":[-1],\"data_offsets\":[8,8]}}", 8);
  ASSERT_TRUE(number.error);
  EXPECT_EQ(number.error->facts().byte_offset,
            8 + 1 + good.size() + 1 + "\"b\":{\"dtype\":\"I32\",\"shape\":["s.size());
  const Header gap = scan("{" + good + "," + entry("b", "I32", "[2]", "[12,20]") + "}", 20);
  ASSERT_TRUE(gap.error);
  EXPECT_EQ(gap.error->facts().byte_offset, 8 + 1 + good.size() + 1);
  const Header utf8 = scan("{\"ab\xFF", 0);
  ASSERT_TRUE(utf8.error);
  EXPECT_EQ(utf8.error->facts().byte_offset, 8U + 4U);
}

TEST(HeaderScan, EscapesAreDecoded) {
  const Header header = scan("{" + entry("\\u0061\\n\\\"\\/\\u0001\\ud83d\\ude00", "I32", "[2]", "[0,8]") +
                                 ",\"__metadata__\":{\"k\\u0065y\":\"\\t\\u20ac\"}}",
                             8);
  ASSERT_FALSE(header.error) << header.error->what();
  ASSERT_EQ(header.tensors.size(), 1U);
  EXPECT_EQ(header.tensors[0].name, "a\n\"/\x01\xF0\x9F\x98\x80");
  ASSERT_EQ(header.metadata.size(), 1U);
  EXPECT_EQ(header.metadata[0].first, "key");
  EXPECT_EQ(header.metadata[0].second, "\t\xE2\x82\xAC");
}

TEST(HeaderScan, EveryDTypeOnBothWays) {
  for (const DType dtype : all_dtypes()) {
    const std::uint64_t bytes = bits_of(dtype) * 8 / 8;  // 8 elements
    const std::string text =
        "{" + entry("t", std::string(name_of(dtype)), "[2,4]", "[0," + std::to_string(bytes) + "]") + "}";
    for (const std::string& variant : {text, padded(text)}) {
      const Header header = scan(variant, bytes);
      ASSERT_FALSE(header.error) << header.error->what();
      EXPECT_EQ(header.tensors[0].dtype, dtype);
      EXPECT_EQ(header.tensors[0].shape, (Shape{2, 4}));
      EXPECT_EQ(header.tensors[0].end, bytes);
    }
  }
}

TEST(HeaderScan, ShortCutAndGeneralWayAgreeOnLargeNumbers) {
  const std::string text = "{" + entry("t", "U8", "[1234567890123456789,1,7]", "[0,8641975230864197523]") + "}";
  for (const std::string& variant : {text, padded(text)}) {
    const Header header = scan(variant, 1);
    ASSERT_EQ(header.tensors.size(), 1U);
    EXPECT_EQ(header.tensors[0].shape, (Shape{1234567890123456789ULL, 1, 7}));
    EXPECT_EQ(header.tensors[0].end, 8641975230864197523ULL);
    ASSERT_TRUE(header.error);
    EXPECT_EQ(header.error->code(), ErrorCode::validation_overflow);
  }
}

TEST(HeaderScan, HeaderOrderNeedNotBeDataOrder) {
  std::string text = "{";
  for (int i = 99; i >= 0; --i) {
    text += entry("t" + std::to_string(i), "U8", "[3]",
                  "[" + std::to_string(3 * i) + "," + std::to_string(3 * i + 3) + "]") +
            (i == 0 ? "}" : ",");
  }
  const Header header = scan(text, 300);
  ASSERT_FALSE(header.error) << header.error->what();
  EXPECT_EQ(header.tensors[0].name, "t99");
}

TEST(HeaderScan, NameLengthAtItsLimit) {
  const std::string longest(limits::name_bytes_max, 'x');
  EXPECT_FALSE(scan("{" + entry(longest, "I32", "[2]", "[0,8]") + "}", 8).error);
  const Header longer = scan("{" + entry(longest + "x", "I32", "[2]", "[0,8]") + "}", 8);
  ASSERT_TRUE(longer.error);
  EXPECT_EQ(longer.error->check(), "format.limits");
}

TEST(HeaderScan, NumberOfMetadataEntriesAndExtraFieldsAtTheirLimits) {
  const auto metadata = [](std::size_t count) {
    std::string text = "{\"__metadata__\":{";
    for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"\"";
    return text + "}}";
  };
  EXPECT_EQ(scan(metadata(limits::metadata_entries_max), 0).metadata.size(), limits::metadata_entries_max);
  const Header more = scan(metadata(limits::metadata_entries_max + 1), 0);
  ASSERT_TRUE(more.error);
  EXPECT_EQ(more.error->check(), "format.limits");

  const auto extras = [](std::size_t count) {
    std::string text = "{\"a\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]";
    for (std::size_t i = 0; i < count; ++i) text += ",\"x" + std::to_string(i) + "\":0";
    return text + "}}";
  };
  EXPECT_FALSE(scan(extras(limits::extra_fields_max), 8).error);
  const Header too_many = scan(extras(limits::extra_fields_max + 1), 8);
  ASSERT_TRUE(too_many.error);
  EXPECT_EQ(too_many.error->check(), "format.limits");
}

TEST(HeaderScan, ManyFindingsStayOneEachWithAllCounted) {
  std::string text = "{";
  for (int i = 0; i < 1000; ++i) {
    text += (i == 0 ? "" : ",") + ("\"t" + std::to_string(i)) +
            "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":0}";
  }
  const Header header = scan(text + "}", 0);
  ASSERT_FALSE(header.error);
  std::size_t found = 0;
  for (const Diagnostic& diagnostic : header.diagnostics) {
    if (diagnostic.check != "format.extra_field") continue;
    ++found;
    EXPECT_NE(diagnostic.message.find("1000 entries"), std::string::npos) << diagnostic.message;
  }
  EXPECT_EQ(found, 1U);
}

TEST(HeaderScan, AlignmentIsNotedWithTheFirstTensor) {
  const std::string text = "{" + entry("half", "F16", "[1]", "[0,2]") + "," + entry("byte", "U8", "[1]", "[2,3]") + "}";
  const std::size_t spaces = (8 - text.size() % 8) % 8;
  const Header aligned = scan(text + std::string(spaces, ' '), 3);
  EXPECT_TRUE(aligned.diagnostics.empty());
  const Header odd = scan(text + std::string(spaces + 1, ' '), 3);
  ASSERT_EQ(odd.diagnostics.size(), 1U);
  EXPECT_EQ(odd.diagnostics[0].check, "format.alignment");
  ASSERT_EQ(odd.diagnostics[0].facts.keys.size(), 1U);
  EXPECT_EQ(odd.diagnostics[0].facts.keys[0], "half");
}

TEST(HeaderScan, RandomBytesNeverCrash) {
  std::uint64_t state = 12345;
  const auto draw = [&] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::uint32_t>(state >> 33);
  };
  std::string good = "{\"__metadata__\":{\"a\":\"b\"}";
  for (int i = 0; i < 40; ++i) {
    good += "," + entry("layer." + std::to_string(i) + "\\u00e9", "BF16", "[2,2]",
                        "[" + std::to_string(8 * i) + "," + std::to_string(8 * i + 8) + "]");
  }
  good += "}";
  ASSERT_FALSE(scan(good, 320).error);
  std::size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (std::uint32_t i = 0; i < 1 + draw() % 3; ++i) {
      const std::size_t at = draw() % text.size();
      switch (draw() % 3) {
        case 0:
          text[at] = static_cast<char>(draw() % 256);
          break;
        case 1:
          text.erase(at, 1 + draw() % 8);
          break;
        default:
          text.insert(at, 1, "{}[]\",:0\\"[draw() % 9]);
      }
    }
    refused += scan(text, 320).error ? 1U : 0U;
  }
  EXPECT_GT(refused, 10000U);
}

}  // namespace
}  // namespace weightproof::storage
