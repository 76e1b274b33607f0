// SPDX-License-Identifier: Apache-2.0
// The manual page and the shells' completions, made from the tables of verbs and options that help and parsing use.
// Pure functions: equal tables give equal bytes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weightproof::suites::cli {

/// roff source of weightproof(1).
std::string manual_page();
std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

struct GeneratedDocument {
  std::string_view name;  ///< what --generate calls it
  std::string (*make)();
};
std::span<const GeneratedDocument> generated_documents();

/// Words that the first argument of a verb can be, where they are known beforehand: check ids, families, actions.
std::vector<std::string> argument_words(std::string_view verb);

}  // namespace weightproof::suites::cli
