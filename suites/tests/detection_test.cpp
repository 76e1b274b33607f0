// SPDX-License-Identifier: Apache-2.0
// Two detections of one checkpoint: keys.family passes where they agree, and fails where either is made to see another
// family, spelling or layout of experts. layout.mapping turns red on a binding that is changed on purpose.
#include <gtest/gtest.h>

#include <iostream>

#include "suites/mutants/mapping_operators.hpp"
#include "suites/mutants/mutant.hpp"
#include "suites/mutants/planned_family.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;

reports::CheckRecord family_record(const std::string& fixture, const std::function<void(ReferenceSide&)>& change) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions made;
  made.family = fixture;
  fixtures::generate(made, directory / "model");
  VerifyOptions options;
  options.perturbation.reference_side = change;
  const reports::Report report = verify(directory / "model", options);
  if (record_of(report, "keys.family").status == Status::fail) {
    EXPECT_EQ(record_of(report, "layout.mapping").status, Status::skip);
  }
  return record_of(report, "keys.family");
}

TEST(Detections, AgreeOrTheCheckFails) {
  EXPECT_EQ(family_record("qwen3_moe", [](ReferenceSide&) {}).status, Status::pass);
  const auto other = family_record("qwen3_moe", [](ReferenceSide& side) { side.family = "glm4_moe"; });
  EXPECT_EQ(other.status, Status::fail);
  EXPECT_EQ(other.message, "the loader finds family qwen3_moe, the reference glm4_moe");
  const auto none = family_record("qwen3_moe", [](ReferenceSide& side) { side.family = "identity"; });
  EXPECT_EQ(none.status, Status::fail);
  EXPECT_EQ(none.message, "the loader finds family qwen3_moe, the reference identity");
  const auto spelling = family_record("nemotron_v3", [](ReferenceSide& side) { side.name_space = "model."; });
  EXPECT_EQ(spelling.status, Status::fail);
  EXPECT_EQ(spelling.message, "the loader reads names under 'backbone.', the reference under 'model.'");
  const auto experts = family_record("qwen3_moe", [](ReferenceSide& side) { side.experts = "stacked"; });
  EXPECT_EQ(experts.status, Status::fail);
  EXPECT_EQ(experts.message, "the loader finds experts per_expert, the reference stacked");
  const auto refused = family_record("llama", [](ReferenceSide& side) { side.names_failure = "NAMESPACE_MIXED: x"; });
  EXPECT_EQ(refused.status, Status::fail);
  EXPECT_EQ(refused.message, "the reference refuses the names: NAMESPACE_MIXED: x");
}

// One name per family, whatever either side calls its forms.
TEST(Detections, AliasesAreOneFamily) {
  for (const auto& [asked, fixture] : {std::pair<const char*, const char*>{"hy_mt2", "hy_mt2"},
                                       {"hy_v3", "hy_mt2"},
                                       {"hy_mt2", "hy_v3"},
                                       {"gpt_oss", "gpt_oss_bf16"},
                                       {"gpt_oss_bf16", "gpt_oss_bf16"},
                                       {"gpt_oss", "gpt_oss"},
                                       {"gpt_oss_bf16", "gpt_oss"}}) {
    const TemporaryDirectory directory;
    fixtures::GenerateOptions made;
    made.family = fixture;
    fixtures::generate(made, directory / "model");
    VerifyOptions options;
    options.family = asked;
    const reports::Report report = verify(directory / "model", options);
    EXPECT_EQ(findings_of(report), std::vector<std::string>{}) << asked << " on " << fixture;
    EXPECT_EQ(record_of(report, "layout.mapping").status, Status::pass) << record_of(report, "layout.mapping").reason;
    EXPECT_EQ(record_of(report, "value.exact").status, Status::pass) << asked << " on " << fixture;
  }
}

// Without a config, and with one that names neither type nor class, the names decide: for both.
TEST(Detections, WithoutAConfigTheNamesDecideForBoth) {
  for (const auto& [fixture, family] : {std::pair<const char*, const char*>{"qwen3_moe", "qwen3_moe"},
                                        {"qwen3", "qwen3"},
                                        {"qwen2", "qwen2"},
                                        {"llama", "identity"},
                                        {"glm4_moe", "identity"},
                                        {"ernie4_5_moe", "identity"},
                                        {"gemma3", "identity"},
                                        {"deepseek_v3", "identity"},
                                        {"nemotron_v3", "identity"},
                                        {"mixtral", "identity"}}) {
    const TemporaryDirectory directory;
    fixtures::GenerateOptions made;
    made.family = fixture;
    fixtures::generate(made, directory / "model");
    std::filesystem::remove(directory / "model" / "config.json");
    const reports::Report report = verify(directory / "model", {});
    EXPECT_EQ(report.checkpoint.family, family) << fixture;
    EXPECT_EQ(record_of(report, "keys.family").status, Status::pass) << record_of(report, "keys.family").message;
    EXPECT_EQ(findings_of(report), std::vector<std::string>{}) << fixture;
    if (report.checkpoint.family != "identity") {
      EXPECT_EQ(record_of(report, "value.exact").status, Status::pass) << fixture;
      EXPECT_GT(record_of(report, "value.exact").total, 0U);
    }
  }
}

// Every class that a family goes by, beside a model_type that nobody knows.
TEST(Detections, ArchitecturesDecideWhereTheModelTypeIsUnknown) {
  for (const adapters::Family* family : adapters::all_families()) {
    for (const std::string_view name : family->architectures) {
      const std::string text = R"({"model_type": "never_heard_of", "architectures": [")" + std::string(name) + "\"]}";
      const ConfigValue config = ConfigValue::parse(text, "config.json");
      const adapters::Family* ours = adapters::detect(&config, Catalog()).family;
      const std::string theirs = reference::family_of_model(reference::Config(text), {});
      EXPECT_EQ(ours, adapters::find_family(theirs)) << name << " is " << theirs << " for the reference";
    }
    for (const std::string_view type : family->model_types) {
      const std::string text = R"({"model_type": ")" + std::string(type) + "\"}";
      const ConfigValue config = ConfigValue::parse(text, "config.json");
      const adapters::Family* ours = adapters::detect(&config, Catalog()).family;
      const std::string theirs = reference::family_of_model(reference::Config(text), {});
      EXPECT_EQ(ours, adapters::find_family(theirs)) << type << " is " << theirs << " for the reference";
    }
  }
}

// The operators of the mapping mutants, each on a family that has what it changes: layout.mapping names the tensor.
TEST(LayoutMapping, SeesEveryKindOfTransformThatIsChanged) {
  std::set<std::string> seen;
  FixtureShelf shelf;
  for (Mutant& mutant : mapping_mutants()) {
    const std::string operation = mutant.id.substr(8, mutant.id.find('.', 8) - 8);
    // Names and lost tensors are the matter of keys.* and layout.coverage; values of value.exact.
    if (!mutant.equivalent.empty() || operation.find("stored_prefix") != std::string::npos ||
        operation.find("drop_") == 0 || operation == "norm_offset" || seen.count(operation) != 0) {
      continue;
    }
    mutant.checks = {"layout.mapping"};
    const Fate fate = run_mutant(mutant, shelf);
    EXPECT_TRUE(fate.is_as_wanted) << mutant.id << " " << testing::PrintToString(fate.findings);
    seen.insert(operation);
  }
  EXPECT_GE(seen.size(), 18U) << testing::PrintToString(seen);
}

std::string digest_of_load(const std::filesystem::path& path, const Mutant& mutant, bool is_perturbed) {
  VerifyOptions options;
  options.family = mutant.family;
  if (is_perturbed) {
    options.perturbation = mutant.perturbation;
  }
  const storage::Checkpoint checkpoint = storage::read_checkpoint(path, options.selection);
  Context context(options, checkpoint);
  return loaded_digest(context);
}

// A mutant may only be called equivalent where it loads the same bytes.
TEST(MappingMutants, EquivalentOnesLoadTheSameBytes) {
  FixtureShelf shelf;
  std::map<std::string, std::size_t> per_operator;
  std::size_t killable = 0;
  bool has_other_digest = false;
  for (const Mutant& mutant : mapping_mutants()) {
    if (mutant.equivalent.empty()) {
      ++killable;
      // The digest is one that can differ.
      if (!has_other_digest && mutant.id.find("swap_kv") != std::string::npos) {
        const auto& path = shelf.get(mutant.fixture).path;
        has_other_digest = digest_of_load(path, mutant, false) != digest_of_load(path, mutant, true);
        EXPECT_TRUE(has_other_digest) << mutant.id;
      }
      continue;
    }
    ++per_operator[mutant.id.substr(8, mutant.id.find('.', 8) - 8)];
    const auto& path = shelf.get(mutant.fixture).path;
    EXPECT_EQ(digest_of_load(path, mutant, false), digest_of_load(path, mutant, true)) << mutant.id;
  }
  EXPECT_TRUE(has_other_digest);
  EXPECT_GE(killable, 400U);
  for (const auto& [operation, count] : per_operator) {
    std::cout << "equivalent: " << operation << " on " << count << " variants, same digest\n";
  }
}

}  // namespace
}  // namespace weightproof::suites::test
