// SPDX-License-Identifier: Apache-2.0
// What somebody new reads: help that is about the verb it stands under, explanations in plain words, remarks that do
// not send anyone in circles.
#include <algorithm>

#include "fixtures/corrupt.hpp"
#include "fixtures/generate.hpp"
#include "reports/json.hpp"
#include "reports/rules.hpp"
#include "suites/cli/options.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/mutants/mutant.hpp"
#include "suites/tests/cli_testing.hpp"

namespace weightproof::suites::test {
namespace {

std::string help_of(const std::string& option, const std::string& verb) {
  for (const cli::OptionSpec& row : cli::all_options()) {
    if (row.name == option) {
      return std::string(row.help_of(verb));
    }
  }
  return {};
}

std::string first_lines(const std::string& text, std::size_t count) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < count && end != std::string::npos; ++i) {
    end = text.find('\n', end + (i == 0 ? 0 : 1));
  }
  return text.substr(0, end);
}

TEST(Words, HelpIsAboutTheVerbItStandsUnder) {
  for (const char* verb : {"plan", "export", "diff", "manifest", "load", "verify"}) {
    EXPECT_FALSE(contains(help_of("--include", verb), "judge")) << verb;
  }
  EXPECT_FALSE(contains(help_of("--list", "judge"), "presets"));
  EXPECT_TRUE(contains(help_of("--list", "judge"), "cases"));
  EXPECT_FALSE(contains(help_of("--list", "fixture"), "cases"));
  EXPECT_FALSE(contains(help_of("--out", "fixture"), "manifest"));
  EXPECT_TRUE(contains(help_of("--out", "manifest"), "file"));
  EXPECT_TRUE(contains(help_of("--out", "export"), ".safetensors"));
  // No text names another verb that has the option, but where it sends one there.
  for (const cli::OptionSpec& option : cli::all_options()) {
    for (const cli::VerbSpec& verb : cli::all_verbs()) {
      if (!option.belongs_to(verb.name)) {
        continue;
      }
      const std::string text(option.help_of(verb.name));
      EXPECT_FALSE(text.empty()) << option.name;
      EXPECT_FALSE(contains(text, "||")) << option.name;
      for (const cli::VerbSpec& other : cli::all_verbs()) {
        const std::string name(other.name);
        const bool is_told = contains(text, "under " + name + " ") || contains(text, "for " + name + " ") ||
                             contains(text, name + " takes") || contains(text, name + " default");
        EXPECT_FALSE(other.name != verb.name && option.belongs_to(other.name) && is_told)
            << verb.name << ' ' << option.name << ": " << text;
      }
    }
  }
  EXPECT_TRUE(contains(run_tool({"--generate", "man"}).out, "Under judge: list the cases")) << "the manual has all";
}

TEST(Words, SelftestListsTheKindsAndSaysNothingOfInputsThatDidNotRun) {
  const std::string help = help_of("--kind", "selftest");
  for (const MutantList& list : mutant_lists()) {
    EXPECT_TRUE(contains(help, list.kind)) << list.kind << ": " << help;
  }
  const ProcessResult run = run_tool({"selftest", "--kind", "file", "--only", "file.dropped_norm*"});
  EXPECT_FALSE(contains(run.out, "in 0 sound inputs")) << run.out;
  EXPECT_TRUE(contains(run.out, "no sound input was selected")) << run.out;
}

TEST(Words, ExplainBeginsInPlainWords) {
  const ProcessResult check = run_tool({"explain", "keys.missing"});
  EXPECT_EQ(
      first_lines(check.out, 2),
      "keys.missing: Key missing\nA tensor that the model requires, by its configuration, is not in the checkpoint.");
  const ProcessResult error = run_tool({"explain", "SHARD_MISSING"});
  EXPECT_EQ(first_lines(error.out, 1), "SHARD_MISSING: an error code");
  // The rule in the specification's words comes after what it means, why it matters and how to mend it.
  EXPECT_LT(check.out.find("how to mend it"), check.out.find("\nrule\n")) << check.out;
  for (const reports::Rule& rule : reports::rules()) {
    const ProcessResult page = run_tool({"explain", std::string(rule.id)});
    if (page.status == 0) {
      EXPECT_EQ(first_lines(page.out, 1), std::string(rule.id) + ": " + std::string(rule.title));
    }
  }
}

// The command just typed is no next step.
TEST(Words, NextIsAnotherCommand) {
  const TemporaryDirectory directory;
  const std::string broken = (directory / "broken").string();
  EXPECT_EQ(run_tool({"fixture", "llama", "--break", "dropped_norm", "--out", broken, "--quiet"}).status, 0);
  const ProcessResult alone = run_tool({"verify", broken});
  const std::size_t next = alone.out.find("\nnext  ");
  ASSERT_NE(next, std::string::npos) << alone.out;
  EXPECT_TRUE(contains(alone.out.substr(next), "weightproof explain keys.missing")) << alone.out;
  EXPECT_FALSE(contains(alone.out.substr(next), "weightproof verify")) << alone.out.substr(next);
  const ProcessResult judged = run_tool({"judge", "--case", "llama/tiny/state/*", "--", "/bin/false"});
  EXPECT_FALSE(contains(judged.out.substr(judged.out.find("\nnext  ")), "weightproof judge")) << judged.out;
  const ProcessResult more = run_tool({"judge", "--case", "llama/tiny/*", "--", "/bin/false"});
  EXPECT_TRUE(contains(more.out.substr(more.out.find("\nnext  ")), "judge --case 'llama/tiny/")) << more.out;
}

// One blank line between paragraphs, none before the first and behind the last; --quiet leaves closing remarks out.
TEST(Words, NoStrayBlankLinesAndNoRemarksWhenQuiet) {
  const TemporaryDirectory directory;
  const std::string broken = (directory / "broken").string();
  ASSERT_EQ(run_tool({"fixture", "llama", "--break", "dropped_norm", "--out", broken, "-q"}).status, 0);
  const std::string sound = (directory / "sound").string();
  ASSERT_EQ(run_tool({"fixture", "llama", "--out", sound, "-q"}).status, 0);
  std::vector<std::vector<std::string>> commands = {
      {"verify", broken},
      {"verify", sound},
      {"verify", sound, "--keys-only"},
      {"verify", sound, "--topology", "tp=2"},
      {"inspect", broken, "--tensors"},
      {"plan", sound},
      {"load", sound},
      {"diff", broken, sound},
      {"selftest", "--kind", "file", "--only", "file.dropped_norm*"},
      {"judge", "--case", "llama/tiny/*", "--", "/bin/false"},
      {"explain"},
      {"adapters", "show", "llama"},
      {"fixture", "--list"},
      {"doctor"},
  };
  for (const cli::VerbSpec& verb : cli::all_verbs()) {
    commands.push_back({std::string(verb.name), "--help"});
    commands.push_back({std::string(verb.name), "-h"});
  }
  for (const std::vector<std::string>& words : commands) {
    std::vector<std::string> quiet = words;
    quiet.insert(quiet.begin() + 1, "--quiet");
    for (const auto& each : {words, quiet}) {
      const std::string out = run_tool(each).out;
      EXPECT_FALSE(out.starts_with("\n") || contains(out, "\n\n\n") || out.ends_with("\n\n"))
          << testing::PrintToString(each) << '\n'
          << out;
    }
    const std::string out = run_tool(quiet).out;
    EXPECT_FALSE(contains(out, "\nnext")) << out;
  }
  EXPECT_FALSE(contains(run_tool({"export", sound, "--out", (directory / "copy").string(), "-q"}).out, "read back"));
  EXPECT_EQ(run_tool({"selftest", "--kind", "file", "--only", "file.dropped_norm*", "-q"}).out,
            "PASS  the checks against planted faults and sound inputs\n");
  // One of each is one.
  EXPECT_TRUE(contains(run_tool({"plan", sound}).out, " in 1 request of 1 file, ")) << run_tool({"plan", sound}).out;
  EXPECT_TRUE(contains(run_tool({"load", sound, "--route", "materialized"}).out, " tensor by tensor, 1 file opened"));
  EXPECT_TRUE(contains(run_tool({"load", broken}).err, "1 required key is missing: 'model.layers."));
}

// What a check says first and what it adds are two sentences.
TEST(Words, SentencesDoNotRunTogether) {
  const TemporaryDirectory directory;
  const std::string broken = (directory / "broken").string();
  ASSERT_EQ(run_tool({"fixture", "--break", "renamed_key", "--out", broken, "-q"}).status, 0);
  const reports::Report report = reports::read_json(run_tool({"verify", broken, "--json"}).out);
  ASSERT_FALSE(report.findings.empty());
  const std::string& said = report.findings.front().explanation;
  EXPECT_TRUE(contains(said, "post_attention_layernorm.weight. Perhaps the same under another name: ")) << said;
}

TEST(Words, TopologyHelpSaysWhatElseIsWanted) {
  for (const char* flag : {"--help", "-h"}) {
    const std::string help = run_tool({"plan", flag}).out;
    const std::size_t at = help.find("--topology tp=2");
    ASSERT_NE(at, std::string::npos) << help;
    EXPECT_TRUE(contains(help.substr(at, 400), "--rank or --all-ranks")) << flag;
  }
  EXPECT_TRUE(contains(help_of("--topology", "load"), "--rank"));
  const std::string verify = help_of("--topology", "verify");
  EXPECT_TRUE(contains(verify, "every rank")) << verify;
  EXPECT_FALSE(contains(verify, "--rank")) << "which it does not have";
}

class RankWords : public testing::Test {
 protected:
  RankWords() { fixtures::generate({}, directory_ / "model"); }
  std::string model() const { return (directory_ / "model").string(); }
  TemporaryDirectory directory_;
};

TEST_F(RankWords, VerifySaysWhichRanksItLoaded) {
  const ProcessResult result = run_tool({"verify", model(), "--topology", "tp=2,fsdp=2"});
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_TRUE(contains(result.out, "each of the 4 ranks of tp=2,fsdp=2 was planned and loaded")) << result.out;
  EXPECT_FALSE(contains(run_tool({"verify", model()}).out, "ranks of ")) << "nobody asked";
}

TEST_F(RankWords, AnIllegalTopologyIsExplainedAlikeAndInHeads) {
  VerifyOptions options;
  options.topology = "tp=3";
  const reports::CheckRecord record = record_of(verify(model(), options), "shard.topology");
  EXPECT_EQ(record.status, reports::Status::fail);
  EXPECT_TRUE(contains(record.message, "3 tensor parallel ranks cannot share 4 heads of ")) << record.message;
  EXPECT_TRUE(contains(record.hint, "choose a tp that divides 4")) << record.hint;
  for (const char* verb : {"plan", "load"}) {
    const ProcessResult refused = run_tool({verb, model(), "--topology", "tp=3", "--rank", "0"});
    EXPECT_EQ(refused.status, 3);
    EXPECT_TRUE(contains(refused.err, record.message + "; " + record.hint)) << refused.err << record.message;
  }
}

TEST_F(RankWords, LoadWritesWhatARankHolds) {
  const std::string out = (directory_ / "rank").string();
  const ProcessResult result =
      run_tool({"load", model(), "--topology", "tp=2", "--rank", "1", "--emit", out, "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "\"rank\": 1")) << result.out;
  const std::string verdict = validate("weightproof.load-1", result.out);
  EXPECT_TRUE(verdict.empty() || verdict == "skipped") << verdict;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(out)) {
    files += entry.path().extension() == ".json" ? 1U : 0U;
  }
  EXPECT_EQ(files, 1U) << "config.json alone: no layout leads back out of a part";
  EXPECT_TRUE(contains(read_file(std::filesystem::path(out) / "model.safetensors").substr(0, 4096),
                       "\"weightproof.rank\":\"1\""));
  EXPECT_EQ(run_tool({"load", model(), "--topology", "tp=2"}).status, 2) << "of which rank?";
  EXPECT_EQ(run_tool({"load", model(), "--rank", "0"}).status, 2) << "of what?";
  EXPECT_EQ(run_tool({"load", model(), "--topology", "tp=2", "--rank", "2"}).status, 2) << "outside";
}

// A part of one rank is no checkpoint of the family, nor is native state: both say what they are.
TEST_F(RankWords, APartSaysWhatItIs) {
  for (const bool is_file : {false, true}) {
    const std::string out = (directory_ / (is_file ? "part.safetensors" : "part")).string();
    ASSERT_EQ(
        run_tool({"load", model(), "--topology", "tp=2,pp=2", "--stages", "0-0,1-2", "--rank", "3", "--emit", out})
            .status,
        0);
    const std::string header =
        read_file(is_file ? std::filesystem::path(out) : std::filesystem::path(out) / "model.safetensors")
            .substr(0, 4096);
    for (const char* mark :
         {"\"weightproof.layout\":\"native\"", "\"weightproof.topology\":\"pp=2,dp=1,fsdp=1,cp=1,tp=2,ep=1\"",
          "\"weightproof.rank\":\"3\"", "\"weightproof.ranks\":\"4\"", "\"weightproof.stages\":\"0-0,1-2\""}) {
      EXPECT_TRUE(contains(header, mark)) << mark << header.substr(0, 1024);
    }
    const ProcessResult judged = run_tool({"verify", out});
    EXPECT_EQ(judged.status, 0) << judged.out;
    EXPECT_FALSE(contains(judged.out, "Key missing")) << judged.out;
    const reports::Report report = reports::read_json(run_tool({"verify", out, "--json"}).out);
    EXPECT_EQ(findings_of(report), std::vector<std::string>{});
    const std::string said = record_of(report, "keys.family").explanation;
    EXPECT_TRUE(contains(said, "native state of family llama: what rank 3 of pp=2,dp=1,fsdp=1,cp=1,tp=2,ep=1 holds"))
        << said;
    EXPECT_TRUE(contains(said, "`weightproof verify SOURCE --topology pp=2,tp=2`")) << said;
    EXPECT_EQ(report.checkpoint.family, "llama");
    EXPECT_EQ(report.checkpoint.form, "native layout, rank 3 of pp=2,dp=1,fsdp=1,cp=1,tp=2,ep=1");
    EXPECT_EQ(record_of(report, "keys.missing").status, reports::Status::skip);
    EXPECT_TRUE(contains(run_tool({"inspect", out}).out, "rank 3 of "));
    const ProcessResult back = run_tool({"export", out, "--out", (directory_ / "back").string()});
    EXPECT_EQ(back.status, 2) << back.err;
    EXPECT_TRUE(contains(back.err,
                         "there is no way back to the stored files out of a part: this is native state of family "
                         "llama: what rank 3 of "))
        << back.err;
  }
  const std::string whole = (directory_ / "native").string();
  ASSERT_EQ(run_tool({"load", model(), "--emit", whole}).status, 0);
  const reports::Report report = reports::read_json(run_tool({"verify", whole, "--json"}).out);
  EXPECT_EQ(findings_of(report), std::vector<std::string>{});
  EXPECT_TRUE(
      contains(record_of(report, "keys.family").explanation, "`weightproof export` makes the stored tensors again"));
  // What is wrong with values is found in it as in any other file.
  const auto path = std::filesystem::path(whole) / "model.safetensors";
  std::string bytes = read_file(path);
  bytes[bytes.size() - 2] = static_cast<char>(0xc0);
  bytes[bytes.size() - 1] = 0x7f;
  write_file(path, bytes);
  const reports::Report broken = reports::read_json(run_tool({"verify", whole, "--json"}).out);
  EXPECT_EQ(findings_of(broken), std::vector<std::string>{"value.nonfinite fail"});
}

// What --break writes is what the same command writes without it, but for the fault.
TEST(FixtureTwin, DiffersByTheFaultAlone) {
  const TemporaryDirectory directory;
  const auto make = [&](const char* name, std::vector<std::string> words) {
    words.insert(words.begin(), {"fixture", "llama", "--preset", "small"});
    words.insert(words.end(), {"--out", (directory / name).string()});
    const ProcessResult result = run_tool(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  make("whole", {});
  const std::string said = make("broken", {"--break", "dropped_norm"});
  EXPECT_TRUE(contains(said, "whole twin: weightproof fixture llama --preset small --out DIR")) << said;
  for (const char* name : {"whole", "broken"}) {
    run_tool({"verify", (directory / name).string(), "--quiet", "--report",
              (directory / (std::string(name) + "-report")).string()});
  }
  const ProcessResult compared = run_tool({"report", "compare", (directory / "whole-report/report.json").string(),
                                           (directory / "broken-report/report.json").string()});
  EXPECT_EQ(compared.status, 1);
  std::size_t changed = 0;
  for (std::size_t at = compared.out.find("\n  "); at != std::string::npos; at = compared.out.find("\n  ", at + 1)) {
    ++changed;
  }
  EXPECT_LE(changed, 4U) << compared.out;
  EXPECT_TRUE(contains(compared.out, "model.layers.0.post_attention_layernorm.weight")) << compared.out;
  // A fault of shards has shards, and so has its twin.
  const std::string sharded = make("shards", {"--break", "missing_shard"});
  EXPECT_TRUE(contains(sharded, "--shards 3 --out DIR")) << sharded;
  make("twin", {"--shards", "3"});
  std::size_t equal = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory / "shards")) {
    const std::string name = entry.path().filename().string();
    equal += read_file(entry.path()) == read_file(directory / "twin" / name) ? 1U : 0U;
  }
  EXPECT_GE(equal, 3U) << "two shards and the config at least";
}

// In one file, too, each fault of tensors is noticed by its check under the right name.
TEST(FixtureTwin, FaultsOfTensorsShowInASingleFile) {
  std::size_t seen = 0;
  for (const fixtures::CorruptionOperator& fault : fixtures::corruption_operators()) {
    if (fault.needs_twin || fixtures::needs_shards(fault)) {
      continue;
    }
    ++seen;
    const TemporaryDirectory directory;
    fixtures::GenerateOptions options = fixtures::clean_twin(fault);
    options.corrupt = std::string(fault.name);
    options.shard_count = 1;
    const auto made = fixtures::generate(options, directory / "broken");
    const reports::Report report = verify(directory / "broken", VerifyOptions{});
    const auto found =
        std::find_if(report.checks.begin(), report.checks.end(), [&](const reports::CheckRecord& record) {
          const bool is_note =
              fault.status == "note" && record.status == reports::Status::pass && !record.explanation.empty();
          return record.id == fault.check && (is_note || to_string(record.status) == fault.status) &&
                 std::any_of(made.subjects.begin(), made.subjects.end(),
                             [&](const std::string& s) { return names(record, s); });
        });
    EXPECT_NE(found, report.checks.end()) << fault.name << " under " << fault.check;
  }
  EXPECT_GT(seen, 50U);
}

}  // namespace
}  // namespace weightproof::suites::test
