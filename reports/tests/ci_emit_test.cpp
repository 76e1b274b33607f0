// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>

#include "reports/emit.hpp"
#include "reports/json.hpp"
#include "reports/rules.hpp"
#include "reports/tests/sample_report.hpp"
#include "reports/tests/support.hpp"
#include "reports/text_internal.hpp"

namespace weightproof::reports {
namespace {

using test::count_of;

std::vector<Report> samples() { return {sample::full(), sample::passing(), sample::hostile(), sample::large(1500, 7)}; }

void expect_plain(const std::string& text) {
  EXPECT_TRUE(valid_utf8(text) == text);
  for (const std::string_view raw : {"\xE2\x80\xAE", "\xE2\x80\x8B", "\x1b"}) {
    EXPECT_EQ(text.find(raw), std::string::npos);
  }
  EXPECT_EQ(text.find('\0'), std::string::npos);
}

TEST(Sarif, HasWhatTheFormatAsks) {
  for (const Report& report : samples()) {
    const std::string text = emit_sarif(report);
    expect_plain(text);
    const Value log = parse_json(text);
    EXPECT_EQ(log.find("version")->as_string(), "2.1.0");
    const Value& run = log.find("runs")->if_array()->front();
    const auto& known = *run.find("tool")->find("driver")->find("rules")->if_array();
    EXPECT_EQ(known.size(), rules().size());
    const auto& results = *run.find("results")->if_array();
    EXPECT_EQ(results.size(), report.findings.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Value& result = results[i];
      const std::string level = result.find("level")->as_string();
      EXPECT_TRUE(level == "error" || level == "warning" || level == "note");
      EXPECT_EQ(known.at(result.find("ruleIndex")->as_uint64()).find("id")->as_string(),
                result.find("ruleId")->as_string());
      EXPECT_FALSE(result.find("message")->find("text")->as_string().empty());
      EXPECT_EQ(result.find("partialFingerprints")->find("weightproof/v1")->as_string(),
                report.findings[i].fingerprint);
      const Value& where = *result.find("locations")->if_array()->front().find("physicalLocation");
      const std::string uri = where.find("artifactLocation")->find("uri")->as_string();
      EXPECT_EQ(uri.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/%"),
                std::string::npos)
          << uri;
      EXPECT_NE(uri.front(), '/');
      EXPECT_GE(where.find("region")->find("startLine")->as_uint64(), 1U);
    }
  }
}

TEST(Sarif, KeepsToTheLimitWithTheGravestFirst) {
  const Report report = sample::large(100000, 5);
  const std::string text = emit_sarif(report);
  EXPECT_LT(text.size(), std::size_t{10} << 20);
  const Value log = parse_json(text);
  const Value& run = log.find("runs")->if_array()->front();
  EXPECT_EQ(run.find("results")->if_array()->size(), k_sarif_results);
  EXPECT_NE(to_json(*run.find("invocations")).find("results are left out"), std::string::npos);
}

TEST(Sarif, PointsAtTheAdapterWhereItIsKnown) {
  const Value log = parse_json(emit_sarif(sample::full()));
  const Value& first = log.find("runs")->if_array()->front().find("results")->if_array()->front();
  const Value& where = *first.find("locations")->if_array()->front().find("physicalLocation");
  EXPECT_EQ(where.find("artifactLocation")->find("uri")->as_string(), "adapters/gpt_oss.cpp");
  EXPECT_EQ(where.find("region")->find("startLine")->as_uint64(), 41U);
  EXPECT_EQ(first.find("baselineState")->as_string(), "new");
}

TEST(Github, OneLineEachAndAtMostTenASeverity) {
  for (const Report& report : samples()) {
    const std::string text = emit_github(report);
    expect_plain(text);
    std::map<std::string, int> kinds;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      ASSERT_EQ(line.compare(0, 2, "::"), 0) << line;
      kinds[line.substr(2, line.find(' ') - 2)]++;
      // What a name holds cannot end the properties or begin another command.
      const std::string properties = line.substr(2, line.find("::", 2) - 2);
      EXPECT_EQ(properties.find('\r'), std::string::npos);
      EXPECT_LE(count_of(properties, ","), 2U) << properties;
    }
    for (const auto& [kind, count] : kinds) {
      EXPECT_TRUE(kind == "error" || kind == "warning" || kind == "notice") << kind;
      EXPECT_LE(count, 10) << kind;
    }
  }
  const std::string many = emit_github(sample::large(20000, 3));
  EXPECT_NE(many.find("more findings of this severity in the report"), std::string::npos);
  EXPECT_NE(emit_github(sample::full()).find("::error file=adapters/gpt_oss.cpp,line=41,title=layout.gate_up_order"),
            std::string::npos);
}

TEST(Gitlab, EveryFindingWithAFingerprintOfItsOwn) {
  for (const Report& report : samples()) {
    const std::string text = emit_gitlab(report);
    expect_plain(text);
    const Value list = parse_json(text);
    std::set<std::string> fingerprints;
    for (const Value& item : *list.if_array()) {
      EXPECT_TRUE(fingerprints.insert(item.find("fingerprint")->as_string()).second);
      const std::string severity = item.find("severity")->as_string();
      EXPECT_TRUE((std::set<std::string>{"info", "minor", "major", "critical", "blocker"}).contains(severity));
      EXPECT_FALSE(item.find("description")->as_string().empty());
      EXPECT_FALSE(item.find("location")->find("path")->as_string().empty());
      EXPECT_GE(item.find("location")->find("lines")->find("begin")->as_uint64(), 1U);
    }
    EXPECT_EQ(fingerprints.size(), report.findings.size());
  }
}

TEST(OpenMetrics, EveryLineIsCommentOrSample) {
  EXPECT_EQ(test::golden_difference("full.openmetrics.txt", emit_openmetrics(sample::full())), "");
  for (const Report& report : samples()) {
    const std::string text = emit_openmetrics(report);
    expect_plain(text);
    EXPECT_EQ(text.compare(text.size() - 6, 6, "# EOF\n"), 0);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.front() != '#') {
        const std::size_t space = line.rfind(' ');
        EXPECT_EQ(line.compare(0, 12, "weightproof_"), 0) << line;
        EXPECT_NO_THROW(static_cast<void>(std::stod(line.substr(space + 1)))) << line;
      }
    }
  }
}

TEST(Badge, IsOneSmallPicture) {
  EXPECT_EQ(test::golden_difference("full.badge.svg", emit_badge(sample::full())), "");
  for (const Report& report : samples()) {
    const std::string svg = emit_badge(report);
    EXPECT_LT(svg.size(), 1500U);
    EXPECT_EQ(count_of(svg, "http"), 1U) << "the namespace alone";
    if (test::have("xmllint")) {
      const test::TempDir dir;
      EXPECT_EQ(test::run("xmllint --noout " + test::quoted(dir.write("badge.svg", svg))).first, 0);
    }
  }
  EXPECT_NE(emit_badge(Report{}).find("nothing ran"), std::string::npos);
}

TEST(Tsv, OneLineACheckAndNothingCut) {
  for (const Report& report : samples()) {
    const std::string text = emit_tsv(report);
    expect_plain(text);
    EXPECT_EQ(count_of(text, "\n"), report.checks.size() + 1);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_EQ(count_of(line, "\t"), 6U);
    }
  }
  EXPECT_GT(emit_tsv(sample::hostile()).size(), 32768U);
}

}  // namespace
}  // namespace weightproof::reports
