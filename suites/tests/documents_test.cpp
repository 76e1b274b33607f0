// SPDX-License-Identifier: Apache-2.0
// Manual page and completions say what the tables of verbs and options say, and the shells understand them.
#include <algorithm>

#include "loader/core/check.hpp"
#include "suites/cli/documents.hpp"
#include "suites/cli/options.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// The text between two marks, so that an option is looked for where its verb is described.
std::string_view section(std::string_view text, std::string_view begin, std::string_view end) {
  const std::size_t from = text.find(begin);
  if (from == std::string_view::npos) {
    return {};
  }
  const std::string_view rest = text.substr(from + begin.size());
  return rest.substr(0, rest.find(end));
}

std::string as_roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '-' ? std::string("\\-") : std::string(1, c);
  }
  return out;
}

bool have(const std::string& program) {
  return run_program({"/bin/sh", "-c", "command -v " + program}, {"PATH=/usr/local/bin:/usr/bin:/bin"}).status == 0;
}

TEST(Documents, EveryVerbAndOptionIsInEachOfThem) {
  const std::string man = cli::manual_page();
  const std::string bash = cli::bash_completion();
  const std::string zsh = cli::zsh_completion();
  const std::string fish = cli::fish_completion();
  for (const cli::VerbSpec& verb : cli::all_verbs()) {
    const std::string name(verb.name);
    const std::string_view in_man = section(man, "\n.SS " + name + "\n", "\n.S");
    const std::string_view in_bash = section(bash, "\n    " + name + ")\n", "\n      ;;");
    const std::string_view in_zsh = section(zsh, "\n    " + name + ")\n", "\n      ;;");
    for (const std::string_view place : {in_man, in_bash, in_zsh}) {
      EXPECT_FALSE(place.empty()) << name;
    }
    EXPECT_TRUE(contains(fish, " -a " + name + " -d ")) << name;
    for (const cli::OptionSpec& option : cli::all_options()) {
      const std::string word(option.name);
      const bool belongs = option.belongs_to(verb.name);
      EXPECT_EQ(contains(in_man, "\\fB" + as_roff(word) + "\\fR"), belongs) << name << ' ' << word;
      EXPECT_EQ(contains(std::string(section(in_bash, "options='", "'")) + ' ', ' ' + word + ' '), belongs)
          << name << ' ' << word;
      EXPECT_EQ(contains(in_zsh, word + "["), belongs) << name << ' ' << word;
      const bool in_fish =
          contains(fish, "from " + name + "\" -l " + word.substr(2) + ' ') ||
          contains(fish, "from " + name + "\" -s " + std::string(1, option.short_name) + " -l " + word.substr(2) + ' ');
      EXPECT_EQ(in_fish, belongs) << name << ' ' << word;
    }
  }
  for (const cli::OptionSpec& option : cli::all_options()) {
    EXPECT_EQ(contains(man, "\\fB" + option.environment_name() + "\\fR"), option.has_environment) << option.name;
    for (const std::string_view choice : cli::choices_of(option)) {
      for (const std::string_view text : {std::string_view(bash), std::string_view(zsh), std::string_view(fish)}) {
        EXPECT_TRUE(contains(text, choice)) << option.name << ' ' << choice;
      }
    }
  }
}

TEST(Documents, TheCommandPrintsThem) {
  for (const cli::GeneratedDocument& document : cli::generated_documents()) {
    const ProcessResult printed = run_tool({"--generate", std::string(document.name)});
    EXPECT_EQ(printed.status, 0) << printed.err;
    EXPECT_EQ(printed.out, document.make()) << document.name;
  }
}

class Bash : public testing::Test {
 protected:
  // What the shell would offer for these words, the last of them being typed.
  std::string complete(const std::string& words) {
    const std::filesystem::path script = directory_ / "weightproof.bash";
    write_file(script, cli::bash_completion());
    const ProcessResult done = run_program({"/bin/bash", "-c",
                                            "source '" + script.string() + "'; COMP_WORDS=(weightproof " + words +
                                                "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _weightproof; "
                                                "printf '%s\\n' \"${COMPREPLY[@]}\""},
                                           {"PATH=/usr/bin:/bin"});
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_EQ(done.err, "");
    return done.out;
  }
  TemporaryDirectory directory_;
};

TEST_F(Bash, CompletesVerbsOptionsAndValues) {
  EXPECT_EQ(complete("verif"), "verify\n");
  EXPECT_EQ(complete("verify x --keys"), "--keys-only\n");
  EXPECT_EQ(complete("explain --keys"), "\n") << "an option of another verb";
  EXPECT_EQ(complete("verify --color al"), "always\n");
  EXPECT_EQ(complete("explain keys.miss"), "keys.missing\n");
  EXPECT_EQ(complete("explain SHARD_MISS"), "SHARD_MISSING\n");
  EXPECT_EQ(complete("report com"), "compare\n");
  EXPECT_EQ(complete("verify --threads ''"), "\n") << "a number is nobody's guess";
  const std::string checks = complete("explain ''");
  for (const CheckInfo& check : all_checks()) {
    EXPECT_TRUE(contains('\n' + checks, '\n' + std::string(check.id) + '\n')) << check.id;
  }
}

TEST_F(Bash, ZshReadsItsOwn) {
  if (!have("zsh")) {
    GTEST_SKIP() << "zsh is not installed";
  }
  write_file(directory_ / "_weightproof", cli::zsh_completion());
  const ProcessResult read =
      run_program({"/usr/bin/env", "zsh", "-n", (directory_ / "_weightproof").string()}, {"PATH=/usr/bin:/bin"});
  EXPECT_EQ(read.status, 0) << read.err;
}

TEST_F(Bash, FishReadsItsOwn) {
  if (!have("fish")) {
    GTEST_SKIP() << "fish is not installed";
  }
  write_file(directory_ / "weightproof.fish", cli::fish_completion());
  const ProcessResult read = run_program(
      {"/usr/bin/env", "fish", "--no-config", "-c",
       "source " + (directory_ / "weightproof.fish").string() + "; complete -C 'weightproof verify --keys'"},
      {"PATH=/usr/bin:/bin", "HOME=" + directory_.path().string()});
  EXPECT_EQ(read.status, 0) << read.err;
  EXPECT_TRUE(contains(read.out, "--keys-only")) << read.out;
}

TEST(Documents, TheManualPageHasNoMistakes) {
  if (!have("groff")) {
    GTEST_SKIP() << "groff is not installed";
  }
  const TemporaryDirectory directory;
  const std::filesystem::path page = directory / "weightproof.1";
  write_file(page, cli::manual_page());
  const ProcessResult read = run_program({"/usr/bin/env", "groff", "-man", "-ww", "-Tascii", "-P-cbou", page.string()},
                                         {"PATH=/usr/bin:/bin"});
  EXPECT_EQ(read.status, 0);
  EXPECT_EQ(read.err, "");
  EXPECT_TRUE(contains(read.out, "WEIGHTPROOF_KEYS_ONLY")) << "the page is empty";
}

}  // namespace
}  // namespace weightproof::suites::test
