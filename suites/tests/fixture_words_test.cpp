// SPDX-License-Identifier: Apache-2.0
// fixture as somebody uses it who does not know which fault goes with which family: what can be planted is, what cannot
// is refused with what it can be planted in, and nothing is left behind.
#include <algorithm>
#include <set>

#include "fixtures/corrupt.hpp"
#include "fixtures/generate.hpp"
#include "fixtures/quantized.hpp"
#include "fixtures/schema.hpp"
#include "suites/tests/cli_testing.hpp"

namespace weightproof::suites::test {
namespace {

namespace fs = std::filesystem;
using fixtures::CorruptionOperator;

bool is_there(const fs::path& path) { return fs::symlink_status(path).type() != fs::file_type::not_found; }

// A fault that is planted in a checkpoint of `family`, without a preset but for quantized cases.
std::vector<std::string> words_for(const CorruptionOperator& fault, const std::string& checkpoint) {
  const std::size_t blank = checkpoint.find(' ');
  std::vector<std::string> words = {"fixture", checkpoint.substr(0, blank)};
  if (blank != std::string::npos) {
    words.insert(words.end(), {"--preset", checkpoint.substr(blank + 1)});
  }
  words.insert(words.end(), {"--break", std::string(fault.name)});
  return words;
}

std::vector<const CorruptionOperator*> all_faults() {
  std::vector<const CorruptionOperator*> out;
  for (const CorruptionOperator& fault : fixtures::corruption_operators()) {
    out.push_back(&fault);
  }
  return out;
}

// Made in files as the command makes it, and verified: beside its twin where it shows there alone.
void expect_noticed(const CorruptionOperator& fault, const std::string& checkpoint,
                    const TemporaryDirectory& directory) {
  const std::size_t blank = checkpoint.find(' ');
  fixtures::GenerateOptions options = fixtures::clean_twin(
      fault, checkpoint.substr(0, blank), blank == std::string::npos ? std::string() : checkpoint.substr(blank + 1));
  options.shard_count = fixtures::needs_shards(fault) ? options.shard_count : 1;
  VerifyOptions verified;
  if (fault.needs_twin) {
    fixtures::generate(options, directory / "twin");
    verified.against = (directory / "twin").string();
  }
  options.corrupt = fault.name;
  const auto made = fixtures::generate(options, directory / "broken");
  const reports::Report report = verify(directory / "broken", verified);
  const bool is_found =
      std::any_of(report.checks.begin(), report.checks.end(), [&](const reports::CheckRecord& record) {
        const bool is_note = record.status == reports::Status::pass && !record.explanation.empty();
        const bool is_named = made.subjects.empty() || fault.status == "skip" ||
                              std::any_of(made.subjects.begin(), made.subjects.end(),
                                          [&](const std::string& s) { return names(record, s); });
        return record.id == fault.check && is_named &&
               (fault.status == "note" ? is_note : to_string(record.status) == fault.status);
      });
  std::string said;
  for (const std::string& finding : findings_of(report)) {
    said += finding + ", ";
  }
  EXPECT_TRUE(is_found) << fault.name << " in " << checkpoint << " under " << fault.check << ": "
                        << testing::PrintToString(made.subjects) << ", found " << said;
  for (const char* name : {"twin", "broken"}) {
    fs::remove_all(directory / name);
  }
}

std::vector<std::string> all_checkpoints() {
  std::vector<std::string> out = fixtures::families();
  for (const fixtures::QuantizedCase& row : fixtures::quantized_cases()) {
    if (row.check.empty()) {
      out.push_back(std::string(fixtures::k_quantized_family) + ' ' + std::string(row.name));
    }
  }
  return out;
}

// Of every family and quantized case: a fault is planted and noticed by its check under the right name, or it is
// refused with what it can be planted in.
class FixtureFault : public testing::TestWithParam<const CorruptionOperator*> {};

TEST_P(FixtureFault, IsNoticedWhereItIsPlantedAndRefusedElsewhere) {
  const CorruptionOperator& fault = *GetParam();
  const TemporaryDirectory directory;
  const std::vector<std::string> found = fixtures::checkpoints_for(fault, directory / "scratch");
  EXPECT_FALSE(is_there(directory / "scratch"));
  const fixtures::GenerateOptions own = fixtures::clean_twin(fault);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.front().substr(0, found.front().find(' ')), own.family);
  bool is_refused = false;
  for (const std::string& checkpoint : all_checkpoints()) {
    if (std::find(found.begin(), found.end(), checkpoint) != found.end()) {
      expect_noticed(fault, checkpoint, directory);
    } else if (!is_refused) {
      is_refused = true;  // one of them through the command
      std::vector<std::string> words = words_for(fault, checkpoint);
      words.insert(words.end(), {"--out", (directory / "made/here").string()});
      const ProcessResult result = run_tool(words);
      EXPECT_EQ(result.status, 2) << checkpoint << result.out << result.err;
      EXPECT_TRUE(
          contains(result.err, "USAGE: " + std::string(fault.name) + " cannot be planted in " + checkpoint + ": "))
          << result.err;
      EXPECT_TRUE(contains(result.err, "it can be planted in " + found.front())) << result.err;
      EXPECT_TRUE(contains(result.err, "; without a family it makes " + own.family + ' ' + own.preset)) << result.err;
      EXPECT_EQ(result.out, "");
      EXPECT_FALSE(is_there(directory / "made")) << checkpoint;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FixtureFault, testing::ValuesIn(all_faults()),
                         [](const auto& row) { return std::string(row.param->name); });

TEST(FixtureFaults, WhatIsAskedForBesidesMayBeInTheWay) {
  const TemporaryDirectory directory;
  const std::string out = (directory / "out").string();
  struct Row {
    std::vector<std::string> words;
    std::string said;
  };
  for (const Row& row : std::vector<Row>{
           {{"llama", "--break", "missing_shard", "--shards", "1"}, "leave out --shards 1, or some of it: in llama"},
           {{"llama", "--break", "mantissa_bit", "--weights", "F32"}, "leave out --weights F32"},
           {{"quantized", "--break", "nan_value"}, "nan_value cannot be planted in quantized: "},
           {{"quantized", "--break", "truncated"}, "which of the quantized cases is not said"},
           {{"gpt_oss", "--break", "lanes_in_order"}, "lanes_in_order cannot be planted in gpt_oss: "},
           {{"llama", "--break", "nibbles_swapped"}, "it can be planted in gpt_oss"},
           {{"quantized", "--preset", "awq", "--break", "nan_value"}, "it can be planted in llama"},
           {{"identity", "--tie", "stored"}, "identity tiny cannot be made so: identity cannot store a tied head"},
           {{"llama", "--weights", "F7"}, "unknown dtype 'F7'"},
       }) {
    std::vector<std::string> words = {"fixture"};
    words.insert(words.end(), row.words.begin(), row.words.end());
    words.insert(words.end(), {"--out", out});
    const ProcessResult result = run_tool(words);
    EXPECT_EQ(result.status, 2) << row.said << result.out << result.err;
    EXPECT_TRUE(contains(result.err, row.said)) << result.err;
    EXPECT_FALSE(contains(result.err, "INTERNAL") || contains(result.err, "preset 'awq'")) << result.err;
    EXPECT_TRUE(fs::is_empty(directory.path())) << row.said;
  }
}

// What shows beside the whole twin alone says so, with commands that show it.
TEST(FixtureFaults, ThoseThatNeedATwinSayHow) {
  std::set<std::string> seen;
  const std::string list = run_tool({"fixture", "--list"}).out;
  for (const CorruptionOperator& fault : fixtures::corruption_operators()) {
    const std::string name(fault.name);
    EXPECT_EQ(contains(line_after(list, "  " + name + " "), ", by `verify --against TWIN` alone"), fault.needs_twin)
        << name;
    if (!fault.needs_twin) {
      continue;
    }
    seen.insert(name);
    const TemporaryDirectory directory;
    const std::string broken = (directory / "it's broken").string();
    const ProcessResult made = run_tool({"fixture", "--break", name, "--out", broken});
    ASSERT_EQ(made.status, 0) << made.err;
    EXPECT_TRUE(contains(made.out, ", which shows beside the whole twin alone\n")) << made.out;
    EXPECT_EQ(run_tool({"verify", broken}).status, 0) << name;
    const std::string twin = line_after(made.out, "whole twin: ");
    const std::string next = line_after(made.out, "next: ");
    EXPECT_TRUE(contains(next, " --against ")) << next;
    EXPECT_EQ(run_typed(twin).status, 0) << twin;
    const ProcessResult shown = run_typed(next);
    EXPECT_EQ(shown.status, 1) << next << shown.out << shown.err;
    EXPECT_TRUE(contains(shown.out, std::string(fault.check))) << name << shown.out;
    const std::string subject = line_after(made.out, " must report ");
    EXPECT_TRUE(contains(shown.out, subject.substr(0, subject.find(',')))) << name << shown.out;
  }
  EXPECT_EQ(seen, (std::set<std::string>{"lanes_in_order", "mantissa_bit", "nibbles_swapped", "state_narrowed",
                                         "swapped_norms"}));
}

// The directory appears whole: beside what was there, in an empty one, or not at all.
TEST(FixtureTarget, IsMadeWholeOrNotAtAll) {
  const TemporaryDirectory directory;
  const auto names = [](const fs::path& place) {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(place)) {
      out.insert(entry.path().filename().string());
    }
    return out;
  };
  const std::set<std::string> files = {"config.json", "model.safetensors"};
  for (const std::string place : {"new", "deep/down/new", "slash/", "empty"}) {
    const fs::path path = directory / place;
    if (place == "empty") {
      fs::create_directory(path);
    }
    EXPECT_EQ(run_tool({"fixture", "llama", "--out", path.string()}).status, 0) << place;
    EXPECT_EQ(names(path), files) << place;
  }
  EXPECT_EQ(names(directory.path()), (std::set<std::string>{"new", "deep", "slash", "empty"}));
  fs::create_directory(directory / "here");
  EXPECT_EQ(
      run_typed("cd " + shell_word((directory / "here").string()) + " && weightproof fixture llama --out .").status, 0);
  EXPECT_EQ(names(directory / "here"), files);
  write_file(directory / "file", "mine");
  const ProcessResult file = run_tool({"fixture", "llama", "--out", (directory / "file").string()});
  EXPECT_EQ(file.status, 2);
  EXPECT_TRUE(contains(file.err, (directory / "file").string() + " is no directory")) << file.err;
  const ProcessResult again = run_tool({"fixture", "llama", "--out", (directory / "here").string()});
  EXPECT_EQ(again.status, 2);
  EXPECT_TRUE(contains(again.err, "there is something in " + (directory / "here").string() + " already")) << again.err;
  EXPECT_EQ(names(directory / "here"), files);
}

// More than the disk has: told with both sizes before a byte is written.
TEST(FixtureTarget, SaysWhatItTakesBeforeItWrites) {
  const TemporaryDirectory directory;
  const std::vector<std::string> words = {"fixture",  "llama",
                                          "--preset", "full",
                                          "--set",    "hidden_size=2097152",
                                          "--out",    (directory / "above/out").string()};
  const ProcessResult result = run_tool(words);
  EXPECT_EQ(result.status, 3) << result.out << result.err;
  EXPECT_TRUE(contains(result.err, "writing ") && contains(result.err, " TiB in ")) << result.err;
  EXPECT_TRUE(contains(result.err, "; --sparse BYTES would leave holes")) << result.err;
  EXPECT_TRUE(contains(result.err, "IO_ERROR: " + (directory / "above/out").string() + " would take ")) << result.err;
  EXPECT_TRUE(contains(result.err, " are free there")) << result.err;
  EXPECT_TRUE(fs::is_empty(directory.path()));
  // Of a small one nothing is told.
  EXPECT_EQ(run_tool({"fixture", "llama", "--out", (directory / "small").string()}).err, "");
}

}  // namespace
}  // namespace weightproof::suites::test
