// SPDX-License-Identifier: Apache-2.0
#include "loader/core/config.hpp"

#include <charconv>
#include <cmath>

namespace weightproof {
namespace {

const ConfigValue::Array k_no_items;
const ConfigValue::Object k_no_members;

void append_text(std::string& out, std::string_view text) {
  constexpr std::string_view k_hex = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "\\u00";
          out += k_hex[static_cast<unsigned char>(c) >> 4];
          out += k_hex[static_cast<unsigned char>(c) & 15];
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

template <typename Number>
void append_number(std::string& out, Number value) {
  char buffer[32];
  const std::to_chars_result result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  out.append(buffer, result.ptr);
}

}  // namespace

ConfigValue::ConfigValue(Array value) : value_(std::make_shared<const Array>(std::move(value))) {}
ConfigValue::ConfigValue(Object value) : value_(std::make_shared<const Object>(std::move(value))) {}

bool ConfigValue::is_integer() const {
  return std::holds_alternative<std::int64_t>(value_) || std::holds_alternative<std::uint64_t>(value_);
}
bool ConfigValue::is_array() const { return std::holds_alternative<std::shared_ptr<const Array>>(value_); }
bool ConfigValue::is_object() const { return std::holds_alternative<std::shared_ptr<const Object>>(value_); }

std::optional<bool> ConfigValue::as_bool() const {
  if (const bool* value = std::get_if<bool>(&value_)) return *value;
  return std::nullopt;
}

std::optional<std::int64_t> ConfigValue::as_integer() const {
  if (const std::int64_t* value = std::get_if<std::int64_t>(&value_)) return *value;
  if (const double* value = std::get_if<double>(&value_)) {
    // Both bounds are exact doubles; the upper one is the first that does not fit.
    if (std::trunc(*value) == *value && *value >= -9223372036854775808.0 && *value < 9223372036854775808.0) {
      return static_cast<std::int64_t>(*value);
    }
  }
  return std::nullopt;
}

std::optional<double> ConfigValue::as_number() const {
  if (const double* value = std::get_if<double>(&value_)) return *value;
  if (const std::int64_t* value = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*value);
  if (const std::uint64_t* value = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*value);
  return std::nullopt;
}

std::optional<std::string_view> ConfigValue::as_string() const {
  if (const std::string* value = std::get_if<std::string>(&value_)) return *value;
  return std::nullopt;
}

const ConfigValue::Array& ConfigValue::items() const {
  const auto* value = std::get_if<std::shared_ptr<const Array>>(&value_);
  return value == nullptr ? k_no_items : **value;
}

const ConfigValue::Object& ConfigValue::members() const {
  const auto* value = std::get_if<std::shared_ptr<const Object>>(&value_);
  return value == nullptr ? k_no_members : **value;
}

const ConfigValue* ConfigValue::find(std::string_view path) const {
  const ConfigValue* at = this;
  for (;;) {
    const Object& object = at->members();
    const std::size_t dot = path.find('.');
    const std::string_view head = path.substr(0, dot);
    const ConfigValue* next = nullptr;
    for (const auto& [name, value] : object) {
      // A member whose own name holds the dots wins over a path through it.
      if (name == path) return &value;
      if (name == head) next = &value;
    }
    if (next == nullptr || dot == std::string_view::npos) return nullptr;
    at = next;
    path.remove_prefix(dot + 1);
  }
}

std::string ConfigValue::dump() const {
  std::string out;
  if (is_null()) {
    out = "null";
  } else if (const bool* truth = std::get_if<bool>(&value_)) {
    out = *truth ? "true" : "false";
  } else if (const std::int64_t* integer = std::get_if<std::int64_t>(&value_)) {
    append_number(out, *integer);
  } else if (const std::uint64_t* large = std::get_if<std::uint64_t>(&value_)) {
    append_number(out, *large);
  } else if (const double* number = std::get_if<double>(&value_)) {
    append_number(out, *number);
    // Shortest text of an integral double must not read back as an integer.
    if (out.find_first_of(".en") == std::string::npos) out += ".0";
  } else if (const std::string* text = std::get_if<std::string>(&value_)) {
    append_text(out, *text);
  } else if (is_array()) {
    out = "[";
    for (const ConfigValue& item : items()) {
      if (out.size() > 1) out += ',';
      out += item.dump();
    }
    out += ']';
  } else {
    out = "{";
    for (const auto& [name, value] : members()) {
      if (out.size() > 1) out += ',';
      append_text(out, name);
      out += ':';
      out += value.dump();
    }
    out += '}';
  }
  return out;
}

}  // namespace weightproof
