// SPDX-License-Identifier: Apache-2.0
// What is printed to be followed: paths to copy, commands to type, reports to open. Each leads where it says.
#include <set>

#include "loader/core/config.hpp"
#include "reports/json.hpp"
#include "reports/report.hpp"
#include "suites/tests/cli_testing.hpp"

namespace weightproof::suites::test {
namespace {

// What an error leaves in the directory of --report is the error, never the report of an earlier run.
TEST(Printed, AnErrorLeavesNoReportOfAnotherRun) {
  const TemporaryDirectory directory;
  const std::string sound = sound_file(directory / "sound.safetensors");
  const std::string absent = (directory / "absent").string();
  const std::filesystem::path report = directory / "report";
  const std::vector<std::vector<std::string>> failing = {
      {"verify", absent},
      {"verify", sound, "--topology", "xx=2"},
      {"verify", sound, "--expect", absent},
      {"verify", sound, "--manifest", absent},
      {"verify", sound, "--against", absent},
      {"diff", sound, absent},
      {"judge", "--case", "nothing/like/this", "--", "true"},
      {"selftest", "--data", absent},
  };
  for (const std::vector<std::string>& words : failing) {
    ASSERT_EQ(run_tool({"verify", sound, "--report", report.string(), "--format", "github,badge"}).status, 0);
    ASSERT_TRUE(std::filesystem::exists(report / "badge.svg"));
    write_file(report / "mine.txt", "kept");
    std::vector<std::string> with = words;
    with.insert(with.begin() + 1, {"--report", report.string()});
    const ProcessResult result = run_tool(with);
    EXPECT_GE(result.status, 2) << words[0] << result.out;
    EXPECT_FALSE(contains(result.out + result.err, "report.html")) << result.out << result.err;
    std::set<std::string> left;
    for (const auto& entry : std::filesystem::directory_iterator(report)) {
      left.insert(entry.path().filename().string());
    }
    EXPECT_EQ(left, (std::set<std::string>{"error.json", "mine.txt"})) << words[0] << ' ' << words[1];
    const std::string document = read_file(report / "error.json");
    const std::string verdict = validate("weightproof.error-1", document);
    EXPECT_TRUE(verdict.empty() || verdict == "skipped") << verdict;
    EXPECT_TRUE(contains(result.err, *ConfigValue::parse(document, "error.json").find("code")->as_string()));
  }
  // The next report takes the place of the error.
  EXPECT_EQ(run_tool({"verify", sound, "--report", report.string()}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(report / "error.json"));
  EXPECT_TRUE(std::filesystem::exists(report / "report.html"));
  // Where no report is, files of the names that only --format writes are somebody else's.
  std::filesystem::remove(report / "report.json");
  write_file(report / "summary.md", "mine");
  EXPECT_EQ(run_tool({"verify", absent, "--report", report.string()}).status, 3);
  EXPECT_EQ(read_file(report / "summary.md"), "mine");
}

// A path is printed to be copied: whole, and in a command as one word.
TEST(Printed, PathsArePrintedWhole) {
  const TemporaryDirectory directory;
  const std::string name(120, 'n');
  const std::filesystem::path deep = directory / (name + "/with a blank/" + name + "/" + name);
  std::filesystem::create_directories(deep);
  const std::string model = (deep / "model").string();
  const ProcessResult made = run_tool({"fixture", "llama", "--out", model});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_TRUE(contains(made.out, " in " + model + "\n")) << made.out;
  EXPECT_TRUE(contains(made.out, "next: weightproof verify '" + model + "'\n")) << made.out;
  EXPECT_TRUE(contains(run_tool({"inspect", model}).out, model + "\n"));
  const std::string report = (deep / "report").string();
  const ProcessResult verified = run_tool({"verify", model, "--report", report});
  EXPECT_TRUE(contains(verified.out, "      " + model + ",")) << verified.out;
  EXPECT_TRUE(contains(verified.out, "report: " + report + "/report.html\n")) << verified.out;
  const std::string emitted = (deep / "native").string();
  EXPECT_TRUE(contains(run_tool({"load", model, "--emit", emitted}).out, "written to " + emitted + "\n"));
  const std::string copy = (deep / "copy").string();
  EXPECT_TRUE(contains(run_tool({"export", model, "--out", copy}).out, " in " + copy + "\n"));
  const std::string manifest = (deep / "manifest.json").string();
  const ProcessResult digested = run_tool({"manifest", model, "--out", manifest, "--dtype", "f32"});
  EXPECT_TRUE(contains(digested.out, "written to " + manifest + "\n")) << digested.out;
  const std::string command = line_after(digested.out, "next: ");
  EXPECT_EQ(run_typed(command).status, 0) << command;
  const std::string absent = (deep / "absent").string();
  for (const char* verb : {"verify", "inspect", "plan", "load", "diff", "manifest", "report"}) {
    std::vector<std::string> words = {verb, absent};
    if (std::string_view(verb) == "diff") {
      words.push_back(absent);
    }
    const ProcessResult result = run_tool(words);
    EXPECT_EQ(result.status, 3) << verb;
    EXPECT_TRUE(contains(result.err, absent)) << verb << ": " << result.err;
  }
}

// What judge says to type again asks the same question of the same command under the same limits.
TEST(Printed, JudgeSaysHowToRunACaseAgain) {
  struct Asked {
    std::vector<std::string> options;
    std::vector<std::string> subject;
    std::string said;  ///< what the record says, and says again
  };
  const std::vector<std::string> awkward = {"/bin/sh", "-c", "echo it\\'s \"$JUDGE_DTYPE\" >&2; exit 5 # 'a' $(b)\n",
                                            "a b"};
  const std::vector<Asked> rows = {
      {{"--case", "llama/tiny/*"}, awkward, "it said: it's stored"},
      {{"--case", "llama/tiny/*", "--dtype", "f32"}, awkward, "it said: it's f32"},
      {{"--case", "llama/*", "--preset", "small"}, awkward, "it said: it's stored"},
      {{"--case", "qwen3/tiny*", "--names", "native", "--wanted", "state"}, awkward, "it said: it's stored"},
      {{"--case", "llama/*", "--topology", "tp=2"}, awkward, "it said: it's stored"},
      {{"--case", "llama/tiny/*", "--timeout", "0.5"}, {"/bin/sh", "-c", "sleep 60"}, "(--timeout)"},
      {{"--case", "llama/tiny/*", "--memory-limit", "4096"}, {"/bin/sh", "-c", "sleep 60"}, "(--memory-limit)"},
  };
  for (const Asked& row : rows) {
    std::vector<std::string> words = {"judge", "--json"};
    words.insert(words.end(), row.options.begin(), row.options.end());
    words.emplace_back("--");
    words.insert(words.end(), row.subject.begin(), row.subject.end());
    const ProcessResult first = run_tool(words);
    const reports::Report report = reports::read_json(first.out);
    ASSERT_GE(report.checks.size(), 2U) << first.out << first.err;
    const reports::CheckRecord& record = report.checks.front();
    ASSERT_TRUE(contains(record.reason, row.said)) << record.reason;
    const std::string command = record.evidence.find("reproduce")->as_string();
    const std::size_t mark = command.find(" -- ");
    ASSERT_NE(mark, std::string::npos) << command;
    const ProcessResult again = run_typed(command.substr(0, mark) + " --json" + command.substr(mark));
    EXPECT_EQ(again.status, first.status) << command << again.err;
    const reports::Report second = reports::read_json(again.out);
    ASSERT_EQ(second.checks.size(), 1U) << command << again.out;
    EXPECT_EQ(second.checks.front().case_name, record.case_name) << command;
    EXPECT_TRUE(contains(second.checks.front().reason, row.said)) << command << second.checks.front().reason;
    const ProcessResult listed = run_typed(command.substr(0, mark) + " --list");
    EXPECT_EQ(listed.out, record.case_name + "\n") << command;
  }
}

}  // namespace
}  // namespace weightproof::suites::test
