// SPDX-License-Identifier: Apache-2.0
#include "loader/core/glob.hpp"

#include <algorithm>

namespace weightproof {
namespace {

/// Bytes of the character that starts at `at`: its first byte and the continuation bytes that follow.
std::size_t character_bytes(std::string_view text, std::size_t at) {
  std::size_t bytes = 1;
  while (at + bytes < text.size() && (static_cast<unsigned char>(text[at + bytes]) & 0xC0u) == 0x80u) ++bytes;
  return bytes;
}

}  // namespace

bool matches_glob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  // The last '*' seen and where its run ends for now; only the last one ever needs another try.
  std::size_t star = std::string_view::npos;
  std::size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
      // Most patterns end in plain text, or in nothing: an ending that begins a character is compared once.
      const std::string_view rest = pattern.substr(p);
      const bool begins_character = rest.empty() || (static_cast<unsigned char>(rest.front()) & 0xC0u) != 0x80u;
      if (begins_character && rest.find_first_of("*?") == std::string_view::npos) {
        return text.size() - t >= rest.size() && text.ends_with(rest);
      }
    } else if (p < pattern.size() && pattern[p] == '?') {
      ++p;
      t += character_bytes(text, t);
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      star_text += character_bytes(text, star_text);
      t = star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool matches_any_glob(std::span<const std::string> patterns, std::string_view text) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [text](const std::string& pattern) { return matches_glob(pattern, text); });
}

}  // namespace weightproof
