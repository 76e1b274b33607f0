// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "reports/text_internal.hpp"

namespace weightproof::reports {

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) {
    digits.insert(at - 3, ",");
  }
  return digits;
}

std::string shortest(double number) {
  std::array<char, 64> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return std::string(buffer.data(), result.ptr);
}

std::string fixed(double number, int digits) {
  if (!std::isfinite(number) || std::fabs(number) > 1e17) {
    return std::isfinite(number) ? shortest(number) : "unavailable";
  }
  std::array<char, 64> buffer{};
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::fixed, digits);
  std::string text(buffer.data(), result.ptr);
  // "-0.0" says nothing that "0.0" does not.
  if (text.find_first_not_of("-0.") == std::string::npos && text.front() == '-') {
    text.erase(0, 1);
  }
  return text;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> units = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) {
    return std::to_string(bytes) + " B";
  }
  double value = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < units.size()) {
    value /= 1024.0;
    ++unit;
  }
  return fixed(value, 1) + " " + std::string(units[unit]);
}

std::string human_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) {
    return "unavailable";
  }
  if (seconds < 0.9995) {
    return seconds < 0.00995 ? fixed(seconds * 1000, 1) + " ms" : fixed(seconds * 1000, 0) + " ms";
  }
  if (seconds < 59.95) {
    return fixed(seconds, seconds < 9.995 ? 2 : 1) + " s";
  }
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 3600) {
    return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  }
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

std::string plural(std::uint64_t count, std::string_view one, std::string_view many) {
  if (count == 1) {
    return "1 " + std::string(one);
  }
  return grouped(count) + " " + (many.empty() ? std::string(one) + "s" : std::string(many));
}

std::string cut_text(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) {
    return std::string(text);
  }
  std::size_t at = limit;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) {
    --at;
  }
  return std::string(text.substr(0, at)) + "... (" + grouped(text.size() - at) + " more bytes)";
}

std::string cut_middle(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) {
    return std::string(text);
  }
  std::vector<std::size_t> starts;
  for (std::size_t at = 0; at < text.size();) {
    starts.push_back(at);
    next_code_point(text, at);
  }
  if (starts.size() <= limit) {
    return std::string(text);
  }
  const std::size_t head = limit * 2 / 3;
  const std::size_t tail = limit - head;
  const std::size_t gone = starts.size() - head - tail;
  return std::string(text.substr(0, starts[head])) + " ... " + grouped(gone) + " characters ... " +
         std::string(text.substr(starts[starts.size() - tail]));
}

std::string cut_end(std::string_view text, std::size_t limit) {
  std::size_t at = 0;
  for (std::size_t characters = 0; at < text.size(); ++characters) {
    if (characters == limit) {
      return std::string(text.substr(0, at)) + "...";
    }
    next_code_point(text, at);
  }
  return std::string(text);
}

std::string capital(std::string_view text) {
  std::string out(text);
  if (!out.empty() && out[0] >= 'a' && out[0] <= 'z') {
    out[0] = static_cast<char>(out[0] - 'a' + 'A');
  }
  return out;
}

char32_t next_code_point(std::string_view text, std::size_t& at) {
  constexpr char32_t replacement = 0xFFFD;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  std::size_t length = 0;
  char32_t value = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    value = lead & 0x1FU;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    value = lead & 0x0FU;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    value = lead & 0x07U;
  }
  if (length == 0 || at + length > text.size()) {
    ++at;
    return replacement;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80U) {
      ++at;
      return replacement;
    }
    value = (value << 6U) | (byte(at + i) & 0x3FU);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  if (overlong || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
    ++at;
    return replacement;
  }
  at += length;
  return value;
}

void append_utf8(std::string& out, char32_t code_point) {
  if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) {
    code_point = 0xFFFD;
  }
  const auto put = [&](char32_t bits) { out += static_cast<char>(static_cast<unsigned char>(bits)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0U | (code_point >> 6U));
    put(0x80U | (code_point & 0x3FU));
  } else if (code_point < 0x10000) {
    put(0xE0U | (code_point >> 12U));
    put(0x80U | ((code_point >> 6U) & 0x3FU));
    put(0x80U | (code_point & 0x3FU));
  } else {
    put(0xF0U | (code_point >> 18U));
    put(0x80U | ((code_point >> 12U) & 0x3FU));
    put(0x80U | ((code_point >> 6U) & 0x3FU));
    put(0x80U | (code_point & 0x3FU));
  }
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    append_utf8(out, next_code_point(text, at));
  }
  return out;
}

bool is_hidden_character(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD || c == 0x34F || c == 0x61C || c == 0x115F || c == 0x1160 ||
         c == 0x17B4 || c == 0x17B5 || (c >= 0x180B && c <= 0x180F) || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202F) || (c >= 0x2060 && c <= 0x206F) || c == 0x3164 || (c >= 0xFE00 && c <= 0xFE0F) ||
         c == 0xFEFF || c == 0xFFA0 || (c >= 0xFFF0 && c <= 0xFFFB) || c == 0xFFFE || c == 0xFFFF ||
         (c >= 0xE0000 && c <= 0xE0FFF);
}

std::string spell_out(std::string_view text, std::string_view open, std::string_view close) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (!is_hidden_character(c)) {
      append_utf8(out, c);
      continue;
    }
    out += open;
    out += "U+";
    for (int shift = c > 0xFFFF ? 20 : 12; shift >= 0; shift -= 4) {
      const auto nibble = static_cast<std::size_t>((c >> static_cast<unsigned>(shift)) & 0xFU);
      if (shift == 20 && nibble == 0) {
        continue;
      }
      out += digits[nibble];
    }
    out += close;
  }
  return out;
}

}  // namespace weightproof::reports
