// SPDX-License-Identifier: Apache-2.0
// Subjects: the loader on every route and the reference answer alike, what is done wrong to one shows in its answers,
// and what it exports is what it came from.
#include "fixtures/generate.hpp"
#include "loader/exec/engine.hpp"
#include "suites/subject/own_subjects.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

fixtures::GenerateOptions options_of(const char* family, const char* preset) {
  fixtures::GenerateOptions options;
  options.family = family;
  options.preset = preset;
  return options;
}

class Subjects : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Subjects, AnswerAlike) {
  const TemporaryDirectory directory;
  fixtures::generate(options_of(GetParam().first, GetParam().second), directory / "model");
  const auto loader = loader_subject(directory / "model");
  ASSERT_FALSE(loader->describe().empty());
  const auto reference = reference_subject(directory / "model", *loader);
  for (const std::uint64_t window : {64U, 1000U, 1U << 20U}) {
    for (const SubjectDifference& row : compare_subjects(*reference, *loader, window)) {
      ADD_FAILURE() << row.key << row.where << " " << row.what << ", windows of " << window;
    }
  }
  LoaderSubjectOptions forced;
  forced.route = plan::Route::materialized;
  const auto whole = loader_subject(directory / "model", forced);
  EXPECT_TRUE(compare_subjects(*whole, *loader, 1000).empty());
  EXPECT_GT(*loader->counters().read_bytes, 0U);
  EXPECT_GT(*loader->counters().opens, 0U);
}

INSTANTIATE_TEST_SUITE_P(Families, Subjects,
                         testing::Values(std::pair("llama", "tiny"), std::pair("qwen3_moe", "tiny_all_moe"),
                                         std::pair("gpt_oss", "tiny"), std::pair("phi3", "tiny"),
                                         std::pair("mistral3_fp8_causal", "tiny")),
                         [](const auto& row) { return std::string(row.param.first); });

TEST(Subject, AMutantAnswersOtherwise) {
  const TemporaryDirectory directory;
  fixtures::generate(options_of("llama", "tiny"), directory / "model");
  const auto loader = loader_subject(directory / "model");
  const std::string key = "model.layers.0.mlp.down_proj.weight";
  exec::Faults faults{exec::Fault::neighbour_range, 0, 0};
  LoaderSubjectOptions wrong;
  wrong.perturbation.first_load = [&](const plan::Plan& plan, exec::LoadOptions& options) {
    if (const std::size_t at = plan.find(key); at != SIZE_MAX) {
      faults.tensor = static_cast<std::uint32_t>(at);
      options.faults = &faults;
    }
  };
  const auto mutant = loader_subject(directory / "model", wrong);
  const std::vector<SubjectDifference> found = compare_subjects(*loader, *mutant, 1U << 20U);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].key, key);
  EXPECT_EQ(found[0].where.substr(0, 1), "[");
}

TEST(Subject, ExportsWhatItCameFrom) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions options = options_of("qwen3_moe", "tiny_all_moe");
  options.shard_count = 2;
  fixtures::generate(options, directory / "model");
  loader_subject(directory / "model")->export_to(directory / "back");
  for (const char* name :
       {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"}) {
    EXPECT_TRUE(read_file((directory / "back") / name) == read_file((directory / "model") / name)) << name;
  }
}

}  // namespace
}  // namespace weightproof::suites::test
