// SPDX-License-Identifier: Apache-2.0
// config.json and other small JSON documents as a read-only tree. Duplicate names, wrong nesting and oversized files
// are errors (CONFIG_INVALID, DUPLICATE_KEY) with the byte offset. Thread rule: immutable after parsing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace weightproof {

class ConfigValue {
 public:
  using Array = std::vector<ConfigValue>;
  using Object = std::vector<std::pair<std::string, ConfigValue>>;  ///< file order

  ConfigValue() = default;  ///< null
  explicit ConfigValue(bool value) : value_(value) {}
  explicit ConfigValue(std::int64_t value) : value_(value) {}
  explicit ConfigValue(std::uint64_t value) : value_(value) {}  ///< only for integers above INT64_MAX
  explicit ConfigValue(double value) : value_(value) {}
  explicit ConfigValue(std::string value) : value_(std::move(value)) {}
  explicit ConfigValue(Array value);
  explicit ConfigValue(Object value);

  /// Parses one JSON document. `file` is used in errors. Throws Error(config_invalid | duplicate_key | limit_exceeded).
  static ConfigValue parse(std::string_view text, std::string_view file);

  bool is_null() const { return value_.index() == 0; }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const;
  bool is_number() const { return is_integer() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const;
  bool is_object() const;

  std::optional<bool> as_bool() const;
  std::optional<std::int64_t> as_integer() const;  ///< also a double with an integral value
  std::optional<double> as_number() const;
  std::optional<std::string_view> as_string() const;
  const Array& items() const;     ///< empty unless an array
  const Object& members() const;  ///< empty unless an object

  /// Member of an object, or null pointer. `path` may be dotted: "text_config.hidden_size".
  const ConfigValue* find(std::string_view path) const;
  bool has(std::string_view path) const { return find(path) != nullptr; }

  /// Compact JSON text, for messages.
  std::string dump() const;

 private:
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, std::shared_ptr<const Array>,
               std::shared_ptr<const Object>>
      value_;
};

}  // namespace weightproof
