// SPDX-License-Identifier: Apache-2.0
// What is refused says why in its own terms and what to do instead, once, and as what it is: a mistake of the command
// is none of the checkpoint.
#include <algorithm>

#include "fixtures/generate.hpp"
#include "loader/core/config.hpp"
#include "reports/json.hpp"
#include "suites/tests/cli_testing.hpp"

namespace weightproof::suites::test {
namespace {

namespace fs = std::filesystem;

class Refusals : public testing::Test {
 protected:
  Refusals() { fixtures::generate({}, directory_ / "model"); }
  std::string model() const { return (directory_ / "model").string(); }

  // Refused with this status, `said` in the one line of the error, nothing on stdout.
  void expect_refused(int status, const std::vector<std::string>& words, const std::string& said) const {
    const ProcessResult result = run_tool(words);
    EXPECT_EQ(result.status, status) << words.front() << ' ' << said << result.out << result.err;
    EXPECT_TRUE(contains(result.err, said)) << result.err << "wanted: " << said;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
  TemporaryDirectory directory_;
};

TEST_F(Refusals, SizesOfATopology) {
  for (const char* verb : {"verify", "plan", "load"}) {
    std::vector<std::string> words = {verb, model(), "--topology", "tp=0"};
    if (std::string_view(verb) != "verify") {
      words.insert(words.end(), {"--rank", "0"});
    }
    expect_refused(2, words,
                   "'tp=0' in topology 'tp=0': a size is 1 to 65536; leave tp out where nothing is divided by it");
  }
  expect_refused(2, {"plan", model(), "--topology", "tp=2", "--rank", "0", "--all-ranks"},
                 "--rank asks for one rank, --all-ranks for every one; leave one of the two out");
  expect_refused(2, {"plan", model(), "--topology", "tp=2"}, "none of them is named; add --rank R, or --all-ranks");
  const ProcessResult load = run_tool({"load", model(), "--topology", "tp=2"});
  EXPECT_TRUE(contains(load.err, "none of them is named; add --rank R\n")) << load.err;
  expect_refused(2, {"load", model(), "--rank", "0"},
                 "--rank is about the ranks of a topology, and there is none; add --topology");
  // A dense model has no experts, whatever else is divided.
  for (const char* topology : {"ep=2", "tp=2,ep=2"}) {
    expect_refused(3, {"plan", model(), "--topology", topology, "--all-ranks"},
                   "ep=2 divides experts, and this model has none; leave ep out");
    const ProcessResult judged = run_tool({"verify", model(), "--topology", topology});
    EXPECT_EQ(judged.status, 1);
    EXPECT_TRUE(contains(judged.out, "ep=2 divides experts, and this model has none")) << judged.out;
    EXPECT_FALSE(contains(judged.out, "divisor of 0") || contains(judged.out, "divisor of 1")) << judged.out;
  }
}

// Stages that are none of these layers: one mistake of the command, whoever is asked.
TEST_F(Refusals, StagesAreAMistakeOfTheCommand) {
  struct Row {
    const char* topology;
    const char* stages;
    const char* said;
  };
  for (const Row& row : {
           Row{"pp=2", "0-0",
               "stages '0-0' end at layer 0 of 3 layers; give ranges that follow one another from 0 to 2"},
           Row{"pp=2", "0-0,2-2", "stage '2-2' in '0-0,2-2' does not begin at layer 1"},
           Row{"pp=2", "0-1,2-7", "stage '2-7' in '0-1,2-7' is beyond the last of 3 layers"},
           Row{"pp=2", "0-1,x", "'x' in '0-1,x' is not a number; give a whole number there"},
           Row{"pp=2", "0-2", "1 stage is stated for pp=2; state one range of layers for each of the pp ranks"},
           Row{"tp=2", "0-1,2-2", "2 stages are stated for pp=1"},
       }) {
    expect_refused(2, {"verify", model(), "--topology", row.topology, "--stages", row.stages}, row.said);
    expect_refused(2, {"plan", model(), "--topology", row.topology, "--stages", row.stages, "--all-ranks"}, row.said);
  }
  EXPECT_EQ(run_tool({"verify", model(), "--topology", "pp=2", "--stages", "0-1,2-2"}).status, 0);
}

TEST_F(Refusals, ASelectionThatLeavesNothing) {
  for (const char* verb : {"plan", "load", "manifest"}) {
    expect_refused(3, {verb, model(), "--include", "model.layer.*"},
                   "SUBSET_EMPTY: --include 'model.layer.*' takes none of the ");
    expect_refused(3, {verb, model(), "--include", "model.layer.*"}, "as far as 'model.layer' it fits model.layers.");
    expect_refused(3, {verb, model(), "--include", "lm_head.weight", "--exclude", "lm_*"},
                   "--exclude 'lm_*' takes the one that --include left of ");
    expect_refused(3, {verb, model(), "--exclude", "*"}, "--exclude '*' takes all ");
  }
  const ProcessResult judged = run_tool({"verify", model(), "--include", "model.layer.*"});
  EXPECT_EQ(judged.status, 1);
  EXPECT_TRUE(contains(judged.out, "--include 'model.layer.*' takes none of the ")) << judged.out;
  const reports::Report report =
      reports::read_json(run_tool({"verify", model(), "--include", "model.layer.*", "--json"}).out);
  EXPECT_TRUE(contains(record_of(report, "keys.subset").hint, "as far as 'model.layer' it fits model.layers."));
}

TEST_F(Refusals, TargetsThatAreNone) {
  const std::string absent = (directory_ / "absent/out").string();
  const std::string said = "IO_ERROR: there is no directory " + (directory_ / "absent").string() +
                           " to write out into; make it first, or give ";
  expect_refused(3, {"export", model(), "--out", absent}, said + "--out another path");
  expect_refused(3, {"load", model(), "--emit", absent}, said + "--emit another path");
  expect_refused(3, {"manifest", model(), "--out", absent}, said + "--out another path");
  fs::create_directory(directory_ / "taken");
  write_file(directory_ / "taken/mine", "mine");
  const std::string taken = (directory_ / "taken").string();
  expect_refused(
      3, {"export", model(), "--out", taken},
      "TARGET_EXISTS: " + taken + " exists already; give --out another path, or --replace to put the new one");
  expect_refused(3, {"load", model(), "--emit", taken},
                 "TARGET_EXISTS: " + taken + " exists already; give --emit another path, or remove what stands there");
  expect_refused(3, {"manifest", model(), "--out", taken}, "TARGET_EXISTS: " + taken + " is a directory");
  EXPECT_EQ(read_file(directory_ / "taken/mine"), "mine");
  EXPECT_EQ(run_tool({"export", model(), "--out", taken, "--replace"}).status, 0);
  EXPECT_TRUE(contains(run_tool({"explain", "TARGET_EXISTS"}).out, "--replace"));
}

TEST(JudgeFilter, SaysWhichPartLeftNoCase) {
  struct Row {
    std::vector<std::string> words;
    const char* said;
  };
  for (const Row& row : std::vector<Row>{
           {{"--case", "lama/*"}, "no case is left: --case 'lama/*' takes none of the "},
           {{"--case", "lama/*"}, " cases of --wanted both; did you mean llama? `weightproof judge --list`"},
           {{"--case", "llama/*/rank/*"}, "; with --wanted all, or --names native, it takes some"},
           {{"--preset", "tinny*"}, "no case is left: --preset 'tinny*' takes no preset; `weightproof fixture --list`"},
           {{"--topology", "tp=1021"},
            "no case is left: no model can be asked --wanted rank --topology tp=1021; choose"},
       }) {
    for (const bool is_list : {false, true}) {
      std::vector<std::string> words = {"judge"};
      words.insert(words.end(), row.words.begin(), row.words.end());
      words.emplace_back(is_list ? "--list" : "--");
      words.resize(words.size() + (is_list ? 0U : 1U), "true");
      const ProcessResult result = run_tool(words);
      EXPECT_EQ(result.status, 2) << result.out << result.err;
      EXPECT_TRUE(contains(result.err, row.said)) << result.err << "wanted: " << row.said;
    }
  }
}

// Names of weight files are no contradiction: under --keys-only they are not opened.
TEST_F(Refusals, KeysOnlyWithoutAnIndex) {
  for (const std::string& path : {model(), (directory_ / "model/model.safetensors").string()}) {
    for (const char* verb : {"verify", "inspect"}) {
      const ProcessResult result = run_tool({verb, path, "--keys-only"});
      const std::string out = result.out + result.err;
      EXPECT_TRUE(contains(out, "no index here, and --keys-only opens no weight file")) << out;
      EXPECT_TRUE(contains(out, "model.safetensors.index.json")) << out;
      EXPECT_FALSE(contains(out, "family identity")) << out;
      EXPECT_FALSE(contains(out, "looked for model.safetensors.index.json, model.safetensors")) << out;
    }
    const reports::Report report = reports::read_json(run_tool({"verify", path, "--keys-only", "--json"}).out);
    EXPECT_EQ(report.checkpoint.family, "unknown");
    EXPECT_TRUE(contains(record_of(report, "index.selection").hint, "leave out --keys-only: "));
  }
}

TEST(RefusedFold, HasNoFileNames) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions made;
  made.family = "gemma4_moe";
  fixtures::generate(made, directory / "model");
  for (const char* verb : {"plan", "load"}) {
    const ProcessResult result = run_tool({verb, (directory / "model").string(), "--gemma-fold", "--layout", "hf"});
    EXPECT_EQ(result.status, 2) << result.out;
    EXPECT_TRUE(contains(result.err, "`weightproof export --gemma-fold`")) << result.err;
  }
  // What it points to is whole.
  const std::string out = (directory / "folded").string();
  ASSERT_EQ(run_tool({"export", (directory / "model").string(), "--gemma-fold", "--out", out}).status, 0);
  EXPECT_EQ(run_tool({"verify", out}).status, 0);
}

}  // namespace
}  // namespace weightproof::suites::test
