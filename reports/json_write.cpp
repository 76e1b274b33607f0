// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "reports/json.hpp"
#include "reports/text_internal.hpp"

namespace weightproof::reports {
namespace {

void append_escape(char32_t unit, std::string& out) {
  constexpr std::string_view digits = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) {
    out += digits[(unit >> static_cast<unsigned>(shift)) & 0xFU];
  }
}

void append_string(std::string_view text, std::string& out) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    switch (c) {
      case '"':
        out += "\\\"";
        continue;
      case '\\':
        out += "\\\\";
        continue;
      case '\n':
        out += "\\n";
        continue;
      case '\r':
        out += "\\r";
        continue;
      case '\t':
        out += "\\t";
        continue;
      default:
        break;
    }
    // Escaped: control characters, and what would change how the rest of a line is shown.
    if (is_hidden_character(c)) {
      if (c > 0xFFFF) {
        append_escape(0xD800U + ((c - 0x10000U) >> 10U), out);
        append_escape(0xDC00U + ((c - 0x10000U) & 0x3FFU), out);
      } else {
        append_escape(c, out);
      }
      continue;
    }
    append_utf8(out, c);
  }
  out += '"';
}

class Writer {
 public:
  Writer(std::string& out, bool pretty) : out_(out), pretty_(pretty) {}

  void write(const Value& value) {
    if (value.is_null()) {
      out_ += "null";
    } else if (const bool* flag = value.if_bool()) {
      out_ += *flag ? "true" : "false";
    } else if (const auto* signed_number = std::get_if<std::int64_t>(&value.data())) {
      out_ += std::to_string(*signed_number);
    } else if (const auto* number = std::get_if<std::uint64_t>(&value.data())) {
      out_ += std::to_string(*number);
    } else if (value.is_double()) {
      write_double(value.as_double());
    } else if (const auto* text = value.if_string()) {
      append_string(*text, out_);
    } else if (const auto* items = value.if_array()) {
      write_array(*items);
    } else if (const auto* members = value.if_object()) {
      write_object(*members);
    }
  }

 private:
  void write_double(double number) {
    if (!std::isfinite(number)) {
      out_ += std::isnan(number) ? "\"NaN\"" : number < 0 ? "\"-Infinity\"" : "\"Infinity\"";
      return;
    }
    const std::string text = shortest(number);
    out_ += text;
    if (text.find_first_of(".e") == std::string::npos) {
      out_ += ".0";
    }
  }

  // Lists of plain values stay on one line: columns of a million tensors would otherwise be a million lines.
  static bool flat(const Value::Array& items) {
    for (const Value& item : items) {
      if (item.is_object() || item.is_array() || (item.is_string() && items.size() > 1)) {
        return false;
      }
    }
    return true;
  }

  void write_array(const Value::Array& items) {
    const bool one_line = !pretty_ || flat(items);
    out_ += '[';
    ++depth_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      out_ += i == 0 ? "" : one_line && pretty_ ? ", " : ",";
      if (!one_line) {
        new_line();
      }
      write(items[i]);
    }
    --depth_;
    if (!one_line) {
      new_line();
    }
    out_ += ']';
  }

  void write_object(const Value::Object& members) {
    out_ += '{';
    ++depth_;
    bool first = true;
    for (const auto& [name, value] : members) {
      out_ += first ? "" : ",";
      first = false;
      new_line();
      append_string(name, out_);
      out_ += pretty_ ? ": " : ":";
      write(value);
    }
    --depth_;
    if (!first) {
      new_line();
    }
    out_ += '}';
  }

  void new_line() {
    if (pretty_) {
      out_ += '\n';
      out_.append(depth_ * 2, ' ');
    }
  }

  std::string& out_;
  bool pretty_;
  std::size_t depth_ = 0;
};

}  // namespace

std::string to_json(const Value& value, bool pretty) {
  std::string out;
  Writer(out, pretty).write(value);
  return out;
}

}  // namespace weightproof::reports
