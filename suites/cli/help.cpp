// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "suites/cli/verbs.hpp"

namespace weightproof::suites::cli {
namespace {

constexpr std::size_t k_width = 96;

// Wraps `text` at `k_width` with `indent` blanks before every line but the first.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t first_column) {
  std::string out;
  std::size_t column = first_column;
  bool is_line_start = true;
  while (!text.empty()) {
    const std::size_t end = text.find(' ');
    const std::string_view word = text.substr(0, end);
    if (!is_line_start && column + 1 + word.size() > k_width) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
      is_line_start = true;
    }
    if (!is_line_start) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    is_line_start = false;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out;
}

// A screen has room for what an option does, not for its fine print: the text up to the first semicolon outside of
// brackets.
std::string_view brief(std::string_view help) {
  int depth = 0;
  for (std::size_t i = 0; i < help.size(); ++i) {
    depth += help[i] == '(' ? 1 : help[i] == ')' ? -1 : 0;
    if (depth == 0 && help.substr(i).starts_with("; ")) {
      return help.substr(0, i);
    }
  }
  return help;
}

std::string row(const std::string& left, std::string_view right, std::size_t left_width) {
  std::string out = "  " + left;
  const std::size_t indent = left_width + 4;
  if (left.size() > left_width) {
    out += '\n';
    out.append(indent, ' ');
  } else {
    out.append(indent - out.size(), ' ');
  }
  return out + wrapped(right, indent, indent) + '\n';
}

std::string form_of(const OptionSpec& option) {
  std::string out = option.short_name == 0 ? "    " : std::string("-") + option.short_name + ", ";
  out += option.name;
  if (option.kind != OptionKind::flag) {
    out += ' ';
    out += option.value;
  }
  return out;
}

std::string examples_of(const VerbSpec& verb) {
  std::string out;
  std::string_view rest = verb.examples;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    const std::size_t mark = line.find("  #");
    if (mark == std::string_view::npos) {
      out += "  " + std::string(line) + '\n';
    } else {
      out += row(std::string(line.substr(0, mark)), line.substr(mark + 4), 48);
    }
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return out;
}

}  // namespace

std::string help_text() {
  std::string out =
      "weightproof proves that model checkpoints load, convert and export correctly.\n\n"
      "Examples:\n";
  out += row("weightproof verify ./model", "judge a checkpoint", 48);
  out += row("weightproof verify ./model --report report", "the same, with pages to read and to archive", 48);
  out += row("weightproof inspect ./model", "what is in it", 48);
  out += row("weightproof explain keys.missing", "what a finding means and how to mend it", 48);
  out += "\nUsage: weightproof VERB [PATH] [options]\n\nVerbs:\n";
  for (const VerbSpec& verb : all_verbs()) {
    out += row(std::string(verb.name), verb.summary, 12);
  }
  out += "\nOptions:\n";
  out += row("-h, --help", "this text; after a verb, the help of that verb", 12);
  out += row("    --version", "the version", 16);
  out += row("    --generate KIND", "man page or completions: man, bash, zsh, fish", 20);
  out += "\nExit status: 0 done and no check failed, 1 a check failed, 2 usage, 3 it could not be done.\n";
  std::string typed;
  for (const OptionSpec& option : all_options()) {
    if (!option.has_environment) {
      typed += (typed.empty() ? "" : ", ") + std::string(option.name);
    }
  }
  out += "Options can be given as environment variables too: --keys-only is WEIGHTPROOF_KEYS_ONLY=1.\n";
  out += wrapped("Typed each time, since they say what is made and where it goes: " + typed + ".", 0, 0) + '\n';
  return out;
}

std::string help_text(const VerbSpec& verb, bool full) {
  std::string out = std::string(verb.name) + ": " + std::string(verb.summary) + "\n\nExamples:\n" + examples_of(verb);
  out += "\nUsage: weightproof " + std::string(verb.name);
  if (!verb.form.empty()) {
    out += ' ' + std::string(verb.form);
  }
  out += " [options]\n";
  if (full && !verb.details.empty()) {
    out += '\n' + wrapped(verb.details, 0, 0) + '\n';
  }
  const auto options = options_of(verb.name);
  std::size_t width = 0;
  for (const OptionSpec* option : options) {
    width = std::max(width, form_of(*option).size());
  }
  width = std::min<std::size_t>(width, 32);
  std::vector<std::string_view> groups;
  for (const OptionSpec* option : options) {
    if (std::find(groups.begin(), groups.end(), option->group) == groups.end()) {
      groups.push_back(option->group);
    }
  }
  for (const std::string_view group : groups) {
    out += '\n' + std::string(group) + ":\n";
    for (const OptionSpec* option : options) {
      if (option->group != group) {
        continue;
      }
      const std::string_view help = option->help_of(verb.name);
      std::string text(full ? help : brief(help));
      if (full && option->has_environment) {
        text += " [" + option->environment_name() + "]";
      }
      out += row(form_of(*option), text, width);
    }
  }
  if (full) {
    out += "\nExit status: 0 done and no check failed, 1 a check failed, 2 usage, 3 it could not be done.\n";
  } else {
    out += "\n`weightproof " + std::string(verb.name) + " --help` says more.\n";
  }
  return out;
}

}  // namespace weightproof::suites::cli
