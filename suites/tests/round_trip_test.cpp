// SPDX-License-Identifier: Apache-2.0
// There and back in processes of their own: a native state goes back to the files it came from, the source gone.
#include <algorithm>

#include "fixtures/generate.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> weight_files(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors") || name.ends_with(".index.json")) {
      names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

void expect_same_files(const fs::path& found, const fs::path& wanted) {
  EXPECT_EQ(weight_files(found), weight_files(wanted));
  for (const std::string& name : weight_files(wanted)) {
    EXPECT_TRUE(read_file(found / name) == read_file(wanted / name)) << name << " differs";
  }
}

void run(const std::vector<std::string>& words) {
  const ProcessResult result = run_tool(words);
  ASSERT_EQ(result.status, 0) << result.out << result.err;
}

struct Case {
  std::string name;
  fixtures::GenerateOptions options;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  const auto add = [&out](std::string name, std::string family, std::string preset) -> fixtures::GenerateOptions& {
    out.push_back({std::move(name), {}});
    out.back().options.family = std::move(family);
    out.back().options.preset = std::move(preset);
    out.back().options.shard_count = 3;
    return out.back().options;
  };
  add("experts_apart", "qwen3_moe", "tiny_all_moe");
  add("experts_stacked", "qwen3_moe", "tiny_stacked");
  add("one_file", "llama", "tiny").shard_count = 1;
  add("tied", "llama", "tiny_tied");
  add("head_stored_though_tied", "llama", "tiny_tied").tie = fixtures::TieMode::stored_head;
  add("fused_rows", "phi3", "tiny");
  add("tower", "qwen3_vl", "tiny");
  add("latent_attention", "deepseek_v3", "tiny_bf16");
  add("hybrid", "nemotron_v3", "tiny");
  add("defaults", "step3p5", "tiny").has_optional = false;
  fixtures::GenerateOptions& trainer = add("style_of_a_trainer", "qwen3_moe", "tiny");
  trainer.style = fixtures::FileStyle::sharded;
  fixtures::GenerateOptions& consolidated = add("style_of_a_consolidator", "qwen3_moe", "tiny");
  consolidated.style = fixtures::FileStyle::consolidator;
  consolidated.index_style = fixtures::IndexStyle::torch;
  add("style_of_nobody", "llama", "tiny").style = fixtures::FileStyle::given_order;
  return out;
}

class RoundTrip : public testing::TestWithParam<Case> {};

TEST_P(RoundTrip, NativeStateBecomesTheFilesItCameFrom) {
  const TemporaryDirectory directory;
  const auto path = [&](const char* name) { return (directory / name).string(); };
  fixtures::generate(GetParam().options, directory / "source");
  run({"load", path("source"), "--emit", path("native")});
  // From here on nothing can be looked up in the source.
  fs::create_directories(directory / "away");
  fs::rename(directory / "source", directory / "away" / "hidden");
  const fs::path original = directory / "away" / "hidden";

  run({"export", path("native"), "--out", path("back")});
  expect_same_files(directory / "back", original);

  run({"export", path("native"), "--out", path("small"), "--shard-size", "700"});
  run({"export", path("small"), "--out", path("large"), "--shard-size", "1MB"});
  run({"export", path("large"), "--out", path("again"), "--shards-like", path("native")});
  expect_same_files(directory / "again", original);
  EXPECT_GT(weight_files(directory / "small").size(), weight_files(directory / "large").size());
}

INSTANTIATE_TEST_SUITE_P(Cases, RoundTrip, testing::ValuesIn(cases()), [](const auto& row) { return row.param.name; });

TEST(RoundTrip, DecodedStateBecomesADecodedCheckpoint) {
  const TemporaryDirectory directory;
  const auto path = [&](const char* name) { return (directory / name).string(); };
  fixtures::GenerateOptions options;
  options.family = "gpt_oss";
  fixtures::generate(options, directory / "source");
  run({"load", path("source"), "--dtype", "bf16", "--emit", path("native")});
  run({"export", path("native"), "--out", path("back")});
  // A checkpoint in the plain form of its family, which makes the same native state.
  run({"verify", path("back")});
  run({"load", path("back"), "--emit", path("again")});
  run({"diff", path("native"), path("again")});
}

TEST(RoundTrip, AFaultInTheNativeStateShows) {
  const TemporaryDirectory directory;
  const auto path = [&](const char* name) { return (directory / name).string(); };
  fixtures::GenerateOptions options;
  options.family = "qwen3_moe";
  options.preset = "tiny_all_moe";
  fixtures::generate(options, directory / "source");
  run({"load", path("source"), "--emit", path("native")});
  std::string bytes = read_file(directory / "native" / "model.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 0x40);
  write_file(directory / "native" / "model.safetensors", bytes);
  run({"export", path("native"), "--out", path("back")});
  const ProcessResult diff = run_tool({"diff", path("source"), path("back")});
  EXPECT_EQ(diff.status, 1);
  EXPECT_NE(diff.out.find("1 element of"), std::string::npos) << diff.out;
}

TEST(RoundTrip, ALayoutThatIsGoneIsNamed) {
  const TemporaryDirectory directory;
  const auto path = [&](const char* name) { return (directory / name).string(); };
  fixtures::generate({}, directory / "source");
  run({"load", path("source"), "--emit", path("native")});
  fs::remove(directory / "native" / "weightproof.layout.json");
  const ProcessResult result = run_tool({"export", path("native"), "--out", path("back")});
  EXPECT_EQ(result.status, 3);
  EXPECT_NE(result.err.find("weightproof.layout.json"), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(directory / "back"));
}

}  // namespace
}  // namespace weightproof::suites::test
