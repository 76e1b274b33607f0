// SPDX-License-Identifier: Apache-2.0
// Codes beside other codes, beside the weights they were made of, and beside the reference: what is wrong with them is
// named, also where their matrices are published the other way round.
#include <algorithm>
#include <cstring>
#include <functional>

#include "fixtures/generate.hpp"
#include "fixtures/quantized.hpp"
#include "loader/core/config.hpp"
#include "reference/model.hpp"
#include "reference/requantize.hpp"
#include "suites/explanations/numeric_diff.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// Changes the stored bytes of one tensor of a one-file checkpoint.
void edit(const std::filesystem::path& model, std::string_view key,
          const std::function<void(std::string& bytes, const reference::TensorEntry& entry)>& change) {
  const std::filesystem::path file = model / "model.safetensors";
  std::string all = read_file(file);
  const auto checkpoint = reference::Checkpoint::open(file);
  bool is_found = false;
  for (const reference::TensorEntry& entry : checkpoint.tensors()) {
    if (entry.key == key) {
      std::string bytes = all.substr(entry.begin, entry.end - entry.begin);
      change(bytes, entry);
      all.replace(entry.begin, bytes.size(), bytes);
      is_found = true;
    }
  }
  ASSERT_TRUE(is_found) << key;
  write_file(file, all);
}

void generate(const std::string& family, const std::string& preset, const std::filesystem::path& path) {
  fixtures::GenerateOptions options;
  options.family = family;
  options.preset = preset;
  fixtures::generate(options, path);
}

std::string swapped(std::string bytes) {
  for (char& byte : bytes) {
    const auto code = static_cast<unsigned char>(byte);
    byte = static_cast<char>(code << 4U | code >> 4U);
  }
  return bytes;
}

// ---- experts in MXFP4 blocks: codes [expert, out, in], published [expert, in, out]

constexpr const char* k_gate_up = "model.layers.1.mlp.experts.gate_up_proj";

struct Planted {
  const char* mistake;  ///< as the probes call it
  const char* back;     ///< what has to be done to the bad codes to get the good values; null: no known mistake does it
  const char* part;     ///< "_blocks" or "_scales"
  void (*change)(std::string& bytes, const reference::TensorEntry& entry);
};

const Planted k_planted[] = {
    {"nibbles_swapped", "nibbles_swapped", "_blocks",
     [](std::string& bytes, const reference::TensorEntry&) { bytes = swapped(std::move(bytes)); }},
    {"scale_inverted", "scale_inverted", "_scales",
     [](std::string& bytes, const reference::TensorEntry&) {
       for (char& byte : bytes) {
         byte = static_cast<char>(254 - static_cast<unsigned char>(byte));
       }
     }},
    {"factor_two", "factor_half", "_scales",
     [](std::string& bytes, const reference::TensorEntry&) {
       for (char& byte : bytes) {
         byte = static_cast<char>(static_cast<unsigned char>(byte) + 1);
       }
     }},
    {"factor_half", "factor_two", "_scales",
     [](std::string& bytes, const reference::TensorEntry&) {
       for (char& byte : bytes) {
         byte = static_cast<char>(static_cast<unsigned char>(byte) - 1);
       }
     }},
    {"scale_shifted", nullptr, "_scales",
     [](std::string& bytes, const reference::TensorEntry&) {
       std::rotate(bytes.begin(), bytes.end() - 1, bytes.end());
     }},
    {"scale_axis", nullptr, "_scales",
     [](std::string& bytes, const reference::TensorEntry& entry) {
       const std::uint64_t rows = entry.shape.at(1);
       const std::uint64_t cols = entry.shape.at(2);
       const std::string before = bytes;
       for (std::uint64_t i = 0; i < bytes.size(); ++i) {
         const std::uint64_t in_matrix = i % (rows * cols);
         bytes[i] = before[i - in_matrix + in_matrix % cols * rows + in_matrix / cols];
       }
     }},
    {"gate_scale_for_up", nullptr, "_scales",
     [](std::string& bytes, const reference::TensorEntry& entry) {
       const std::uint64_t cols = entry.shape.at(2);
       for (std::uint64_t row = 1; row * cols < bytes.size(); row += 2) {
         std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>((row - 1) * cols), cols,
                     bytes.begin() + static_cast<std::ptrdiff_t>(row * cols));
       }
     }},
};
void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.mistake; }

class Blocks : public testing::TestWithParam<Planted> {};

// Exponents of no symmetry: the fixture's own repeat along an axis.
void mix_exponents(const std::filesystem::path& model) {
  edit(model, std::string(k_gate_up) + "_scales", [](std::string& bytes, const reference::TensorEntry&) {
    std::uint32_t state = 7;
    for (char& byte : bytes) {
      state = state * 1664525U + 1013904223U;
      byte = static_cast<char>(120 + (state >> 24U) % 13);
    }
  });
}

TEST_P(Blocks, DiffNamesTensorAndMistake) {
  const Planted& planted = GetParam();
  const TemporaryDirectory directory;
  for (const char* side : {"good", "bad"}) {
    generate("gpt_oss", "small", directory / side);
    mix_exponents(directory / side);
  }
  edit(directory / "bad", std::string(k_gate_up) + planted.part, planted.change);
  const std::string good = (directory / "good").string();
  const std::string bad = (directory / "bad").string();
  EXPECT_EQ(run_tool({"diff", good, good}).status, 0);
  // Also where the good side is what is published without blocks.
  const std::string plain = (directory / "plain").string();
  ASSERT_EQ(run_tool({"export", good, "--dtype", "bf16", "--out", plain}).status, 0);
  for (const auto& [other, mistake] : {std::pair(good, planted.mistake), std::pair(plain, planted.back)}) {
    const ProcessResult result = run_tool({"diff", other, bad, "--json"});
    ASSERT_EQ(result.status, 1) << result.err;
    const ConfigValue document = ConfigValue::parse(result.out, "stdout");
    std::size_t different = 0;
    for (const ConfigValue& row : document.find("tensors")->items()) {
      if (*row.find("status")->as_string() == "equal") {
        continue;
      }
      ++different;
      EXPECT_EQ(*row.find("key")->as_string(), k_gate_up);
      if (mistake != nullptr) {
        const ConfigValue* explanation = row.find("explanation");
        ASSERT_TRUE(explanation->is_string()) << other;
        EXPECT_TRUE(contains(*explanation->as_string(), "(" + std::string(mistake) + ")"))
            << other << ": " << *explanation->as_string();
      }
    }
    EXPECT_EQ(different, 1U);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Blocks, testing::ValuesIn(k_planted),
                         [](const auto& row) { return std::string(row.param.mistake); });

// A tensor of more elements than probes look at.
TEST(LargeTensors, AreProbedFromTheBeginning) {
  const TemporaryDirectory directory;
  constexpr std::uint64_t rows = 8256;
  constexpr std::uint64_t row_bytes = 4096;
  std::string codes(rows * row_bytes, '\0');
  std::uint32_t state = 1;
  for (char& byte : codes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<char>(state >> 24U);
  }
  const std::string scales(rows * row_bytes / 16, '\x7f');
  const std::string header =
      R"({"w.weight_packed":{"dtype":"U8","shape":[8256,4096],"data_offsets":[0,33816576]},)"
      R"("w.weight_scale":{"dtype":"U8","shape":[8256,256],"data_offsets":[33816576,35930112]}})";
  write_safetensors(directory / "a.safetensors", header, codes + scales);
  write_safetensors(directory / "b.safetensors", header, swapped(std::move(codes)) + scales);
  const auto left = storage::open_checkpoint(directory / "a.safetensors", {});
  const auto right = storage::open_checkpoint(directory / "b.safetensors", {});
  const DecodedState a(left, {});
  const DecodedState b(right, {});
  const NumericEvidence evidence = numeric_evidence(a, a.tensors().at(0), b, b.tensors().at(0));
  EXPECT_EQ(evidence.mistake, "nibbles_swapped");
  EXPECT_EQ(evidence.order, "nibbles_swapped");
  EXPECT_TRUE(contains(evidence.explanation, "as far as its first 67,108,864 elements show")) << evidence.explanation;
}

// ---- quant.nibble_order

TEST(NibbleOrder, IsNamedBesideTheTwinAndByNothingElse) {
  const TemporaryDirectory directory;
  for (const char* side : {"good", "bad"}) {
    generate("gpt_oss", "small", directory / side);
  }
  edit(directory / "bad", std::string(k_gate_up) + "_blocks",
       [](std::string& bytes, const reference::TensorEntry&) { bytes = swapped(std::move(bytes)); });
  VerifyOptions options;
  options.against = (directory / "good").string();
  const reports::Report clean = verify(directory / "good", options);
  EXPECT_EQ(findings_of(clean), std::vector<std::string>{});
  EXPECT_EQ(record_of(clean, "quant.nibble_order").status, Status::pass);
  EXPECT_EQ(record_of(clean, "quant.nibble_order").total, 6U) << "two stacks of experts in each of three layers";

  const reports::Report report = verify(directory / "bad", options);
  const reports::CheckRecord& record = record_of(report, "quant.nibble_order");
  EXPECT_EQ(record.status, Status::fail);
  EXPECT_EQ(record.subjects, std::vector<std::string>{k_gate_up});
  EXPECT_TRUE(contains(record.message, "the two codes of each byte were exchanged")) << record.message;
  EXPECT_EQ(findings_of(report), (std::vector<std::string>{"quant.nibble_order fail", "value.manifest fail"}));
  // The gravest: the values differ because of it.
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().rule, "quant.nibble_order");
  EXPECT_EQ(report.findings.front().key, k_gate_up);
}

TEST(NibbleOrder, IsToldFromTheWeightsThatWereQuantized) {
  const TemporaryDirectory directory;
  generate("llama", "small", directory / "plain");
  const std::string plain = (directory / "plain").string();
  const std::string made = (directory / "made").string();
  ASSERT_EQ(run_tool({"export", plain, "--quantize", "mxfp4", "--out", made}).status, 0);
  VerifyOptions options;
  options.against = plain;
  const reports::Report sound = verify(made, options);
  EXPECT_EQ(record_of(sound, "quant.nibble_order").status, Status::pass)
      << record_of(sound, "quant.nibble_order").message;
  edit(made, "model.layers.2.mlp.gate_proj.weight_packed",
       [](std::string& bytes, const reference::TensorEntry&) { bytes = swapped(std::move(bytes)); });
  const reports::Report report = verify(made, options);
  const reports::CheckRecord& record = record_of(report, "quant.nibble_order");
  EXPECT_EQ(record.status, Status::fail);
  EXPECT_EQ(record.subjects, std::vector<std::string>{"model.layers.2.mlp.gate_proj.weight"});
  EXPECT_TRUE(contains(record.message, "by far the nearest")) << record.message;
}

TEST(NibbleOrder, IsNoQuestionWhereThereAreNoCodes) {
  const TemporaryDirectory directory;
  generate("llama", "tiny", directory / "model");
  VerifyOptions options;
  EXPECT_EQ(record_of(verify(directory / "model", options), "quant.nibble_order").status, Status::skip);
  options.against = (directory / "model").string();
  const reports::Report report = verify(directory / "model", options);
  EXPECT_EQ(record_of(report, "quant.nibble_order").status, Status::skip);
  EXPECT_TRUE(contains(record_of(report, "quant.nibble_order").reason, "several codes in a byte"));
}

// ---- quant.dequant_parity: mistakes that no decoder is known for

TEST(Parity, ZerosAreCalledZeros) {
  const TemporaryDirectory directory;
  const auto keys = fixtures::generate_quantized("fp8_tensor_f32", directory / "model");
  VerifyOptions options;
  options.perturbation.codec = [&](const codec::QuantizedTensor& tensor, const SharedCodec& codec) -> SharedCodec {
    const auto nothing = [](std::uint32_t) { return 0U; };
    return tensor.key == keys[1] ? std::make_shared<OutputCodec>(codec, nothing, OutputCodec::Narrow{}) : codec;
  };
  const reports::Report report = verify(directory / "model", options);
  const reports::CheckRecord& record = record_of(report, "quant.dequant_parity");
  EXPECT_EQ(record.subjects, std::vector<std::string>{keys[1]});
  EXPECT_TRUE(contains(record.explanation, "certain")) << record.explanation;
  const auto finding = std::find_if(report.findings.begin(), report.findings.end(),
                                    [](const auto& row) { return row.rule == "quant.dequant_parity"; });
  ASSERT_NE(finding, report.findings.end());
  EXPECT_EQ(finding->key, keys[1]);
  EXPECT_EQ(finding->property, "zeros");
  EXPECT_TRUE(finding->where.has_value());
}

TEST(Parity, ValuesOfAnotherTensorAreCalledIts) {
  const TemporaryDirectory directory;
  const auto keys = fixtures::generate_quantized("fp8_tensor_f32", directory / "model");
  VerifyOptions options;
  options.perturbation.codec = [&](const codec::QuantizedTensor& tensor, const SharedCodec& codec) -> SharedCodec {
    if (tensor.key != keys[1]) {
      return codec;
    }
    std::vector<codec::Component> components(codec->components().begin(), codec->components().end());
    for (codec::Component& component : components) {
      component.key.replace(component.key.find("layers.1."), 9, "layers.3.");
    }
    return std::make_shared<WrappedCodec>(codec, std::move(components));
  };
  const reports::Report report = verify(directory / "model", options);
  const reports::CheckRecord& record = record_of(report, "quant.dequant_parity");
  EXPECT_EQ(record.subjects, std::vector<std::string>{keys[1]});
  EXPECT_TRUE(contains(record.explanation, keys[3])) << record.explanation;
}

TEST(Parity, AMistakeOfADecoderIsAFindingToo) {
  const TemporaryDirectory directory;
  const auto keys = fixtures::generate_quantized("mxfp4_packed", directory / "model");
  VerifyOptions options;
  options.perturbation.codec = [](const codec::QuantizedTensor&, const SharedCodec& codec) {
    return find_numeric_operator("nibbles_swapped")->apply(codec);
  };
  const reports::Report report = verify(directory / "model", options);
  const auto finding = std::find_if(report.findings.begin(), report.findings.end(),
                                    [](const auto& row) { return row.rule == "quant.dequant_parity"; });
  ASSERT_NE(finding, report.findings.end());
  EXPECT_EQ(finding->title, "Decoded by another rule");
  EXPECT_TRUE(contains(finding->explanation, "nibbles_swapped")) << finding->explanation;
  EXPECT_EQ(finding->key, keys[0]);
}

// ---- fresh blocks

std::vector<std::uint8_t> octets(const reference::Bytes& bytes) {
  std::vector<std::uint8_t> out;
  for (const std::byte byte : bytes) {
    out.push_back(std::to_integer<std::uint8_t>(byte));
  }
  return out;
}

// Experts [expert, in, out] become blocks [expert, out, in / 32, 16], whether they came plain or from blocks.
TEST(FreshBlocks, AreWhatTheReferenceStatesAndVerify) {
  for (const char* family : {"gpt_oss_bf16", "gpt_oss"}) {
    SCOPED_TRACE(family);
    const TemporaryDirectory directory;
    generate(family, "small", directory / "source");
    const std::string source_path = (directory / "source").string();
    const std::string made = (directory / "made").string();
    const ProcessResult result = run_tool({"export", source_path, "--quantize", "mxfp4", "--out", made, "--json"});
    ASSERT_EQ(result.status, 0) << result.err;
    const ConfigValue document = ConfigValue::parse(result.out, "stdout");
    EXPECT_EQ(document.find("quantized.tensors")->as_integer(), 6);
    EXPECT_LE(*document.find("quantized.error_max_half_steps")->as_number(), 1.0);
    const reports::Report report = verify(made, {});
    EXPECT_EQ(findings_of(report), std::vector<std::string>{});
    EXPECT_EQ(record_of(report, "quant.requant_parity").status, Status::pass);
    EXPECT_TRUE(contains(record_of(report, "quant.requant_parity").explanation, "mxfp4.floor_log2.1"));

    const std::string plain = (directory / "plain").string();
    ASSERT_EQ(run_tool({"export", source_path, "--dtype", "bf16", "--out", plain}).status, 0);
    const auto before = reference::Checkpoint::open(plain);
    const auto after = reference::Checkpoint::open(made);
    std::size_t compared = 0;
    for (const reference::TensorEntry& entry : before.tensors()) {
      const reference::Bytes bytes = before.read_elements(entry.key, reference::whole(entry.shape));
      const std::string key(entry.key);
      if (!key.ends_with("experts.gate_up_proj") && !key.ends_with("experts.down_proj")) {
        EXPECT_EQ(after.read_elements(key, reference::whole(entry.shape)), bytes) << key;
        continue;
      }
      ++compared;
      const std::uint64_t experts = entry.shape.at(0);
      const std::uint64_t ins = entry.shape.at(1);
      const std::uint64_t outs = entry.shape.at(2);
      std::vector<float> values(experts * outs * ins);
      for (std::uint64_t i = 0; i < values.size(); ++i) {
        std::uint16_t half = 0;
        std::memcpy(&half, bytes.data() + 2 * (i / (ins * outs) * ins * outs + i % ins * outs + i / ins % outs), 2);
        const std::uint32_t wide = static_cast<std::uint32_t>(half) << 16U;
        std::memcpy(&values[i], &wide, 4);
      }
      const reference::Requantized stated = reference::requantize_mxfp4(values, ins);
      std::vector<std::uint8_t> packed;
      for (std::size_t i = 0; i < stated.codes.size(); i += 2) {
        packed.push_back(static_cast<std::uint8_t>(stated.codes[i] | stated.codes[i + 1] << 4U));
      }
      EXPECT_EQ(octets(after.read_elements(key + "_blocks", reference::whole({experts, outs, ins / 32, 16}))), packed)
          << key;
      EXPECT_EQ(octets(after.read_elements(key + "_scales", reference::whole({experts, outs, ins / 32}))),
                stated.exponents)
          << key;
    }
    EXPECT_EQ(compared, 6U);

    // Codes that leave the top of the range empty do not follow the formula.
    edit(made, std::string(k_gate_up) + "_blocks", [](std::string& bytes, const reference::TensorEntry&) {
      for (char& byte : bytes) {
        byte = static_cast<char>(static_cast<unsigned char>(byte) & 0xbbU);
      }
    });
    const reports::Report broken = verify(made, {});
    EXPECT_EQ(record_of(broken, "quant.requant_parity").status, Status::fail);
    EXPECT_TRUE(names(record_of(broken, "quant.requant_parity"), k_gate_up));
  }
}

}  // namespace
}  // namespace weightproof::suites::test
