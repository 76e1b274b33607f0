// SPDX-License-Identifier: Apache-2.0
// The command as a person or a script meets it: a process with arguments, streams and an exit status.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "fixtures/generate.hpp"
#include "loader/core/config.hpp"
#include "suites/cli/options.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/tests/cli_testing.hpp"

namespace weightproof::suites::test {
namespace {

TEST(Cli, HelpIsTheSnapshot) {
  const ProcessResult result = run_tool({"--help"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
  const std::filesystem::path golden = std::filesystem::path(WEIGHTPROOF_SOURCE_DIR) / "suites/tests/golden/help.txt";
  if (std::getenv("WEIGHTPROOF_UPDATE_SNAPSHOTS") != nullptr) {
    write_file(golden, result.out);
  }
  EXPECT_EQ(result.out, read_file(golden)) << "WEIGHTPROOF_UPDATE_SNAPSHOTS=1 writes it anew";
}

TEST(Cli, EveryVerbHasHelpWithExamplesFirst) {
  for (const cli::VerbSpec& verb : cli::all_verbs()) {
    const ProcessResult full = run_tool({std::string(verb.name), "--help"});
    EXPECT_EQ(full.status, 0) << verb.name;
    EXPECT_LT(full.out.find("Examples:"), full.out.find("Usage:")) << verb.name;
    for (const cli::OptionSpec* option : cli::options_of(verb.name)) {
      EXPECT_TRUE(contains(full.out, std::string(option->name))) << verb.name << " " << option->name;
      EXPECT_EQ(contains(full.out, option->environment_name() + "]"), option->has_environment) << option->name;
    }
    const ProcessResult brief = run_tool({std::string(verb.name), "-h"});
    EXPECT_EQ(brief.status, 0);
    EXPECT_LT(brief.out.size(), full.out.size());
    EXPECT_LE(std::count(brief.out.begin(), brief.out.end(), '\n'), 60) << verb.name << " -h does not fit a screen";
  }
}

TEST(Cli, AMisspeltTopologyIsAMistakeOfTheCommand) {
  const TemporaryDirectory directory;
  fixtures::generate({}, directory / "model");
  for (const char* verb : {"verify", "plan"}) {
    const ProcessResult spelt = run_tool({verb, (directory / "model").string(), "--topology", "xx=2"});
    EXPECT_EQ(spelt.status, 2) << verb;
    EXPECT_TRUE(contains(spelt.err, "'xx=2' is no size of pp, dp, fsdp, cp, tp or ep")) << verb << spelt.err;
    EXPECT_TRUE(contains(spelt.err, "write it like tp=2,ep=4")) << verb << spelt.err;
    EXPECT_EQ(run_tool({verb, (directory / "model").string(), "--stages", "0-1"}).status, 2) << verb;
  }
}

TEST(Cli, OptionsBelongToVerbsThatExist) {
  for (const cli::OptionSpec& option : cli::all_options()) {
    bool is_used = false;
    for (const cli::VerbSpec& verb : cli::all_verbs()) {
      is_used = is_used || option.belongs_to(verb.name);
    }
    EXPECT_TRUE(is_used) << option.name;
    std::string_view verbs = option.verbs;
    while (!verbs.empty()) {
      const std::size_t end = verbs.find(' ');
      EXPECT_NE(cli::find_verb(verbs.substr(0, end)), nullptr) << option.name << ": " << verbs;
      verbs.remove_prefix(end == std::string_view::npos ? verbs.size() : end + 1);
    }
  }
}

TEST(Cli, VersionOnEveryVerb) {
  EXPECT_EQ(run_tool({"--version"}).out, "weightproof " WEIGHTPROOF_VERSION "\n");
  EXPECT_EQ(run_tool({"verify", "--version"}).out, "weightproof " WEIGHTPROOF_VERSION "\n");
}

struct UsageCase {
  std::vector<std::string> words;
  std::string hint;
};

TEST(Cli, UsageErrorsAreTwoAndNameTheRemedy) {
  const std::vector<UsageCase> cases = {
      {{"verfy", "x"}, "did you mean verify?"},
      {{"frobnicate"}, "`weightproof --help` lists the verbs"},
      {{"verify", "x", "--keysonly"}, "did you mean --keys-only?"},
      {{"verify", "x", "--thread", "2"}, "did you mean --threads?"},
      {{"explain", "keys.missing", "--keys-only"}, "--keys-only belongs to: "},
      {{"verify", "x", "--zzzzzzzzzzzz"}, "`weightproof verify --help` lists the options"},
      {{"verify"}, "weightproof verify CHECKPOINT"},
      {{"verify", "a", "b"}, "'b' is one argument too many"},
      {{"verify", "x", "--threads", "many"}, "give a non-negative whole number"},
      {{"verify", "x", "--threads"}, "`weightproof verify --help`"},
      {{"verify", "x", "--threads", "1", "--threads", "2"}, "give it once"},
      {{"verify", "x", "--color", "allways"}, "did you mean always?"},
      {{"fixture", "llama", "--out", "x", "--shard-size", "5 bananas"}, "sizes are written 4096, 64MiB or 5GB"},
      {{"fixture", "lama", "--out", "x"}, "did you mean llama?"},
      {{"fixture", "llama"}, "give --out DIR"},
      {{"fixture", "--break", "trncated", "--out", "x"}, "did you mean truncated?"},
      {{"explain", "keys.mising"}, "did you mean keys.missing?"},
      {{"adapters", "show", "lama"}, "llama"},
      {{"adapters", "frob"}, "weightproof adapters list"},
      {{"report", "compare", "x"}, "weightproof report compare BASE/report.json HEAD/report.json"},
      {{"report", "frob", "x"}, "with compare, merge or trend before the paths"},
      {{"verify", "x", "--report", "r", "--format", "githb"}, "did you mean github?"},
      {{"verify", "x", "--format", "github"}, "give --report DIR too"},
      {{"--generate", "pdf"}, "it can be man, bash, zsh or fish"},
  };
  for (const UsageCase& usage : cases) {
    const ProcessResult result = run_tool(usage.words);
    EXPECT_EQ(result.status, 2) << usage.words.front() << ": " << result.err;
    EXPECT_TRUE(contains(result.err, usage.hint)) << result.err;
    EXPECT_TRUE(contains(result.err, "USAGE: ")) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST(Cli, ErrorsAreOneJsonDocumentWithJson) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"verify", "--json", "/nonexistent-checkpoint"},
                                             {"inspect", "/nonexistent-checkpoint", "-j"},
                                             {"verify", "x", "--json", "--frob"}}) {
    const ProcessResult result = run_tool(words);
    const ConfigValue document = ConfigValue::parse(result.out, "stdout");
    ASSERT_NE(document.find("code"), nullptr) << result.out;
    EXPECT_EQ(result.status, *document.find("code")->as_string() == "USAGE" ? 2 : 3);
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
    const std::string verdict = validate("weightproof.error-1", result.out);
    EXPECT_TRUE(verdict.empty() || verdict == "skipped") << verdict;
  }
}

TEST(Cli, AMissingPathIsThreeForEveryVerbThatReadsOne) {
  for (const char* verb : {"verify", "inspect", "report"}) {
    const ProcessResult result = run_tool({verb, "/nonexistent-checkpoint"});
    EXPECT_EQ(result.status, 3) << verb << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST(Cli, EnvironmentMirrorsOptions) {
  const TemporaryDirectory directory;
  const std::string path = sound_file(directory / "sound.safetensors");
  const ProcessResult json = run_tool({"verify", path}, {"WEIGHTPROOF_JSON=1"});
  EXPECT_EQ(json.out.front(), '{');
  EXPECT_EQ(run_tool({"verify", path}, {"WEIGHTPROOF_JSON=0"}).out.front(), 'P');
  EXPECT_EQ(run_tool({"verify", path}, {"WEIGHTPROOF_JSON=perhaps"}).status, 2);
  EXPECT_EQ(run_tool({"verify", path}, {"WEIGHTPROOF_THREADS=x"}).status, 2);
  // The command line wins.
  EXPECT_EQ(run_tool({"verify", path, "--threads", "1"}, {"WEIGHTPROOF_THREADS=x"}).status, 0);
}

TEST(Cli, ColourFollowsTheOptionThenNoColor) {
  const TemporaryDirectory directory;
  const std::string path = sound_file(directory / "sound.safetensors");
  const auto has_escape = [&](const std::vector<std::string>& more, const std::vector<std::string>& environment) {
    std::vector<std::string> words = {"inspect", path};
    words.insert(words.end(), more.begin(), more.end());
    return contains(run_tool(words, environment).out, "\x1b[");
  };
  EXPECT_FALSE(has_escape({}, {}));
  EXPECT_TRUE(has_escape({"--color", "always"}, {}));
  EXPECT_TRUE(has_escape({"--color", "always"}, {"NO_COLOR=1"}));
  EXPECT_TRUE(has_escape({}, {"CLICOLOR_FORCE=1"}));
  EXPECT_FALSE(has_escape({}, {"CLICOLOR_FORCE=1", "NO_COLOR=1"}));
  EXPECT_FALSE(has_escape({"--color", "never"}, {"CLICOLOR_FORCE=1"}));
}

// Work is counted in bytes, in ranks or in cases: progress says what share of it is done.
TEST(Cli, ProgressIsAShare) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(::grantpt(terminal), 0);
  ASSERT_EQ(::unlockpt(terminal), 0);
  const std::string name = ::ptsname(terminal);
  const int other = ::open(name.c_str(), O_RDWR | O_NOCTTY);  // kept, so that the terminal outlives the command
  const ProcessResult result =
      run_program({"/bin/sh", "-c",
                   "TERM=xterm exec " + shell_word(std::string(WEIGHTPROOF_BINARY_DIR) + "/bin/weightproof") +
                       " judge --case 'llama/tiny/*' --case 'quantized/a*' -- /bin/sleep 0.15 2>" + name},
                  {});
  ::fcntl(terminal, F_SETFL, O_NONBLOCK);
  std::string drawn;
  std::array<char, 4096> buffer{};
  for (ssize_t got = ::read(terminal, buffer.data(), buffer.size()); got > 0;
       got = ::read(terminal, buffer.data(), buffer.size())) {
    drawn.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(other);
  ::close(terminal);
  EXPECT_TRUE(contains(drawn, "judging llama/tiny/") && contains(drawn, " %")) << drawn << result.err;
  EXPECT_FALSE(contains(drawn, " B") || contains(drawn, " of ")) << drawn;
}

TEST(Cli, AReaderThatLeavesIsNoError) {
  const ProcessResult result = run_tool({"explain"}, {}, Stdout::closed_pipe);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
}

TEST(Cli, AFullDeviceIsAnError) {
  const ProcessResult result = run_tool({"explain"}, {}, Stdout::full_device);
  EXPECT_EQ(result.status, 3);
  EXPECT_TRUE(contains(result.err, "IO_ERROR: cannot write to standard output")) << result.err;
}

TEST(Cli, HostileNamesReachNoTerminal) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "hostile.safetensors";
  write_safetensors(path, R"({"\u001b[31mred\u202e\u200b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x");
  const ProcessResult result = run_tool({"inspect", path.string(), "--tensors"});
  EXPECT_EQ(result.status, 0);
  EXPECT_FALSE(contains(result.out, "\x1b"));
  EXPECT_TRUE(contains(result.out, "\\u{001B}[31mred\\u{202E}\\u{200B}")) << result.out;
  const ProcessResult json = run_tool({"inspect", path.string(), "--tensors", "--json"});
  EXPECT_EQ(ConfigValue::parse(json.out, "stdout").find("tensors")->items().front().find("key")->as_string(),
            "\x1b[31mred\u202e\u200b");
}

TEST(Cli, InspectDescribesAndValidates) {
  const TemporaryDirectory directory;
  const std::string path = sound_file(directory / "sound.safetensors");
  const ProcessResult text = run_tool({"inspect", path, "--tensors"});
  EXPECT_EQ(text.status, 0);
  EXPECT_TRUE(contains(text.out, "a  F32 [2,2]  16 B at ")) << text.out;
  const ProcessResult json = run_tool({"inspect", path, "--tensors", "--json"});
  const std::string verdict = validate("weightproof.inspect-1", json.out);
  EXPECT_TRUE(verdict.empty() || verdict == "skipped") << verdict;
  const ConfigValue document = ConfigValue::parse(json.out, "stdout");
  EXPECT_EQ(document.find("checkpoint.tensors")->as_integer(), 1);
  EXPECT_EQ(document.find("checkpoint.dtypes.F32")->as_integer(), 1);
}

TEST(Cli, InspectIsZeroAlsoWithProblems) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "short.safetensors";
  write_safetensors(path, R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", "x");
  const ProcessResult result = run_tool({"inspect", path.string()});
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(contains(result.out, "fail format.truncated")) << result.out;
  EXPECT_EQ(run_tool({"verify", path.string()}).status, 1);
}

TEST(Cli, VerifyWritesTheReport) {
  const TemporaryDirectory directory;
  const std::string path = sound_file(directory / "sound.safetensors");
  const std::filesystem::path report = directory / "report";
  const ProcessResult result = run_tool({"verify", path, "--report", report.string()});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  for (const char* name : {"report.json", "report.md", "junit.xml", "report.html"}) {
    EXPECT_TRUE(std::filesystem::exists(report / name)) << name;
  }
  const std::string verdict = validate("weightproof.report-1", read_file(report / "report.json"));
  EXPECT_TRUE(verdict.empty() || verdict == "skipped") << verdict;
  // The same documents come out of report.json again.
  const std::filesystem::path again = directory / "again";
  EXPECT_EQ(run_tool({"report", (report / "report.json").string(), "--out", again.string()}).status, 0);
  EXPECT_EQ(read_file(again / "report.json"), read_file(report / "report.json"));
  EXPECT_EQ(read_file(again / "report.md"), read_file(report / "report.md"));
}

TEST(Cli, DoctorAndListsValidateAsJson) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"doctor"},
                                                                                     {"explain"},
                                                                                     {"explain", "keys.missing"},
                                                                                     {"explain", "InvalidHeader"},
                                                                                     {"adapters", "list"},
                                                                                     {"adapters", "show", "llama"},
                                                                                     {"fixture", "--list"}}) {
    const ProcessResult text = run_tool(words);
    EXPECT_EQ(text.status, 0) << text.err;
    EXPECT_FALSE(text.out.empty());
    std::vector<std::string> with_json = words;
    with_json.push_back("--json");
    const ProcessResult json = run_tool(with_json);
    EXPECT_EQ(json.status, 0);
    EXPECT_NE(ConfigValue::parse(json.out, "stdout").find("schema"), nullptr);
  }
}

TEST(Cli, AdaptersShowsEveryFamily) {
  const ProcessResult list = run_tool({"adapters", "list", "--json"});
  const ConfigValue document = ConfigValue::parse(list.out, "stdout");
  for (const ConfigValue& family : document.find("families")->items()) {
    const std::string name(*family.find("name")->as_string());
    const ProcessResult shown = run_tool({"adapters", "show", name});
    EXPECT_EQ(shown.status, 0) << name << ": " << shown.err;
    EXPECT_TRUE(contains(shown.out, "stored")) << name;
  }
}

TEST(Cli, FixtureIsDeterministic) {
  const TemporaryDirectory directory;
  for (const char* name : {"one", "two"}) {
    EXPECT_EQ(run_tool({"fixture", "llama", "--out", (directory / name).string(), "--seed", "7"}).status, 0);
  }
  EXPECT_EQ(read_file(directory / "one/model.safetensors"), read_file(directory / "two/model.safetensors"));
  EXPECT_EQ(run_tool({"fixture", "llama", "--out", (directory / "one").string()}).status, 2);
  EXPECT_EQ(run_tool({"verify", (directory / "one").string(), "--strict"}).status, 0);
}

TEST(Cli, FixtureWritesQuantizedCases) {
  const ProcessResult list = run_tool({"fixture", "--list", "--json"});
  const ConfigValue document = ConfigValue::parse(list.out, "stdout");
  std::set<std::string> schemes;
  for (const ConfigValue& row : document.find("quantized")->items()) {
    schemes.emplace(*row.find("scheme")->as_string());
  }
  for (const char* scheme : {"fp8_block", "mxfp4_blocks", "nvfp4_ct", "awq", "gptq", "bnb4"}) {
    EXPECT_EQ(schemes.count(scheme), 1U) << scheme;
    EXPECT_TRUE(contains(run_tool({"fixture", "--list"}).out, scheme)) << scheme;
  }
  const TemporaryDirectory directory;
  const std::string sound = (directory / "sound").string();
  const ProcessResult made = run_tool({"fixture", "quantized", "--preset", "awq", "--out", sound, "--json"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(ConfigValue::parse(made.out, "stdout").find("tensors")->as_integer(), 3);
  EXPECT_EQ(run_tool({"verify", sound}).status, 0);
  // A case that has to be refused says by whom; a fault of one is planted like any other.
  std::string refused;
  for (const ConfigValue& row : document.find("quantized")->items()) {
    refused = *row.find("status")->as_string() == "fail" ? *row.find("name")->as_string() : refused;
  }
  ASSERT_FALSE(refused.empty());
  const std::string faulty = (directory / "faulty").string();
  const ProcessResult broken = run_tool({"fixture", "quantized", "--preset", refused, "--out", faulty});
  EXPECT_TRUE(contains(broken.out, "must report")) << broken.out;
  EXPECT_EQ(run_tool({"verify", faulty}).status, 1);
  const std::string lanes = (directory / "lanes").string();
  EXPECT_EQ(run_tool({"fixture", "--break", "lanes_in_order", "--out", lanes}).status, 0);
  EXPECT_EQ(run_tool({"verify", lanes, "--against", sound}).status, 1);
  EXPECT_EQ(run_tool({"fixture", "quantized", "--out", (directory / "which").string()}).status, 2);
  EXPECT_EQ(run_tool({"fixture", "quantized", "--preset", "awq", "--tie", "tied", "--out", sound}).status, 2);
}

TEST(Cli, PositionalsAfterTheMarkMayBeginWithADash) {
  EXPECT_EQ(run_tool({"verify", "--", "-x"}).status, 3);
  EXPECT_EQ(run_tool({"verify", "-x"}).status, 2);
}

}  // namespace
}  // namespace weightproof::suites::test
