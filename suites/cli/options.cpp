// SPDX-License-Identifier: Apache-2.0
#include "suites/cli/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>

#include "loader/core/error.hpp"
#include "suites/support/shell.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {
namespace {

constexpr std::array k_options = {
#define X(name, short_name, kind, value, verbs, group, has_environment, help) \
  OptionSpec{name, short_name, OptionKind::kind, value, verbs, group, has_environment, help},
#include "suites/cli/options.def"
#undef X
};

[[noreturn]] void usage_error(std::string message, std::string hint) {
  ErrorFacts facts;
  facts.hint = std::move(hint);
  throw Error(ErrorCode::usage, std::move(message), std::move(facts));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

std::string joined(std::span<const std::string_view> parts, std::string_view separator) {
  std::string out;
  for (const std::string_view part : parts) {
    if (!out.empty()) {
      out += separator;
    }
    out += part;
  }
  return out;
}

void check_choice(const OptionSpec& option, std::string_view value, const std::string& shown_name) {
  const auto choices = choices_of(option);
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) {
    return;
  }
  const std::string_view near = nearest(value, choices);
  usage_error(shown_name + " cannot be '" + printable(value) + "'",
              near.empty() ? "it can be one of " + joined(choices, ", ") : "did you mean " + std::string(near) + "?");
}

void check_value(const OptionSpec& option, const std::string& value, const std::string& shown_name) {
  switch (option.kind) {
    case OptionKind::count:
      if (!parse_count(value)) {
        usage_error(shown_name + " wants a number, not '" + printable(value) + "'", "give a non-negative whole number");
      }
      return;
    case OptionKind::number:
      if (!parse_number(value)) {
        usage_error(shown_name + " wants a number, not '" + printable(value) + "'",
                    "give one that is not negative, as in 1e-5");
      }
      return;
    case OptionKind::bytes:
      if (!parse_bytes(value)) {
        usage_error(shown_name + " wants a size, not '" + printable(value) + "'",
                    "sizes are written 4096, 64MiB or 5GB");
      }
      return;
    case OptionKind::choice:
      check_choice(option, value, shown_name);
      return;
    case OptionKind::choices:
      for (const std::string_view word : split(value, ',')) {
        check_choice(option, word, shown_name);
      }
      return;
    case OptionKind::text:
    case OptionKind::texts:
    case OptionKind::path:
      if (value.empty()) {
        usage_error(shown_name + " wants a value",
                    "give one, as in " + std::string(option.name) + " " + std::string(option.value));
      }
      return;
    case OptionKind::flag:
      return;
  }
}

// Unknown option: name the nearest one of this verb, or the verbs that have it.
[[noreturn]] void unknown_option(std::string_view verb, std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  std::vector<std::string_view> candidates = {"--help", "--version"};
  for (const OptionSpec* option : options_of(verb)) {
    candidates.push_back(option->name);
  }
  const std::string_view near = nearest(name, candidates);
  std::string hint = "`weightproof " + std::string(verb) + " --help` lists the options";
  if (!near.empty()) {
    hint = "did you mean " + std::string(near) + "?";
  } else {
    for (const OptionSpec& option : k_options) {
      if (option.name == name) {
        hint = std::string(name) + " belongs to: " + std::string(option.verbs);
      }
    }
  }
  usage_error(std::string(verb) + " has no option '" + printable(name) + "'", hint);
}

bool is_true(std::string_view text) { return text == "1" || text == "true" || text == "yes" || text == "on"; }
bool is_false(std::string_view text) { return text == "0" || text == "false" || text == "no" || text == "off"; }

}  // namespace

bool OptionSpec::belongs_to(std::string_view verb) const {
  for (const std::string_view candidate : split(verbs, ' ')) {
    if (candidate == verb) {
      return true;
    }
  }
  return false;
}

std::string_view OptionSpec::help_of(std::string_view verb) const {
  std::string_view rest = help;
  std::string_view out = rest.substr(0, rest.find("||"));
  while (rest.find("||") != std::string_view::npos) {
    rest.remove_prefix(rest.find("||") + 2);
    const std::string_view part = rest.substr(0, rest.find("||"));
    const std::size_t mark = part.find(": ");
    for (const std::string_view candidate : split(part.substr(0, mark), ' ')) {
      if (candidate == verb) {
        out = part.substr(mark + 2);
      }
    }
  }
  return out;
}

std::string OptionSpec::help_of_all() const {
  std::string out(help.substr(0, help.find("||")));
  std::string_view rest = help;
  while (rest.find("||") != std::string_view::npos) {
    rest.remove_prefix(rest.find("||") + 2);
    out += ". Under " + std::string(rest.substr(0, rest.find("||")));
  }
  return out;
}

std::string OptionSpec::environment_name() const {
  std::string out = "WEIGHTPROOF_";
  for (const char c : name.substr(2)) {
    out += c == '-' ? '_' : static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

std::span<const OptionSpec> all_options() { return k_options; }

std::vector<const OptionSpec*> options_of(std::string_view verb) {
  std::vector<const OptionSpec*> found;
  for (const OptionSpec& option : k_options) {
    if (option.belongs_to(verb)) {
      found.push_back(&option);
    }
  }
  return found;
}

std::vector<std::string_view> choices_of(const OptionSpec& option) {
  const bool has_choices = option.kind == OptionKind::choice || option.kind == OptionKind::choices;
  return has_choices ? split(option.value, '|') : std::vector<std::string_view>();
}

std::vector<std::string> Arguments::choices(std::string_view option) const {
  std::vector<std::string> out;
  for (const OptionSpec& row : k_options) {
    if (row.name != option || !out.empty()) {
      continue;
    }
    for (const std::string_view choice : choices_of(row)) {
      const bool is_given = std::any_of(texts(option).begin(), texts(option).end(), [choice](const std::string& value) {
        const auto words = split(value, ',');
        return std::find(words.begin(), words.end(), choice) != words.end();
      });
      if (is_given) {
        out.emplace_back(choice);
      }
    }
  }
  return out;
}

std::string Arguments::text(std::string_view option, std::string_view otherwise) const {
  const auto& values = texts(option);
  return values.empty() ? std::string(otherwise) : values.back();
}

const std::vector<std::string>& Arguments::texts(std::string_view option) const {
  static const std::vector<std::string> none;
  const auto found = values_.find(std::string(option));
  return found == values_.end() ? none : found->second;
}

std::optional<std::uint64_t> Arguments::count(std::string_view option) const {
  return has(option) ? parse_count(text(option)) : std::nullopt;
}

std::optional<std::uint64_t> Arguments::bytes(std::string_view option) const {
  return has(option) ? parse_bytes(text(option)) : std::nullopt;
}

std::optional<double> Arguments::number(std::string_view option) const {
  return has(option) ? parse_number(text(option)) : std::nullopt;
}

std::vector<Arguments::Relaxation> Arguments::given() const {
  std::vector<Relaxation> out;
  for (const OptionSpec& option : k_options) {
    const std::string name(option.name);
    const auto found = values_.find(name);
    if (found == values_.end()) {
      continue;
    }
    const auto environment = from_environment_.find(name);
    const bool from_environment = environment != from_environment_.end() && environment->second;
    if (option.kind == OptionKind::flag) {
      out.push_back({name, "yes", from_environment});
    }
    for (const std::string& value : found->second) {
      out.push_back({name, value, from_environment});
    }
  }
  return out;
}

std::string Arguments::typed(std::span<const std::string_view> options) const {
  std::string out;
  for (const OptionSpec& option : k_options) {
    if (!has(option.name) || std::find(options.begin(), options.end(), option.name) == options.end()) {
      continue;
    }
    if (option.kind == OptionKind::flag) {
      out += ' ' + std::string(option.name);
    }
    for (const std::string& value : texts(option.name)) {
      out += ' ' + std::string(option.name) + ' ' + shell_word(value);
    }
  }
  return out;
}

Arguments parse_arguments(std::string_view verb, std::span<const std::string> words) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  const auto options = options_of(verb);
  std::vector<std::vector<std::string>> values(options.size());
  std::vector<CLI::Option*> rows(options.size());
  for (std::size_t i = 0; i < options.size(); ++i) {
    std::string names(options[i]->name);
    if (options[i]->short_name != 0) {
      names += std::string(",-") + options[i]->short_name;
    }
    rows[i] = options[i]->kind == OptionKind::flag
                  ? app.add_flag(names)
                  : app.add_option(names, values[i])->type_size(1)->allow_extra_args(false);
  }
  // Everything after "--" is positional, also where it begins with a dash.
  const auto marker = std::find(words.begin(), words.end(), "--");
  std::vector<std::string> reversed(words.begin(), marker);
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    // The message names the option; everything else of it is the parser's own.
    usage_error(std::string(verb) + ": " + printable(error.what(), 400),
                "`weightproof " + std::string(verb) + " --help` shows how each option is written");
  }

  Arguments out;
  out.verb_ = verb;
  for (const std::string& word : app.remaining()) {
    if (word.size() > 1 && word.front() == '-') {
      unknown_option(verb, word);
    }
    out.positionals_.push_back(word);
  }
  if (marker != words.end()) {
    out.positionals_.insert(out.positionals_.end(), marker + 1, words.end());
  }
  for (std::size_t i = 0; i < options.size(); ++i) {
    const OptionSpec& option = *options[i];
    const std::string name(option.name);
    if (rows[i]->count() > 0) {
      if (option.kind != OptionKind::flag && option.kind != OptionKind::texts && option.kind != OptionKind::choices &&
          values[i].size() > 1) {
        usage_error(name + " is given " + std::to_string(values[i].size()) + " times", "give it once");
      }
      for (const std::string& value : values[i]) {
        check_value(option, value, name);
      }
      out.values_[name] = values[i];
      continue;
    }
    if (!option.has_environment) {
      continue;
    }
    const std::string variable = option.environment_name();
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0') {
      continue;
    }
    if (option.kind == OptionKind::flag) {
      if (!is_true(value) && !is_false(value)) {
        usage_error(variable + " is '" + printable(value) + "'", "it can be 1 or 0");
      }
      if (is_true(value)) {
        out.values_[name] = {};
        out.from_environment_[name] = true;
      }
      continue;
    }
    check_value(option, value, variable);
    out.values_[name] = {value};
    out.from_environment_[name] = true;
  }

  out.command_ = "weightproof " + std::string(verb);
  for (const std::string& word : words) {
    out.command_ += ' ' + shell_word(word);
  }
  return out;
}

}  // namespace weightproof::suites::cli
