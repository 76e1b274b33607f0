// SPDX-License-Identifier: Apache-2.0
// What hints, explanations and help say of options: each of them exists, under the verb that is named with it, and does
// what the help says of environment variables.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <regex>

#include "suites/cli/options.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/tests/cli_testing.hpp"

namespace weightproof::suites::test {
namespace {

namespace fs = std::filesystem;

const cli::OptionSpec* find_option(std::string_view name) {
  const auto all = cli::all_options();
  const auto found = std::find_if(all.begin(), all.end(), [name](const auto& row) { return row.name == name; });
  return found == all.end() ? nullptr : &*found;
}

struct Literal {
  std::string text;
  std::size_t line = 0;
};

// The string literals of a source, those that follow one another as one.
std::vector<Literal> literals_of(const std::string& source) {
  std::vector<Literal> out;
  std::size_t line = 1;
  bool is_joined = false;
  for (std::size_t at = 0; at < source.size(); ++at) {
    const char c = source[at];
    if (c == '\n') {
      ++line;
    } else if (source.compare(at, 2, "//") == 0) {
      at = std::min(source.find('\n', at), source.size()) - 1;
    } else if (c == '\'' && at + 2 < source.size() && (source[at + 2] == '\'' || source[at + 1] == '\\')) {
      at = source.find('\'', at + 2);
      is_joined = false;
    } else if (c == '"') {
      if (!is_joined) {
        out.push_back({"", line});
      }
      for (++at; at < source.size() && source[at] != '"'; ++at) {
        const bool is_escape = source[at] == '\\';
        at += is_escape ? 1U : 0U;
        out.back().text += is_escape && source[at] == 'n' ? '\n' : source[at];
      }
      is_joined = true;
    } else if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      is_joined = false;
    }
  }
  return out;
}

struct Mention {
  std::string verb;  ///< named with it: "`inspect --tensors`", "verify with --keys-only"; or empty
  std::string option;
};

const std::regex& mention_pattern() {
  static const std::regex pattern = [] {
    std::string verbs;
    for (const cli::VerbSpec& verb : cli::all_verbs()) {
      verbs += (verbs.empty() ? "" : "|") + std::string(verb.name);
    }
    return std::regex("(?:\\b(" + verbs + ")(?: [A-Z./]+| it| with)* )?(--[a-z][a-z-]*)");
  }();
  return pattern;
}

std::vector<Mention> mentions_in(const std::string& text) {
  std::vector<Mention> out;
  if (text.find("--") == std::string::npos) {
    return out;
  }
  std::ptrdiff_t last = -2;
  for (std::sregex_iterator at(text.begin(), text.end(), mention_pattern()), end; at != end; ++at) {
    const auto begin = static_cast<std::size_t>(at->position(2));
    // Right behind an option stands its value, not a verb.
    const bool has_verb = (*at)[1].matched && at->position(1) != last + 1;
    last = at->position(0) + at->length(0);
    const char before = begin == 0 ? ' ' : text[begin - 1];
    if (std::isalnum(static_cast<unsigned char>(before)) != 0 || before == '-') {
      continue;
    }
    out.push_back({has_verb ? (*at)[1].str() : std::string(), (*at)[2].str()});
  }
  return out;
}

TEST(Hints, ReadingThem) {
  const auto read = literals_of("f(\"a\" \"b\",  // \"no\"\n '\"', \"c \\\"d\\\"\");");
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].text, "ab");
  EXPECT_EQ(read[1].text, "c \"d\"");
  EXPECT_EQ(read[1].line, 2U);
  const auto found = mentions_in(
      "use `weightproof inspect --tensors`, or verify with --keys-only; --out DIR-x--y; --report report --keep");
  ASSERT_EQ(found.size(), 5U);
  EXPECT_EQ(found[3].verb + found[3].option + ' ' + found[4].verb + found[4].option, "--report --keep");
  EXPECT_EQ(found[0].verb + found[0].option, "inspect--tensors");
  EXPECT_EQ(found[1].verb + found[1].option, "verify--keys-only");
  EXPECT_EQ(found[2].verb + found[2].option, "--out");
}

// Every text of the program that names an option names one that there is, under the verb that it names; what rooms say
// that every reading verb runs through is true under all of these verbs, or names one.
TEST(Hints, NameOptionsThatExist) {
  const std::vector<std::string> everywhere = {"--help", "--version", "--generate"};
  const std::vector<std::string_view> reading = {"verify", "plan", "load", "export", "diff", "manifest"};
  std::size_t seen = 0;
  for (const char* room : {"loader", "adapters", "fixtures", "reports", "suites"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(WEIGHTPROOF_SOURCE_DIR) / room)) {
      const std::string path = entry.path().string();
      const std::string suffix = entry.path().extension().string();
      if ((suffix != ".cpp" && suffix != ".hpp" && suffix != ".def") || contains(path, "/tests/") ||
          contains(path, "/bench/") || contains(path, "/page/")) {
        continue;
      }
      const bool is_shared = contains(path, "/loader/storage/") || contains(path, "/adapters/");
      for (const Literal& literal : literals_of(read_file(entry.path()))) {
        if (literal.text.starts_with("--") && literal.text.find(' ') == std::string::npos) {
          continue;  // the name itself, as the table and whoever asks it write it
        }
        for (const Mention& mention : mentions_in(literal.text)) {
          ++seen;
          if (std::find(everywhere.begin(), everywhere.end(), mention.option) != everywhere.end()) {
            continue;
          }
          const cli::OptionSpec* option = find_option(mention.option);
          const std::string where = path + ':' + std::to_string(literal.line) + ": " + literal.text;
          ASSERT_NE(option, nullptr) << mention.option << " in " << where;
          if (!mention.verb.empty()) {
            EXPECT_TRUE(option->belongs_to(mention.verb)) << mention.verb << ' ' << mention.option << " in " << where;
          } else if (is_shared) {
            for (const std::string_view verb : reading) {
              // Where the option was given the verb has it; plan alone describes other storages of experts.
              const bool is_of_one = mention.option == "--keys-only" || mention.option == "--expert-storage";
              EXPECT_TRUE(is_of_one || option->belongs_to(verb)) << verb << ' ' << mention.option << " in " << where;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(seen, 100U);
}

// --option in an explanation is one of the verb that reports the check.
TEST(Hints, PagesNameOptionsThatExist) {
  const ProcessResult list = run_tool({"explain", "--json"});
  for (const auto& row : list.out.empty() ? std::vector<Mention>{} : mentions_in(list.out)) {
    EXPECT_NE(find_option(row.option), nullptr) << row.option;
  }
  EXPECT_EQ(list.status, 0);
}

TEST(Hints, AnOptionIsMirroredByTheEnvironmentOrSaysNot) {
  const std::string help = run_tool({"--help"}).out;
  const std::size_t typed = help.find("Typed each time");
  ASSERT_NE(typed, std::string::npos) << help;
  for (const cli::OptionSpec& option : cli::all_options()) {
    const std::string name(option.name);
    std::string words = help.substr(typed + 16);
    std::replace(words.begin(), words.end(), '\n', ' ');
    const bool is_listed = contains(words, ' ' + name + ',') || contains(words, ' ' + name + '.');
    EXPECT_EQ(is_listed, !option.has_environment) << name;
    std::string value = option.kind == cli::OptionKind::flag ? "1" : "3";
    if (const auto choices = cli::choices_of(option); !choices.empty()) {
      value = choices.front();
    }
    for (const cli::VerbSpec& verb : cli::all_verbs()) {
      ::setenv(option.environment_name().c_str(), value.c_str(), 1);
      const cli::Arguments arguments = cli::parse_arguments(verb.name, {});
      ::unsetenv(option.environment_name().c_str());
      EXPECT_EQ(arguments.has(name), option.has_environment && option.belongs_to(verb.name))
          << verb.name << ' ' << name;
    }
  }
}

TEST(Hints, ShortHelpIsWholeSentences) {
  for (const cli::VerbSpec& verb : cli::all_verbs()) {
    const std::string brief = run_tool({std::string(verb.name), "-h"}).out;
    for (const auto& [open, close] : {std::pair('(', ')'), std::pair('[', ']')}) {
      EXPECT_EQ(std::count(brief.begin(), brief.end(), open), std::count(brief.begin(), brief.end(), close))
          << verb.name << '\n'
          << brief;
    }
    EXPECT_EQ(std::count(brief.begin(), brief.end(), '`') % 2, 0) << verb.name << '\n' << brief;
  }
}

}  // namespace
}  // namespace weightproof::suites::test
