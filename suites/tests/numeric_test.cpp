// SPDX-License-Identifier: Apache-2.0
// Numbers: schemes without findings, golden alternates named, distances and roundings counted, fresh quantization
// against the reference, and mistakes explained.
#include <cmath>
#include <cstring>
#include <fstream>

#include "fixtures/generate.hpp"
#include "fixtures/quantized.hpp"
#include "loader/core/config.hpp"
#include "reference/model.hpp"
#include "reference/requantize.hpp"
#include "suites/explanations/numeric_diff.hpp"
#include "suites/mutants/mutant.hpp"
#include "suites/state/compare.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

class Scheme : public testing::TestWithParam<fixtures::QuantizedCase> {};

TEST_P(Scheme, IsJudged) {
  const fixtures::QuantizedCase& row = GetParam();
  const TemporaryDirectory directory;
  const std::vector<std::string> keys = fixtures::generate_quantized(row.name, directory / "model");
  const reports::Report report = verify(directory / "model", {});
  if (row.check.empty()) {
    EXPECT_EQ(findings_of(report), std::vector<std::string>{});
    EXPECT_EQ(record_of(report, "quant.dequant_parity").status, Status::pass);
    EXPECT_GT(record_of(report, "quant.dequant_parity").total, 0U);
    const reports::CheckRecord& requant = record_of(report, "quant.requant_parity");
    EXPECT_EQ(requant.status, row.scheme == "bnb4" || row.scheme == "bnb8" ? Status::skip : Status::pass)
        << requant.message;
    return;
  }
  const reports::CheckRecord& record = record_of(report, row.check);
  EXPECT_EQ(to_string(record.status), row.status) << record.message << record.reason;
  // By its logical name or by that of the stored codes.
  bool is_named = false;
  for (const std::string& key : keys) {
    const std::string module = key.substr(0, key.ends_with(".weight") ? key.size() - 7 : key.size());
    for (const std::string& subject : record.subjects) {
      is_named = is_named || subject.starts_with(module);
    }
  }
  EXPECT_TRUE(is_named) << testing::PrintToString(record.subjects);
  EXPECT_EQ(findings_of(report), (std::vector<std::string>{std::string(row.check) + " " + std::string(row.status)}));
}

TEST_P(Scheme, SpecialsDecodeAsTheReferenceSays) {
  const fixtures::QuantizedCase& row = GetParam();
  if (!row.check.empty()) {
    return;
  }
  const TemporaryDirectory directory;
  fixtures::generate_quantized(row.name, directory / "model", {.seed = 3, .has_specials = true});
  const reports::Report report = verify(directory / "model", {});
  for (const char* id : {"quant.dequant_parity", "quant.requant_parity"}) {
    const Status status = record_of(report, id).status;
    EXPECT_TRUE(status == Status::pass || status == Status::skip) << id << ": " << record_of(report, id).message;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Scheme,
                         testing::ValuesIn(fixtures::quantized_cases().begin(), fixtures::quantized_cases().end()),
                         [](const auto& row) { return std::string(row.param.name); });

// What other software makes of a golden case is recognised by name, never accepted.
TEST(Alternates, AreNamed) {
  const std::filesystem::path golden = std::filesystem::path(WEIGHTPROOF_SOURCE_DIR) / "fixtures" / "golden";
  const ConfigValue manifest = ConfigValue::parse(read_file(golden / "manifest.json"), "manifest.json");
  const std::map<std::string, std::string> wanted = {{"scale_rounded_to_bf16_first", "scale_rounded_to_bf16"},
                                                     {"via_f16", "via_f16"},
                                                     {"fma_offset", "product_fused"},
                                                     {"scale_first", "order_swapped"},
                                                     {"divide_by_127", "reciprocal"},
                                                     {"byte0_is_zero", "exponent_zero"},
                                                     {"ldexp_no_nan", "exponent_infinite"},
                                                     {"exp2_in_f32", "exponent"},
                                                     {"multiply_by_reciprocal", "reciprocal"},
                                                     {"scale_order_swapped", "order_swapped"}};
  std::size_t named = 0;
  for (const ConfigValue& item : manifest.find("cases")->items()) {
    const std::string name(*item.find("name")->as_string());
    if (name.starts_with("gguf") || name.starts_with("f6_")) {
      continue;
    }
    for (const auto& [kind, what] : item.find("expected")->members()) {
      const std::size_t colon = kind.find(':');
      if (colon == std::string::npos) {
        continue;
      }
      const TemporaryDirectory directory;
      std::filesystem::create_directories(directory / "model");
      std::filesystem::copy_file(golden / (name + ".quant.safetensors"), directory / "model/model.safetensors");
      const ConfigValue* quantization = item.find("quantization_config");
      write_file(directory / "model/config.json",
                 quantization->is_null() ? "{}" : "{\"quantization_config\": " + quantization->dump() + "}");
      const auto left = storage::open_checkpoint(directory / "model", {});
      const auto right = storage::open_checkpoint(golden / std::string(*what.find("file")->as_string()), {});
      StateOptions options;
      options.dtype = kind.ends_with("f32") ? plan::TargetDType::f32 : plan::TargetDType::bf16;
      const DecodedState a(left, options);
      const DecodedState b(right, {});
      const StateTensor& decoded = a.tensors().at(0);
      const StateTensor& other = b.tensors().at(0);
      if (decoded.shape != other.shape) {
        ADD_FAILURE() << name << " is stored in another orientation than it is published";
        continue;
      }
      const TensorDifference row = compare_tensors(a, decoded, b, other, {});
      if (row.equality == Equality::equal) {
        EXPECT_TRUE(kind.ends_with("bf16")) << name << " " << kind;  // some alternates round to the same BF16
        continue;
      }
      const std::string alternate = kind.substr(0, colon);
      EXPECT_TRUE(wanted.count(alternate) == 1) << alternate;
      EXPECT_TRUE(contains(row.explanation, wanted.at(alternate))) << name << " " << kind << ": " << row.explanation;
      ++named;
    }
  }
  EXPECT_GE(named, 20U);
}

TEST(Ulps, BucketsHoldWhatTheirLabelsSay) {
  EXPECT_EQ(UlpHistogram::label(UlpHistogram::bucket_of(0)), "0");
  EXPECT_EQ(UlpHistogram::label(UlpHistogram::bucket_of(1)), "1");
  EXPECT_EQ(UlpHistogram::label(UlpHistogram::bucket_of(2)), "2");
  EXPECT_EQ(UlpHistogram::label(UlpHistogram::bucket_of(3)), "3-4");
  EXPECT_EQ(UlpHistogram::label(UlpHistogram::bucket_of(4)), "3-4");
  EXPECT_EQ(UlpHistogram::label(UlpHistogram::bucket_of(5)), "5-8");
  EXPECT_EQ(UlpHistogram::label(UlpHistogram::bucket_of(1U << 20U)), "524289-1048576");
  EXPECT_EQ(UlpHistogram::label(UlpHistogram::bucket_of((1U << 20U) + 1)), "above 1048576");
}

// One F32 tensor, and the same narrowed by one rounding.
TensorDifference narrowed_by(const TemporaryDirectory& directory, std::uint16_t (*narrow)(std::uint32_t bits)) {
  std::string wide;
  std::string half;
  std::uint32_t state = 12345;
  for (int i = 0; i < 4000; ++i) {
    state = state * 1664525U + 1013904223U;
    const std::uint32_t bits = (state & 0x80ffffffU) | 0x3e000000U | (i % 7 == 0 ? 0x8000U : 0U);
    const std::uint32_t tied = i % 7 == 0 ? bits & 0xffff8000U : bits;
    wide.append(reinterpret_cast<const char*>(&tied), 4);
    const std::uint16_t word = narrow(tied);
    half.append(reinterpret_cast<const char*>(&word), 2);
  }
  write_safetensors(directory / "a.safetensors", R"({"w":{"dtype":"F32","shape":[4000],"data_offsets":[0,16000]}})",
                    wide);
  write_safetensors(directory / "b.safetensors", R"({"w":{"dtype":"BF16","shape":[4000],"data_offsets":[0,8000]}})",
                    half);
  const auto left = storage::open_checkpoint(directory / "a.safetensors", {});
  const auto right = storage::open_checkpoint(directory / "b.safetensors", {});
  const DecodedState a(left, {});
  const DecodedState b(right, {});
  return compare_states(a, b, {}, 1).tensors.at(0);
}

TEST(Roundings, AreToldApart) {
  const TemporaryDirectory directory;
  const auto even = [](std::uint32_t bits) {
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
  };
  const auto away = [](std::uint32_t bits) { return static_cast<std::uint16_t>((bits + 0x8000U) >> 16U); };
  const auto zero = [](std::uint32_t bits) { return static_cast<std::uint16_t>(bits >> 16U); };
  const auto up = [](std::uint32_t bits) {
    const bool is_exact = (bits & 0xffffU) == 0;
    return static_cast<std::uint16_t>((bits >> 16U) + (is_exact || bits >> 31U != 0 ? 0U : 1U));
  };
  // To the 11 bits of F16 first: these values are normal there.
  const auto twice = [](std::uint32_t bits) {
    bits = (bits + 0xfffU + ((bits >> 13U) & 1U)) & ~0x1fffU;
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
  };
  const std::vector<std::pair<std::uint16_t (*)(std::uint32_t), RoundingMode>> cases = {
      {even, RoundingMode::nearest_even},
      {away, RoundingMode::ties_away},
      {zero, RoundingMode::toward_zero},
      {up, RoundingMode::up},
      {twice, RoundingMode::twice}};
  for (const auto& [narrow, mode] : cases) {
    const std::string name(to_string(mode));
    const TensorDifference row = narrowed_by(directory, narrow);
    ASSERT_TRUE(row.rounding) << name;
    EXPECT_EQ(row.rounding->winner(), mode) << name;
    EXPECT_GT(row.rounding->decisive, 3000U);
    EXPECT_FALSE(row.rounding->is_first_rounded);
    if (mode != RoundingMode::nearest_even) {
      EXPECT_EQ(row.explanation, "rounded " + name);
    }
  }
}

TEST(Probes, NameTheMistakeInVerify) {
  FixtureShelf shelf;
  std::size_t explained = 0;
  std::size_t killed = 0;
  for (const Mutant& mutant : codec_mutants()) {
    if (!mutant.equivalent.empty() || mutant.fixture.family != fixtures::k_quantized_family) {
      continue;
    }
    VerifyOptions options;
    options.perturbation = mutant.perturbation;
    const reports::Report report = verify(shelf.get(mutant.fixture).path, options);
    const std::string& explanation = record_of(report, "quant.dequant_parity").explanation;
    ++killed;
    // Two mistakes may look alike on one tensor; the plainest is named.
    explained += contains(explanation, "as if ") ? 1U : 0U;
    if (mutant.id.starts_with("codec.scale_inverted") || mutant.id.starts_with("codec.nibbles_swapped")) {
      EXPECT_TRUE(contains(explanation, mutant.id.substr(6, mutant.id.find('.', 6) - 6))) << mutant.id << explanation;
    }
  }
  // What only a part's grid does cannot be seen from one tensor.
  EXPECT_GE(explained + 3, killed);
  EXPECT_GT(killed, 300U);
}

// ---- fresh quantization

std::vector<float> floats_of(const reference::Bytes& bytes) {
  std::vector<float> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::vector<std::uint8_t> octets(const reference::Bytes& bytes) {
  std::vector<std::uint8_t> out;
  for (const std::byte byte : bytes) {
    out.push_back(std::to_integer<std::uint8_t>(byte));
  }
  return out;
}

class Fresh : public testing::TestWithParam<const char*> {};

TEST_P(Fresh, IsWhatTheReferenceStatesAndVerifies) {
  const std::string method = GetParam();
  for (const std::string family : {"llama", "qwen3_moe"}) {
    if (family == "qwen3_moe" && method != "mxfp4") {
      continue;  // stating a code by looking at all of them takes its time
    }
    SCOPED_TRACE(family);
    const TemporaryDirectory directory;
    fixtures::GenerateOptions options;
    options.family = family;
    options.preset = "small";
    fixtures::generate(options, directory / "plain");
    const std::string plain = (directory / "plain").string();
    const std::string made = (directory / "made").string();
    const ProcessResult result = run_tool({"export", plain, "--quantize", method, "--out", made, "--json"});
    ASSERT_EQ(result.status, 0) << result.err;
    const ConfigValue document = ConfigValue::parse(result.out, "stdout");
    EXPECT_LE(*document.find("quantized.error_max_half_steps")->as_number(), 1.0);
    const reports::Report report = verify(made, {});
    EXPECT_EQ(findings_of(report), std::vector<std::string>{});
    EXPECT_TRUE(contains(record_of(report, "quant.requant_parity").explanation,
                         *document.find("quantized.formula")->as_string()));

    const reference::Model source = reference::Model::open(plain);
    const reference::Model target = reference::Model::open(made);
    std::size_t quantized = 0;
    for (const reference::Logical& tensor : target.overlay().tensors) {
      if (tensor.scheme == "plain") {
        continue;
      }
      ++quantized;
      const std::vector<float> values =
          floats_of(source.logical_region(tensor.name, reference::whole(tensor.shape), reference::Dtype::f32));
      const std::vector<std::uint8_t> codes =
          octets(target.stored_region(tensor.weight->key, reference::whole(tensor.weight->shape)));
      const reference::TensorEntry* scale = nullptr;
      for (const reference::TensorEntry& entry : target.checkpoint().tensors()) {
        if (entry.key == tensor.companions.at(0)) {
          scale = &entry;
        }
      }
      ASSERT_NE(scale, nullptr);
      const reference::Bytes scales = target.stored_region(scale->key, reference::whole(scale->shape));
      if (method == "mxfp4") {
        const reference::Requantized stated = reference::requantize_mxfp4(values, tensor.shape.back());
        EXPECT_EQ(octets(scales), stated.exponents) << tensor.name;
        std::vector<std::uint8_t> packed;
        for (std::size_t i = 0; i < stated.codes.size(); i += 2) {
          packed.push_back(static_cast<std::uint8_t>(stated.codes[i] | stated.codes[i + 1] << 4U));
        }
        EXPECT_EQ(codes, packed) << tensor.name;
      } else {
        const std::uint64_t edge = method == "fp8-block" ? 128 : 0;
        const reference::Requantized stated = reference::requantize_fp8(values, tensor.shape.back(), edge, edge);
        EXPECT_EQ(floats_of(scales), stated.scales) << tensor.name;
        EXPECT_EQ(codes, stated.codes) << tensor.name;
      }
    }
    EXPECT_EQ(quantized, static_cast<std::size_t>(*document.find("quantized.tensors")->as_integer()));
    EXPECT_GT(quantized, 3U);

    // Codes that leave the top of the range empty do not follow the formula: their scale is too large for them.
    const reference::Logical* victim = nullptr;
    for (const reference::Logical& tensor : target.overlay().tensors) {
      victim = tensor.scheme != "plain" ? &tensor : victim;
    }
    const std::filesystem::path file = directory / "made/model.safetensors";
    std::string bytes = read_file(file);
    for (std::uint64_t at = victim->weight->begin; at < victim->weight->end; ++at) {
      const auto code = static_cast<unsigned char>(bytes[at]);
      bytes[at] = static_cast<char>(method == "mxfp4" ? code & 0xbbU : code & 0xf7U);
    }
    write_file(file, bytes);
    const reports::Report broken = verify(made, {});
    EXPECT_EQ(record_of(broken, "quant.requant_parity").status, Status::fail);
    EXPECT_TRUE(names(record_of(broken, "quant.requant_parity"), victim->name));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Fresh, testing::Values("fp8-block", "fp8-tensor", "mxfp4"), [](const auto& row) {
  std::string name = row.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Export, KeepsCodesAndScalesByteForByte) {
  for (const fixtures::QuantizedCase& row : fixtures::quantized_cases()) {
    if (!row.check.empty()) {
      continue;
    }
    const TemporaryDirectory directory;
    fixtures::generate_quantized(row.name, directory / "model", {.has_specials = true});
    const ProcessResult result = run_tool({"export", (directory / "model").string(), "--quantize", "keep", "--out",
                                           (directory / "kept").string(), "--json"});
    ASSERT_EQ(result.status, 0) << row.name << result.err;
    EXPECT_EQ(read_file(directory / "model/config.json"), read_file(directory / "kept/config.json")) << row.name;
    const auto before = reference::Checkpoint::open(directory / "model");
    const auto after = reference::Checkpoint::open(directory / "kept");
    ASSERT_EQ(before.tensors().size(), after.tensors().size()) << row.name;
    for (const reference::TensorEntry& entry : before.tensors()) {
      EXPECT_EQ(before.read_elements(entry.key, reference::whole(entry.shape)),
                after.read_elements(entry.key, reference::whole(entry.shape)))
          << row.name << " " << entry.key;
    }
  }
}

// One matrix of two groups under a scale of 1: codes reach 6, so 6.5 is half of a half step beyond them and 7.9 is 1.9.
TEST(Export, CountsWhatLiesBeyondTheLargestCode) {
  const TemporaryDirectory directory;
  const auto exported = [&](const std::vector<std::pair<std::size_t, std::uint16_t>>& planted, const char* format) {
    std::string data(64 * 2, '\0');
    for (const auto& [at, bits] : planted) {
      std::memcpy(data.data() + 2 * at, &bits, 2);
    }
    write_safetensors(
        directory / "a.safetensors",
        R"({"model.layers.0.mlp.down_proj.weight":{"dtype":"BF16","shape":[2,32],"data_offsets":[0,128]}})", data);
    const std::filesystem::path out = directory / "out.safetensors";
    std::filesystem::remove(out);
    const ProcessResult result = run_tool(
        {"export", (directory / "a.safetensors").string(), "--quantize", "mxfp4", "--out", out.string(), format});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  const std::uint16_t six = 0x40c0;
  const std::uint16_t beyond = 0x40d0;   // 6.5
  const std::uint16_t outlier = 0xc0fd;  // -7.90625
  const ConfigValue document =
      ConfigValue::parse(exported({{3, six}, {5, beyond}, {40, outlier}, {41, six}}, "--json"), "stdout");
  EXPECT_EQ(document.find("quantized.elements")->as_integer(), 64);
  EXPECT_EQ(document.find("quantized.saturated")->as_integer(), 2);
  EXPECT_EQ(document.find("quantized.outside_half_step")->as_integer(), 1);
  EXPECT_EQ(document.find("quantized.saturated_error_max_half_steps")->as_number(), 1.90625);
  EXPECT_EQ(document.find("quantized.error_max_half_steps")->as_number(), 0.0);
  const auto says = [&](const std::vector<std::pair<std::size_t, std::uint16_t>>& planted, const std::string& words) {
    const std::string text = exported(planted, "--color=never");
    EXPECT_TRUE(contains(text, words)) << text;
  };
  says({{3, six}, {40, outlier}},
       "63 of 64 elements within half a step; 1 element lies beyond the largest code and takes it, at most 0.953 of a "
       "step away");
  says({{3, six}, {5, beyond}}, "every element within half a step; 1 element lies beyond the largest code");
  says({{3, six}}, "mxfp4.floor_log2.1, every element within half a step\n");
}

TEST(Export, RefusesNanWhereItHasNoCode) {
  const TemporaryDirectory directory;
  std::string data(64 * 2, '\0');
  data[11 * 2] = '\xc0';
  data[11 * 2 + 1] = '\x7f';
  write_safetensors(directory / "a.safetensors",
                    R"({"model.layers.0.mlp.down_proj.weight":{"dtype":"BF16","shape":[2,32],"data_offsets":[0,128]}})",
                    data);
  for (const char* method : {"mxfp4", "fp8-block"}) {
    const ProcessResult result = run_tool({"export", (directory / "a.safetensors").string(), "--quantize", method,
                                           "--out", (directory / "out.safetensors").string(), "--json"});
    EXPECT_EQ(result.status, 3) << method;
    EXPECT_TRUE(contains(result.out + result.err, "NAN_NOT_ENCODABLE")) << result.out << result.err;
    EXPECT_TRUE(contains(result.out + result.err, "down_proj.weight"));
    EXPECT_FALSE(std::filesystem::exists(directory / "out.safetensors"));
  }
}

// An encoder that loses a step is noticed: the check is not a comparison of a thing with itself.
class LossyCodec final : public WrappedCodec {
 public:
  using WrappedCodec::WrappedCodec;
  bool encode(const Box& aligned, std::span<const std::span<const std::byte>> parts, std::span<const float> values,
              std::byte* weight_out) const override {
    std::vector<float> changed(values.begin(), values.end());
    changed[7] *= 1.5F;
    return inner_->encode(aligned, parts, changed, weight_out);
  }
};

TEST(Requantization, ALossyEncoderIsNamed) {
  const TemporaryDirectory directory;
  const auto keys = fixtures::generate_quantized("fp8_tensor_f32", directory / "model");
  VerifyOptions options;
  options.perturbation.codec = [&](const codec::QuantizedTensor& tensor, const SharedCodec& codec) -> SharedCodec {
    return tensor.key == keys[1] ? std::make_shared<LossyCodec>(codec) : codec;
  };
  const reports::Report report = verify(directory / "model", options);
  EXPECT_EQ(record_of(report, "quant.requant_parity").status, Status::fail);
  EXPECT_EQ(record_of(report, "quant.requant_parity").subjects, std::vector<std::string>{keys[1]});
  EXPECT_EQ(record_of(report, "quant.dequant_parity").status, Status::pass);
}

}  // namespace
}  // namespace weightproof::suites::test
