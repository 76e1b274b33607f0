// SPDX-License-Identifier: Apache-2.0
// Every planted fault through the command, in text and JSON: noticed by its check, blamed on its subject, and nothing
// else complains. Its clean twin has no finding.
#include <algorithm>

#include "fixtures/corrupt.hpp"
#include "fixtures/generate.hpp"
#include "reports/json.hpp"
#include "suites/tests/support.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites::test {
namespace {

using fixtures::CorruptionOperator;
using reports::Status;

std::vector<const CorruptionOperator*> judged_faults() {
  std::vector<const CorruptionOperator*> out;
  for (const CorruptionOperator& fault : fixtures::corruption_operators()) {
    // What only a comparison with the twin shows is judged by that comparison (state_test).
    if (!fault.needs_twin) {
      out.push_back(&fault);
    }
  }
  return out;
}

bool has_word(std::string_view words, std::string_view word) {
  const std::string text = ' ' + std::string(words) + ' ';
  return text.find(' ' + std::string(word) + ' ') != std::string::npos;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

class Fault : public testing::TestWithParam<const CorruptionOperator*> {};

TEST_P(Fault, IsNoticedAndNamed) {
  const CorruptionOperator& fault = *GetParam();
  const TemporaryDirectory directory;
  fixtures::GenerateOptions options = fixtures::clean_twin(fault);
  options.corrupt = std::string(fault.name);
  const auto made = fixtures::generate(options, directory / "broken");
  const std::string path = (directory / "broken").string();

  const ProcessResult json = run_tool({"verify", path, "--json"});
  ASSERT_FALSE(json.out.empty()) << json.err;
  const std::string verdict = validate("weightproof.report-1", json.out);
  EXPECT_TRUE(verdict.empty() || verdict == "skipped") << verdict;
  const reports::Report report = reports::read_json(json.out);
  const reports::CheckRecord& record = record_of(report, fault.check);
  const bool is_note = fault.status == "note";
  EXPECT_EQ(to_string(record.status), is_note ? "pass" : fault.status)
      << record.message << record.reason << record.explanation;
  if (is_note) {
    EXPECT_FALSE(record.explanation.empty());
  }
  if (fault.status != "skip" && !made.subjects.empty()) {
    const bool is_named = std::any_of(made.subjects.begin(), made.subjects.end(),
                                      [&](const std::string& subject) { return names(record, subject); });
    EXPECT_TRUE(is_named) << "wanted one of " << testing::PrintToString(made.subjects) << ", got "
                          << testing::PrintToString(record.subjects);
  }
  if (!fault.code.empty() && !record.code.empty()) {
    EXPECT_EQ(record.code, fault.code);
  }
  for (const reports::CheckRecord& other : report.checks) {
    const bool complains =
        other.status == Status::fail || other.status == Status::warn || other.status == Status::error;
    EXPECT_TRUE(!complains || other.id == fault.check || has_word(fault.also, other.id))
        << other.id << ": " << other.message;
  }
  EXPECT_NE(lower(json.out).find(fault.message), std::string::npos) << fault.message;

  const ProcessResult text = run_tool({"verify", path});
  EXPECT_EQ(text.status, json.status);
  EXPECT_EQ(text.err, "");
  if (fault.status == "fail") {
    EXPECT_EQ(text.status, 1);
  } else if (fault.status == "error") {
    EXPECT_EQ(text.status, 3);
  }
  if (fault.status == "fail" || fault.status == "warn") {
    EXPECT_NE(text.out.find(fault.check), std::string::npos) << text.out;
  }
  EXPECT_NE(lower(text.out).find(fault.message), std::string::npos);
  const ProcessResult inspect = run_tool({"inspect", path, "--json"});
  EXPECT_TRUE(inspect.status == 0 || fault.status == "error" || fault.check == "index.syntax") << inspect.err;
}

TEST_P(Fault, IsAbsentFromTheCleanTwin) {
  const TemporaryDirectory directory;
  fixtures::generate(fixtures::clean_twin(*GetParam()), directory / "clean");
  VerifyOptions options;
  options.threads = 2;
  const reports::Report report = verify(directory / "clean", options);
  EXPECT_EQ(findings_of(report), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(All, Fault, testing::ValuesIn(judged_faults()),
                         [](const auto& row) { return std::string(row.param->name); });

TEST(Faults, AllThatOneCheckpointShowsAreJudged) { EXPECT_GE(judged_faults().size(), 147U); }

}  // namespace
}  // namespace weightproof::suites::test
