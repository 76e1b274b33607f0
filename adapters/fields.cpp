// SPDX-License-Identifier: Apache-2.0
#include "adapters/fields.hpp"

#include <algorithm>
#include <charconv>
#include <string>

#include "loader/core/error.hpp"

namespace weightproof::adapters {
namespace {

[[noreturn]] void refuse(std::string_view name, std::string expected, std::string actual) {
  ErrorFacts facts;
  facts.file = "config.json";
  facts.expected = std::move(expected);
  facts.actual = std::move(actual);
  facts.hint = "correct the field in config.json";
  throw Error(ErrorCode::config_invalid, "config field " + std::string(name) + " cannot be used", std::move(facts));
}

std::uint64_t to_count(std::string_view name, const ConfigValue& value) {
  const auto number = value.as_integer();
  if (!number || *number < 0 || static_cast<std::uint64_t>(*number) > Fields::k_count_max) {
    refuse(name, "an integer from 0 to " + std::to_string(Fields::k_count_max), value.dump());
  }
  return static_cast<std::uint64_t>(*number);
}

}  // namespace

Fields::Fields(const ConfigValue& config, std::string_view root) : config_(&config), root_(nullptr) {
  if (root.empty()) return;
  root_ = config.find(root);
  // A part of a composite saved alone has lost the outer object.
  if (root_ == nullptr && root.find('.') != std::string_view::npos)
    root_ = config.find(root.substr(root.rfind('.') + 1));
  if (root_ != nullptr && !root_->is_object()) root_ = nullptr;
}

const ConfigValue* Fields::find(std::string_view name) const {
  if (root_ != nullptr) {
    const ConfigValue* value = root_->find(name);
    if (value != nullptr && !value->is_null()) return value;
  }
  const ConfigValue* value = config_->find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::uint64_t Fields::count(std::string_view name) const {
  const ConfigValue* value = find(name);
  if (value == nullptr) refuse(name, "a value", "absent");
  return to_count(name, *value);
}

std::uint64_t Fields::count(std::string_view name, std::uint64_t when_absent) const {
  const ConfigValue* value = find(name);
  return value == nullptr ? when_absent : to_count(name, *value);
}

std::int64_t Fields::signed_count(std::string_view name, std::int64_t when_absent) const {
  const ConfigValue* value = find(name);
  if (value == nullptr) return when_absent;
  const auto number = value->as_integer();
  if (number && *number < 0 && *number >= -static_cast<std::int64_t>(k_count_max)) return *number;
  return static_cast<std::int64_t>(to_count(name, *value));
}

std::uint64_t Fields::layers(std::string_view name) const {
  const std::uint64_t layers = count(name);
  if (layers <= k_layers_max) return layers;
  ErrorFacts facts;
  facts.file = "config.json";
  facts.expected = "at most " + std::to_string(k_layers_max);
  facts.actual = std::to_string(layers);
  throw Error(ErrorCode::limit_exceeded, "config field " + std::string(name) + " is larger than any model",
              std::move(facts));
}

bool Fields::flag(std::string_view name, bool when_absent) const {
  const ConfigValue* value = find(name);
  if (value == nullptr) return when_absent;
  const auto flag = value->as_bool();
  if (!flag) refuse(name, "true or false", value->dump());
  return *flag;
}

std::string_view Fields::text(std::string_view name) const {
  const ConfigValue* value = find(name);
  if (value == nullptr) return {};
  const auto text = value->as_string();
  if (!text) refuse(name, "a text", value->dump());
  return *text;
}

std::vector<std::uint64_t> Fields::counts(std::string_view name) const {
  std::vector<std::uint64_t> result;
  const ConfigValue* value = find(name);
  if (value == nullptr) return result;
  if (const auto text = value->as_string()) {
    std::string_view rest = *text;
    while (!rest.empty()) {
      const std::size_t comma = rest.find(',');
      std::string_view item = rest.substr(0, comma);
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
      while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
      while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
      if (item.empty()) continue;
      std::uint64_t number = 0;
      const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), number);
      if (error != std::errc() || end != item.data() + item.size() || number > k_count_max) {
        refuse(name, "numbers separated by commas", value->dump());
      }
      result.push_back(number);
    }
    return result;
  }
  if (!value->is_array()) refuse(name, "a list of numbers", value->dump());
  result.reserve(value->items().size());
  for (const ConfigValue& item : value->items()) result.push_back(to_count(name, item));
  return result;
}

std::vector<std::string_view> Fields::texts(std::string_view name) const {
  std::vector<std::string_view> result;
  const ConfigValue* value = find(name);
  if (value == nullptr) return result;
  if (!value->is_array()) refuse(name, "a list of texts", value->dump());
  result.reserve(value->items().size());
  for (const ConfigValue& item : value->items()) {
    const auto text = item.as_string();
    if (!text) refuse(name, "a list of texts", value->dump());
    result.push_back(*text);
  }
  return result;
}

bool contains(const std::vector<std::uint64_t>& list, std::uint64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace weightproof::adapters
