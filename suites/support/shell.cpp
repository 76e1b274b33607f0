// SPDX-License-Identifier: Apache-2.0
#include "suites/support/shell.hpp"

#include <cstdint>

#include "suites/support/text.hpp"

namespace weightproof::suites {

std::string shell_word(std::string_view word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+%@";
  if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos) {
    return std::string(word);
  }
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string shell_words(std::span<const std::string> words) {
  std::string out;
  for (const std::string& word : words) {
    out += (out.empty() ? "" : " ") + shell_word(word);
  }
  return out;
}

std::string shown_path(std::string_view path) { return printable(path, SIZE_MAX); }

std::string typed_path(std::string_view path) { return shell_word(shown_path(path)); }

}  // namespace weightproof::suites
