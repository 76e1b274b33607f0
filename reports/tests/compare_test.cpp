// SPDX-License-Identifier: Apache-2.0
#include "reports/compare.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "reports/emit.hpp"
#include "reports/expect.hpp"
#include "reports/json.hpp"
#include "reports/tests/sample_report.hpp"
#include "reports/tests/support.hpp"

namespace weightproof::reports {
namespace {

Report made(std::vector<CheckRecord> checks) {
  Report report;
  report.checks = std::move(checks);
  finish(report);
  fold_findings(report);
  return report;
}

CheckRecord fails(const char* id, std::vector<std::string> subjects) {
  CheckBuilder builder(id);
  for (const std::string& subject : subjects) {
    builder.subject(subject);
  }
  return builder.fail("it fails");
}
CheckRecord passes(const char* id) { return CheckBuilder(id).examined(3).pass(); }

std::vector<std::string> rules_of(const std::vector<CompareEntry>& entries) {
  std::vector<std::string> out;
  for (const CompareEntry& entry : entries) {
    out.push_back(entry.rule + " " + entry.key);
  }
  return out;
}

using Rules = std::vector<std::string>;

TEST(Compare, NewFixedAndStill) {
  const Report base = made({fails("keys.missing", {"a"}), fails("value.exact", {"w"}), passes("layout.transpose")});
  const Report head = made({passes("keys.missing"), fails("value.exact", {"w"}), fails("layout.transpose", {"t"})});
  const CompareInfo info = compare(base, head);
  EXPECT_EQ(rules_of(info.fresh), Rules{"layout.transpose t"});
  EXPECT_EQ(rules_of(info.fixed), Rules{"keys.missing a"});
  EXPECT_EQ(rules_of(info.still), Rules{"value.exact w"});
  EXPECT_EQ(exit_status(info), 1);
  EXPECT_EQ(exit_status(compare(base, base)), 0);
  EXPECT_EQ(compare(base, base).still.size(), 2U);
}

TEST(Compare, MoreSubjectsOfAnOldFailureAreNew) {
  const Report base = made({fails("keys.missing", {"a", "b"})});
  const CompareInfo grown = compare(base, made({fails("keys.missing", {"a", "b", "c"})}));
  ASSERT_EQ(grown.fresh.size(), 1U);
  EXPECT_EQ(grown.fresh[0].key, "c");
  EXPECT_EQ(exit_status(grown), 1);
  // The first subject alone makes the fingerprint; another first subject is still the old failure where the rest is
  // known.
  const CompareInfo shrunk = compare(base, made({fails("keys.missing", {"b"})}));
  EXPECT_EQ(rules_of(shrunk.still), Rules{"keys.missing b"});
  EXPECT_TRUE(shrunk.fresh.empty());
  // Past the cap only the number tells.
  CheckBuilder few("keys.missing", 2);
  CheckBuilder many("keys.missing", 2);
  for (const char* key : {"a", "b", "c"}) {
    few.subject(key);
    many.subject(key);
  }
  many.subject("d");
  const CompareInfo capped = compare(made({few.fail("x")}), made({many.fail("x")}));
  ASSERT_EQ(capped.fresh.size(), 1U);
  EXPECT_NE(capped.fresh[0].text.find("1 more subject"), std::string::npos);
}

TEST(Compare, AWarningThatBecomesAFailureIsNew) {
  const Report base = made({CheckBuilder("value.nonfinite").subject("w").warn("Inf")});
  const CompareInfo info = compare(base, made({fails("value.nonfinite", {"w"})}));
  EXPECT_EQ(rules_of(info.fresh), Rules{"value.nonfinite w"});
  const CompareInfo back = compare(made({fails("value.nonfinite", {"w"})}), base);
  EXPECT_EQ(exit_status(back), 0);
  EXPECT_EQ(rules_of(back.still), Rules{"value.nonfinite w"});
}

TEST(Compare, WhatDidNotRunIsNotFixed) {
  const Report base = made({fails("value.exact", {"w"}), passes("io.reload")});
  const Report head = made({CheckBuilder("value.exact").skip("index only"),
                            CheckBuilder("io.reload").skip("index only"), passes("keys.missing")});
  const CompareInfo info = compare(base, head);
  EXPECT_TRUE(info.fixed.empty());
  ASSERT_FALSE(info.changed_passing.empty());
  EXPECT_EQ(info.changed_passing[0].text, "failed on base, not checked here: index only");
  EXPECT_TRUE(std::any_of(info.changed_passing.begin(), info.changed_passing.end(),
                          [](const CompareEntry& e) { return e.text == "io.reload no longer runs: index only"; }));
}

TEST(Compare, CountersGateAndTimesInform) {
  Report base = sample::full();
  Report head = sample::full();
  head.plan.bytes_read = *base.plan.bytes_read * 2;
  head.plan.predicted_peak = *base.plan.predicted_peak - 1000;
  head.timing.find("load")->seconds = 300;
  const CompareInfo info = compare(base, head);
  EXPECT_EQ(rules_of(info.fresh), Rules{"plan.bytes_read "});
  EXPECT_EQ(exit_status(info), 1);
  Rules changed = rules_of(info.changed_passing);
  EXPECT_EQ(changed, (Rules{"plan.predicted_peak ", "timing.load "}));
  EXPECT_FALSE(info.changed_passing.back().gates);
  EXPECT_EQ(exit_status(compare(base, head, {.counter_tolerance = 2.0})), 0);
}

TEST(Compare, MarksFindingsAndTensors) {
  const Report base = made({fails("value.exact", {"model.layers.0.w", "model.layers.2.w"})});
  Report head = made({fails("value.exact", {"model.layers.0.w"}), fails("layout.transpose", {"model.layers.1.w"})});
  TensorTableBuilder table;
  for (const char* key : {"model.layers.0.w", "model.layers.1.w", "model.layers.2.w", "model.layers.3.w"}) {
    table.add(key, {.dtype = "BF16", .shape = {2, 2}, .bytes = 8, .file = "f"});
  }
  head.tensors = table.take();
  apply_compare(head, base);
  std::string changes;
  std::string verdicts;
  for (const TensorRow& row : head.tensors->rows) {
    changes += row.change;
    verdicts += to_string(row.verdict).front();
  }
  EXPECT_EQ(changes, "snf.");
  EXPECT_EQ(verdicts, "ffpp");
  EXPECT_EQ(head.findings.front().rule, "layout.transpose") << "new before old";
  EXPECT_EQ(count_causes(head).fresh, 1U);
  EXPECT_EQ(count_causes(head).old, 1U);
  const std::string once = emit_json(head);
  apply_compare(head, base);
  EXPECT_TRUE(emit_json(head) == once);
}

TEST(TensorTable, FoldsLayersAndExperts) {
  TensorTableBuilder builder;
  for (int layer = 0; layer < 3; ++layer) {
    for (int expert = 0; expert < 4; ++expert) {
      builder.add("model.layers." + std::to_string(layer) + ".mlp.experts." + std::to_string(expert) + ".up.weight",
                  {.dtype = "BF16", .shape = {4, 2}, .bytes = 16, .file = "a"});
    }
  }
  builder.add("model.layers.1.mlp.experts.0.up.weight.007.x", {.dtype = "F32"});
  builder.add("lm_head.weight", {.dtype = "BF16", .file = "b"});
  const TensorTable table = builder.take();
  ASSERT_EQ(table.classes.size(), 3U);
  EXPECT_EQ(table.classes[0].pattern, "model.layers.{}.mlp.experts.{e}.up.weight");
  EXPECT_EQ(table.classes[0].module, "mlp.experts.{e}.up.weight");
  EXPECT_EQ(table.classes[1].pattern, "model.layers.{}.mlp.experts.{e}.up.weight.007.x");
  EXPECT_EQ(table.key(table.rows[5]), "model.layers.1.mlp.experts.1.up.weight");
  EXPECT_EQ(table.key(table.rows.back()), "lm_head.weight");
  EXPECT_EQ(table.rows.back().layer, -1);
}

TEST(Merge, SumsWhatIsEqualAndKeepsWhatIsNot) {
  Report a =
      made({passes("keys.missing"), fails("value.exact", {"w"}), CheckBuilder("shard.info").skip("no rank files")});
  Report b = made({passes("keys.missing"), fails("value.exact", {"v", "w"}), passes("shard.info")});
  a.support = {{"llama", "plain", "direct", "bf16", Status::pass, 2, {}},
               {"llama", "plain", "direct", "f32", Status::skip, 0, {}}};
  b.support = {{"llama", "plain", "direct", "bf16", Status::fail, 1, {}},
               {"llama", "plain", "direct", "f32", Status::pass, 4, {}}};
  a.timing.find("load")->seconds = 1;
  b.timing.find("load")->seconds = 2;
  b.memory.set("vm_hwm", 100, "VmHWM");
  const Report out = merge({a, b});
  const auto check = [&](std::string_view id) {
    return *std::find_if(out.checks.begin(), out.checks.end(), [&](const CheckRecord& c) { return c.id == id; });
  };
  EXPECT_EQ(check("keys.missing").total, 6U);
  EXPECT_EQ(check("value.exact").total, 2U);
  EXPECT_EQ(check("shard.info").status, Status::pass);
  EXPECT_EQ(summarize(out.checks).skip, 0U);
  ASSERT_EQ(out.support.size(), 2U);
  EXPECT_EQ(out.support[0].status, Status::fail);
  EXPECT_EQ(out.support[0].cases, 3U);
  EXPECT_EQ(out.support[1].status, Status::pass);
  EXPECT_EQ(out.memory.find("vm_hwm")->bytes, 100U);
  EXPECT_EQ(const_cast<Report&>(out).timing.find("load")->seconds, 3.0);
  ASSERT_EQ(out.findings.size(), 1U);
  EXPECT_EQ(out.findings[0].total, 2U);
  EXPECT_EQ(exit_status(merge({})), 3);
  // A merged report is a report like any other.
  EXPECT_TRUE(emit_json(read_json(emit_json(out))) == emit_json(out));
  EXPECT_TRUE(emit_json(merge({sample::full()})) == emit_json(merge({merge({sample::full()})})));
}

TEST(Trend, ReadsAFolderOldestFirst) {
  const test::TempDir dir;
  Report old = sample::passing();
  old.run.commit = "old";
  old.run.start = "2026-01-01T00:00:00Z";
  Report young = sample::full();
  young.run.commit = "young";
  young.run.start = "2026-02-01T00:00:00Z";
  dir.write("b.json", emit_json(old));
  std::filesystem::create_directories(dir.path() / "run7");
  dir.write("run7/report.json", emit_json(young));
  dir.write("broken.json", "{");
  dir.write("notes.txt", "no report");
  const auto points = read_trend(dir.path().string());
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points[0].label, "broken.json");
  EXPECT_FALSE(points[0].note.empty());
  EXPECT_EQ(points[1].label, "old");
  EXPECT_EQ(points[1].verdict, Verdict::pass);
  EXPECT_EQ(points[2].label, "young");
  EXPECT_EQ(points[2].causes, 4U);
  const std::string text = emit_trend(points);
  EXPECT_EQ(test::count_of(text, "\n"), 4U);
  EXPECT_NE(text.find("young\t2026-02-01T00:00:00Z\tfail\t96\t6\t3\t26\t0\t4\t81561600\t"), std::string::npos) << text;
  EXPECT_THROW(read_trend((dir.path() / "absent").string()), DocumentError);
}

// ---- expectations

TEST(Glob, Matches) {
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("model.*.w?", "model.a.b.w1"));
  EXPECT_FALSE(glob_match("model.*.w?", "model.a.b.w"));
  EXPECT_TRUE(glob_match("l[0-3].x", "l2.x"));
  EXPECT_FALSE(glob_match("l[!0-3].x", "l2.x"));
  EXPECT_TRUE(glob_match("a[", "a["));
  EXPECT_FALSE(glob_match("", "a"));
  EXPECT_FALSE(glob_match(std::string(200, '*') + "b", std::string(5000, 'a'))) << "and soon";
}

TEST(Expect, RefusesWhatItCannotKeep) {
  const auto said = [](const std::string& text) {
    try {
      parse_expectations(text);
    } catch (const DocumentError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const std::string good = R"({"check":"value.exact","tensor":"*","reason":"r","until":"2026-12-31"})";
  EXPECT_EQ(said("[" + good + "]"), "accepted");
  EXPECT_EQ(said("{\"expect\":[" + good + "]}"), "accepted");
  EXPECT_EQ(said("3"), "an expectation file is a list of entries, or an object with the list under \"expect\"");
  EXPECT_EQ(said(R"([{"check":"value.exakt","tensor":"*","reason":"r","until":"2026-12-31"}])"),
            "entry 0: unknown check \"value.exakt\"");
  EXPECT_EQ(said(R"([{"check":"value.exact","tensor":"*","reason":"","until":"2026-12-31"}])"),
            "entry 0: \"tensor\" and \"reason\" must not be empty");
  EXPECT_EQ(said(R"([{"check":"value.exact","tensor":"*","reason":"r","until":"2026-02-29"}])"),
            "entry 0: \"until\" must be a date YYYY-MM-DD");
  EXPECT_EQ(said(R"([{"check":"value.exact","tensor":"*","reason":"r","until":"2028-02-29"}])"), "accepted");
  EXPECT_EQ(said(R"([{"check":"value.exact","tenser":"*","reason":"r","until":"2026-12-31"}])"),
            "entry 0: unknown field \"tenser\"");
}

Expectation entry(const char* check, const char* tensor, const char* until = "2026-12-31") {
  return {check, tensor, "known", until, "bug/7"};
}

// Statuses of the records of a report by id, in order.
std::string statuses(const Report& report, std::string_view id) {
  std::string out;
  for (const CheckRecord& check : report.checks) {
    if (check.id == id) {
      out += (out.empty() ? "" : " ") + std::string(to_string(check.status)) + ":" + std::to_string(check.total);
    }
  }
  return out;
}

TEST(Expect, CoversSplitsAndExpires) {
  const auto applied = [](const std::vector<CheckRecord>& checks, const std::vector<Expectation>& expectations,
                          const char* today = "2026-06-01") {
    Report report;
    report.checks = checks;
    apply_expectations(report, expectations, today);
    finish(report);
    fold_findings(report);
    return report;
  };
  const std::vector<CheckRecord> checks = {fails("value.exact", {"a.w", "b.w"}), passes("keys.missing")};
  const Report whole = applied(checks, {entry("value.exact", "*")});
  EXPECT_EQ(statuses(whole, "value.exact"), "pass:2");
  EXPECT_EQ(exit_status(whole), 0);
  EXPECT_NE(whole.findings.front().explanation.find("Failed as expected until 2026-12-31: known (bug/7)"),
            std::string::npos);
  const Report part = applied(checks, {entry("value.exact", "a.*")});
  EXPECT_EQ(statuses(part, "value.exact"), "fail:1 pass:1");
  EXPECT_EQ(exit_status(part), 1);
  const Report last_day = applied(checks, {entry("value.exact", "*", "2026-06-01")});
  EXPECT_EQ(exit_status(last_day), 0);
  const Report late = applied(checks, {entry("value.exact", "*", "2026-05-31")});
  EXPECT_EQ(statuses(late, "value.exact"), "fail:2");
  EXPECT_EQ(statuses(late, "expect.expired"), "fail:1");
  EXPECT_EQ(statuses(late, "expect.unused"), "pass:1");
  const Report unused = applied(checks, {entry("layout.transpose", "*"), entry("value.exact", "*")});
  EXPECT_EQ(statuses(unused, "expect.unused"), "fail:1");
  const Report gone = applied(checks, {entry("keys.missing", "*"), entry("value.exact", "*")});
  EXPECT_EQ(statuses(gone, "expect.unexpected_pass"), "fail:1");
  EXPECT_EQ(gone.findings.front().key, "keys.missing *");
}

TEST(Expect, WhatTheCapHidesIsCoveredByAStarAlone) {
  CheckBuilder builder("keys.missing", 2);
  for (const char* key : {"a", "b", "c", "d"}) {
    builder.subject(key);
  }
  for (const char* glob : {"*", "?"}) {
    Report report;
    report.checks = {builder.fail("x")};
    apply_expectations(report, {entry("keys.missing", glob)}, "2026-06-01");
    finish(report);
    EXPECT_EQ(statuses(report, "keys.missing"), std::string(glob) == "*" ? "pass:4" : "fail:2 pass:2");
  }
  Report bare;
  bare.checks = {CheckBuilder("shard.agreement").fail("ranks differ")};
  apply_expectations(bare, {entry("shard.agreement", "*")}, "2026-06-01");
  finish(bare);
  EXPECT_EQ(statuses(bare, "shard.agreement"), "pass:0");
}

}  // namespace
}  // namespace weightproof::reports
