// SPDX-License-Identifier: Apache-2.0
// Every golden case decoded to F32 and BF16, bit for bit; every recorded alternative is told apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "reference/json.hpp"
#include "reference/model.hpp"
#include "reference/tests/reference_testing.hpp"

namespace weightproof::reference {
namespace {

const std::string k_golden = std::string(WEIGHTPROOF_SOURCE_DIR) + "/fixtures/golden/";

std::string text_of_json(const Json& value) {
  if (value.is_null()) return "null";
  if (const bool* truth = value.truth()) return *truth ? "true" : "false";
  if (const std::uint64_t* number = value.natural()) return std::to_string(*number);
  if (const std::string* text = value.text()) return "\"" + *text + "\"";  // No golden text needs escapes.
  std::string out;
  if (const Json::Array* items = value.array()) {
    for (const Json& item : *items) out += (out.empty() ? "" : ",") + text_of_json(item);
    return "[" + out + "]";
  }
  for (const auto& [name, item] : *value.object())
    out += (out.empty() ? "\"" : ",\"") + name + "\":" + text_of_json(item);
  return "{" + out + "}";
}

// The decoded tensor of a case; gpt-oss files in Hugging Face naming are published transposed.
Bytes decode(const std::string& name, const Json& quantization, const Shape& published, Dtype dtype) {
  const testing::TemporaryDirectory directory;
  std::filesystem::copy_file(k_golden + name + ".quant.safetensors", directory.path() / "model.safetensors");
  directory.write("config.json",
                  quantization.is_null() ? "{}" : "{\"quantization_config\":" + text_of_json(quantization) + "}");
  const Model model = Model::open(directory.path());
  const auto& natives = model.mapping().native_tensors();
  EXPECT_EQ(natives.size(), 1u) << name;
  const Shape& shape = natives[0].shape;
  const Bytes natural = model.region(0, whole(shape), dtype);
  const Bytes logical = model.logical_region(model.mapping().keys()[0].name, whole(shape), dtype);
  EXPECT_EQ(natural, logical);
  if (shape == published) return natural;
  EXPECT_EQ(published, (Shape{shape[0], shape[2], shape[1]})) << name;
  const std::size_t width = bits_of(dtype) / 8;
  Bytes swapped(natural.size());
  for (std::uint64_t e = 0; e < shape[0]; ++e)
    for (std::uint64_t a = 0; a < shape[1]; ++a)
      for (std::uint64_t b = 0; b < shape[2]; ++b)
        for (std::size_t k = 0; k < width; ++k)
          swapped[((e * shape[2] + b) * shape[1] + a) * width + k] =
              natural[((e * shape[1] + a) * shape[2] + b) * width + k];
  return swapped;
}

TEST(Golden, EveryCaseBitForBitAndEveryAlternativeDiffers) {
  const Json manifest = parse_json(read_text(k_golden + "manifest.json"));
  int cases = 0, alternatives = 0;
  for (const Json& item : *manifest.find("cases")->array()) {
    const std::string name = *item.find("name")->text();
    if (name.rfind("gguf", 0) == 0 || name.rfind("f6_", 0) == 0) continue;
    SCOPED_TRACE(name);
    bool some_alternative = false, some_difference = false;
    for (const auto& [kind, what] : *item.find("expected")->object()) {
      const std::size_t colon = kind.find(':');
      const Dtype dtype = kind.substr(colon == std::string::npos ? 0 : colon + 1) == "f32" ? Dtype::f32 : Dtype::bf16;
      const Checkpoint expected = Checkpoint::open(k_golden + *what.find("file")->text());
      ASSERT_EQ(expected.tensors().size(), 1u);
      const TensorEntry& tensor = expected.tensors()[0];
      const bool is_equal = decode(name, *item.find("quantization_config"), tensor.shape, dtype) ==
                            expected.read_elements(tensor.key, whole(tensor.shape));
      if (colon == std::string::npos) {
        EXPECT_TRUE(is_equal) << kind;
        ++cases;
      } else {
        some_alternative = true;
        some_difference = some_difference || !is_equal;
        // In BF16 an alternative may round to the same.
        if (dtype == Dtype::f32) {
          EXPECT_FALSE(is_equal) << kind;
        }
        ++alternatives;
      }
    }
    EXPECT_EQ(some_alternative, some_difference);
  }
  EXPECT_EQ(cases, 80);
  EXPECT_GE(alternatives, 30);
}

// Whatever a header or a config says: a Failure, or values; nothing else.
TEST(Golden, MutatedHeadersAreRefusedOrRead) {
  const Json manifest = parse_json(read_text(k_golden + "manifest.json"));
  std::mt19937 random(3);
  int refused = 0, read = 0;
  for (const Json& item : *manifest.find("cases")->array()) {
    const std::string name = *item.find("name")->text();
    if (name.rfind("gguf", 0) == 0 || name.rfind("f6_", 0) == 0) continue;
    const std::string file = read_text(k_golden + name + ".quant.safetensors");
    const std::size_t header_end = 8 + static_cast<unsigned char>(file[0]) + 256u * static_cast<unsigned char>(file[1]);
    const Json& quantization = *item.find("quantization_config");
    const std::string config =
        quantization.is_null() ? "{}" : "{\"quantization_config\":" + text_of_json(quantization) + "}";
    const testing::TemporaryDirectory directory;
    for (int round = 0; round < 20; ++round) {
      SCOPED_TRACE(name + " round " + std::to_string(round));
      std::string changed = file, changed_config = config;
      // Digits and letters become others, in the header or in the config; sometimes a data byte changes too.
      for (std::uint64_t count = 1 + random() % 3; count > 0; --count) {
        std::string& text = random() % 4 == 0 ? changed_config : changed;
        const std::size_t at = &text == &changed ? 8 + random() % (header_end - 8) : random() % text.size();
        const char digit = static_cast<char>('0' + random() % 10);
        if (text[at] >= '0' && text[at] <= '9')
          text[at] = digit;
        else if (text[at] >= 'a' && text[at] <= 'z')
          text[at] = static_cast<char>('a' + random() % 26);
      }
      if (header_end < changed.size())
        changed[header_end + random() % (changed.size() - header_end)] = static_cast<char>(random());
      directory.write("model.safetensors", changed);
      directory.write("config.json", changed_config);
      try {
        const Model model = Model::open(directory.path());
        for (std::size_t n = 0; n < model.mapping().native_tensors().size(); ++n) {
          Box corner = whole(model.mapping().native_tensors()[n].shape);
          for (std::size_t axis = 0; axis < corner.extent.size(); ++axis) {
            corner.start[axis] = corner.extent[axis] - std::min<std::uint64_t>(corner.extent[axis], 6);
            corner.extent[axis] -= corner.start[axis];
          }
          model.region(static_cast<int>(n), corner);
        }
        ++read;
      } catch (const Failure&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 200);
  EXPECT_GT(read, 50);
}

TEST(Golden, IdentityKeepsEveryByte) {
  const testing::TemporaryDirectory directory;
  std::filesystem::copy_file(k_golden + "identity_specials.safetensors", directory.path() / "model.safetensors");
  const Model model = Model::open(directory.path());
  EXPECT_FALSE(model.overlay().warnings.empty());  // Bare F8.
  for (const NativeTensor& native : model.mapping().native_tensors())
    EXPECT_EQ(model.region(native.name, whole(native.shape)), model.stored_region(native.name, whole(native.shape)))
        << native.name;
  EXPECT_GE(model.mapping().native_tensors().size(), 15u);
}

}  // namespace
}  // namespace weightproof::reference
