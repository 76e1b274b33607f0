// SPDX-License-Identifier: Apache-2.0
#include "reports/markup_internal.hpp"

#include <algorithm>

#include "reports/text_internal.hpp"

namespace weightproof::reports {
namespace {

void append_escaped(std::string& out, char32_t c) {
  switch (c) {
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '&':
      out += "&amp;";
      break;
    case '"':
      out += "&quot;";
      break;
    case '\'':
      out += "&#39;";
      break;
    default:
      append_utf8(out, c);
  }
}

std::string escaped(std::string_view text, bool keep_lines) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const char32_t c = next_code_point(text, at);
    if (keep_lines && (c == '\n' || c == '\t')) {
      append_utf8(out, c);
    } else if (is_hidden_character(c)) {
      out += spell_out(text.substr(start, at - start), "&lt;", "&gt;");
    } else {
      append_escaped(out, c);
    }
  }
  return out;
}

}  // namespace

std::string xml_text(std::string_view text) { return escaped(text, false); }

std::string xml_block(std::string_view text) { return escaped(text, true); }

std::string html_name(std::string_view name, std::string_view css_class) {
  const std::string shown = cut_middle(name, 256);
  std::string out = "<bdi class=\"" + std::string(css_class) + "\">";
  for (std::size_t at = 0; at < shown.size();) {
    const std::size_t start = at;
    const char32_t c = next_code_point(shown, at);
    if (is_hidden_character(c)) {
      out += "<span class=\"u\">" + spell_out(std::string_view(shown).substr(start, at - start), "", "") + "</span>";
      continue;
    }
    append_escaped(out, c);
    if ((c == '.' || c == '/') && at < shown.size()) {
      out += "<wbr/>";
    }
  }
  return out + "</bdi>";
}

std::string markdown_text(std::string_view text) {
  const std::string safe = spell_out(text, "U+", "");
  std::string out;
  out.reserve(safe.size() + 16);
  for (std::size_t i = 0; i < safe.size(); ++i) {
    const char c = safe[i];
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      // A character that would mention a person, an issue or start a link is written as an entity.
      case '@':
        out += "&#64;";
        break;
      case '#':
        out += "&#35;";
        break;
      case ':':
        out += safe.compare(i, 3, "://") == 0 ? "&#58;" : ":";
        break;
      case '\\':
      case '`':
      case '*':
      case '_':
      case '[':
      case ']':
      case '|':
      case '~':
      case '!':
      case '$':
        out += '\\';
        out += c;
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string markdown_code(std::string_view text) {
  std::string safe = spell_out(text);
  std::size_t longest = 0;
  std::size_t run = 0;
  for (char& c : safe) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
    // A bar would end the cell of a table.
    if (c == '|') {
      c = '\x01';
    }
  }
  std::string body;
  for (const char c : safe) {
    body += c == '\x01' ? std::string("\\|") : std::string(1, c);
  }
  const std::string fence(longest + 1, '`');
  const bool pad = body.empty() || body.front() == '`' || body.back() == '`' || body.front() == ' ';
  return fence + (pad ? " " : "") + body + (pad ? " " : "") + fence;
}

std::string markdown_fence(std::string_view text, std::string_view language) {
  std::string safe;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    safe += spell_out(text.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  std::size_t longest = 2;
  std::size_t run = 0;
  for (const char c : safe) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  return fence + std::string(language) + "\n" + safe + fence + "\n";
}

}  // namespace weightproof::reports
