// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "loader/core/limits.hpp"
#include "loader/storage/json_cursor_internal.hpp"

namespace weightproof::storage::detail {
namespace {

constexpr std::uint64_t k_ones = 0x0101010101010101ULL;
constexpr std::uint64_t k_highs = 0x8080808080808080ULL;

// High bit set in (at least) the first byte that is zero; bytes above it may be false positives.
constexpr std::uint64_t zero_bytes(std::uint64_t word) { return (word - k_ones) & ~word & k_highs; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char* put_utf8(char* out, std::uint32_t point) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(static_cast<unsigned char>(value)); };
  if (point < 0x80) {
    *out++ = byte(point);
  } else if (point < 0x800) {
    *out++ = byte(0xC0 | (point >> 6));
    *out++ = byte(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    *out++ = byte(0xE0 | (point >> 12));
    *out++ = byte(0x80 | ((point >> 6) & 0x3F));
    *out++ = byte(0x80 | (point & 0x3F));
  } else {
    *out++ = byte(0xF0 | (point >> 18));
    *out++ = byte(0x80 | ((point >> 12) & 0x3F));
    *out++ = byte(0x80 | ((point >> 6) & 0x3F));
    *out++ = byte(0x80 | (point & 0x3F));
  }
  return out;
}

// Four hex digits at `at`, or -1.
std::int32_t hex4(const char* at, const char* end) {
  if (end - at < 4) return -1;
  std::int32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const int digit = hex_digit(at[i]);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

struct EscapeResult {
  const char* next = nullptr;  // null: malformed
  std::uint32_t point = 0;
  const char* reason = nullptr;
  bool is_unicode = false;
};

// `at` stands on the backslash.
EscapeResult read_escape(const char* at, const char* end) {
  if (end - at < 2) return {nullptr, 0, "the text ends inside an escape", false};
  switch (at[1]) {
    case '"':
    case '\\':
    case '/':
      return {at + 2, static_cast<std::uint32_t>(at[1]), nullptr, false};
    case 'b':
      return {at + 2, 0x08, nullptr, false};
    case 'f':
      return {at + 2, 0x0C, nullptr, false};
    case 'n':
      return {at + 2, 0x0A, nullptr, false};
    case 'r':
      return {at + 2, 0x0D, nullptr, false};
    case 't':
      return {at + 2, 0x09, nullptr, false};
    case 'u':
      break;
    default:
      return {nullptr, 0, "unknown escape", false};
  }
  const std::int32_t first = hex4(at + 2, end);
  if (first < 0) return {nullptr, 0, "'\\u' without four hexadecimal digits", false};
  if (first >= 0xDC00 && first <= 0xDFFF) {
    return {nullptr, 0, "a trailing surrogate stands alone, which is no Unicode character", true};
  }
  if (first < 0xD800 || first > 0xDBFF) return {at + 6, static_cast<std::uint32_t>(first), nullptr, false};
  const bool has_second = end - at >= 12 && at[6] == '\\' && at[7] == 'u';
  const std::int32_t second = has_second ? hex4(at + 8, end) : -1;
  if (second < 0xDC00 || second > 0xDFFF) {
    return {nullptr, 0, "a leading surrogate stands alone, which is no Unicode character", true};
  }
  const std::uint32_t point =
      0x10000U + ((static_cast<std::uint32_t>(first) - 0xD800U) << 10) + (static_cast<std::uint32_t>(second) - 0xDC00U);
  return {at + 12, point, nullptr, false};
}

}  // namespace

char* TextArena::take(std::size_t bytes) {
  if (bytes > size_ - used_) {
    size_ = std::max(bytes, k_block_bytes);
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(size_));
    used_ = 0;
  }
  char* at = blocks_.empty() ? nullptr : blocks_.back().get() + used_;
  used_ += bytes;
  return at;
}

const char* find_string_stop(const char* from, const char* end) {
  while (end - from >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, 8);
    const std::uint64_t quote = zero_bytes(word ^ (k_ones * '"'));
    const std::uint64_t slash = zero_bytes(word ^ (k_ones * '\\'));
    const std::uint64_t control = (word - k_ones * 0x20) & ~word & k_highs;
    const std::uint64_t stop = quote | slash | control;
    if (stop != 0) {
      if constexpr (std::endian::native == std::endian::little) {
        // The lowest flag is exact: borrows only travel upwards from a true match.
        return from + (std::countr_zero(stop) >> 3);
      } else {
        break;
      }
    }
    from += 8;
  }
  while (from != end && *from != '"' && *from != '\\' && static_cast<unsigned char>(*from) >= 0x20) ++from;
  return from;
}

void JsonCursor::fail(std::string reason) const { fail_at(position(), std::move(reason)); }

void JsonCursor::fail_at(std::size_t position, std::string reason) const {
  throw JsonFault{position, std::move(reason), false, false};
}

std::string JsonCursor::describe_next() const {
  if (at_ == end_) return "the end of the text";
  const unsigned char c = static_cast<unsigned char>(*at_);
  if (c >= 0x20 && c < 0x7F) return std::string("'") + *at_ + "'";
  constexpr std::string_view digits = "0123456789abcdef";
  return std::string("byte 0x") + digits[c >> 4] + digits[c & 15];
}

void JsonCursor::expect(char c, const char* what) {
  if (!accept(c)) fail("expected " + std::string(what) + ", found " + describe_next());
}

std::string_view JsonCursor::raw_string(bool& has_escape) {
  const std::size_t start = position();
  ++at_;  // the quote
  const char* first = at_;
  has_escape = false;
  for (;;) {
    at_ = find_string_stop(at_, end_);
    if (at_ == end_) fail_at(start, "the string that begins here does not end");
    if (*at_ == '"') break;
    if (*at_ != '\\') fail("a control character stands unescaped in a string");
    has_escape = true;
    const EscapeResult escape = read_escape(at_, end_);
    if (escape.next == nullptr) throw JsonFault{position(), escape.reason, escape.is_unicode, false};
    at_ = escape.next;
  }
  const std::string_view raw(first, static_cast<std::size_t>(at_ - first));
  ++at_;  // the closing quote
  return raw;
}

std::string_view JsonCursor::string(TextArena& arena) {
  if (peek() != '"') fail("expected a string, found " + describe_next());
  bool has_escape = false;
  const std::string_view raw = raw_string(has_escape);
  if (!has_escape) return raw;
  char* out = arena.take(raw.size());
  char* const out_begin = out;
  const char* from = raw.data();
  const char* const raw_end = raw.data() + raw.size();
  while (from != raw_end) {
    if (*from != '\\') {
      *out++ = *from++;
      continue;
    }
    const EscapeResult escape = read_escape(from, raw_end);
    out = put_utf8(out, escape.point);
    from = escape.next;
  }
  const std::size_t length = static_cast<std::size_t>(out - out_begin);
  arena.trim(raw.size() - length);
  return {out_begin, length};
}

void JsonCursor::skip_string() {
  bool has_escape = false;
  raw_string(has_escape);
}

std::uint64_t JsonCursor::unsigned_integer(const char* what) {
  const char* start = at_;
  std::uint64_t value = 0;
  bool is_too_large = false;
  while (at_ != end_ && *at_ >= '0' && *at_ <= '9') {
    const std::uint64_t digit = static_cast<std::uint64_t>(*at_ - '0');
    if (value > (UINT64_MAX - digit) / 10) {
      is_too_large = true;
    } else {
      value = value * 10 + digit;
    }
    ++at_;
  }
  const auto refuse = [&](const std::string& found) {
    fail_at(static_cast<std::size_t>(start - begin_),
            std::string(what) + " must be a non-negative integer below 2^64 in plain digits, found " + found);
  };
  if (at_ == start) refuse(describe_next());
  if (is_too_large)
    refuse("'" + std::string(start, std::min<std::size_t>(40, static_cast<std::size_t>(at_ - start))) + "'");
  if (*start == '0' && at_ - start > 1) refuse("leading zeros");
  if (at_ != end_ && (*at_ == '.' || *at_ == 'e' || *at_ == 'E')) refuse("a number with fraction or exponent");
  return value;
}

std::string_view JsonCursor::number() {
  const char* start = at_;
  const auto digits = [&] {
    const char* first = at_;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    return at_ - first;
  };
  accept('-');
  const char* integer = at_;
  const auto count = digits();
  if (count == 0 || (count > 1 && *integer == '0')) {
    at_ = start;
    return {};
  }
  if (accept('.') && digits() == 0) fail("a digit must follow the decimal point");
  if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
    ++at_;
    if (!accept('+')) accept('-');
    if (digits() == 0) fail("an exponent needs digits");
  }
  return {start, static_cast<std::size_t>(at_ - start)};
}

void JsonCursor::skip_value() {
  nesting_.clear();
  for (;;) {
    skip_space();
    bool is_complete = true;  // a whole value was consumed
    const char next = peek();
    if (next == '{' || next == '[') {
      if (nesting_.size() >= limits::json_depth_max) {
        throw JsonFault{position(), "nested deeper than " + std::to_string(limits::json_depth_max) + " levels", false,
                        true};
      }
      ++at_;
      skip_space();
      if (accept(next == '{' ? '}' : ']')) {
        is_complete = true;
      } else {
        nesting_.push_back(next);
        is_complete = false;
      }
    } else if (next == '"') {
      skip_string();
    } else if (next == 't' || next == 'f' || next == 'n') {
      const std::string_view word = next == 't' ? "true" : next == 'f' ? "false" : "null";
      if (std::string_view(at_, static_cast<std::size_t>(end_ - at_)).substr(0, word.size()) != word) {
        fail("expected a JSON value, found " + describe_next());
      }
      at_ += word.size();
    } else if (number().empty()) {
      fail("expected a JSON value, found " + describe_next());
    }
    while (is_complete) {
      if (nesting_.empty()) return;
      skip_space();
      const bool is_object = nesting_.back() == '{';
      if (accept(',')) {
        is_complete = false;
      } else if (accept(is_object ? '}' : ']')) {
        nesting_.pop_back();
      } else {
        fail(std::string("expected ',' or '") + (is_object ? '}' : ']') + "', found " + describe_next());
      }
    }
    if (nesting_.back() == '{') {
      skip_space();
      if (peek() != '"') fail("expected a member name, found " + describe_next());
      skip_string();
      skip_space();
      expect(':', "':'");
    }
  }
}

}  // namespace weightproof::storage::detail
