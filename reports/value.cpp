// SPDX-License-Identifier: Apache-2.0
#include "reports/value.hpp"

#include <charconv>
#include <cmath>
#include <limits>

#include "reports/text_internal.hpp"

namespace weightproof::reports {

Value Value::object(std::initializer_list<std::pair<const char*, Value>> members) {
  Object out;
  for (const auto& [name, value] : members) {
    out.insert_or_assign(name, value);
  }
  return Value(std::move(out));
}

std::uint64_t Value::as_uint64(std::uint64_t otherwise) const {
  if (const auto* number = std::get_if<std::uint64_t>(&data_)) {
    return *number;
  }
  if (const auto* number = std::get_if<std::int64_t>(&data_); number != nullptr && *number >= 0) {
    return static_cast<std::uint64_t>(*number);
  }
  return otherwise;
}

std::int64_t Value::as_int64(std::int64_t otherwise) const {
  if (const auto* number = std::get_if<std::int64_t>(&data_)) {
    return *number;
  }
  if (const auto* number = std::get_if<std::uint64_t>(&data_);
      number != nullptr && *number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return static_cast<std::int64_t>(*number);
  }
  return otherwise;
}

double Value::as_double(double otherwise) const {
  if (const auto* number = std::get_if<double>(&data_)) {
    return *number;
  }
  if (const auto* number = std::get_if<std::int64_t>(&data_)) {
    return static_cast<double>(*number);
  }
  if (const auto* number = std::get_if<std::uint64_t>(&data_)) {
    return static_cast<double>(*number);
  }
  return otherwise;
}

std::string Value::as_string(std::string_view otherwise) const {
  if (const auto* text = std::get_if<std::string>(&data_)) {
    return *text;
  }
  return std::string(otherwise);
}

const Value* Value::find(std::string_view name) const {
  if (const auto* members = std::get_if<Object>(&data_)) {
    if (const auto it = members->find(name); it != members->end()) {
      return &it->second;
    }
  }
  return nullptr;
}

Value& Value::operator[](std::string_view name) {
  if (is_null()) {
    data_ = Object{};
  }
  auto& members = std::get<Object>(data_);
  if (const auto it = members.find(name); it != members.end()) {
    return it->second;
  }
  return members.emplace(std::string(name), Value{}).first->second;
}

void Value::push_back(Value item) {
  if (is_null()) {
    data_ = Array{};
  }
  std::get<Array>(data_).push_back(std::move(item));
}

bool operator==(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) {
    const auto negative = [](const Value& v) {
      const auto* number = std::get_if<std::int64_t>(&v.data());
      return number != nullptr && *number < 0;
    };
    if (negative(a) || negative(b)) {
      return negative(a) && negative(b) && a.as_int64() == b.as_int64();
    }
    return a.as_uint64() == b.as_uint64();
  }
  return a.data_ == b.data_;
}

namespace {

std::string number_text(double number) {
  if (std::isnan(number)) {
    return "NaN";
  }
  if (std::isinf(number)) {
    return number < 0 ? "-Infinity" : "Infinity";
  }
  return shortest(number);
}

void append_text(const Value& value, std::string& out, std::size_t limit) {
  if (out.size() > limit + 64) {
    return;
  }
  if (value.is_null()) {
    out += "none";
  } else if (const bool* flag = value.if_bool()) {
    out += *flag ? "yes" : "no";
  } else if (value.is_integer()) {
    if (const auto* number = std::get_if<std::int64_t>(&value.data()); number != nullptr && *number < 0) {
      out += "-" + grouped(std::uint64_t{0} - static_cast<std::uint64_t>(*number));
    } else {
      out += grouped(value.as_uint64());
    }
  } else if (value.is_double()) {
    out += number_text(value.as_double());
  } else if (const auto* text = value.if_string()) {
    out += *text;
  } else if (const auto* items = value.if_array()) {
    out += "[";
    for (std::size_t i = 0; i < items->size() && out.size() <= limit + 64; ++i) {
      out += i == 0 ? "" : ", ";
      append_text((*items)[i], out, limit);
    }
    out += "]";
  } else if (const auto* members = value.if_object()) {
    bool first = true;
    for (const auto& [name, member] : *members) {
      out += first ? "" : ", ";
      first = false;
      out += name + " ";
      append_text(member, out, limit);
    }
  }
}

}  // namespace

std::string to_text(const Value& value, std::size_t limit) {
  std::string out;
  append_text(value, out, limit);
  return cut_text(out, limit);
}

}  // namespace weightproof::reports
