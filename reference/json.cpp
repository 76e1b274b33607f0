// SPDX-License-Identifier: Apache-2.0
#include "reference/json.hpp"

#include <nlohmann/json.hpp>

#include "reference/failure.hpp"

namespace weightproof::reference {
namespace {

constexpr std::size_t k_depth_max = 128;

[[noreturn]] void refuse(const std::string& sentence) { throw Failure("InvalidHeaderDeserialization", sentence); }

// Builds the tree. Values are written where the innermost open container wants its next one.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Json root;

  bool null() override { return put(Json{}); }
  bool boolean(bool truth) override { return put(Json{truth}); }
  bool number_integer(number_integer_t number) override { return put(Json{std::int64_t{number}}); }
  bool number_unsigned(number_unsigned_t number) override { return put(Json{std::uint64_t{number}}); }
  bool number_float(number_float_t number, const string_t&) override { return put(Json{double{number}}); }
  bool string(string_t& text) override { return put(Json{std::move(text)}); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json{Json::Object{}}); }
  bool start_array(std::size_t) override { return open(Json{Json::Array{}}); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    std::get<Json::Object>(open_.back()->value).emplace_back(std::move(name), Json{});
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    refuse("not JSON at byte " + std::to_string(position));
  }

 private:
  std::vector<Json*> open_;  // Only the innermost container grows, so pointers to outer ones stay valid.

  Json* place(Json&& value) {
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    if (auto* members = std::get_if<Json::Object>(&open_.back()->value)) {
      members->back().second = std::move(value);
      return &members->back().second;
    }
    auto& items = std::get<Json::Array>(open_.back()->value);
    items.push_back(std::move(value));
    return &items.back();
  }
  bool put(Json&& value) {
    place(std::move(value));
    return true;
  }
  bool open(Json&& container) {
    if (open_.size() >= k_depth_max) refuse("nested deeper than " + std::to_string(k_depth_max));
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
};

}  // namespace

double Json::number() const {
  if (const auto* n = std::get_if<std::uint64_t>(&value)) return static_cast<double>(*n);
  if (const auto* n = std::get_if<std::int64_t>(&value)) return static_cast<double>(*n);
  if (const auto* n = std::get_if<double>(&value)) return *n;
  return 0.0;
}

const Json* Json::find(std::string_view name) const {
  if (const Object* members = object())
    for (const auto& [key, member] : *members)
      if (key == name) return &member;
  return nullptr;
}

Json parse_json(std::string_view text) {
  // The library takes a byte order mark for nothing and a NUL byte for the end of the text; both are refused here.
  if (text.substr(0, 3) == "\xEF\xBB\xBF") refuse("begins with a byte order mark");
  if (text.find('\0') != std::string_view::npos) refuse("contains a NUL byte");
  TreeBuilder builder;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) refuse("not JSON");
  return std::move(builder.root);
}

}  // namespace weightproof::reference
