// SPDX-License-Identifier: Apache-2.0
#include "suites/support/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

namespace weightproof::suites {
namespace {

struct Unit {
  std::string_view name;  // lower case
  std::uint64_t factor;
};

constexpr std::array k_units = {
    Unit{"", 1},
    Unit{"b", 1},
    Unit{"kib", 1ULL << 10},
    Unit{"mib", 1ULL << 20},
    Unit{"gib", 1ULL << 30},
    Unit{"tib", 1ULL << 40},
    Unit{"kb", 1'000ULL},
    Unit{"mb", 1'000'000ULL},
    Unit{"gb", 1'000'000'000ULL},
    Unit{"tb", 1'000'000'000'000ULL},
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Length of the UTF-8 sequence at the front of `text`, 0 where there is none; `code` receives the character.
std::size_t decode_utf8(std::string_view text, std::uint32_t& code) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) {
    code = first;
    return 1;
  }
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) {
    return 0;
  }
  code = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) {
      return 0;
    }
    code = (code << 6U) | (byte(i) & 0x3FU);
  }
  const std::uint32_t least = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0x80;
  if (code < least || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    return 0;
  }
  return length;
}

// Characters that move the cursor, change the direction or cannot be seen.
bool is_unsafe(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0xAD || code == 0x61C ||
         (code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF || (code >= 0xFFF9 && code <= 0xFFFB) ||
         (code >= 0xE0000 && code <= 0xE0FFF);
}

void append_escape(std::string& out, std::uint32_t code) {
  std::array<char, 24> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "\\u{%04X}", code);
  out += buffer.data();
}

std::string escaped(std::string_view name) {
  std::string out;
  out.reserve(name.size());
  while (!name.empty()) {
    std::uint32_t code = 0;
    const std::size_t length = decode_utf8(name, code);
    if (length == 0) {
      std::array<char, 8> buffer{};
      std::snprintf(buffer.data(), buffer.size(), "\\x%02X",
                    static_cast<unsigned>(static_cast<unsigned char>(name[0])));
      out += buffer.data();
      name.remove_prefix(1);
      continue;
    }
    if (is_unsafe(code)) {
      append_escape(out, code);
    } else {
      out.append(name.substr(0, length));
    }
    name.remove_prefix(length);
  }
  return out;
}

// Largest position <= `at` where a character begins.
std::size_t character_boundary(std::string_view text, std::size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) {
    --at;
  }
  return at;
}

}  // namespace

std::optional<std::uint64_t> parse_count(std::string_view text) {
  std::uint64_t value = 0;
  if (text.empty() || !is_digit(text.front())) {
    return std::nullopt;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value) || value < 0) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  std::size_t number_end = 0;
  while (number_end < text.size() && (is_digit(text[number_end]) || text[number_end] == '.')) {
    ++number_end;
  }
  const std::string_view number = text.substr(0, number_end);
  std::string_view unit_text = text.substr(number_end);
  while (!unit_text.empty() && unit_text.front() == ' ') {
    unit_text.remove_prefix(1);
  }
  std::string unit(unit_text);
  std::transform(unit.begin(), unit.end(), unit.begin(), lower);
  const auto found = std::find_if(k_units.begin(), k_units.end(), [&](const Unit& row) { return row.name == unit; });
  if (number.empty() || found == k_units.end()) {
    return std::nullopt;
  }
  const std::size_t dot = number.find('.');
  const auto whole = parse_count(number.substr(0, dot));
  std::uint64_t total = 0;
  if (!whole || __builtin_mul_overflow(*whole, found->factor, &total)) {
    return std::nullopt;
  }
  if (dot == std::string_view::npos) {
    return total;
  }
  // The fraction must come out as whole bytes: fraction * factor / 10^digits.
  std::string_view digits = number.substr(dot + 1);
  while (!digits.empty() && digits.back() == '0') {
    digits.remove_suffix(1);
  }
  if (digits.empty()) {
    return number.size() > dot + 1 ? std::optional(total) : std::nullopt;
  }
  const auto fraction = parse_count(digits);
  if (!fraction || digits.size() > 18) {
    return std::nullopt;
  }
  std::uint64_t scale = 1;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    scale *= 10;
  }
  const std::uint64_t common = std::gcd(scale, found->factor);
  const std::uint64_t divisor = scale / common;
  std::uint64_t part = 0;
  // 1.5 GiB is exact; 1.1 GiB is not a whole number of bytes and is taken as the nearest below.
  if (__builtin_mul_overflow(*fraction, found->factor / common, &part) || (found->factor == 1 && part % divisor != 0)) {
    return std::nullopt;
  }
  if (__builtin_add_overflow(total, part / divisor, &total)) {
    return std::nullopt;
  }
  return total;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> units = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 48> buffer{};
  if (unit == 0) {
    std::snprintf(buffer.data(), buffer.size(), "%.0f B", value);
  } else {
    std::snprintf(buffer.data(), buffer.size(), value < 100 ? "%.2f %s" : "%.1f %s", value, units[unit]);
  }
  return buffer.data();
}

std::string grouped(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) {
      out += ',';
    }
    out += digits[i];
  }
  return out;
}

std::string counted(std::uint64_t number, std::string_view one, std::string_view many) {
  std::string out = grouped(number);
  out += ' ';
  out += number == 1 ? one : many;
  return out;
}

std::string printable(std::string_view name, std::size_t limit) {
  if (name.size() <= limit) {
    return escaped(name);
  }
  const std::size_t head = character_boundary(name, limit * 2 / 3);
  const std::size_t tail = character_boundary(name, name.size() - limit / 3);
  return escaped(name.substr(0, head)) + "...(" + grouped(tail - head) + " bytes)..." + escaped(name.substr(tail));
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = above[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.size() > 64) {
    return {};
  }
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    std::size_t distance = edit_distance(word, candidate);
    // A beginning of the word, or the word with its dashes left out, is meant more often than a typing error.
    if (word.size() >= 4 && candidate.substr(0, word.size()) == word) {
      distance = 1;
    }
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace weightproof::suites
