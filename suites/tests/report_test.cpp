// SPDX-License-Identifier: Apache-2.0
// Reports against one another through the command: compare, merge, trend, and the further renderings.
#include <algorithm>

#include "fixtures/generate.hpp"
#include "loader/core/config.hpp"
#include "reports/emit.hpp"
#include "reports/json.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// What writes a report says so the same way when it has nowhere to write to.
TEST(ReportFormats, WantADirectoryUnderEveryVerb) {
  const TemporaryDirectory directory;
  fixtures::generate({}, directory / "model");
  const std::string model = (directory / "model").string();
  const std::vector<std::vector<std::string>> commands = {{"verify", model},
                                                          {"diff", model, model},
                                                          {"selftest", "--kind", "resource"},
                                                          {"judge", "--case", "llama/tiny*", "--", "/bin/false"}};
  for (std::vector<std::string> words : commands) {
    const std::string verb = words.front();
    words.insert(words.begin() + 1, {"--format", "badge"});
    const ProcessResult result = run_tool(words);
    EXPECT_EQ(result.status, 2) << verb << result.out;
    EXPECT_NE(result.err.find("give --report DIR too, where badge.svg then lies"), std::string::npos)
        << verb << result.err;
  }
}

// Reports of a whole checkpoint and of one that lost a tensor, made by the command.
class Reports : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<TemporaryDirectory>();
    make("good", "", 0);
    make("broken", "dropped_norm", 1);
  }
  static void TearDownTestSuite() { directory_.reset(); }

  static std::filesystem::path path(std::string_view name) { return *directory_ / name; }
  static std::string document(std::string_view name) { return (path(name) / "report/report.json").string(); }

  // A report of its own with one figure changed, as a later commit would have it.
  static std::string changed(std::string_view name, const std::function<void(reports::Report&)>& change) {
    reports::Report report = reports::read_json(read_file(document("good")));
    change(report);
    reports::finish(report);
    const std::filesystem::path file = path(name);
    write_file(file, reports::emit_json(report));
    return file.string();
  }

 private:
  static void make(const std::string& name, const std::string& fault, int status) {
    fixtures::GenerateOptions options;
    options.preset = "small";
    options.corrupt = fault;
    fixtures::generate(options, path(name) / "model");
    const ProcessResult made =
        run_tool({"verify", (path(name) / "model").string(), "--report", (path(name) / "report").string(), "--commit",
                  name, "--format", "github,gitlab,openmetrics,badge", "--format", "tsv,summary"});
    ASSERT_EQ(made.status, status) << made.out << made.err;
  }
  static std::unique_ptr<TemporaryDirectory> directory_;
};
std::unique_ptr<TemporaryDirectory> Reports::directory_;

TEST_F(Reports, FurtherFormatsLieBesideTheFive) {
  for (const char* file : {"report.json", "report.html", "report.md", "junit.xml", "report.sarif", "annotations.txt",
                           "gl-code-quality-report.json", "metrics.txt", "badge.svg", "checks.tsv", "summary.md"}) {
    EXPECT_GT(read_file(path("broken") / "report" / file).size(), 0U) << file;
  }
  EXPECT_TRUE(contains(read_file(path("broken") / "report/annotations.txt"), "::error ")) << "no annotation";
  EXPECT_FALSE(contains(read_file(path("good") / "report/annotations.txt"), "::error "));
  EXPECT_EQ(reports::read_json(read_file(document("broken"))).run.commit, "broken");
}

TEST_F(Reports, OneFormatGoesToStdout) {
  const ProcessResult lines = run_tool({"report", document("broken"), "--format", "github"});
  EXPECT_EQ(lines.status, 0) << lines.err;
  EXPECT_EQ(lines.out, read_file(path("broken") / "report/annotations.txt"));
  EXPECT_EQ(run_tool({"report", document("broken"), "--format", "github,badge"}).status, 2);
  EXPECT_EQ(run_tool({"report", document("broken"), "--format", "github", "--json"}).status, 2);
  const std::filesystem::path out = path("formats");
  EXPECT_EQ(run_tool({"report", document("broken"), "--format", "badge", "--out", out.string()}).status, 0);
  EXPECT_EQ(read_file(out / "badge.svg"), read_file(path("broken") / "report/badge.svg"));
}

TEST_F(Reports, ANewFailureFailsTheComparison) {
  const std::filesystem::path out = path("compared");
  const ProcessResult worse =
      run_tool({"report", "compare", document("good"), document("broken"), "--out", out.string()});
  EXPECT_EQ(worse.status, 1) << worse.err;
  EXPECT_TRUE(contains(worse.out, "WORSE  ")) << worse.out;
  EXPECT_TRUE(contains(worse.out, "new      keys.missing          model.layers.0.post_attention_layernorm.weight"))
      << worse.out;
  const reports::Report page = reports::read_json(read_file(out / "report.json"));
  ASSERT_TRUE(page.compare.has_value());
  EXPECT_EQ(page.compare->base, "good");
  EXPECT_EQ(page.compare->head, "broken");
  EXPECT_TRUE(contains(read_file(out / "report.html"), "against"));

  const ProcessResult json = run_tool({"report", "compare", document("good"), document("broken"), "--json"});
  EXPECT_EQ(json.status, 1);
  const std::string verdict = validate("weightproof.report-1", json.out);
  EXPECT_TRUE(verdict.empty() || verdict == "skipped") << verdict;
}

TEST_F(Reports, FixedAndStillFailingDoNot) {
  const ProcessResult fixed = run_tool({"report", "compare", document("broken"), document("good")});
  EXPECT_EQ(fixed.status, 0);
  EXPECT_TRUE(contains(fixed.out, "fixed    keys.missing")) << fixed.out;
  const ProcessResult same = run_tool({"report", "compare", document("broken"), document("broken")});
  EXPECT_EQ(same.status, 0);
  EXPECT_TRUE(contains(same.out, "still    keys.missing")) << same.out;
  EXPECT_FALSE(contains(same.out, "new      ")) << same.out;
}

TEST_F(Reports, CountersGateAndTimesInform) {
  const std::string base = changed("base.json", [](reports::Report& report) {
    report.plan.bytes_read = 1000;
    report.timing.find("scan")->seconds = 1.0;
  });
  const std::string head = changed("head.json", [](reports::Report& report) {
    report.plan.bytes_read = 1200;
    report.timing.find("scan")->seconds = 100.0;
  });
  const ProcessResult grown = run_tool({"report", "compare", base, head});
  EXPECT_EQ(grown.status, 1);
  EXPECT_TRUE(contains(grown.out, "new      plan.bytes_read")) << grown.out;
  EXPECT_TRUE(contains(grown.out, "changed  timing.scan")) << grown.out;
  const ProcessResult allowed = run_tool({"report", "compare", base, head, "--tolerance", "0.25"});
  EXPECT_EQ(allowed.status, 0) << allowed.out;
  EXPECT_TRUE(contains(allowed.out, "changed  plan.bytes_read")) << allowed.out;
}

TEST_F(Reports, MergeAddsUpAndKeepsTheFailure) {
  const std::filesystem::path out = path("merged");
  const ProcessResult merged =
      run_tool({"report", "merge", document("good"), document("broken"), "--out", out.string()});
  EXPECT_EQ(merged.status, 1) << merged.err;
  EXPECT_TRUE(contains(merged.out, "FAIL")) << merged.out;
  const reports::Report good = reports::read_json(read_file(document("good")));
  const reports::Report broken = reports::read_json(read_file(document("broken")));
  const reports::Report both = reports::read_json(read_file(out / "report.json"));
  EXPECT_EQ(both.checkpoint.tensors, good.checkpoint.tensors + broken.checkpoint.tensors);
  EXPECT_EQ(std::count_if(both.checks.begin(), both.checks.end(),
                          [](const reports::CheckRecord& check) {
                            return check.id == "keys.missing" && check.status == reports::Status::fail;
                          }),
            1);
  EXPECT_EQ(run_tool({"report", "merge", document("good"), document("good")}).status, 0);
  EXPECT_EQ(run_tool({"report", "merge", document("good"), "/nonexistent"}).status, 3);
}

TEST_F(Reports, TrendFollowsAFolder) {
  const std::filesystem::path folder = path("history");
  for (const char* name : {"good", "broken"}) {
    std::filesystem::create_directories(folder / name);
    std::filesystem::copy_file(document(name), folder / name / "report.json");
  }
  write_file(folder / "notes.json", "{}");
  const ProcessResult lines = run_tool({"report", "trend", folder.string()});
  EXPECT_EQ(lines.status, 0) << lines.err;
  EXPECT_EQ(std::count(lines.out.begin(), lines.out.end(), '\n'), 4) << lines.out;
  EXPECT_TRUE(contains(lines.out, "\ngood\t")) << lines.out;
  EXPECT_TRUE(contains(lines.out, "\tunreadable\t")) << lines.out;
  const std::filesystem::path out = path("trend");
  EXPECT_EQ(run_tool({"report", "trend", folder.string(), "--out", out.string()}).status, 0);
  EXPECT_EQ(read_file(out / "trend.tsv"), lines.out);
  const ProcessResult json = run_tool({"report", "trend", folder.string(), "--json"});
  const std::string verdict = validate("weightproof.trend-1", json.out);
  EXPECT_TRUE(verdict.empty() || verdict == "skipped") << verdict;
  EXPECT_EQ(ConfigValue::parse(json.out, "stdout").find("points")->items().size(), 3U);
  EXPECT_EQ(run_tool({"report", "trend", "/nonexistent"}).status, 3);
}

}  // namespace
}  // namespace weightproof::suites::test
