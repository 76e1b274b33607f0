// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "reports/json.hpp"
#include "reports/text_internal.hpp"

namespace weightproof::reports {
namespace {

// Builds a Value while the parser runs, so that depth and repeated names are judged before anything large is built.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return put(Value()); }
  bool boolean(bool flag) override { return put(Value(flag)); }
  bool number_integer(number_integer_t number) override { return put(Value(number)); }
  bool number_unsigned(number_unsigned_t number) override { return put(Value(number)); }
  bool number_float(number_float_t number, const string_t&) override { return put(Value(number)); }
  bool string(string_t& text) override { return put(Value(std::move(text))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Value(Value::Object{})); }
  bool start_array(std::size_t) override { return open(Value(Value::Array{})); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (stack_.back().if_object()->contains(name)) {
      error_ = "name \"" + cut_text(spell_out(name), 120) + "\" given twice";
      return false;
    }
    names_.back() = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& cause) override {
    error_ = "not JSON at byte " + std::to_string(position) + ": " + cut_text(spell_out(cause.what()), 300);
    return false;
  }

  const std::string& error() const { return error_; }
  Value take() { return std::move(root_); }

 private:
  bool open(Value container) {
    if (stack_.size() >= k_json_max_depth) {
      error_ = "nested deeper than " + std::to_string(k_json_max_depth);
      return false;
    }
    stack_.push_back(std::move(container));
    names_.emplace_back();
    return true;
  }

  bool close() {
    Value done = std::move(stack_.back());
    stack_.pop_back();
    names_.pop_back();
    return put(std::move(done));
  }

  bool put(Value value) {
    if (stack_.empty()) {
      root_ = std::move(value);
    } else if (auto* members = stack_.back().if_object()) {
      members->emplace(std::move(names_.back()), std::move(value));
    } else {
      stack_.back().if_array()->push_back(std::move(value));
    }
    return true;
  }

  std::vector<Value> stack_;
  std::vector<std::string> names_;
  Value root_;
  std::string error_;
};

}  // namespace

Value parse_json(std::string_view text) {
  if (text.size() > k_json_max_bytes) {
    throw DocumentError("document of " + grouped(text.size()) + " bytes is over the limit of " +
                        grouped(k_json_max_bytes));
  }
  Builder builder;
  if (!nlohmann::json::sax_parse(text, &builder)) {
    throw DocumentError(builder.error().empty() ? "not JSON" : builder.error());
  }
  return builder.take();
}

}  // namespace weightproof::reports
