// SPDX-License-Identifier: Apache-2.0
// The declared fold of an expert's scale: what a load with --gemma-fold holds is what the reference states.
#include <algorithm>

#include "fixtures/generate.hpp"
#include "reference/model.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

TEST(GemmaFold, IsWhatTheReferenceStates) {
  for (const char* preset : {"tiny", "tiny_old_names", "tiny_unit_scales"}) {
    SCOPED_TRACE(preset);
    const TemporaryDirectory directory;
    fixtures::GenerateOptions options;
    options.family = "gemma4_moe";
    options.preset = preset;
    fixtures::generate(options, directory / "model");
    const ProcessResult result = run_tool(
        {"load", (directory / "model").string(), "--gemma-fold", "--emit", (directory / "native").string(), "--json"});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_NE((result.out + result.err).find("predicted"), std::string::npos);
    reference::ModelOptions fold;
    fold.mapping.fold_expert_scale = true;
    const reference::Model stated = reference::Model::open(directory / "model", fold);
    const reference::Model kept = reference::Model::open(directory / "model");
    const auto emitted = reference::Checkpoint::open(directory / "native");
    std::size_t folded = 0;
    std::size_t changed = 0;
    ASSERT_GT(emitted.tensors().size(), 100U);
    for (const reference::TensorEntry& entry : emitted.tensors()) {
      const reference::Box whole = reference::whole(entry.shape);
      EXPECT_EQ(emitted.read_elements(entry.key, whole), stated.region(entry.key, whole)) << entry.key;
      EXPECT_EQ(std::string(entry.key).find("per_expert_scale"), std::string::npos);
      if (std::string(entry.key).ends_with("down_projs")) {
        ++folded;
        changed += stated.region(entry.key, whole) != kept.region(entry.key, whole) ? 1U : 0U;
      }
    }
    EXPECT_GT(folded, 0U);
    EXPECT_EQ(changed, std::string_view(preset) == "tiny_unit_scales" ? 0U : folded);
  }
}

TEST(GemmaFold, IsVerifiedLikeAnyLoad) {
  for (const char* preset : {"tiny", "tiny_square", "tiny_old_names", "tiny_unit_scales"}) {
    SCOPED_TRACE(preset);
    const TemporaryDirectory directory;
    fixtures::GenerateOptions made;
    made.family = "gemma4_moe";
    made.preset = preset;
    fixtures::generate(made, directory / "model");
    VerifyOptions options;
    options.folds_expert_scales = true;
    const reports::Report report = verify(directory / "model", options);
    EXPECT_EQ(findings_of(report), std::vector<std::string>{});
    for (const char* id : {"value.exact", "value.routes", "layout.mapping", "io.ledger", "mem.predicted"}) {
      EXPECT_EQ(record_of(report, id).status, reports::Status::pass) << id << ": " << record_of(report, id).reason;
    }
    EXPECT_EQ(record_of(report, "value.roundtrip").status, reports::Status::skip);
    const ProcessResult result = run_tool({"verify", (directory / "model").string(), "--gemma-fold", "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.out.find("multiplied into their down projections, lossy"), std::string::npos);

    // A load that keeps the scales is another one where they are not 1.
    options.perturbation.reference = [](reference::ModelOptions& theirs) { theirs.mapping.fold_expert_scale = false; };
    const reports::Report kept = verify(directory / "model", options);
    const reports::CheckRecord& record = record_of(kept, "value.exact");
    EXPECT_EQ(record.status, reports::Status::fail);
    const bool has_projections = std::any_of(record.subjects.begin(), record.subjects.end(),
                                             [](const auto& subject) { return subject.ends_with("down_projs"); });
    EXPECT_EQ(has_projections, std::string_view(preset) != "tiny_unit_scales");
  }
}

// A subset may take the scale and leave its expert, or the other way round: no verb guesses which was meant.
TEST(GemmaFold, IsRefusedForASubset) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions made;
  made.family = "gemma4_moe";
  fixtures::generate(made, directory / "model");
  const std::string model = (directory / "model").string();
  const std::string glob = "*router.per_expert_scale";
  for (const std::string verb : {"verify", "plan", "load", "export"}) {
    std::vector<std::string> words = {verb, model, "--gemma-fold"};
    if (verb == "export") {
      words.insert(words.end(), {"--out", (directory / "out").string()});
    }
    for (const std::string option : {"--include", "--exclude"}) {
      std::vector<std::string> with = words;
      with.insert(with.end(), {option, glob});
      const ProcessResult result = run_tool(with);
      EXPECT_EQ(result.status, 2) << verb << option << result.out << result.err;
      EXPECT_NE(result.err.find(option +
                                " may part an expert from its scale: --gemma-fold wants both; leave "
                                "--gemma-fold out, or " +
                                option),
                std::string::npos)
          << verb << result.err;
      EXPECT_EQ(result.out, "") << verb;
    }
    const ProcessResult environment = run_tool(words, {"WEIGHTPROOF_EXCLUDE=" + glob});
    EXPECT_EQ(environment.status, 2) << verb << environment.out << environment.err;
  }
  EXPECT_FALSE(std::filesystem::exists(directory / "out"));
  // Each of the two alone is fine.
  EXPECT_EQ(run_tool({"load", model, "--exclude", "*layers.1.*"}).status, 0);
  EXPECT_EQ(run_tool({"load", model, "--gemma-fold"}).status, 0);
}

TEST(GemmaFold, IsRefusedWhereNothingTellsTheScales) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions made;
  made.family = "gemma4_moe";
  fixtures::generate(made, directory / "model");
  std::filesystem::remove(directory / "model/config.json");
  for (const char* verb : {"plan", "load"}) {
    const ProcessResult result = run_tool({verb, (directory / "model").string(), "--gemma-fold"});
    EXPECT_EQ(result.status, 2) << verb << result.out << result.err;
  }
}

TEST(GemmaFold, IsRefusedForOtherFamilies) {
  const TemporaryDirectory directory;
  fixtures::generate({}, directory / "model");
  const ProcessResult result = run_tool({"load", (directory / "model").string(), "--gemma-fold"});
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_NE(result.err.find("no scale of an expert to fold"), std::string::npos) << result.err;
  const ProcessResult verified = run_tool({"verify", (directory / "model").string(), "--gemma-fold"});
  EXPECT_EQ(verified.status, 2) << verified.err;
  EXPECT_NE(verified.err.find("no scale of an expert to fold"), std::string::npos) << verified.err;
}

}  // namespace
}  // namespace weightproof::suites::test
