// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "reports/emit.hpp"
#include "reports/tests/sample_report.hpp"
#include "reports/tests/support.hpp"
#include "reports/text_internal.hpp"

namespace weightproof::reports {
namespace {

using test::count_of;

// Nothing of a hostile name may reach a terminal or a text file raw.
void expect_inert(const std::string& text) {
  EXPECT_EQ(text.find('\0'), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find("\xE2\x80\xAE"), std::string::npos) << "direction override";
  EXPECT_EQ(text.find("\xE2\x80\x8B"), std::string::npos) << "zero-width space";
  EXPECT_EQ(text.find("\xED\xA0"), std::string::npos) << "surrogate bytes";
  EXPECT_EQ(valid_utf8(text), text);
}

// Markdown without its fenced blocks and code spans: there a name is shown as it is.
std::string without_code(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '`') {
      out += text[at];
      at += 1;
      if (out.back() == '\\' && at < text.size() && text[at] == '`') {
        out += text[at++];
      }
      continue;
    }
    const std::size_t end = std::min(text.find_first_not_of('`', at), text.size());
    const std::string fence = text.substr(at, end - at);
    std::size_t close = text.find(fence, end);
    while (close != std::string::npos &&
           (text[close - 1] == '`' || (close + fence.size() < text.size() && text[close + fence.size()] == '`'))) {
      close = text.find(fence, text.find_first_not_of('`', close));
    }
    EXPECT_NE(close, std::string::npos) << "a code span that nothing closes";
    at = close == std::string::npos ? text.size() : close + fence.size();
  }
  return out;
}

TEST(Text, GoldenOfAFailingAndAPassingReport) {
  EXPECT_EQ(test::golden_difference("full.txt", emit_text(sample::full(), {.width = 100, .report_dir = "./out"})), "");
  EXPECT_EQ(test::golden_difference("passing.txt", emit_text(sample::passing(), {.width = 100})), "");
}

TEST(Text, SaysTheVerdictAndTheFaultsFirst) {
  const std::string text = emit_text(sample::full());
  const std::string head = text.substr(0, 500);
  EXPECT_NE(head.find("FAIL  Gate and up swapped: model.layers.17.mlp.experts.gate_up_proj"), std::string::npos)
      << head;
  EXPECT_NE(head.find("lm_head.weight"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(emit_text(sample::full(), {.color = true}).find("\x1b[1;31mFAIL"), std::string::npos);
}

TEST(Text, IsShortOnSuccess) {
  const std::string text = emit_text(sample::passing());
  EXPECT_EQ(text.compare(text.find("PASS"), 4, "PASS"), 0);
  EXPECT_LE(count_of(text, "\n"), 12U) << text;
  EXPECT_LE(count_of(emit_text(sample::passing(), {.quiet = true}), "\n"), 5U);
}

TEST(Text, KeepsToTheWidthExceptForNames) {
  for (const int width : {40, 72, 100}) {
    const std::string text = emit_text(sample::full(), {.width = width});
    std::size_t begin = 0;
    while (begin < text.size()) {
      const std::size_t end = text.find('\n', begin);
      const std::string line = text.substr(begin, end - begin);
      begin = end + 1;
      const bool prose = line.compare(0, 6, "      ") == 0 && count_of(line, " ") > 12 &&
                         line.find("--") == std::string::npos && line.find("model.") == std::string::npos;
      if (prose) {
        EXPECT_LE(line.size(), static_cast<std::size_t>(std::max(width, 40)) + 4) << line;
      }
    }
  }
}

TEST(Text, HostileNamesAreSpelledOut) {
  expect_inert(emit_text(sample::hostile()));
  EXPECT_LT(emit_text(sample::hostile()).size(), 40000U) << "long names are cut";
}

TEST(Text, ManyFailuresAreCutWithTheirNumber) {
  const std::string text = emit_text(sample::large(20000, 3));
  EXPECT_LT(text.size(), 40000U);
  EXPECT_NE(text.find("more failures; all of them are in report.json"), std::string::npos);
}

TEST(Markdown, Golden) { EXPECT_EQ(test::golden_difference("full.md", emit_markdown(sample::full())), ""); }

TEST(Markdown, KeepsToEveryLimitAndNamesTheGravest) {
  for (const std::size_t checks : {std::size_t{300}, std::size_t{5000}, std::size_t{100000}}) {
    const Report report = sample::large(checks, 5);
    for (const std::size_t limit : {k_comment_limit, k_summary_limit}) {
      const std::string text = emit_markdown(report, {.limit = limit});
      EXPECT_LE(text.size(), limit);
      EXPECT_EQ(text.find("<!-- weightproof-report -->"), 0U);
      EXPECT_NE(text.find("Loader and reference differ"), std::string::npos);
      EXPECT_NE(text.find("value.exact"), std::string::npos);
    }
  }
  const std::string tiny = emit_markdown(sample::full(), {.limit = 400});
  EXPECT_LE(tiny.size(), 400U);
  EXPECT_NE(tiny.find("Cut at the limit"), std::string::npos);
}

TEST(Markdown, HostileNamesAreInert) {
  const std::string text = emit_markdown(sample::hostile());
  expect_inert(text);
  EXPECT_LE(text.size(), k_comment_limit);
  const std::string outside = without_code(text);
  EXPECT_EQ(outside.find("<script"), std::string::npos);
  EXPECT_EQ(outside.find("@octocat"), std::string::npos);
  EXPECT_EQ(outside.find("://"), std::string::npos);
  EXPECT_EQ(count_of(outside, "](http"), count_of(outside, "\\](http"));
  EXPECT_EQ(count_of(outside, "-->"), 1U) << "the marker's own end alone";
}

TEST(Junit, IsWellFormedWithUniquePairs) {
  for (const Report& report : {sample::full(), sample::hostile(), sample::large(3000)}) {
    const std::string xml = emit_junit(report);
    expect_inert(xml);
    std::set<std::string> pairs;
    std::size_t cases = 0;
    for (std::size_t at = xml.find("<testcase "); at != std::string::npos; at = xml.find("<testcase ", at + 1)) {
      const std::size_t end = xml.find_first_of(">", at);
      std::string pair = xml.substr(at, end - at);
      if (pair.back() == '/') {
        pair.pop_back();
      }
      EXPECT_TRUE(pairs.insert(pair).second) << pair;
      ++cases;
    }
    EXPECT_EQ(cases, report.checks.size());
    const Summary summary = summarize(report.checks);
    EXPECT_EQ(count_of(xml, "<failure "), summary.fail);
    EXPECT_EQ(count_of(xml, "<skipped "), summary.skip);
    EXPECT_EQ(count_of(xml, "<error "), summary.error);
    if (test::have("xmllint")) {
      const test::TempDir dir;
      const auto [status, said] = test::run("xmllint --noout " + test::quoted(dir.write("junit.xml", xml)));
      EXPECT_EQ(status, 0) << said;
    }
  }
}

TEST(Junit, Golden) { EXPECT_EQ(test::golden_difference("passing.junit.xml", emit_junit(sample::passing())), ""); }

}  // namespace
}  // namespace weightproof::reports
