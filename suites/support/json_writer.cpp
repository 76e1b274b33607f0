// SPDX-License-Identifier: Apache-2.0
#include "suites/support/json_writer.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace weightproof::suites {
namespace {

constexpr std::size_t k_flush_bytes = 1 << 16;

// Length of a well-formed UTF-8 sequence at `text`, or 0.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) {
    return 1;
  }
  if (first >= 0xC2 && first <= 0xDF) {
    return continues(1) ? 2 : 0;
  }
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = first == 0xED ? 0x9F : 0xBF;
    return continues(1, low, high) && continues(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return continues(1, low, high) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text.front());
    if (c == '"' || c == '\\') {
      out += '\\';
      out += text.front();
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x20 || c == 0x7F) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
      out += code.data();
    } else {
      const std::size_t length = utf8_length(text);
      if (length == 0) {
        out += "\xEF\xBF\xBD";
      } else {
        out.append(text.substr(0, length));
        text.remove_prefix(length - 1);
      }
    }
    text.remove_prefix(1);
  }
  out += '"';
}

JsonWriter::JsonWriter(Sink sink, unsigned indent) : sink_(std::move(sink)), indent_(indent) {}

JsonWriter::~JsonWriter() = default;

void JsonWriter::flush() {
  if (!buffer_.empty()) {
    sink_(buffer_);
    buffer_.clear();
  }
}

void JsonWriter::new_line() {
  if (indent_ == 0 || (!levels_.empty() && levels_.back().is_compact)) {
    return;
  }
  buffer_ += '\n';
  buffer_.append(levels_.size() * indent_, ' ');
}

void JsonWriter::before_value() {
  if (after_name_) {
    after_name_ = false;
    return;
  }
  if (levels_.empty()) {
    return;
  }
  Level& level = levels_.back();
  if (!level.is_empty) {
    buffer_ += level.is_compact && indent_ != 0 ? ", " : ",";
  }
  level.is_empty = false;
  new_line();
}

JsonWriter& JsonWriter::compact() {
  levels_.back().is_compact = true;
  return *this;
}

JsonWriter& JsonWriter::begin_object() {
  before_value();
  const bool inherited = !levels_.empty() && levels_.back().is_compact;
  buffer_ += '{';
  levels_.push_back({false, true, inherited});
  return *this;
}

JsonWriter& JsonWriter::end_object() {
  const Level level = levels_.back();
  levels_.pop_back();
  if (!level.is_empty && !level.is_compact) {
    new_line();
  }
  buffer_ += '}';
  if (buffer_.size() > k_flush_bytes) {
    flush();
  }
  return *this;
}

JsonWriter& JsonWriter::begin_array() {
  before_value();
  const bool inherited = !levels_.empty() && levels_.back().is_compact;
  buffer_ += '[';
  levels_.push_back({true, true, inherited});
  return *this;
}

JsonWriter& JsonWriter::end_array() {
  const Level level = levels_.back();
  levels_.pop_back();
  if (!level.is_empty && !level.is_compact) {
    new_line();
  }
  buffer_ += ']';
  if (buffer_.size() > k_flush_bytes) {
    flush();
  }
  return *this;
}

JsonWriter& JsonWriter::name(std::string_view text) {
  before_value();
  append_json_string(buffer_, text);
  buffer_ += indent_ == 0 ? ":" : ": ";
  after_name_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  before_value();
  append_json_string(buffer_, text);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) {
    return value(std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity");
  }
  std::array<char, 64> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), number);
  return raw(std::string_view(text.data(), static_cast<std::size_t>(result.ptr - text.data())));
}

JsonWriter& JsonWriter::null() { return raw("null"); }

JsonWriter& JsonWriter::raw(std::string_view text) {
  before_value();
  buffer_ += text;
  return *this;
}

}  // namespace weightproof::suites
