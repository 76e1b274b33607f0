// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reports/emit.hpp"
#include "reports/tests/sample_report.hpp"

namespace weightproof::reports {
namespace {

const Finding* find(const Report& report, std::string_view rule) {
  const auto it =
      std::find_if(report.findings.begin(), report.findings.end(), [&](const Finding& f) { return f.rule == rule; });
  return it == report.findings.end() ? nullptr : &*it;
}

Report folded(std::vector<CheckRecord> checks) {
  Report report;
  report.checks = std::move(checks);
  finish(report);
  fold_findings(report);
  return report;
}

TEST(Fold, AConsequenceIsExplainedByTheCauseOfItsSubject) {
  const Report report = folded({CheckBuilder("value.exact").subject("a").fail("differs"),
                                CheckBuilder("layout.transpose").subject("a").fail("is transposed"),
                                CheckBuilder("value.roundtrip").subject("b").fail("differs")});
  const Finding* cause = find(report, "layout.transpose");
  const Finding* consequence = find(report, "value.exact");
  const Finding* other = find(report, "value.roundtrip");
  ASSERT_TRUE(cause != nullptr && consequence != nullptr && other != nullptr);
  EXPECT_EQ(consequence->explained_by, std::vector<std::string>{cause->fingerprint});
  EXPECT_EQ(cause->also, std::vector<std::string>{"value.exact"});
  EXPECT_TRUE(other->explained_by.empty());
  const CauseCount count = count_causes(report);
  EXPECT_EQ(count.failures, 3U);
  EXPECT_EQ(count.causes, 2U);
}

// A scale and the weight under it are two subjects of one fault.
TEST(Fold, WhatACheckExplainsBesideItsSubjectsIsItsConsequence) {
  const Report report = folded({CheckBuilder("quant.scale_nan")
                                    .subject("w_scale")
                                    .evidence("explains", Value::array_of(std::vector<std::string>{"w"}))
                                    .fail("is NaN"),
                                CheckBuilder("value.nonfinite").subject("w_scale").fail("NaN"),
                                CheckBuilder("value.manifest").subject("w").fail("differs")});
  EXPECT_EQ(count_causes(report).failures, 3U);
  EXPECT_EQ(count_causes(report).causes, 1U);
  EXPECT_EQ(report.findings.front().rule, "quant.scale_nan");
  EXPECT_EQ(report.findings.front().also, (std::vector<std::string>{"value.manifest", "value.nonfinite"}));
  const Report other = folded({CheckBuilder("quant.scale_nan").subject("w_scale").fail("is NaN"),
                               CheckBuilder("value.manifest").subject("w").fail("differs")});
  EXPECT_EQ(count_causes(other).causes, 2U) << "nobody says that they belong together";
}

TEST(Fold, APartlyExplainedFailureKeepsStanding) {
  const Report report = folded({CheckBuilder("value.exact").subject("a").subject("b").fail("differ"),
                                CheckBuilder("layout.transpose").subject("a").fail("is transposed")});
  EXPECT_TRUE(find(report, "value.exact")->explained_by.empty());
  CheckBuilder many("value.exact", 1);
  many.subject("a").subject("b");
  const Report capped =
      folded({many.fail("differ"), CheckBuilder("layout.transpose").subject("a").fail("is transposed")});
  EXPECT_TRUE(find(capped, "value.exact")->explained_by.empty())
      << "subjects past the cap are not known to be explained";
}

TEST(Fold, LinksStatedBySuitesHoldAndNeverGoInCircles) {
  Report report;
  Finding a;
  a.rule = "adapter.shape";
  a.key = "k";
  a.also = {"adapter.no_match"};
  Finding b;
  b.rule = "adapter.no_match";
  b.key = "k";
  b.also = {"adapter.shape"};
  report.findings = {a, b};
  finish(report);
  fold_findings(report);
  EXPECT_EQ(count_causes(report).causes, 1U);
}

TEST(Fold, GravityPutsNewBeforeOldAndSilentBeforeMissing) {
  Report report;
  const auto add = [&](const char* rule, const char* key, const char* change, std::uint64_t count) {
    Finding f;
    f.rule = rule;
    f.key = key;
    f.change = change;
    f.count = count;
    report.findings.push_back(f);
  };
  add("mem.peak", "m", "new", 9);
  add("keys.missing", "k", "new", 9);
  add("layout.transpose", "small", "new", 1);
  add("layout.transpose", "big", "new", 5);
  add("value.exact", "old", "still", 100);
  finish(report);
  fold_findings(report);
  std::vector<std::string> order;
  for (const Finding& f : report.findings) {
    order.push_back(f.key);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"big", "small", "k", "m", "old"}));
}

TEST(Fold, SubjectsWithAFindingOfTheirOwnAreNotToldTwice) {
  Report report;
  Finding f;
  f.rule = "value.rounding";
  f.key = "a";
  f.title = "Truncated";
  report.findings = {f};
  report.checks = {CheckBuilder("value.rounding").subject("a").subject("b").fail("two")};
  finish(report);
  fold_findings(report);
  ASSERT_EQ(report.findings.size(), 2U);
  std::vector<std::string> keys = {report.findings[0].key, report.findings[1].key};
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(keys, (std::vector<std::string>{"a", "b"}));
}

TEST(Fold, TwoCallsEqualOne) {
  for (Report report : {sample::full(), sample::hostile(), sample::large(400)}) {
    const std::string once = emit_json(report);
    finish(report);
    fold_findings(report);
    EXPECT_TRUE(emit_json(report) == once);
  }
}

TEST(Fold, OrderOfTheChecksDoesNotMatter) {
  Report report = sample::large(300, 7);
  Report reversed = report;
  std::reverse(reversed.checks.begin(), reversed.checks.end());
  reversed.findings.clear();
  finish(reversed);
  fold_findings(reversed);
  EXPECT_TRUE(emit_json(reversed) == emit_json(report));
}

TEST(Fold, ScalesToManyFailures) {
  const Report report = sample::large(20000, 3);
  EXPECT_GT(report.findings.size(), 6000U);
}

}  // namespace
}  // namespace weightproof::reports
