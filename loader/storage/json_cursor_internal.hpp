// SPDX-License-Identifier: Apache-2.0
// The few JSON primitives that headers and indexes need: strict, iterative, with the position of every error, and
// without building a tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weightproof::storage::detail {

/// Position and reason of a syntax error. `is_unicode` tells a string that is well-formed JSON but no valid Unicode,
/// `is_limit` a cap of limits.hpp.
struct JsonFault {
  std::size_t position = 0;
  std::string reason;
  bool is_unicode = false;
  bool is_limit = false;
};

/// Owns the characters of strings that had escapes. Blocks never move.
class TextArena {
 public:
  /// Room for `bytes` characters, valid as long as the arena.
  char* take(std::size_t bytes);
  /// Gives back the tail of the last take.
  void trim(std::size_t unused) { used_ -= unused; }

 private:
  static constexpr std::size_t k_block_bytes = 256 * 1024;
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t used_ = 0;
  std::size_t size_ = 0;
};

class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : begin_(text.data()), at_(text.data()), end_(text.data() + text.size()) {}

  std::size_t position() const { return static_cast<std::size_t>(at_ - begin_); }
  bool is_at_end() const { return at_ == end_; }
  const char* at() const { return at_; }
  const char* end() const { return end_; }
  void move_to(const char* position) { at_ = position; }

  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }
  /// Next character, 0 at the end (a NUL in the text is no valid JSON outside strings either).
  char peek() const { return at_ == end_ ? '\0' : *at_; }
  /// Consumes `c` if it is next.
  bool accept(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  /// Consumes `c` or throws JsonFault "expected <what>".
  void expect(char c, const char* what);
  /// A string; the result points into the text, or into `arena` where it had escapes.
  std::string_view string(TextArena& arena);
  /// A non-negative integer below 2^64 in plain digits; anything else throws JsonFault.
  std::uint64_t unsigned_integer(const char* what);
  /// Consumes any value, at most limits::json_depth_max deep.
  void skip_value();
  /// Text of any number, consumed; empty if no number is next.
  std::string_view number();

  [[noreturn]] void fail(std::string reason) const;
  [[noreturn]] void fail_at(std::size_t position, std::string reason) const;
  /// "'x'", "end of text", "byte 0x07" for what is next.
  std::string describe_next() const;

 private:
  std::string_view raw_string(bool& has_escape);
  void skip_string();

  const char* begin_;
  const char* at_;
  const char* end_;
  std::vector<char> nesting_;
};

/// First byte at or after `from` that is '"', '\\' or below 0x20; `end` if none.
const char* find_string_stop(const char* from, const char* end);

}  // namespace weightproof::storage::detail
