// SPDX-License-Identifier: Apache-2.0
#include "loader/core/error.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace weightproof {
namespace {

struct CodeRow {
  std::string_view code;
  ErrorClass error_class;
  std::string_view format_name;
  std::string_view check;
};

constexpr CodeRow k_codes[] = {
#define X(name, code, error_class, class_name, check) {code, ErrorClass::error_class, class_name, check},
#include "loader/core/errors.def"
#undef X
};

const CodeRow& row_of(ErrorCode code) { return k_codes[static_cast<std::size_t>(code)]; }

std::string what_text(ErrorCode code, const std::string& message) {
  std::string text(to_string(code));
  text += ": ";
  text += message;
  return text;
}

void print_and_abort(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "weightproof: assertion failed: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

std::atomic<AssertHandler> g_assert_handler{print_and_abort};

}  // namespace

std::string_view to_string(ErrorCode code) { return row_of(code).code; }
ErrorClass class_of(ErrorCode code) { return row_of(code).error_class; }
std::string_view format_name_of(ErrorCode code) { return row_of(code).format_name; }
std::string_view check_of(ErrorCode code) { return row_of(code).check; }

std::string_view to_string(ErrorClass error_class) {
  constexpr std::array<std::string_view, 10> k_names = {"format",      "layout", "coverage",    "quant", "route",
                                                        "distributed", "export", "environment", "usage", "internal"};
  return k_names[static_cast<std::size_t>(error_class)];
}

std::optional<ErrorCode> error_code_from_string(std::string_view text) {
  for (std::size_t i = 0; i < std::size(k_codes); ++i) {
    if (k_codes[i].code == text) return static_cast<ErrorCode>(i);
  }
  return std::nullopt;
}

Error::Error(ErrorCode code, std::string message, ErrorFacts&& facts)
    : std::runtime_error(what_text(code, message)),
      code_(code),
      message_(std::move(message)),
      facts_(std::move(facts)) {}

Error::Error(ErrorCode code, std::string message, const ErrorFacts& facts)
    : Error(code, std::move(message), ErrorFacts(facts)) {}

std::string_view Error::check() const {
  return facts_.check.empty() ? check_of(code_) : std::string_view(facts_.check);
}

Error& Error::in_file(std::string file) {
  if (facts_.file.empty()) facts_.file = std::move(file);
  return *this;
}

Error& Error::on_rank(int rank) {
  if (!facts_.rank) facts_.rank = rank;
  return *this;
}

Error& Error::note(std::string text) {
  facts_.notes.push_back(std::move(text));
  return *this;
}

AssertHandler set_assert_handler(AssertHandler handler) {
  return g_assert_handler.exchange(handler == nullptr ? print_and_abort : handler);
}

void assert_failed(const char* expression, const char* file, int line) {
  g_assert_handler.load()(expression, file, line);
  // A handler that returns (it should throw or end the process) does not let the broken invariant pass.
  std::abort();
}

}  // namespace weightproof
