// SPDX-License-Identifier: Apache-2.0
// JSON text to ConfigValue. The only place of this room that includes the JSON library, through its event interface: no
// tree of its own, depth and size bounded as events arrive, and names compared as they come.
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "loader/core/config.hpp"
#include "loader/core/error.hpp"
#include "loader/core/limits.hpp"

namespace weightproof {
namespace {

/// Lets the handler see how far the parser has read: the event interface itself does not say.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** seen) : at_(at), seen_(seen) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *seen_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return a.at_ != b.at_; }

 private:
  const char* at_;
  const char** seen_;
};

struct Frame {
  bool is_object = false;
  ConfigValue::Array items;
  ConfigValue::Object members;
  std::string name;                      // of the member whose value comes next
  std::unordered_set<std::string> many;  // names, once there are too many to look through
};

constexpr std::size_t k_linear_names_max = 16;

class TreeBuilder : public nlohmann::json::json_sax_t {
 public:
  TreeBuilder(std::string_view text, std::string_view file, const char* const* seen)
      : text_(text), file_(file), seen_(seen) {}

  ConfigValue take() { return std::move(root_); }

  bool null() override { return add(ConfigValue()); }
  bool boolean(bool value) override { return add(ConfigValue(value)); }
  bool number_integer(number_integer_t value) override { return add(ConfigValue(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    return add(value <= static_cast<std::uint64_t>(INT64_MAX) ? ConfigValue(static_cast<std::int64_t>(value))
                                                              : ConfigValue(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return add(ConfigValue(value)); }
  bool string(string_t& value) override { return add(ConfigValue(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }
  bool end_array() override {
    ConfigValue value(std::move(frames_.back().items));
    frames_.pop_back();
    return add(std::move(value));
  }
  bool end_object() override {
    ConfigValue value(std::move(frames_.back().members));
    frames_.pop_back();
    return add(std::move(value));
  }

  bool key(string_t& name) override {
    Frame& frame = frames_.back();
    bool is_known = false;
    if (frame.members.size() < k_linear_names_max) {
      for (const auto& member : frame.members) is_known = is_known || member.first == name;
    } else {
      if (frame.many.empty()) {
        for (const auto& member : frame.members) frame.many.insert(member.first);
      }
      is_known = !frame.many.insert(name).second;
    }
    if (is_known) {
      ErrorFacts facts = facts_at(name_offset());
      facts.keys = {name};
      facts.hint = "remove one of the two";
      throw Error(ErrorCode::duplicate_key,
                  "the name '" + name + "' stands twice in one object of " + std::string(file_), std::move(facts));
    }
    frame.name = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) override {
    // The library counts bytes read, so the last one read is the offending one.
    const std::size_t offset = std::min(position == 0 ? 0 : position - 1, text_.size());
    std::string reason = error.what();
    if (const std::size_t bracket = reason.find("] "); bracket != std::string::npos) reason.erase(0, bracket + 2);
    // The library quotes what it read last, which need not be text.
    for (std::size_t i = 0; i < reason.size(); ++i) {
      if (static_cast<unsigned char>(reason[i]) >= 0x80) reason[i] = '?';
    }
    throw Error(ErrorCode::config_invalid, std::string(file_) + " is not sound JSON: " + reason, facts_at(offset));
  }

 private:
  ErrorFacts facts_at(std::size_t offset) const {
    ErrorFacts facts;
    facts.file = std::string(file_);
    facts.byte_offset = offset;
    return facts;
  }

  std::size_t offset() const { return static_cast<std::size_t>(*seen_ - text_.data()); }

  /// Opening quote of the name whose closing quote was just read.
  std::size_t name_offset() const {
    std::size_t at = offset();
    if (at < 2) return 0;
    for (at -= 2;; --at) {
      if (text_[at] == '"') {
        std::size_t backslashes = 0;
        while (backslashes < at && text_[at - 1 - backslashes] == '\\') ++backslashes;
        if (backslashes % 2 == 0) return at;
      }
      if (at == 0) return 0;
    }
  }

  void count_value() {
    if (++values_ <= limits::json_values_max) return;
    throw Error(ErrorCode::limit_exceeded,
                std::string(file_) + " holds more than " + std::to_string(limits::json_values_max) + " JSON values",
                facts_at(offset()));
  }

  bool open(bool is_object) {
    if (frames_.size() >= limits::json_depth_max) {
      ErrorFacts facts = facts_at(offset() == 0 ? 0 : offset() - 1);
      facts.expected = "at most " + std::to_string(limits::json_depth_max) + " levels";
      throw Error(ErrorCode::limit_exceeded,
                  std::string(file_) + " nests deeper than " + std::to_string(limits::json_depth_max) + " levels",
                  std::move(facts));
    }
    frames_.emplace_back();
    frames_.back().is_object = is_object;
    return true;
  }

  bool add(ConfigValue value) {
    count_value();
    if (frames_.empty()) {
      root_ = std::move(value);
    } else if (frames_.back().is_object) {
      frames_.back().members.emplace_back(std::move(frames_.back().name), std::move(value));
    } else {
      frames_.back().items.push_back(std::move(value));
    }
    return true;
  }

  std::string_view text_;
  std::string_view file_;
  const char* const* seen_;
  std::vector<Frame> frames_;
  ConfigValue root_;
  std::size_t values_ = 0;
};

void refuse(std::string_view file, std::size_t offset, const std::string& what, std::string hint = {}) {
  ErrorFacts facts;
  facts.file = std::string(file);
  facts.byte_offset = offset;
  facts.hint = std::move(hint);
  throw Error(ErrorCode::config_invalid, std::string(file) + " is not sound JSON: " + what, std::move(facts));
}

}  // namespace

ConfigValue ConfigValue::parse(std::string_view text, std::string_view file) {
  if (text.size() > limits::config_bytes_max) {
    ErrorFacts facts;
    facts.file = std::string(file);
    facts.expected = "at most " + std::to_string(limits::config_bytes_max) + " bytes";
    facts.actual = std::to_string(text.size()) + " bytes";
    throw Error(ErrorCode::limit_exceeded,
                std::string(file) + " has " + std::to_string(text.size()) + " bytes; the limit is " +
                    std::to_string(limits::config_bytes_max),
                std::move(facts));
  }
  // Two leniencies of the library that other readers of the same file do not share.
  if (text.starts_with("\xEF\xBB\xBF")) refuse(file, 0, "it begins with a byte order mark", "save it as plain UTF-8");
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) refuse(file, nul, "it holds a NUL byte");

  const char* seen = text.data();
  TreeBuilder builder(text, file, &seen);
  const CountingIterator begin(text.data(), &seen);
  const CountingIterator end(text.data() + text.size(), &seen);
  if (!nlohmann::json::sax_parse(begin, end, &builder)) refuse(file, 0, "it could not be parsed");
  return builder.take();
}

}  // namespace weightproof
