// SPDX-License-Identifier: Apache-2.0
// judge: the cases about ranks and about quantized checkpoints, and faults planted in sound answers.
#include <algorithm>
#include <fstream>
#include <set>

#include "fixtures/quantized.hpp"
#include "reports/emit.hpp"
#include "reports/json.hpp"
#include "suites/judge/cases.hpp"
#include "suites/tests/judge_testing.hpp"

namespace weightproof::suites::test {
namespace {

using reports::CheckRecord;
using reports::Status;

/// Ranks alone, of usual topologies.
void ask_ranks(judge::JudgeOptions& options) {
  options.filter.wanted = {};
  options.filter.ranks = judge::usual_rank_questions();
}

/// Ranks alone, all of one topology.
std::function<void(judge::JudgeOptions&)> ranks_of(const std::string& topology) {
  return [topology](judge::JudgeOptions& options) {
    options.filter.wanted = {};
    options.filter.ranks = {{topology, {}}};
  };
}

std::vector<std::string> before(const std::string& wrapper, std::vector<std::string> subject) {
  subject.insert(subject.begin(), k_subjects + wrapper);
  return subject;
}

const CheckRecord* failure_of(const reports::Report& report, const std::string& case_name, const std::string& check) {
  const auto found = std::find_if(report.checks.begin(), report.checks.end(), [&](const CheckRecord& record) {
    return record.case_name == case_name && record.id == check && record.status == Status::fail;
  });
  return found == report.checks.end() ? nullptr : &*found;
}

TEST(JudgeRanks, AreAskedOnRequestOfEveryFamilyThatCanBeDivided) {
  for (const judge::Case& row : judge::list_cases({})) {
    EXPECT_FALSE(row.is_of_rank()) << row.id() << ": subjects without ranks are not asked by default";
  }
  judge::CaseFilter filter;
  filter.wanted = {};
  filter.ranks = judge::usual_rank_questions();
  std::set<std::string> families;
  std::set<std::string> ids;
  std::set<std::string> topologies;
  bool has_experts = false;
  for (const judge::Case& row : judge::list_cases(filter)) {
    EXPECT_TRUE(row.is_of_rank());
    EXPECT_EQ(row.names, judge::Names::native);
    EXPECT_TRUE(ids.insert(row.id()).second) << row.id();
    families.insert(row.fixture.family);
    topologies.insert(row.topology);
    has_experts = has_experts || (row.fixture.family == "glm4_moe" && row.topology == "fsdp=6,ep=3");
    EXPECT_FALSE(row.fixture.family == "llama" && row.topology.find("ep=") == 7) << "no experts to share out";
  }
  EXPECT_GE(families.size(), 30U);
  EXPECT_EQ(topologies.size(), judge::usual_rank_questions().size());
  EXPECT_TRUE(has_experts);
  EXPECT_EQ(ids.count("llama/tiny/rank/stored/pp=2,tp=2/3"), 1U);
  // A topology that nobody can be divided by leaves no case.
  filter.ranks = {{"tp=1009", {}}};
  EXPECT_TRUE(judge::list_cases(filter).empty());
  EXPECT_EQ(judge::topology_text("tp=2,fsdp=3,pp=1"), "fsdp=3,tp=2");
}

TEST(JudgeRanks, OurOwnCommandLinePasses) {
  const reports::Report report = judged(own_subject(), {}, ask_ranks);
  for (const CheckRecord& record : report.checks) {
    EXPECT_TRUE(record.status == Status::pass || record.case_name.starts_with("qwen3_mlx/"))
        << record.case_name << ' ' << record.id << ' ' << record.message << record.reason;
  }
  EXPECT_GE(report.timing.cases.size(), 185U);
  const reports::Report wide = judged(own_subject(), {"qwen3_moe/*", "gpt_oss/*", "llama/*"}, [](auto& options) {
    ask_ranks(options);
    options.filter.dtypes = {"f32"};
  });
  EXPECT_EQ(described(wide), "");
}

TEST(JudgeRanks, ARequestSaysTopologyAndRank) {
  const TemporaryDirectory directory;
  const std::string keep = (directory / "keep").string();
  const std::string line = "echo \"$JUDGE_TOPOLOGY rank $JUDGE_RANK\" >&2; exit 77";
  const ProcessResult result = run_tool(
      {"judge", "--case", "llama/tiny/rank/*/1", "--topology", "tp=2", "--keep", keep, "--", "/bin/sh", "-c", line});
  EXPECT_TRUE(result.out.find("tp=2 rank 1: value.exact") != std::string::npos) << result.out << result.err;
  const std::string text = read_file(std::filesystem::path(keep) / "llama/tiny/rank/stored/tp=2/1/request.json");
  EXPECT_NE(text.find("\"topology\": \"tp=2\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"rank\": 1"), std::string::npos) << text;
  const std::string verdict = validate("weightproof.request-1", text);
  EXPECT_TRUE(verdict.empty() || verdict == "skipped") << verdict;
  // The schema notices a rank without its topology.
  std::string wrong = text;
  wrong.replace(wrong.find("\"tp=2\""), 6, "null");
  const std::string complaint = validate("weightproof.request-1", wrong);
  EXPECT_FALSE(complaint.empty()) << wrong;
}

TEST(JudgeRanks, ASubjectThatKnowsNoRanksSkipsThem) {
  NEEDS_NUMPY
  const reports::Report report =
      judged({"/usr/bin/python3", k_subjects + "numpy_reader.py"}, {"llama/tiny/*"}, ranks_of("tp=2"));
  EXPECT_EQ(summarize(report.checks).skip, 2U) << described(report);
  EXPECT_EQ(report.checks.size(), 2U);
}

TEST(JudgeRanks, ASubjectThatIgnoresTheRankIsNamed) {
  const std::string q = "model.layers.0.self_attn.q_proj.weight";
  const reports::Report cut =
      judged(before("wrong/rank_ignored.sh", own_subject()), {"llama/tiny/*"}, ranks_of("tp=2"));
  EXPECT_EQ(cut.timing.cases.size(), 2U);
  for (const char* rank : {"0", "1"}) {
    const CheckRecord* shape = failure_of(cut, std::string("llama/tiny/rank/stored/tp=2/") + rank, "keys.shape");
    ASSERT_NE(shape, nullptr) << described(cut);
    EXPECT_TRUE(names(*shape, q)) << shape->message;
    EXPECT_NE(
        shape->message.find(std::string("that is the whole tensor and not the part of rank ") + rank + " of tp=2"),
        std::string::npos)
        << shape->message;
  }
  // Stages cut no tensor: what another one holds is then too much.
  const reports::Report staged =
      judged(before("wrong/rank_ignored.sh", own_subject()), {"llama/tiny/*"}, ranks_of("pp=2"));
  const CheckRecord* more = failure_of(staged, "llama/tiny/rank/stored/pp=2/0", "keys.unexpected");
  ASSERT_NE(more, nullptr) << described(staged);
  EXPECT_TRUE(names(*more, "model.layers.2.self_attn.q_proj.weight")) << more->message;
}

TEST(JudgeRanks, ASubjectThatTakesTheNeighboursPartIsNamed) {
  for (const auto& [topology, glob, tensor] :
       {std::tuple("tp=2", "llama/tiny/*", "model.layers.0.self_attn.q_proj.weight"),
        std::tuple("fsdp=2", "qwen3_moe/tiny/*", "model.norm.weight"),
        std::tuple("fsdp=6,ep=3", "glm4_moe/tiny/*", "model.layers.1.mlp.experts.gate_and_up_projs")}) {
    const reports::Report right = judged(own_subject(), {glob}, ranks_of(topology));
    EXPECT_EQ(described(right), "") << topology;
    const reports::Report wrong = judged(before("wrong/rank_neighbour.sh", own_subject()), {glob}, ranks_of(topology));
    ASSERT_EQ(wrong.timing.cases.size(), right.timing.cases.size());
    for (const auto& timed : wrong.timing.cases) {
      const CheckRecord* values = failure_of(wrong, timed.name, "value.exact");
      ASSERT_NE(values, nullptr) << described(wrong);
      EXPECT_TRUE(names(*values, tensor)) << values->message;
    }
    const auto explained = std::find_if(wrong.findings.begin(), wrong.findings.end(),
                                        [](const auto& finding) { return finding.title == "Part of another rank"; });
    ASSERT_NE(explained, wrong.findings.end()) << described(wrong);
    EXPECT_NE(explained->explanation.find("asked for was the part of rank"), std::string::npos)
        << explained->explanation;
  }
}

std::vector<std::string> sound_quantized() {
  std::vector<std::string> out;
  for (const fixtures::QuantizedCase& row : fixtures::quantized_cases()) {
    if (row.check.empty()) {
      out.emplace_back(row.name);
    }
  }
  return out;
}

TEST(JudgeQuantized, EverySoundCheckpointIsAskedForBothWays) {
  std::set<std::string> ids;
  for (const judge::Case& row : judge::list_cases({})) {
    ids.insert(row.id());
  }
  EXPECT_EQ(sound_quantized().size(), 40U);
  for (const std::string& name : sound_quantized()) {
    EXPECT_EQ(ids.count("quantized/" + name + "/state/stored"), 1U) << name;
    EXPECT_EQ(ids.count("quantized/" + name + "/export/stored"), 1U) << name;
  }
  judge::CaseFilter native;
  native.names = judge::Names::native;
  native.globs = {"quantized/*"};
  for (const judge::Case& row : judge::list_cases(native)) {
    EXPECT_EQ(row.wanted, judge::Wanted::exported) << row.id();
  }
  judge::CaseFilter small;
  small.preset = "small";
  small.globs = {"quantized/*"};
  EXPECT_TRUE(judge::list_cases(small).empty());
}

// Decoded under `judge`'s default run; here codes and scales as they are, which is the other way to export them.
TEST(JudgeQuantized, OurOwnExportKeepsCodes) {
  const std::vector<std::string> subject = own_subject();
  ::setenv("WEIGHTPROOF_QUANTIZE", "keep", 1);
  const reports::Report report = judged(subject, {"quantized/*/export/*"});
  ::unsetenv("WEIGHTPROOF_QUANTIZE");
  EXPECT_EQ(described(report), "");
  EXPECT_EQ(report.timing.cases.size(), 40U);
}

// What a loader of somebody else's kind cannot decode it refuses; a wrong answer would be worse than none.
TEST(JudgeQuantized, TheNumpyLoaderAnswersRightlyOrNotAtAll) {
  NEEDS_NUMPY
  const reports::Report report = judged({"/usr/bin/python3", k_subjects + "numpy_reader.py"}, {"quantized/*"});
  EXPECT_EQ(report.timing.cases.size(), 80U);
  std::set<std::string> answered;
  for (const CheckRecord& record : report.checks) {
    EXPECT_TRUE(record.status == Status::pass || record.status == Status::skip)
        << record.case_name << ' ' << record.id << ' ' << record.message << record.reason;
    if (record.status == Status::pass && record.id == "value.exact") {
      answered.insert(record.case_name);
    }
    if (record.status == Status::skip && record.id == "value.exact") {
      EXPECT_TRUE(record.reason.starts_with("not supported by the subject: ")) << record.case_name << record.reason;
    }
  }
  for (const char* name :
       {"fp8_block_f32", "fp8_tensor_e4m3fnuz", "fp8_tensor_e5m2fnuz", "mxfp8_e4m3", "mxfp8_e5m2", "mxfp4_blocks"}) {
    for (const char* wanted : {"/state/stored", "/export/stored"}) {
      EXPECT_EQ(answered.count("quantized/" + std::string(name) + wanted), 1U) << name << wanted;
    }
  }
  EXPECT_EQ(answered.count("quantized/modelopt_w4/state/stored"), 0U);
}

TEST(JudgeQuantized, ASubjectWithAWrongScaleIsNamed) {
  const reports::Report report = judged(before("wrong/scale_doubled.py", own_subject()), {"quantized/*/state/*"});
  EXPECT_EQ(report.timing.cases.size(), 40U);
  for (const std::string& name : sound_quantized()) {
    const CheckRecord* values = failure_of(report, "quantized/" + name + "/state/stored", "value.exact");
    ASSERT_NE(values, nullptr) << name << '\n' << described(report);
    const TemporaryDirectory directory;
    const std::vector<std::string> keys = fixtures::generate_quantized(name, directory / "made");
    EXPECT_TRUE(std::any_of(keys.begin(), keys.end(), [&](const std::string& key) { return names(*values, key); }))
        << name << ' ' << values->message;
  }
}

// A subject that passes, and the same with a fault planted in each answer: every one is named with its tensor.
class Planted : public testing::TestWithParam<const char*> {};

TEST_P(Planted, IsNamedWithItsTensorWhoeverAnswered) {
  const std::vector<std::string> globs = {"llama/tiny/*", "llama/tiny_square/*", "qwen3_moe/tiny/*",
                                          "mistral3_fp8_causal/tiny/*"};
  std::vector<std::vector<std::string>> subjects = {own_subject()};
  if (has_python_module("numpy")) {
    subjects.push_back({"/usr/bin/python3", k_subjects + "numpy_reader.py"});
  }
  if (has_python_module("safetensors")) {
    subjects.push_back({"/usr/bin/python3", k_subjects + "safetensors_raw.py"});
  }
  for (const std::vector<std::string>& subject : subjects) {
    const TemporaryDirectory directory;
    const std::string log = (directory / "planted.log").string();
    std::vector<std::string> wrapped = {
        "/usr/bin/python3", k_subjects + "planted.py", "--fault", GetParam(), "--log", log};
    wrapped.insert(wrapped.end(), subject.begin(), subject.end());
    const reports::Report sound = judged(subject, globs);
    const reports::Report spoiled = judged(wrapped, globs);
    write_file(directory / "sound.json", reports::emit_json(sound));
    write_file(directory / "spoiled.json", reports::emit_json(spoiled));
    const auto check = [&](const char* report) {
      return run_program(
          {"/usr/bin/python3", k_subjects + "planted.py", "--check", log, (directory / report).string()});
    };
    const ProcessResult named = check("spoiled.json");
    EXPECT_EQ(named.status, 0) << subject.back() << named.out << described(spoiled);
    EXPECT_EQ(check("sound.json").status, 1) << "nothing was planted there";
    EXPECT_EQ(summarize(sound.checks).fail + summarize(sound.checks).error, 0U) << described(sound);
    EXPECT_EQ(summarize(spoiled.checks).error, 0U) << described(spoiled);
    const ProcessResult passed =
        run_program({"/usr/bin/python3", k_subjects + "planted.py", "--passed", (directory / "sound.json").string()});
    EXPECT_NE(passed.out.find("llama/tiny/state/stored\n"), std::string::npos) << passed.out << passed.err;
    const ProcessResult none =
        run_program({"/usr/bin/python3", k_subjects + "planted.py", "--passed", (directory / "spoiled.json").string()});
    EXPECT_EQ(none.out.find("llama/tiny/state/stored\n"), std::string::npos) << none.out;
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, Planted, testing::Values("transposed", "rolled", "doubled", "bit"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace weightproof::suites::test
