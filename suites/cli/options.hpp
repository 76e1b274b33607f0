// SPDX-License-Identifier: Apache-2.0
// The options table and what was given of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weightproof::suites::cli {

/// `choices` takes a list separated by commas and may be repeated.
enum class OptionKind : std::uint8_t { flag, text, texts, count, number, bytes, path, choice, choices };

struct OptionSpec {
  std::string_view name;  ///< "--keys-only"
  char short_name;        ///< 0: none
  OptionKind kind;
  std::string_view value;  ///< "GLOB"; the choices of a choice, separated by '|'
  std::string_view verbs;  ///< separated by blanks
  std::string_view group;  ///< heading in the help
  bool has_environment;
  /// What it does. Where a verb means something of its own by it, "||VERB[ VERB...]: what it does there" follows.
  std::string_view help;
  bool belongs_to(std::string_view verb) const;
  /// `help` for one verb.
  std::string_view help_of(std::string_view verb) const;
  /// `help` for all verbs at once, as the manual has it.
  std::string help_of_all() const;
  /// "WEIGHTPROOF_KEYS_ONLY".
  std::string environment_name() const;
};

std::span<const OptionSpec> all_options();
std::vector<const OptionSpec*> options_of(std::string_view verb);
/// The words that an option can be; empty where any value does.
std::vector<std::string_view> choices_of(const OptionSpec& option);

/// What the command line and the environment gave, checked against the table. Immutable after parsing.
class Arguments {
 public:
  bool has(std::string_view option) const { return values_.count(std::string(option)) != 0; }
  bool flag(std::string_view option) const { return has(option); }
  std::string text(std::string_view option, std::string_view otherwise = {}) const;
  const std::vector<std::string>& texts(std::string_view option) const;
  /// The single words of an option of kind `choices`, each once, in the order of its table row.
  std::vector<std::string> choices(std::string_view option) const;
  std::optional<std::uint64_t> count(std::string_view option) const;
  std::optional<std::uint64_t> bytes(std::string_view option) const;
  std::optional<double> number(std::string_view option) const;
  const std::vector<std::string>& positionals() const { return positionals_; }
  const std::string& verb() const { return verb_; }
  /// The arguments as one shell command, quoted where needed.
  const std::string& command() const { return command_; }

  struct Relaxation {
    std::string option;
    std::string value;
    bool from_environment = false;
  };
  /// Options as given, in the order of the table.
  std::vector<Relaxation> given() const;
  /// Of these options the given ones, as they are typed behind a command: " --dtype f32 --include 'a b'".
  std::string typed(std::span<const std::string_view> options) const;

 private:
  friend Arguments parse_arguments(std::string_view verb, std::span<const std::string> words);
  std::map<std::string, std::vector<std::string>> values_;
  std::map<std::string, bool> from_environment_;
  std::vector<std::string> positionals_;
  std::string verb_;
  std::string command_;
};

/// `words` without the program and the verb. Throws Error(usage) with the nearest option, choice or form in the hint.
Arguments parse_arguments(std::string_view verb, std::span<const std::string> words);

}  // namespace weightproof::suites::cli
