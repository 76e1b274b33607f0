// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "reports/emit.hpp"
#include "reports/json.hpp"
#include "reports/sha256_internal.hpp"
#include "reports/tests/sample_report.hpp"
#include "reports/tests/support.hpp"

namespace weightproof::reports {
namespace {

using test::count_of;

std::vector<Report> samples() {
  return {sample::full(), sample::passing(), sample::hostile(), sample::large(2000, 11)};
}

std::string between(const std::string& text, std::string_view begin, std::string_view end) {
  const std::size_t from = text.find(begin);
  if (from == std::string::npos) {
    return {};
  }
  const std::size_t start = from + begin.size();
  return text.substr(start, text.find(end, start) - start);
}

TEST(Page, IsWellFormedAsXml) {
  if (!test::have("xmllint")) {
    GTEST_SKIP() << "xmllint is not installed";
  }
  const test::TempDir dir;
  for (const Report& report : samples()) {
    const auto [status, said] =
        test::run("xmllint --noout --huge " + test::quoted(dir.write("report.html", emit_html(report))));
    EXPECT_EQ(status, 0) << said;
  }
}

TEST(Page, IsMadeOfTheDocumentAlone) {
  for (const Report& report : samples()) {
    EXPECT_TRUE(emit_html(read_json(emit_json(report))) == emit_html(report));
  }
}

TEST(Page, RefersToNothingOutside) {
  for (const Report& report : {sample::full(), sample::passing()}) {
    std::string html = emit_html(report);
    for (const std::string_view known : {"http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg"}) {
      EXPECT_EQ(count_of(html, known), 1U) << known;
      html.erase(html.find(known), known.size());
    }
    EXPECT_EQ(html.find("http:"), std::string::npos);
    EXPECT_EQ(html.find("https:"), std::string::npos);
  }
}

// Markup alone: texts of elements, style and scripts taken out.
std::string tags_of(const std::string& html) {
  std::string out;
  bool inside = false;
  for (std::size_t i = 0; i < html.size(); ++i) {
    if (html.compare(i, 7, "<script") == 0 || html.compare(i, 6, "<style") == 0) {
      const std::string_view close = html[i + 2] == 'c' ? "</script>" : "</style>";
      out += html.substr(i, html.find('>', i) - i + 1);
      i = html.find(close, i) + close.size() - 1;
      continue;
    }
    inside = html[i] == '<' || (inside && html[i] != '>');
    if (inside) {
      out += html[i];
    }
  }
  return out;
}

TEST(Page, HasNoHandlersAndOneOfEachId) {
  for (const Report& report : samples()) {
    const std::string html = emit_html(report);
    const std::string tags = tags_of(html);
    EXPECT_FALSE(std::regex_search(tags, std::regex("[\\s\"']on[a-z]+\\s*=\""))) << "an event handler attribute";
    EXPECT_EQ(count_of(html, "<script"), 3U);
    EXPECT_EQ(count_of(html, "<h1>"), 1U);
    std::set<std::string> ids;
    const std::regex id(" id=\"([^\"]*)\"");
    for (auto it = std::sregex_iterator(tags.begin(), tags.end(), id); it != std::sregex_iterator(); ++it) {
      EXPECT_TRUE(ids.insert((*it)[1].str()).second) << (*it)[1].str();
    }
    // Every link inside the page leads somewhere.
    const std::regex link(" href=\"#([^\"]*)\"");
    for (auto it = std::sregex_iterator(tags.begin(), tags.end(), link); it != std::sregex_iterator(); ++it) {
      EXPECT_TRUE(ids.contains((*it)[1].str())) << (*it)[1].str();
    }
  }
}

TEST(Page, PolicyHashesAreThoseOfTheScripts) {
  const std::string html = emit_html(sample::full());
  const std::string policy = between(html, "http-equiv=\"Content-Security-Policy\" content=\"", "\"");
  EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
  std::size_t scripts = 0;
  for (std::size_t at = html.find("<script>"); at != std::string::npos; at = html.find("<script>", at + 1)) {
    const std::string body = html.substr(at + 8, html.find("</script>", at) - at - 8);
    EXPECT_NE(policy.find("'sha256-" + base64(sha256(body)) + "'"), std::string::npos);
    ++scripts;
  }
  EXPECT_EQ(scripts, 2U);
  EXPECT_EQ(count_of(policy, "'sha256-"), 2U);
}

TEST(Page, SizesAndStepsAreAnnounced) {
  struct Want {
    std::size_t checks;
    std::size_t limit;
    const char* words;
  };
  for (const Want& want :
       {Want{5000, std::size_t{2} << 20, "rendered whole"}, Want{20000, std::size_t{8} << 20, "folded into counts"},
        Want{100000, std::size_t{8} << 20, "grouped"}, Want{100001, std::size_t{8} << 20, "only in report.json"}}) {
    const Report report = sample::large(want.checks, 29);
    const std::string html = emit_html(report);
    EXPECT_LT(html.size(), want.limit) << want.checks;
    EXPECT_NE(between(html, "<footer>", "</footer>").find(want.words), std::string::npos) << want.checks;
    // A failure is never dropped without its rule, count and first examples.
    EXPECT_NE(html.find("value.exact"), std::string::npos);
    EXPECT_NE(between(html, "<p class=\"counts\">", "</p>").find("failed"), std::string::npos);
  }
}

TEST(Page, DownloadNeedsTheWholeDocument) {
  const std::string small = emit_html(sample::full());
  const std::string data = between(small, "id=\"data\">", "</script>");
  EXPECT_EQ(data.find_first_of("<>&"), std::string::npos);
  EXPECT_EQ(emit_json(report_from(parse_json(data))), emit_json(sample::full()));
  const std::string big = between(emit_html(sample::large(20000)), "id=\"data\">", "</script>");
  EXPECT_EQ(parse_json(big).find("checks"), nullptr);
  EXPECT_NE(parse_json(big).find("tensors"), nullptr);
}

TEST(Page, EveryFindingHasAnAnchor) {
  const Report report = sample::full();
  const std::string html = emit_html(report);
  for (const Finding& finding : report.findings) {
    EXPECT_EQ(count_of(html, "id=\"f-" + finding.fingerprint + "\""), 1U) << finding.rule;
  }
  for (const CheckRecord& check : report.checks) {
    EXPECT_NE(html.find(check.id), std::string::npos) << check.id;
  }
}

TEST(Page, SectionsWithNothingToShowAreAbsent) {
  const std::string html = emit_html(sample::passing());
  for (const char* id : {"map", "ledger", "memory", "routes", "timings", "support", "selftest"}) {
    EXPECT_EQ(html.find("id=\"" + std::string(id) + "\""), std::string::npos) << id;
  }
  for (const char* id : {"findings", "checks", "skips", "environment"}) {
    EXPECT_NE(html.find("id=\"" + std::string(id) + "\""), std::string::npos) << id;
  }
  const std::string full = emit_html(sample::full());
  for (const char* id : {"findings", "map", "checks", "ledger", "memory", "routes", "timings", "support", "selftest",
                         "skips", "environment"}) {
    EXPECT_NE(full.find("<section id=\"" + std::string(id) + "\""), std::string::npos) << id;
    // Every section begins with its answer.
    if (std::string_view(id) != "findings" && std::string_view(id) != "environment") {
      EXPECT_NE(between(full, "<section id=\"" + std::string(id) + "\"", "</section>").find("class=\"ans\""),
                std::string::npos)
          << id;
    }
  }
}

TEST(Page, NothingRunIsNoPass) {
  Report report;
  report.checks.push_back(CheckBuilder("keys.missing").skip("no config"));
  finish(report);
  fold_findings(report);
  const std::string html = emit_html(report);
  EXPECT_NE(between(html, "<h1>", "</h1>").find("Error."), std::string::npos);
  EXPECT_NE(between(html, "<h1>", "</h1>").find("No check ran"), std::string::npos);
}

// ---- contrast of the tokens

using Tokens = std::map<std::string, std::string>;

Tokens tokens_of(const std::string& block) {
  Tokens out;
  const std::regex token("--([a-z0-9-]+):(#[0-9a-f]{3,6})\\b");
  for (auto it = std::sregex_iterator(block.begin(), block.end(), token); it != std::sregex_iterator(); ++it) {
    out[(*it)[1].str()] = (*it)[2].str();
  }
  return out;
}

double luminance(std::string color) {
  if (color.size() == 4) {
    color = {'#', color[1], color[1], color[2], color[2], color[3], color[3]};
  }
  const auto channel = [&](std::size_t at) {
    const double value = std::stoi(color.substr(at, 2), nullptr, 16) / 255.0;
    return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
}

double contrast(const std::string& a, const std::string& b) {
  const double x = luminance(a);
  const double y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

struct Themes {
  Tokens light;
  Tokens dark;
  Tokens toggled;
};

Themes themes() {
  const std::string css = between(emit_html(sample::passing()), "<style>", "</style>");
  return {tokens_of(between(css, ":root{", "}")), tokens_of(between(css, ":root:not([data-theme=light]){", "}}")),
          tokens_of(between(css, ":root[data-theme=dark]{", "}"))};
}

// Nothing is drawn that says nothing: no column for a baseline or a base report that is not there.
TEST(Page, ColumnsThatNothingFillsAreLeftOut) {
  Report report = sample::full();
  const std::string full = emit_html(report);
  EXPECT_NE(full.find(">Against base</th>"), std::string::npos);
  EXPECT_NE(full.find(">Baseline is</th>"), std::string::npos);
  report.compare.reset();
  report.timing.cases.clear();
  TimingCase timed;
  timed.name = "llama/tiny/state/stored";
  timed.cache = "unknown";
  timed.seconds = 1.5;
  report.timing.cases.push_back(timed);
  const std::string alone = emit_html(report);
  EXPECT_EQ(count_of(alone, ">Against base</th>") + 1, count_of(full, ">Against base</th>"))
      << "the table of findings has none, the plan keeps its own";
  EXPECT_EQ(alone.find(">Baseline is</th>"), std::string::npos);
  EXPECT_NE(alone.find("Wall time of each case"), std::string::npos);
}

TEST(Page, LabelsOfBinsFitBelowTheirBars) {
  Report report = sample::full();
  Finding& first = report.findings.front();
  first.order.reset();
  first.votes.clear();
  first.histogram =
      Histogram{"steps from expected", {{"-2 or less", 0.5, true}, {"0", 0.25, false}, {"+2 or more", 0.25, true}}};
  const std::string html = emit_html(report);
  for (const char* label : {">\u2264 -2</text>", ">0</text>", ">\u2265 +2</text>"}) {
    EXPECT_NE(html.find(label), std::string::npos) << label;
  }
  EXPECT_EQ(html.find(" 2 characters "), std::string::npos) << "cut to something longer";
}

TEST(Tokens, ContrastOfEveryTextPair) {
  const Themes all = themes();
  ASSERT_GE(all.light.size(), 20U);
  EXPECT_NEAR(contrast("#000000", "#ffffff"), 21, 0.01);
  for (Tokens theme : {all.light, all.dark}) {
    for (const char* text : {"ink", "muted", "accent", "fail", "warn", "pass", "skip", "error"}) {
      EXPECT_GE(contrast(theme[text], theme["paper"]), 4.5) << text << " on paper";
    }
    for (const char* text : {"ink", "muted", "accent"}) {
      EXPECT_GE(contrast(theme[text], theme["raised"]), 4.5) << text << " on raised";
    }
    EXPECT_GE(contrast(theme["on-fail"], theme["fail"]), 4.5);
    EXPECT_GE(contrast(theme["paper"], theme["ink"]), 4.5) << "the sample bar";
    EXPECT_GE(contrast(theme["ink"], theme["accent-soft"]), 4.5) << "a target";
    EXPECT_GE(contrast(theme["fail"], theme["fail-soft"]), 4.5);
    EXPECT_GE(contrast(theme["warn"], theme["warn-soft"]), 4.5);
    EXPECT_GE(contrast(theme["ink"], theme["seq2"]), 4.5);
    EXPECT_GE(contrast(theme["ink"], theme["seq3"]), 4.5);
    EXPECT_GE(contrast(theme["rule"], theme["paper"]), 3.0);
    EXPECT_GE(contrast(theme["seq1"], theme["paper"]), 3.0);
  }
}

TEST(Tokens, BothDarkBlocksAreEqual) {
  const Themes all = themes();
  EXPECT_EQ(all.dark, all.toggled);
  EXPECT_EQ(all.dark.size(), all.light.size());
}

}  // namespace
}  // namespace weightproof::reports
