// SPDX-License-Identifier: Apache-2.0
// Bytes that other writers of the format produce, and that ours must produce too.
#include "loader/storage/writer.hpp"

#include <gtest/gtest.h>

#include "loader/core/error.hpp"
#include "loader/storage/header.hpp"
#include "loader/storage/tests/storage_testing.hpp"

namespace weightproof::storage {
namespace {

using namespace std::string_literals;

std::string header_of(const HeaderPlan& plan) { return plan.bytes.substr(8); }

std::uint64_t length_of(const HeaderPlan& plan) {
  std::uint64_t length = 0;
  for (unsigned i = 8; i-- > 0;) length = (length << 8) | static_cast<unsigned char>(plan.bytes[i]);
  return length;
}

TEST(Writer, GoldenVectors) {
  EXPECT_EQ(plan_header({}, std::nullopt).bytes, "\x08\0\0\0\0\0\0\0{}      "s);

  const HeaderPlan metadata = plan_header({}, Metadata{{"framework", "pt"}});
  EXPECT_EQ(length_of(metadata), 40U);
  EXPECT_EQ(header_of(metadata), "{\"__metadata__\":{\"framework\":\"pt\"}}     ");

  const std::vector<TensorSpec> scalar = {{"attn.0", DType::f32, {1, 2, 3}}};
  EXPECT_EQ(plan_header(scalar, std::nullopt).bytes,
            "\x40\0\0\0\0\0\0\0{\"attn.0\":{\"dtype\":\"F32\",\"shape\":[1,2,3],\"data_offsets\":[0,24]}}"s);

  const std::vector<TensorSpec> padded = {{"attn0", DType::f32, {1, 1, 2, 3}}};
  const HeaderPlan plan = plan_header(padded, std::nullopt);
  EXPECT_EQ(length_of(plan), 72U);
  EXPECT_EQ(header_of(plan), "{\"attn0\":{\"dtype\":\"F32\",\"shape\":[1,1,2,3],\"data_offsets\":[0,24]}}       ");

  const std::vector<TensorSpec> nibbles = {{"attn.0", DType::f4, {1, 2}}};
  const HeaderPlan packed = plan_header(nibbles, std::nullopt);
  EXPECT_EQ(length_of(packed), 64U);
  EXPECT_EQ(header_of(packed), "{\"attn.0\":{\"dtype\":\"F4\",\"shape\":[1,2],\"data_offsets\":[0,1]}}    ");
  EXPECT_EQ(packed.data_bytes, 1U);

  EXPECT_EQ(header_of(plan_header({}, Metadata{})), "{\"__metadata__\":{}}     ");
}

TEST(Writer, OneTensorOfEachDType) {
  std::vector<TensorSpec> tensors;
  for (std::size_t i = 0; i < k_dtype_count; ++i) {
    tensors.push_back({"t" + std::to_string(i / 10) + std::to_string(i % 10), all_dtypes()[i], {4}});
  }
  const HeaderPlan plan = plan_header(tensors, std::nullopt);
  for (std::size_t i = 0; i < k_dtype_count; ++i) EXPECT_EQ(plan.tensors[i].source, k_dtype_count - 1 - i);
  EXPECT_EQ(plan.data_bytes, 248U);
}

TEST(Writer, NamesSortByBytesInsideADType) {
  const std::vector<TensorSpec> tensors = {{"layer.2", DType::bf16, {1}}, {"\xC3\xA9", DType::bf16, {1}},
                                           {"a", DType::bf16, {1}},       {"layer.10", DType::bf16, {1}},
                                           {"B", DType::bf16, {1}},       {"f16", DType::f16, {1}},
                                           {"u32", DType::u32, {1}},      {"f32", DType::f32, {1}}};
  const HeaderPlan plan = plan_header(tensors, std::nullopt);
  std::vector<std::string> names;
  for (const PlannedTensor& planned : plan.tensors) names.push_back(tensors[planned.source].name);
  EXPECT_EQ(names, (std::vector<std::string>{"f32", "u32", "B", "a", "layer.10", "layer.2", "\xC3\xA9", "f16"}));
}

TEST(Writer, EscapesOfTheReferenceAndOfPython) {
  const std::string name = "q\"\\\b\t\n\f\r\x01/\x7F\xC3\xA9\xF0\x9F\x98\x80";
  const std::vector<TensorSpec> tensors = {{name, DType::u8, {1}}};
  EXPECT_NE(plan_header(tensors, std::nullopt)
                .bytes.find("{\"q\\\"\\\\\\b\\t\\n\\f\\r\\u0001/\x7F\xC3\xA9\xF0\x9F\x98\x80\":"),
            std::string::npos);
  const HeaderPlan python = plan_header(tensors, std::nullopt, HeaderStyle::consolidator);
  EXPECT_EQ(header_of(python),
            "{\"q\\\"\\\\\\b\\t\\n\\f\\r\\u0001/\\u007f\\u00e9\\ud83d\\ude00\": {\"shape\": [1], \"dtype\": \"U8\", "
            "\"data_offsets\": [0, 1]}}");
  for (const HeaderStyle style : {HeaderStyle::reference, HeaderStyle::automodel, HeaderStyle::consolidator}) {
    const std::string text = header_of(plan_header(tensors, std::nullopt, style));
    const Header header = scan_header(text, 8 + text.size() + 1, "x", nullptr);
    ASSERT_FALSE(header.error) << header.error->what();
    EXPECT_EQ(header.tensors[0].name, name);
  }
}

TEST(Writer, OtherStylesKeepTheGivenOrder) {
  const std::vector<TensorSpec> tensors = {{"b", DType::u8, {3}}, {"a", DType::f32, {1}}};
  const HeaderPlan automodel = plan_header(tensors, Metadata{{"format", "pt"}}, HeaderStyle::automodel);
  EXPECT_EQ(header_of(automodel).substr(0, 62),
            "{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},\"a\":{\"dty");
  EXPECT_NE(header_of(automodel).find("}},\"__metadata__\":{\"format\":\"pt\"}}"), std::string::npos - 1);
  EXPECT_NE(header_of(automodel).find(",\"__metadata__\":{\"format\":\"pt\"}}"), std::string::npos);
  EXPECT_EQ(length_of(automodel) % 8, 0U);
  const HeaderPlan consolidator = plan_header(tensors, std::nullopt, HeaderStyle::consolidator);
  EXPECT_EQ(header_of(consolidator),
            "{\"b\": {\"shape\": [3], \"dtype\": \"U8\", \"data_offsets\": [0, 3]}, "
            "\"a\": {\"shape\": [1], \"dtype\": \"F32\", \"data_offsets\": [3, 7]}}");
  EXPECT_THROW(plan_header(tensors, Metadata{}, HeaderStyle::consolidator), Error);
}

TEST(Writer, MetadataIsSorted) {
  const HeaderPlan plan = plan_header({}, Metadata{{"b", "2"}, {"a", "1"}});
  EXPECT_EQ(header_of(plan).substr(0, 35), "{\"__metadata__\":{\"a\":\"1\",\"b\":\"2\"}} ");
}

void expect_refused(std::vector<TensorSpec> tensors, std::optional<Metadata> metadata, ErrorCode code) {
  try {
    plan_header(tensors, metadata);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    if (!tensors.empty()) {
      EXPECT_EQ(error.facts().keys[0], tensors.back().name);
    }
  }
}

TEST(Writer, Refusals) {
  expect_refused({{"a", DType::u8, {1}}, {"a", DType::u8, {1}}}, std::nullopt, ErrorCode::duplicate_key);
  expect_refused({{"a", DType::f4, {3}}}, std::nullopt, ErrorCode::misaligned_slice);
  expect_refused({{"a", DType::f32, {UINT64_MAX, 2}}}, std::nullopt, ErrorCode::validation_overflow);
  expect_refused({{"a", DType::u8, {UINT64_MAX}}}, std::nullopt, ErrorCode::validation_overflow);
  expect_refused({{"a", DType::u8, {UINT64_MAX / 8}},
                  {"b", DType::u8, {UINT64_MAX / 8}},
                  {"c", DType::u8, {UINT64_MAX / 8}},
                  {"d", DType::u8, {UINT64_MAX / 8}},
                  {"e", DType::u8, {UINT64_MAX / 8}},
                  {"f", DType::u8, {UINT64_MAX / 8}},
                  {"g", DType::u8, {UINT64_MAX / 8}},
                  {"h", DType::u8, {UINT64_MAX / 8}},
                  {"i", DType::u8, {UINT64_MAX / 8}}},
                 std::nullopt, ErrorCode::validation_overflow);
  expect_refused({{"a\xFF", DType::u8, {1}}}, std::nullopt, ErrorCode::invalid_header);
  expect_refused({{"__metadata__", DType::u8, {1}}}, std::nullopt, ErrorCode::invalid_header_deserialization);
  expect_refused({}, Metadata{{"a", "1"}, {"a", "2"}}, ErrorCode::duplicate_key);
}

TEST(Writer, IndexText) {
  const std::vector<std::pair<std::string, std::string>> map = {{"b\xC3\xA9", "model-00002-of-00002.safetensors"},
                                                                {"a", "model-00001-of-00002.safetensors"}};
  EXPECT_EQ(index_text(map, 12, 3),
            "{\n  \"metadata\": {\n    \"total_parameters\": 3,\n    \"total_size\": 12\n  },\n  \"weight_map\": {\n"
            "    \"a\": \"model-00001-of-00002.safetensors\",\n"
            "    \"b\\u00e9\": \"model-00002-of-00002.safetensors\"\n  }\n}\n");
  EXPECT_EQ(index_text(map, 12, 3, IndexStyle::torch),
            "{\n  \"metadata\": {\n    \"total_size\": 12\n  },\n  \"weight_map\": {\n"
            "    \"b\\u00e9\": \"model-00002-of-00002.safetensors\",\n"
            "    \"a\": \"model-00001-of-00002.safetensors\"\n  }\n}");
  EXPECT_EQ(index_text({}, 0, 0, IndexStyle::torch),
            "{\n  \"metadata\": {\n    \"total_size\": 0\n  },\n  \"weight_map\": {}\n}");
  const std::vector<std::pair<std::string, std::string>> twice = {{"a", "x"}, {"a", "y"}};
  EXPECT_THROW(index_text(twice, 0, 0), Error);
}

// Files of the reference writer are reproduced from their own tables.
TEST(Writer, ReproducesRealHeaders) {
  const auto data = testing::real_data();
  if (!data) GTEST_SKIP() << "no real checkpoint data here";
  const std::vector<std::string> files = {"st-hadamards/hadamards.safetensors", "st-fastsafetensors/a.safetensors",
                                          "model-danbev-simple/model.safetensors",
                                          "lora-gpt2/adapter_model.safetensors"};
  for (const std::string& name : files) {
    SCOPED_TRACE(name);
    const File file = File::open(*data / name, name);
    const Header header = read_header(file);
    ASSERT_FALSE(header.error);
    if (header.metadata.size() > 1) continue;  // the order of several entries is random in that writer
    std::vector<TensorSpec> specs;
    for (const HeaderTensor& tensor : header.tensors)
      specs.push_back({std::string(tensor.name), tensor.dtype, tensor.shape});
    const std::optional<Metadata> metadata = header.has_metadata ? std::optional(header.metadata) : std::nullopt;
    std::string bytes(static_cast<std::size_t>(header.data_begin()), ' ');
    file.read(0, std::as_writable_bytes(std::span<char>(bytes)));
    EXPECT_EQ(plan_header(specs, metadata).bytes, bytes);
  }
}

}  // namespace
}  // namespace weightproof::storage
