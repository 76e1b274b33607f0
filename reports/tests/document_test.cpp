// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>
#include <string>

#include "reports/emit.hpp"
#include "reports/json.hpp"
#include "reports/rules.hpp"
#include "reports/tests/sample_report.hpp"
#include "reports/tests/support.hpp"

namespace weightproof::reports {
namespace {

using test::quoted;
using test::TempDir;

std::filesystem::path schema(std::string_view name) {
  return std::filesystem::path(WEIGHTPROOF_SOURCE_DIR) / "reports/schema" /
         ("weightproof." + std::string(name) + "-1.schema.json");
}

// Exit status of the validator for one document, and what it says.
std::pair<int, std::string> validate(std::string_view schema_name, const std::string& document) {
  const TempDir dir;
  const auto file = dir.write("document.json", document);
  return test::run("/usr/bin/python3 " +
                   quoted(std::filesystem::path(WEIGHTPROOF_SOURCE_DIR) / "reports/tests/validate.py") + " " +
                   quoted(schema(schema_name)) + " " + quoted(file));
}

bool validator_missing() { return validate("error", "{}").first == 77 || !std::filesystem::exists("/usr/bin/python3"); }

#define SKIP_WITHOUT_VALIDATOR()                           \
  if (validator_missing()) {                               \
    GTEST_SKIP() << "python3-jsonschema is not installed"; \
  }

TEST(Json, WritesEveryKindStably) {
  Value value;
  value["z"] = std::numeric_limits<std::uint64_t>::max();
  value["a"] = Value::array_of(std::vector<double>{1.0, 0.1, 1e300});
  value["n"] = std::numeric_limits<double>::quiet_NaN();
  value["i"] = -std::numeric_limits<double>::infinity();
  value["t"] = std::string("q\"\\\n\x01\x7F\xE2\x80\xA8\xFF\xF3\xA0\x80\x81", 14);
  value["e"] = Value::Object{};
  EXPECT_EQ(to_json(value),
            "{\"a\":[1.0,0.1,1e+300],\"e\":{},\"i\":\"-Infinity\",\"n\":\"NaN\",\"t\":"
            "\"q\\\"\\\\\\n\\u0001\\u007f\\u2028\xEF\xBF\xBD\\udb40\\udc01\","
            "\"z\":18446744073709551615}");
  EXPECT_EQ(to_json(Value::object({{"a", Value::Array{1, 2}}}), true), "{\n  \"a\": [1, 2]\n}");
}

TEST(Json, ReadsBackWhatItWrites) {
  const Value value =
      parse_json(R"({"big":9007199254740993,"neg":-9223372036854775808,"f":1.0,"s":"\u202e","l":[null,true,{}]})");
  EXPECT_EQ(value.find("big")->as_uint64(), 9007199254740993ULL);
  EXPECT_TRUE(value.find("f")->is_double());
  EXPECT_EQ(parse_json(to_json(value)), value);
  EXPECT_EQ(parse_json(to_json(value, true)), value);
}

TEST(Json, RefusesWhatIsNotOneDocument) {
  for (const std::string text : {"", "{", "{\"a\":1,\"a\":2}", "[1,2] 3", "{\"a\":NaN}", "\xFF", "[01]", "{'a':1}"}) {
    EXPECT_THROW(parse_json(text), DocumentError) << text;
  }
  EXPECT_THROW(parse_json(std::string(100000, '[')), DocumentError);
  EXPECT_NO_THROW(parse_json(std::string(k_json_max_depth, '[') + std::string(k_json_max_depth, ']')));
  try {
    parse_json("{\"a\":1,\"a\":2}");
    FAIL();
  } catch (const DocumentError& error) {
    EXPECT_NE(std::string(error.what()).find("\"a\" given twice"), std::string::npos);
  }
}

TEST(Document, RoundTripsByteForByte) {
  for (const Report& report : {sample::full(), sample::passing(), sample::hostile(), sample::large(500)}) {
    const std::string text = emit_json(report);
    EXPECT_TRUE(emit_json(read_json(text)) == text);
    EXPECT_TRUE(text == emit_json(report));
  }
}

TEST(Document, ReadingNamesThePlaceThatIsWrong) {
  const std::string good = emit_json(sample::passing(), false);
  const auto broken = [&](std::string from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    try {
      read_json(text);
    } catch (const DocumentError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(broken("\"status\":\"pass\"", "\"status\":\"fine\""),
            "checks[0].status: must be one of pass, fail, warn, skip, error");
  EXPECT_EQ(broken("\"files\":1", "\"files\":-1"), "checkpoint.files: must be a non-negative integer in range");
  EXPECT_EQ(broken("\"path\":\"./smollm3-tiny\",", ""), "checkpoint: has no \"path\"");
  EXPECT_EQ(broken("weightproof.report/1", "weightproof.report/2"), "schema: must be \"weightproof.report/1\"");
  EXPECT_EQ(broken("\"environment\":{}", "\"environment\":[]"), "environment: must be an object");
}

TEST(Document, ComparablePartLeavesOutWhatVaries) {
  Report a = sample::full();
  Report b = sample::full();
  b.run.start = "2027-01-01T00:00:00Z";
  b.run.duration_s = 1.5;
  b.environment["cpu"] = "another";
  b.timing.total_s = 3;
  b.memory.set("vm_hwm", 7, "VmHWM");
  b.checkpoint.path = "/elsewhere";
  for (CheckRecord& check : b.checks) {
    if (check.id == "mem.peak") {
      check.message = "another figure";
    }
  }
  EXPECT_EQ(comparable_digest(a), comparable_digest(b));
  EXPECT_NE(emit_json(a), emit_json(b));
  b.checks.front().status = Status::fail;
  EXPECT_NE(comparable_digest(a), comparable_digest(b));
}

TEST(Schema, EmittedReportsAreValid) {
  SKIP_WITHOUT_VALIDATOR();
  for (const Report& report : {sample::full(), sample::passing(), sample::hostile(), sample::large(300)}) {
    const auto [status, said] = validate("report", emit_json(report));
    EXPECT_EQ(status, 0) << said;
  }
  Report empty;
  finish(empty);
  const auto [status, said] = validate("report", emit_json(empty));
  EXPECT_EQ(status, 0) << said;
}

TEST(Schema, PlantedFaultsAreRefused) {
  SKIP_WITHOUT_VALIDATOR();
  const Value good = to_value(sample::full());
  const auto refused = [&](const std::function<void(Value&)>& plant) {
    Value bad = good;
    plant(bad);
    return validate("report", to_json(bad)).first;
  };
  EXPECT_EQ(refused([](Value&) {}), 0);
  EXPECT_EQ(refused([](Value& v) { v["verdict"] = "pass"; }), 1) << "verdict must follow the summary";
  EXPECT_EQ(refused([](Value& v) { v["checks"].if_array()->front()["status"] = "passed"; }), 1);
  EXPECT_EQ(refused([](Value& v) { v["checks"].if_array()->front()["mesage"] = "typo"; }), 1);
  EXPECT_EQ(refused([](Value& v) { v["memory"]["figures"].if_object()->erase("rss_anon"); }), 1);
  EXPECT_EQ(refused([](Value& v) { v["memory"]["figures"]["rss_anon"].if_object()->erase("why"); }), 1)
      << "null needs its reason";
  EXPECT_EQ(refused([](Value& v) { v["memory"]["figures"]["vm_hwm"].if_object()->erase("method"); }), 1)
      << "a figure needs its method";
  EXPECT_EQ(refused([](Value& v) { v["summary"]["fail"] = "6"; }), 1);
  EXPECT_EQ(refused([](Value& v) { v["checkpoint"]["bytes"] = "66407086720"; }), 1) << "integers are numbers";
  EXPECT_EQ(refused([](Value& v) { v["findings"].if_array()->front()["fingerprint"] = "xyz"; }), 1);
  EXPECT_EQ(refused([](Value& v) { v["timing"]["phases"].if_array()->clear(); }), 1);
  EXPECT_EQ(refused([](Value& v) { v.if_object()->erase("run"); }), 1);
}

TEST(Schema, ErrorsAreValidAndOtherDocumentsHaveTeeth) {
  SKIP_WITHOUT_VALIDATOR();
  ErrorRecord error;
  error.code = "SHARD_MISSING";
  error.message = "a shard is missing";
  error.keys = {"a.weight"};
  EXPECT_EQ(validate("error", to_json(to_value(error))).first, 0);
  error.code = "shard missing";
  EXPECT_EQ(validate("error", to_json(to_value(error))).first, 1);
  const std::string sha(64, 'a');
  const std::string xxh(32, 'b');
  const auto manifest = [&](const std::string& digest) {
    return validate(
               "manifest",
               R"({"schema":"weightproof.manifest/1","layout":"hf","dtype":"stored","tensors":{"w":{"dtype":"BF16","shape":[2,3],"sha256":")" +
                   digest + R"(","xxh3":")" + xxh + "\"}}}")
        .first;
  };
  EXPECT_EQ(manifest(sha), 0);
  EXPECT_EQ(manifest(sha + "0"), 1);
  const std::string diff =
      R"({"schema":"weightproof.diff/1","verdict":"fail","only_in_a":[],"only_in_b":["x"],"tensors":[{"key":"w","status":"different","max_ulp":3,"max_abs":0.5,"max_rel":"NaN","differing":1,"elements":6,"first_difference":{"index":[0,1]},"explanation":"transposed"}]})";
  EXPECT_EQ(validate("diff", diff).first, 0);
  EXPECT_EQ(validate("diff", std::string(diff).replace(diff.find("different\""), 9, "unequal..")).first, 1);
  const std::string bench =
      R"({"schema":"weightproof.bench/1","cases":[{"name":"n","baseline":"plain read","ratios":[1.1,1.0],"median":1.05,"range":[1.0,1.1]}]})";
  EXPECT_EQ(validate("bench", bench).first, 0);
  EXPECT_EQ(validate("bench", std::string(bench).replace(bench.find("[1.1,1.0]"), 9, "[]       ")).first, 1);
  Value inspect;
  inspect["schema"] = "weightproof.inspect/1";
  inspect["checkpoint"] = *to_value(sample::passing()).find("checkpoint");
  inspect["problems"] = *to_value(sample::full()).find("checks");
  EXPECT_EQ(validate("inspect", to_json(inspect)).first, 0);
  inspect["checkpoint"]["tied"] = "yes";
  EXPECT_EQ(validate("inspect", to_json(inspect)).first, 1);
  Value load;
  load["schema"] = "weightproof.load/1";
  for (const char* name : {"checkpoint", "memory", "timing"}) {
    load[name] = *to_value(sample::full()).find(name);
  }
  load["planned"] = Value::object({{"bytes", 5}});
  load["measured"] = Value::object({{"bytes_requested", 5}, {"bytes_read", 5}, {"opens", 1}});
  load["digest"] = Value();
  EXPECT_EQ(validate("load", to_json(load)).first, 0) << validate("load", to_json(load)).second;
  load["measured"].if_object()->erase("opens");
  EXPECT_EQ(validate("load", to_json(load)).first, 1);
  Value plan;
  plan["schema"] = "weightproof.plan/1";
  plan["checkpoint"] = *to_value(sample::full()).find("checkpoint");
  plan["coverage"] = *to_value(sample::full()).find("plan")->find("coverage");
  plan["predicted_peak"] = Value::object({{"host", 5}});
  plan["amplification"] = 1.0;
  plan["ranks"].push_back(
      Value::object({{"rank", 0}, {"bytes_read", 9}, {"bytes_wanted", 8}, {"ranges", 2}, {"amplification", 1.125}}));
  plan["tensors"].push_back(
      Value::object({{"key", "w"}, {"route", "direct"}, {"reason", "contiguous"}, {"stored_bytes", 9}}));
  EXPECT_EQ(validate("plan", to_json(plan)).first, 0) << validate("plan", to_json(plan)).second;
  plan["tensors"].if_array()->front()["route"] = "teleported";
  EXPECT_EQ(validate("plan", to_json(plan)).first, 1);
}

TEST(Rules, AreUniqueAndKnownGroups) {
  std::set<std::string_view> ids;
  for (const Rule& rule : rules()) {
    EXPECT_TRUE(ids.insert(rule.id).second) << rule.id;
    EXPECT_LT(group_order(group_of(rule.id)), 13) << rule.id;
    EXPECT_FALSE(rule.title.empty());
    EXPECT_FALSE(rule.description.empty());
  }
  EXPECT_EQ(find_rule("keys.missing")->title, "Key missing");
  EXPECT_EQ(find_rule("keys.mising"), nullptr);
}

}  // namespace
}  // namespace weightproof::reports
