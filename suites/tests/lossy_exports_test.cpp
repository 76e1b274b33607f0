// SPDX-License-Identifier: Apache-2.0
// Our own lossy exports beside their source: what was done is named, what was declared passes, what was done wrongly
// does not.
#include <algorithm>
#include <functional>

#include "fixtures/generate.hpp"
#include "loader/core/config.hpp"
#include "reference/safetensors.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;
using Names = std::vector<std::string>;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

void generate(const std::string& family, const std::string& preset, const std::filesystem::path& path) {
  fixtures::GenerateOptions options;
  options.family = family;
  options.preset = preset;
  fixtures::generate(options, path);
}

void export_to(const std::filesystem::path& target, const std::filesystem::path& source,
               const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"export", source.string(), "--out", target.string()};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const ProcessResult result = run_tool(arguments);
  ASSERT_EQ(result.status, 0) << result.err;
}

/// Changes the stored bytes of one tensor of a one-file checkpoint.
void edit(const std::filesystem::path& model, std::string_view key, const std::function<void(std::string&)>& change) {
  const std::filesystem::path file = model / "model.safetensors";
  std::string all = read_file(file);
  const auto checkpoint = reference::Checkpoint::open(file);
  for (const reference::TensorEntry& entry : checkpoint.tensors()) {
    if (entry.key == key) {
      std::string bytes = all.substr(entry.begin, entry.end - entry.begin);
      change(bytes);
      all.replace(entry.begin, bytes.size(), bytes);
      write_file(file, all);
      return;
    }
  }
  FAIL() << "no tensor " << key;
}

void replace_in_config(const std::filesystem::path& model, const std::string& from, const std::string& to) {
  std::string text = read_file(model / "config.json");
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << text;
  write_file(model / "config.json", text.replace(at, from.size(), to));
}

reports::Report beside(const std::filesystem::path& path, const std::filesystem::path& base, bool is_folded = false) {
  VerifyOptions options;
  options.against = base.string();
  options.folds_expert_scales = is_folded;
  return verify(path, options);
}

std::vector<reports::Finding> failures(const reports::Report& report) {
  std::vector<reports::Finding> out;
  std::copy_if(report.findings.begin(), report.findings.end(), std::back_inserter(out),
               [](const reports::Finding& finding) { return finding.status == Status::fail; });
  return out;
}

struct Made {
  const char* family;
  const char* method;
  std::size_t tensors;
  const char* scheme;
  const char* formula;
};
void PrintTo(const Made& made, std::ostream* out) { *out << made.family << ' ' << made.method; }

class Requantized : public testing::TestWithParam<Made> {};

TEST_P(Requantized, PassesAsDeclaredAndIsNamedWhereItIsNot) {
  const Made& made = GetParam();
  const TemporaryDirectory directory;
  generate(made.family, "small", directory / "source");
  export_to(directory / "made", directory / "source", {"--quantize", made.method});

  const reports::Report declared = beside(directory / "made", directory / "source");
  EXPECT_EQ(findings_of(declared), Names{});
  EXPECT_EQ(record_of(declared, "value.manifest").explanation,
            std::to_string(made.tensors) +
                " tensors are requantized, nearest, as config.json states: bit for bit what " + made.formula +
                " makes of the base");

  // Nobody says that it was meant: all of them differ, for one reason.
  replace_in_config(directory / "made", made.formula, "another");
  const reports::Report silent = beside(directory / "made", directory / "source");
  EXPECT_EQ(record_of(silent, "value.manifest").total, made.tensors);
  std::vector<reports::Finding> named = failures(silent);
  std::erase_if(named, [](const reports::Finding& finding) { return finding.rule != "value.manifest"; });
  // One finding for each scheme: a matrix of a single block has one scale, as if it were of the whole tensor.
  ASSERT_EQ(named.size(), std::string_view(made.method) == "fp8-block" ? 2U : 1U);
  std::uint64_t total = 0;
  for (const reports::Finding& finding : named) {
    total += finding.total;
    EXPECT_EQ(finding.property, "requantized");
    EXPECT_EQ(finding.evidence.at(0).certainty, "certain");
    const std::string scheme =
        finding.title == "Requantized as " + std::string(made.scheme) + ", nearest" ? made.scheme : "fp8_tensor";
    EXPECT_EQ(finding.title, "Requantized as " + scheme + ", nearest");
    EXPECT_EQ(finding.explanation, "The checkpoint holds the base requantized as " + scheme +
                                       ": every element is the nearest code under its scale.");
  }
  EXPECT_EQ(total, made.tensors);
  // diff has no verdict but different; it names it alike, from either side.
  for (const bool is_turned : {false, true}) {
    const std::string first = (directory / (is_turned ? "made" : "source")).string();
    const std::string second = (directory / (is_turned ? "source" : "made")).string();
    const ProcessResult result = run_tool({"diff", first, second, "--json"});
    EXPECT_EQ(result.status, 1) << result.err;
    const std::string words = is_turned ? "The first checkpoint holds the second checkpoint requantized as "
                                        : "The second checkpoint holds the first checkpoint requantized as ";
    std::size_t count = 0;
    for (std::size_t at = result.out.find(words); at != std::string::npos; at = result.out.find(words, at + 1)) {
      ++count;
    }
    EXPECT_EQ(count, made.tensors);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Requantized,
                         testing::Values(Made{"llama", "mxfp4", 24, "mxfp4_packed", "mxfp4.floor_log2.1"},
                                         Made{"llama", "fp8-block", 28, "fp8_block", "fp8_block.amax_448.1"},
                                         Made{"llama", "fp8-tensor", 28, "fp8_tensor", "fp8_tensor.amax_448.1"},
                                         Made{"gpt_oss_bf16", "mxfp4", 6, "mxfp4_blocks", "mxfp4.floor_log2.1"}),
                         [](const auto& row) {
                           std::string name = std::string(row.param.family) + "_" + row.param.method;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// One code is not what the formula makes of the base: the declaration covers the other tensors alone.
TEST(LossyExports, ACodeThatIsNotTheNearestIsNamed) {
  const TemporaryDirectory directory;
  generate("llama", "small", directory / "source");
  export_to(directory / "made", directory / "source", {"--quantize", "mxfp4"});
  const std::string module = "model.layers.1.mlp.up_proj";
  edit(directory / "made", module + ".weight_packed",
       [](std::string& bytes) { bytes[1000] = static_cast<char>(bytes[1000] ^ 0x20); });
  const reports::Report report = beside(directory / "made", directory / "source");
  EXPECT_EQ(record_of(report, "value.manifest").subjects, Names{module + ".weight"});
  const std::vector<reports::Finding> named = failures(report);
  ASSERT_EQ(named.size(), 1U);
  EXPECT_EQ(named[0].key, module + ".weight");
  EXPECT_EQ(named[0].title, "Requantized as mxfp4_packed, not all nearest");
  EXPECT_EQ(named[0].evidence.at(0).certainty, "likely");
  // Byte 1000 holds elements 2000 and 2001, the high half the second.
  const std::uint64_t columns = named[0].shape.at(1);
  EXPECT_EQ(named[0].coordinate, (std::vector<std::uint64_t>{2001 / columns, 2001 % columns}));
  EXPECT_TRUE(contains(named[0].explanation, "44,031 of 44,032 elements are the nearest code under the scale"))
      << named[0].explanation;
}

// A scale that no formula gives: its codes are what is nearest under it, and yet not what was declared.
TEST(LossyExports, AScaleThatTheFormulaDoesNotGiveIsNamed) {
  const TemporaryDirectory directory;
  generate("llama", "small", directory / "source");
  export_to(directory / "made", directory / "source", {"--quantize", "mxfp4"});
  const std::string module = "model.layers.1.mlp.up_proj";
  edit(directory / "made", module + ".weight_scale",
       [](std::string& bytes) { bytes[7] = static_cast<char>(bytes[7] + 1); });
  const reports::Report report = beside(directory / "made", directory / "source");
  EXPECT_EQ(record_of(report, "value.manifest").subjects, Names{module + ".weight"});
  const std::vector<reports::Finding> named = failures(report);
  ASSERT_FALSE(named.empty());
  EXPECT_TRUE(
      std::all_of(named.begin(), named.end(), [&](const auto& each) { return each.key == module + ".weight"; }));
}

const std::string k_layer = "model.language_model.layers.0.";

TEST(LossyExports, AFoldIsNamedAndPassesWhereItIsAskedFor) {
  const TemporaryDirectory directory;
  generate("gemma4_moe", "tiny", directory / "source");
  export_to(directory / "folded", directory / "source", {"--gemma-fold"});
  const reports::Report report = beside(directory / "folded", directory / "source");
  const reports::CheckRecord& record = record_of(report, "value.manifest");
  EXPECT_EQ(record.status, Status::fail);
  EXPECT_EQ(record.total, 12U) << "scales and down projections of six layers";
  EXPECT_TRUE(contains(record.hint, "--gemma-fold")) << record.hint;
  const std::vector<reports::Finding> named = failures(report);
  ASSERT_EQ(named.size(), 1U);
  EXPECT_EQ(named[0].title, "Scales of experts multiplied in");
  EXPECT_EQ(named[0].property, "scale_folded");
  EXPECT_EQ(named[0].total, 12U);
  EXPECT_EQ(named[0].evidence.at(0).certainty, "certain");
  EXPECT_TRUE(
      contains(named[0].explanation, "The checkpoint holds the base with the scale of each expert multiplied into"));
  // The other way round it is the base that was folded.
  EXPECT_TRUE(contains(failures(beside(directory / "source", directory / "folded")).at(0).explanation,
                       "The base holds the checkpoint with the scale of each expert"));

  const reports::Report asked = beside(directory / "folded", directory / "source", true);
  EXPECT_EQ(findings_of(asked), Names{});
  EXPECT_TRUE(
      contains(record_of(asked, "value.manifest").explanation, "multiplied into the experts on both sides, as asked"));

  const ProcessResult diff = run_tool({"diff", (directory / "source").string(), (directory / "folded").string()});
  EXPECT_EQ(diff.status, 1);
  EXPECT_TRUE(contains(diff.out, "The second checkpoint holds the first checkpoint with the scale of each expert"))
      << diff.out;

  // The scale counted twice is no fold, whoever asks.
  edit(directory / "folded", k_layer + "router.per_expert_scale",
       [](std::string& bytes) { bytes[2] = 0, bytes[3] = 0x40; });
  for (const bool is_asked : {false, true}) {
    const reports::Report twice = beside(directory / "folded", directory / "source", is_asked);
    const std::string key = k_layer + (is_asked ? "experts.down_proj" : "router.per_expert_scale");
    EXPECT_TRUE(names(record_of(twice, "value.manifest"), key)) << record_of(twice, "value.manifest").message;
    const std::vector<reports::Finding> found = failures(twice);
    EXPECT_TRUE(std::any_of(found.begin(), found.end(), [&](const reports::Finding& finding) {
      return finding.key == key && finding.property != "scale_folded";
    }));
  }
}

TEST(LossyExports, AFoldOfOnesIsLossless) {
  const TemporaryDirectory directory;
  generate("gemma4_moe", "tiny_unit_scales", directory / "ones");
  generate("gemma4_moe", "tiny", directory / "others");
  const auto folded = [&](const char* source, const std::string& format) {
    const ProcessResult result = run_tool({"export", (directory / source).string(), "--gemma-fold", "--out",
                                           (directory / (source + format)).string(), format});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  const std::string ones = folded("ones", "--color=never");
  EXPECT_TRUE(contains(ones, "all of ones: the fold changes nothing, lossless")) << ones;
  EXPECT_FALSE(contains(ones, "lossy")) << ones;
  EXPECT_EQ(findings_of(beside(directory / "ones--color=never", directory / "ones")), Names{});
  const std::string others = folded("others", "--color=never");
  EXPECT_TRUE(contains(others, "lossy, the source cannot be made from it")) << others;
  const ConfigValue first = ConfigValue::parse(folded("ones", "--json"), "stdout");
  const ConfigValue second = ConfigValue::parse(folded("others", "--json"), "stdout");
  EXPECT_EQ(first.find("folded")->as_integer(), first.find("folded_ones")->as_integer());
  EXPECT_GT(*second.find("folded")->as_integer(), 0);
  EXPECT_EQ(second.find("folded_ones")->as_integer(), 0);
}

}  // namespace
}  // namespace weightproof::suites::test
