// SPDX-License-Identifier: Apache-2.0
// Writes one JSON document as it goes, so that a million rows need no tree in memory. Strings that are not UTF-8 are
// mended with U+FFFD. Numbers stay numbers: 64-bit integers exactly, floats in their shortest form, NaN and Inf as
// strings.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace weightproof::suites {

class JsonWriter {
 public:
  using Sink = std::function<void(std::string_view)>;
  /// `indent` spaces per level; 0 writes one line.
  explicit JsonWriter(Sink sink, unsigned indent = 2);
  ~JsonWriter();
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  /// Name of the next value of an object.
  JsonWriter& name(std::string_view text);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);
  JsonWriter& null();
  template <typename Number>
  requires std::is_integral_v<Number> JsonWriter& value(Number number) {
    if constexpr (std::is_same_v<Number, bool>) {
      return raw(number ? "true" : "false");
    } else {
      return raw(std::to_string(number));
    }
  }
  template <typename Type>
  JsonWriter& member(std::string_view key, const Type& content) {
    name(key);
    return value(content);
  }
  /// Everything written so far reaches the sink.
  void flush();
  /// A value that is JSON text already.
  JsonWriter& raw(std::string_view text);
  /// Rows of the array or object that is open now stay on one line each.
  JsonWriter& compact();

 private:
  void before_value();
  void new_line();
  struct Level {
    bool is_array = false;
    bool is_empty = true;
    bool is_compact = false;
  };
  Sink sink_;
  std::string buffer_;
  std::vector<Level> levels_;
  unsigned indent_;
  bool after_name_ = false;
};

/// The text as a JSON string with its quotes.
void append_json_string(std::string& out, std::string_view text);

}  // namespace weightproof::suites
