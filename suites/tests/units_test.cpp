// SPDX-License-Identifier: Apache-2.0
// Small parts: sizes, names, the JSON writer, expectations, explain pages, registry, hostile input.
#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "fixtures/generate.hpp"
#include "loader/core/check.hpp"
#include "loader/core/config.hpp"
#include "loader/core/error.hpp"
#include "reports/json.hpp"
#include "suites/explain/pages.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/text.hpp"
#include "suites/tests/support.hpp"
#include "suites/verify/expectations.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites::test {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;
using reports::Status;

TEST(Text, Sizes) {
  const std::vector<std::pair<const char*, std::uint64_t>> good = {
      {"0", 0},
      {"4096", 4096},
      {"64MiB", 67108864},
      {"5GB", 5000000000},
      {"1.5GiB", 1610612736},
      {"1 KiB", 1024},
      {"64mib", 67108864},
      {"1.000kb", 1000},
      {"2TiB", 2199023255552},
      {"0.5KB", 500},
      {"18446744073709551615", UINT64_MAX},
  };
  for (const auto& [text, bytes] : good) {
    EXPECT_EQ(parse_bytes(text), bytes) << text;
  }
  for (const char* text : {"", "MiB", "-1", "1e9", "1.5", "1..5GB", "1.GB", "18446744073709551616", "20000000TiB",
                           "5 bananas", "0x10", " 5"}) {
    EXPECT_FALSE(parse_bytes(text)) << text;
  }
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(13761264768), "12.82 GiB");
  EXPECT_EQ(grouped(13761264768), "13,761,264,768");
  EXPECT_EQ(counted(1, "tensor", "tensors"), "1 tensor");
}

TEST(Text, NamesAreMadeSafeForATerminal) {
  EXPECT_EQ(printable("model.layers.0.weight"), "model.layers.0.weight");
  EXPECT_EQ(printable("a\x1b[2Jb"), "a\\u{001B}[2Jb");
  EXPECT_EQ(printable("caf\xc3\xa9"), "caf\xc3\xa9");
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "x"),
            "\\u{202E}x");
  EXPECT_EQ(printable("\xff\xc0\x80"), "\\xFF\\xC0\\x80");
  EXPECT_EQ(printable(std::string("\0", 1)), "\\u{0000}");
  const std::string cut = printable(std::string(40000, 'a'));
  EXPECT_LT(cut.size(), 400U);
  EXPECT_NE(cut.find(" bytes)"), std::string::npos);
}

TEST(Text, NearestWord) {
  const std::vector<std::string_view> words = {"--keys-only", "--threads", "--strict"};
  EXPECT_EQ(nearest("--thread", words), "--threads");
  EXPECT_EQ(nearest("--kyes-only", words), "--keys-only");
  EXPECT_EQ(nearest("--frobnicate", words), "");
  EXPECT_EQ(edit_distance("abcd", "abdc"), 1U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
}

TEST(JsonWriter, WritesWhatParsersRead) {
  std::string text;
  JsonWriter json([&text](std::string_view part) { text += part; });
  json.begin_object()
      .member("a\"\\\n\x01", "\xff caf\xc3\xa9")
      .member("n", UINT64_MAX)
      .member("x", 0.1)
      .member("t", true);
  json.name("list").begin_array().value(1).null().begin_object().end_object().end_array();
  json.name("rows")
      .begin_array()
      .begin_object()
      .compact()
      .member("k", "v")
      .name("s")
      .begin_array()
      .value(1)
      .value(2)
      .end_array()
      .end_object()
      .end_array();
  json.name("inf").value(-HUGE_VAL).end_object();
  json.flush();
  const ConfigValue parsed = ConfigValue::parse(text, "text");
  EXPECT_EQ(parsed.members()[0].first, "a\"\\\n\x01");
  EXPECT_EQ(parsed.members()[0].second.as_string(), "\xef\xbf\xbd caf\xc3\xa9");
  EXPECT_EQ(parsed.find("n")->dump(), "18446744073709551615");
  EXPECT_EQ(parsed.find("x")->as_number(), 0.1);
  EXPECT_EQ(parsed.find("inf")->as_string(), "-Infinity");
  EXPECT_NE(text.find(R"({"k": "v", "s": [1, 2]})"), std::string::npos) << text;
}

TEST(Explain, EveryCheckHasOneCompletePage) {
  std::set<std::string_view> seen;
  for (const CheckPage& page : check_pages()) {
    EXPECT_TRUE(seen.insert(page.id).second) << page.id << " twice";
    EXPECT_NE(find_check(page.id), nullptr) << page.id << " is no check";
    for (const std::string_view text : {page.meaning, page.importance, page.example, page.remedy}) {
      EXPECT_GE(text.size(), 12U) << page.id;
      EXPECT_EQ(text.back(), '.') << page.id << ": " << text;
    }
  }
  for (const CheckInfo& info : all_checks()) {
    EXPECT_NE(find_check_page(info.id), nullptr) << info.id << " has no page";
  }
}

TEST(Explain, EveryErrorCodeHasOnePage) {
  std::set<std::string_view> seen;
  for (const ErrorPage& page : error_pages()) {
    EXPECT_TRUE(seen.insert(page.code).second) << page.code << " twice";
    EXPECT_TRUE(error_code_from_string(page.code)) << page.code;
    for (const std::string_view text : {page.meaning, page.example, page.remedy}) {
      EXPECT_GE(text.size(), 12U) << page.code;
      EXPECT_EQ(text.back(), '.') << page.code << ": " << text;
    }
  }
  for (const std::string_view code : {
#define X(name, code, error_class, class_name, check) std::string_view(code),
#include "loader/core/errors.def"
#undef X
       }) {
    EXPECT_NE(find_error_page(code), nullptr) << code << " has no page";
  }
  EXPECT_EQ(find_error_page("HeaderTooLarge")->code, "HEADER_TOO_LARGE");
  EXPECT_EQ(find_error_page(""), nullptr);
}

TEST(Registry, EveryRowIsAKnownCheckOnce) {
  std::set<std::string_view> seen;
  for (const VerifyCheck& check : all_verify_checks()) {
    EXPECT_NE(find_check(check.id), nullptr) << check.id;
    EXPECT_TRUE(seen.insert(check.id).second) << check.id << " twice";
  }
  EXPECT_GE(seen.size(), 55U);
}

CheckRecord failing(std::vector<std::string> subjects) {
  CheckBuilder builder("value.all_zero");
  for (const std::string& subject : subjects) {
    builder.subject(subject);
  }
  return builder.warn("zeros");
}

std::vector<CheckRecord> applied(const char* text, std::vector<CheckRecord> records, const char* today = "2026-06-01") {
  apply_expectations(parse_expectations(text, "known.json"), today, records);
  return records;
}

const CheckRecord& by_id(const std::vector<CheckRecord>& records, std::string_view id) {
  return *std::find_if(records.begin(), records.end(), [id](const CheckRecord& record) { return record.id == id; });
}

TEST(Expectations, TakeWhatIsExpected) {
  const auto records =
      applied(R"([{"check":"value.all_zero","tensor":"a.*","reason":"fresh adapter"}])", {failing({"a.x", "a.y"})});
  EXPECT_EQ(by_id(records, "value.all_zero").status, Status::skip);
  EXPECT_EQ(by_id(records, "value.all_zero").reason, "expected: fresh adapter");
  EXPECT_EQ(by_id(records, "expect.unused").status, Status::pass);
}

TEST(Expectations, LeaveTheRest) {
  const auto records =
      applied(R"({"expect":[{"check":"value.all_zero","tensor":"a.*","reason":"r"}]})", {failing({"a.x", "b.y"})});
  EXPECT_EQ(by_id(records, "value.all_zero").status, Status::warn);
  EXPECT_EQ(by_id(records, "value.all_zero").subjects, std::vector<std::string>{"b.y"});
}

TEST(Expectations, UnusedExpiredAndUnexpectedPassFail) {
  const auto unused = applied(R"([{"check":"value.all_zero","tensor":"c","reason":"r"}])", {failing({"a"})});
  EXPECT_EQ(by_id(unused, "expect.unused").status, Status::fail);
  EXPECT_EQ(by_id(unused, "expect.unused").subjects, std::vector<std::string>{"value.all_zero c"});
  const auto expired = applied(R"([{"check":"value.all_zero","until":"2026-05-31","reason":"r"}])", {failing({"a"})});
  EXPECT_EQ(by_id(expired, "expect.expired").status, Status::fail);
  EXPECT_EQ(by_id(expired, "value.all_zero").status, Status::warn);
  const auto in_time = applied(R"([{"check":"value.all_zero","until":"2026-06-01","reason":"r"}])", {failing({"a"})});
  EXPECT_EQ(by_id(in_time, "expect.expired").status, Status::pass);
  EXPECT_EQ(by_id(in_time, "value.all_zero").status, Status::skip);
  const auto passes =
      applied(R"([{"check":"value.all_zero","reason":"r"}])", {CheckBuilder("value.all_zero").examined(3).pass()});
  EXPECT_EQ(by_id(passes, "expect.unexpected_pass").status, Status::fail);
}

TEST(Expectations, RefuseWhatTheyCannotMean) {
  for (const char* text :
       {"{}", "[1]", R"([{"check":"value.all_zeros","reason":"r"}])", R"([{"check":"value.all_zero"}])",
        R"([{"check":"value.all_zero","reason":"r","till":"x"}])",
        R"([{"check":"value.all_zero","reason":"r","until":"soon"}])", R"([{"check":"value.all_zero","reason":7}])"}) {
    EXPECT_THROW(parse_expectations(text, "known.json"), Error) << text;
  }
}

TEST(Verify, ComparablePartDoesNotDependOnThreadsOrPlace) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions options;
  options.shard_count = 3;
  fixtures::generate(options, directory / "a");
  fixtures::generate(options, directory / "b");
  VerifyOptions one;
  VerifyOptions many;
  many.threads = 5;
  EXPECT_EQ(reports::comparable_digest(verify(directory / "a", one)),
            reports::comparable_digest(verify(directory / "b", many)));
}

TEST(Verify, SubsetsAreVisible) {
  const TemporaryDirectory directory;
  fixtures::generate({}, directory / "a");
  VerifyOptions options;
  options.include = {"model.layers.0.*"};
  const reports::Report some = verify(directory / "a", options);
  EXPECT_EQ(findings_of(some), std::vector<std::string>{});
  EXPECT_EQ(record_of(some, "keys.subset").status, Status::pass);
  EXPECT_LT(record_of(some, "value.nonfinite").total, some.checkpoint.tensors);
  EXPECT_TRUE(
      std::any_of(some.policies.begin(), some.policies.end(), [](const auto& policy) { return policy.relaxation; }));
  options.include = {"nothing.like.this"};
  const reports::Report none = verify(directory / "a", options);
  EXPECT_EQ(record_of(none, "keys.subset").status, Status::fail);
}

TEST(Verify, AllowMissingForgivesVisibly) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions made;
  made.corrupt = "dropped_norm";
  made.shard_count = 3;
  const auto checkpoint = fixtures::generate(made, directory / "a");
  VerifyOptions options;
  EXPECT_EQ(record_of(verify(directory / "a", options), "keys.missing").status, Status::fail);
  options.allow_missing = {"*norm*"};
  const reports::Report report = verify(directory / "a", options);
  EXPECT_EQ(record_of(report, "keys.missing").status, Status::pass);
  EXPECT_NE(record_of(report, "keys.missing").explanation.find(checkpoint.subjects.front()), std::string::npos);
}

// Random damage to a real header: every outcome is a report, never a crash or a foreign exception.
TEST(Verify, DamagedHeadersAreReported) {
  const TemporaryDirectory directory;
  fixtures::generate({}, directory / "a");
  const auto file = directory / "a/model.safetensors";
  const std::string sound = read_file(file);
  std::mt19937 random(99);
  unsigned failed = 0;
  for (int round = 0; round < 400; ++round) {
    std::string damaged = sound;
    for (unsigned i = 0; i <= random() % 4; ++i) {
      damaged[random() % std::min<std::size_t>(damaged.size(), 3000)] = static_cast<char>(random());
    }
    write_file(file, damaged);
    const reports::Report report = verify(directory / "a", {});
    failed += reports::exit_status(report) == 1 ? 1U : 0U;
    for (const CheckRecord& record : report.checks) {
      EXPECT_NE(record.status, Status::error) << record.id << record.reason;
    }
  }
  EXPECT_GT(failed, 300U);
}

}  // namespace
}  // namespace weightproof::suites::test
