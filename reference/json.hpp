// SPDX-License-Identifier: Apache-2.0
// A plain tree of a JSON text: members in file order with duplicates kept, integers apart from other numbers.
// The parser behind it stays in json.cpp, so no other file of the reference sees a JSON library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace weightproof::reference {

struct Json {
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;
  // uint64_t: an integer written without sign. int64_t: an integer written with a minus sign (also -0).
  std::variant<std::nullptr_t, bool, std::uint64_t, std::int64_t, double, std::string, Array, Object> value = nullptr;

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value); }
  bool is_object() const { return std::holds_alternative<Object>(value); }
  const Array* array() const { return std::get_if<Array>(&value); }
  const Object* object() const { return std::get_if<Object>(&value); }
  const std::string* text() const { return std::get_if<std::string>(&value); }
  const std::uint64_t* natural() const { return std::get_if<std::uint64_t>(&value); }
  const bool* truth() const { return std::get_if<bool>(&value); }
  /// Any number as double; 0 for anything else.
  double number() const;
  /// The first member of that name, or null. A null object gives null, so calls chain.
  const Json* find(std::string_view name) const;
};

/// One JSON value and nothing else but white space. Throws Failure(InvalidHeaderDeserialization).
Json parse_json(std::string_view text);

}  // namespace weightproof::reference
