// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reports/report.hpp"
#include "reports/sha256_internal.hpp"
#include "reports/text_internal.hpp"

namespace weightproof::reports {
namespace {

TEST(Value, KeepsKindsApartAndComparesIntegersByValue) {
  EXPECT_TRUE(Value().is_null());
  EXPECT_TRUE(Value(true).is_bool());
  EXPECT_TRUE(Value("text").is_string());
  EXPECT_EQ(Value(std::int64_t{7}), Value(std::uint64_t{7}));
  EXPECT_FALSE(Value(-1) == Value(~std::uint64_t{0}));
  EXPECT_FALSE(Value(1) == Value(1.0));
  EXPECT_EQ(Value(~std::uint64_t{0}).as_int64(-5), -5);
  EXPECT_EQ(Value(-3).as_uint64(9), 9U);
}

TEST(Value, BuildsObjectsAndArraysFromNull) {
  Value value;
  value["b"] = 2;
  value["a"].push_back("x");
  EXPECT_EQ(to_text(value), "a [x], b 2");
  EXPECT_EQ(value.find("c"), nullptr);
  EXPECT_EQ(to_text(Value(1234567)), "1,234,567");
  EXPECT_EQ(to_text(Value(std::numeric_limits<std::int64_t>::min())), "-9,223,372,036,854,775,808");
  EXPECT_EQ(to_text(Value(std::string(20, 'x')), 5), "xxxxx... (15 more bytes)");
}

TEST(Verdict, FailureOutranksErrorAndNothingRunIsNoPass) {
  EXPECT_EQ(verdict_of({.pass = 3, .skip = 1}), Verdict::pass);
  EXPECT_EQ(verdict_of({.pass = 3, .fail = 1, .error = 1}), Verdict::fail);
  EXPECT_EQ(verdict_of({.pass = 3, .error = 1}), Verdict::error);
  EXPECT_EQ(verdict_of({.skip = 12}), Verdict::error);
  EXPECT_EQ(verdict_of({}), Verdict::error);
}

TEST(Verdict, ExitStatusFollowsStrict) {
  Report report;
  report.checks.push_back(CheckBuilder("keys.missing").pass());
  EXPECT_EQ(exit_status(report), 0);
  report.checks.push_back(CheckBuilder("value.outlier").subject("w").warn("one"));
  EXPECT_EQ(exit_status(report), 0);
  report.strict = true;
  EXPECT_EQ(exit_status(report), 1);
  report.strict = false;
  report.checks.push_back(CheckBuilder("io.route").error("no"));
  EXPECT_EQ(exit_status(report), 3);
  report.checks.push_back(CheckBuilder("io.opens").subject("f").fail("twice"));
  EXPECT_EQ(exit_status(report), 1);
}

TEST(CheckBuilder, CapsSubjectsAndCountsAll) {
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) {
    names.push_back("t" + std::to_string(1000 + i));
  }
  CheckBuilder forward("keys.missing", 10);
  CheckBuilder backward("keys.missing", 10);
  std::for_each(names.begin(), names.end(), [&](const std::string& n) { forward.subject(n); });
  std::for_each(names.rbegin(), names.rend(), [&](const std::string& n) { backward.subject(n); });
  const CheckRecord a = forward.fail("m");
  const CheckRecord b = backward.fail("m");
  EXPECT_EQ(a.total, 1000U);
  EXPECT_EQ(a.shown, 10U);
  EXPECT_EQ(a.subjects, b.subjects);
  EXPECT_EQ(a.subjects.front(), "t1000");
  EXPECT_EQ(a.subjects.back(), "t1009");
  EXPECT_EQ(a.suite, "keys");
}

TEST(CheckBuilder, PassTellsHowMuchWasExamined) {
  const CheckRecord record = CheckBuilder("format.size").examined(40).examined(2).fail_if_subjects("bad");
  EXPECT_EQ(record.status, Status::pass);
  EXPECT_EQ(record.total, 42U);
  EXPECT_TRUE(record.message.empty());
  const CheckRecord note = CheckBuilder("format.name").examined(3).note("one name is empty");
  EXPECT_EQ(note.status, Status::pass);
  EXPECT_EQ(note.explanation, "one name is empty");
}

TEST(Finish, OrdersChecksAndFillsFiguresWithTheReason) {
  Report report;
  report.checks = {CheckBuilder("io.opens").pass(), CheckBuilder("zeta.other").pass(),
                   CheckBuilder("format.utf8").pass(), CheckBuilder("format.json").subject("b").fail("x")};
  report.memory.set("allocator_peak", 5, "counted");
  finish(report);
  ASSERT_EQ(report.checks.size(), 4U);
  EXPECT_EQ(report.checks[0].id, "format.json");
  EXPECT_EQ(report.checks[1].id, "format.utf8");
  EXPECT_EQ(report.checks[2].id, "io.opens");
  EXPECT_EQ(report.checks[3].id, "zeta.other");
  ASSERT_NE(report.memory.find("allocator_peak"), nullptr);
  EXPECT_EQ(report.memory.find("allocator_peak")->bytes, 5U);
  ASSERT_NE(report.memory.find("rss_anon"), nullptr);
  EXPECT_FALSE(report.memory.find("rss_anon")->bytes.has_value());
  EXPECT_FALSE(report.memory.find("rss_anon")->why.empty());
  ASSERT_NE(report.timing.find("scan"), nullptr);
  EXPECT_FALSE(report.timing.find("scan")->why.empty());
}

TEST(Finish, CapsLongListsAndKeepsTheirNumber) {
  Report report;
  CheckRecord record = CheckBuilder("keys.missing").subject("first").fail("many");
  record.subjects.resize(k_subjects_max + 5, "x");
  report.checks.push_back(record);
  finish(report);
  EXPECT_EQ(report.checks[0].shown, k_subjects_max);
  EXPECT_EQ(report.checks[0].total, k_subjects_max + 5);
  finish(report);
  EXPECT_EQ(report.checks[0].total, k_subjects_max + 5);
}

TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(base64(sha256("abc")), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
}

TEST(Fingerprint, DependsOnRuleKeyAndPropertyAlone) {
  const std::string one = fingerprint_of("layout.transpose", "a.weight", "axes");
  EXPECT_EQ(one.size(), 16U);
  EXPECT_EQ(one, fingerprint_of("layout.transpose", "a.weight", "axes"));
  EXPECT_NE(one, fingerprint_of("layout.transpose", "a.weightaxes", ""));
  EXPECT_NE(one, fingerprint_of("layout.transposea", ".weight", "axes"));
  EXPECT_EQ(tensor_fingerprint("a.weight").size(), 12U);
}

TEST(Text, NumbersForPeople) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(66407086720ULL), "66,407,086,720");
  EXPECT_EQ(human_bytes(81561600), "77.8 MiB");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1048575), "1.0 MiB");
  EXPECT_EQ(human_seconds(120.02), "2 min 0 s");
  EXPECT_EQ(human_seconds(0.035), "35 ms");
  EXPECT_EQ(human_seconds(0.0012), "1.2 ms");
  EXPECT_EQ(fixed(-0.001, 1), "0.0");
  EXPECT_EQ(plural(1, "tensor"), "1 tensor");
  EXPECT_EQ(plural(1200, "tensor"), "1,200 tensors");
}

TEST(Text, HostileCharactersAreSpelledOut) {
  EXPECT_EQ(spell_out("a\xE2\x80\xAE"
                      "b"),
            "a<U+202E>b");
  EXPECT_EQ(spell_out(std::string("x\0y", 3)), "x<U+0000>y");
  EXPECT_EQ(spell_out("\xF3\xA0\x80\x81"), "<U+E0001>");
  EXPECT_EQ(valid_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(valid_utf8("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(valid_utf8("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80");
}

TEST(Text, LongNamesLoseTheirMiddle) {
  const std::string name(32768, 'x');
  const std::string cut = cut_middle(name, 256);
  EXPECT_LT(cut.size(), 300U);
  EXPECT_NE(cut.find("32,512 characters"), std::string::npos);
  EXPECT_EQ(cut_middle("short", 256), "short");
}

}  // namespace
}  // namespace weightproof::reports
