// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace weightproof::reports {

/// A free-form JSON value: what a check expected, what it found and the evidence beside it. Objects are ordered by
/// name, so that two equal values are written as equal bytes. Integers stay integers (64 bits, signed or not); floating
/// numbers that JSON cannot hold are written as the strings "NaN", "Infinity" and "-Infinity". A plain value: no thread
/// rule.
class Value {
 public:
  using Array = std::vector<Value>;
  using Object = std::map<std::string, Value, std::less<>>;

  Value() = default;
  Value(std::nullptr_t) {}
  Value(bool flag) : data_(flag) {}
  Value(double number) : data_(number) {}
  template <typename Int>
  requires(std::is_integral_v<Int> && !std::is_same_v<Int, bool>) Value(Int number) {
    if constexpr (std::is_signed_v<Int>) {
      data_ = static_cast<std::int64_t>(number);
    } else {
      data_ = static_cast<std::uint64_t>(number);
    }
  }
  Value(std::string text) : data_(std::move(text)) {}
  Value(std::string_view text) : data_(std::string(text)) {}
  Value(const char* text) : data_(std::string(text)) {}
  Value(Array items) : data_(std::move(items)) {}
  Value(Object members) : data_(std::move(members)) {}

  /// An array from the elements of any container whose elements convert to Value.
  template <typename Container>
  static Value array_of(const Container& items) {
    Array out;
    for (const auto& item : items) {
      out.emplace_back(item);
    }
    return Value(std::move(out));
  }
  /// An object from name-value pairs; the last of equal names wins.
  static Value object(std::initializer_list<std::pair<const char*, Value>> members);

  bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_integer() const {
    return std::holds_alternative<std::int64_t>(data_) || std::holds_alternative<std::uint64_t>(data_);
  }
  bool is_double() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_integer() || is_double(); }
  bool is_string() const { return std::holds_alternative<std::string>(data_); }
  bool is_array() const { return std::holds_alternative<Array>(data_); }
  bool is_object() const { return std::holds_alternative<Object>(data_); }

  /// The content where the kind fits, otherwise nullptr.
  const bool* if_bool() const { return std::get_if<bool>(&data_); }
  const std::string* if_string() const { return std::get_if<std::string>(&data_); }
  const Array* if_array() const { return std::get_if<Array>(&data_); }
  const Object* if_object() const { return std::get_if<Object>(&data_); }
  Array* if_array() { return std::get_if<Array>(&data_); }
  Object* if_object() { return std::get_if<Object>(&data_); }

  /// The number as another type, or `otherwise` where the value is no number or does not fit.
  std::uint64_t as_uint64(std::uint64_t otherwise = 0) const;
  std::int64_t as_int64(std::int64_t otherwise = 0) const;
  double as_double(double otherwise = 0.0) const;
  /// The string, or `otherwise`.
  std::string as_string(std::string_view otherwise = {}) const;

  /// Member of an object; nullptr where this is no object or has no such member.
  const Value* find(std::string_view name) const;
  /// Member of an object, made where it is absent; a null value becomes an object first. Precondition: null or object.
  Value& operator[](std::string_view name);
  /// Appends to an array; a null value becomes an array first. Precondition: null or array.
  void push_back(Value item);

  const std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object>& data()
      const {
    return data_;
  }

  /// Equal kind and content; a signed and an unsigned integer of one value are equal.
  friend bool operator==(const Value& a, const Value& b);

 private:
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> data_;
};

/// One line for people: numbers with separators for thousands, strings as they are, lists in brackets, `null` as
/// "none". Cut at `limit` bytes (at a character) with the number of bytes that were left out.
std::string to_text(const Value& value, std::size_t limit = 400);

}  // namespace weightproof::reports
