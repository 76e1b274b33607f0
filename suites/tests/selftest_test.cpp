// SPDX-License-Identifier: Apache-2.0
// The selftest itself: green over all there is, red where a mutant does nothing or a sound input is none.
#include "suites/selftest/selftest.hpp"

#include <iostream>
#include <set>

#include "reports/emit.hpp"
#include "reports/json.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Does nothing wrong at all, and claims to.
std::vector<Mutant> useless_mutants() {
  Mutant useless;
  useless.id = "useless.identity";
  useless.kind = "useless";
  useless.fault = "nothing is done wrong";
  useless.fixture.family = "llama";
  useless.tensors = {"model.embed_tokens.weight"};
  return {useless};
}
// Called equivalent, and seen by everybody.
std::vector<Mutant> loud_mutants() {
  Mutant loud = execution_mutants().front();
  loud.kind = "loud";
  loud.equivalent = "it is not";
  return {loud};
}

SoundInput broken_input() {
  SoundInput input;
  input.name = "broken";
  input.fixture.family = "llama";
  input.fixture.corrupt = "dropped_norm";
  return input;
}

TEST(Selftest, AUselessMutantTurnsItRed) {
  const MutantList lists[] = {{"useless", &useless_mutants}};
  const reports::Report report = selftest(lists, {}, {});
  EXPECT_EQ(reports::exit_status(report), 1);
  const reports::CheckRecord& record = record_of(report, "selftest.useless");
  EXPECT_EQ(record.status, Status::fail);
  EXPECT_TRUE(names(record, "useless.identity"));
  EXPECT_TRUE(contains(kill_table(report), "survives  useless.identity: nothing is done wrong"));
  ASSERT_TRUE(report.selftest.has_value());
  EXPECT_FALSE(report.selftest->mutants.front().killed);
  EXPECT_TRUE(contains(reports::emit_html(report), "useless.identity"));
}

TEST(Selftest, FalseAlarmsTurnItRed) {
  const MutantList lists[] = {{"loud", &loud_mutants}};
  const SoundInput inputs[] = {broken_input()};
  const reports::Report report = selftest(lists, inputs, {});
  EXPECT_EQ(reports::exit_status(report), 1);
  const reports::CheckRecord& record = record_of(report, "selftest.false_alarms");
  EXPECT_EQ(record.status, Status::fail);
  EXPECT_TRUE(names(record, "broken"));
  EXPECT_EQ(report.selftest->false_alarms, 2U);
  EXPECT_EQ(report.selftest->good_inputs, 2U);
}

TEST(Selftest, AListThatNothingSelectsIsNoPass) {
  const MutantList lists[] = {{"useless", &useless_mutants}};
  SelftestOptions options;
  options.only = {"nothing"};
  const reports::Report report = selftest(lists, {}, options);
  EXPECT_EQ(record_of(report, "selftest.useless").status, Status::skip);
  EXPECT_EQ(reports::exit_status(report), 3) << "nothing ran";
}

TEST(Selftest, EveryFamilyIsAmongTheSoundInputs) {
  std::set<std::string> families;
  std::set<std::string> seen;
  for (const SoundInput& input : sound_inputs()) {
    EXPECT_TRUE(seen.insert(input.name).second) << input.name;
    if (input.path.empty()) {
      families.insert(input.fixture.family);
    }
  }
  for (const std::string& family : fixtures::families()) {
    EXPECT_TRUE(families.count(family) != 0) << family;
  }
}

TEST(Selftest, TheCommandShowsTheTable) {
  const TemporaryDirectory directory;
  const std::filesystem::path out = directory / "report";
  const ProcessResult text =
      run_tool({"selftest", "--only", "file.dropped_norm", "--only", "llama/tiny", "--report", out.string()});
  EXPECT_EQ(text.status, 0) << text.out << text.err;
  EXPECT_TRUE(contains(text.out, "PASS")) << text.out;
  EXPECT_TRUE(contains(text.out, "file          1         1         keys.missing (1)")) << text.out;
  EXPECT_TRUE(contains(text.out, "1 mutant, 1 killed under the right tensor's name; 0 false alarms in 1 sound input"))
      << text.out;
  EXPECT_TRUE(contains(read_file(out / "report.html"), "<section id=\"selftest\""));
  const ProcessResult json = run_tool({"selftest", "--kind", "file", "--only", "file.d*", "--json"});
  EXPECT_EQ(json.status, 0) << json.err;
  const std::string verdict = validate("weightproof.report-1", json.out);
  EXPECT_TRUE(verdict.empty() || verdict == "skipped") << verdict;
  const reports::Report report = reports::read_json(json.out);
  ASSERT_TRUE(report.selftest.has_value());
  EXPECT_GT(report.selftest->mutants.size(), 1U);
  const ProcessResult wrong = run_tool({"selftest", "--kind", "nonsense"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_TRUE(contains(wrong.err, "file")) << wrong.err;
}

// The gate: every mutant of every list, every sound fixture, and real files where they are.
TEST(Selftest, KillsAllAndAlarmsNobody) {
  std::vector<std::string> words = {"selftest", "--json"};
  if (!real_data().empty()) {
    words.insert(words.end(), {"--data", real_data().string()});
  }
  const ProcessResult run = run_tool(words);
  const reports::Report report = reports::read_json(run.out);
  EXPECT_EQ(run.status, 0) << kill_table(report);
  ASSERT_TRUE(report.selftest.has_value());
  EXPECT_EQ(report.selftest->false_alarms, 0U);
  EXPECT_GT(report.selftest->mutants.size(), 100U);
  EXPECT_GT(report.selftest->good_inputs, 50U);
  std::set<std::string> kinds;
  for (const reports::MutantRecord& mutant : report.selftest->mutants) {
    EXPECT_TRUE(mutant.killed && mutant.named) << mutant.id;
    kinds.insert(mutant.area);
  }
  for (const MutantList& list : mutant_lists()) {
    EXPECT_TRUE(kinds.count(std::string(list.kind)) != 0) << list.kind;
  }
  std::cout << kill_table(report);
}

}  // namespace
}  // namespace weightproof::suites::test
