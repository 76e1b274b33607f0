// SPDX-License-Identifier: Apache-2.0
// The one exception type of the loader side. Every error has a stable code (errors.def) and carries what a person needs
// to mend it: file, tensor, what was found, what is allowed. Files are named relative to the checkpoint root: reports
// travel.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace weightproof {

enum class ErrorClass : std::uint8_t {
  format,
  layout,
  coverage,
  quant,
  route,
  distributed,
  exporting,
  environment,
  usage,
  internal
};

enum class ErrorCode : std::uint8_t {
#define X(name, code, error_class, class_name, check) name,
#include "loader/core/errors.def"
#undef X
};

/// Stable text of a code, e.g. "HEADER_TOO_SMALL".
std::string_view to_string(ErrorCode code);
/// "format", "layout", ...; `exporting` is written "export".
std::string_view to_string(ErrorClass error_class);
ErrorClass class_of(ErrorCode code);
/// The safetensors format's own name of the fact ("HeaderTooSmall"), empty where the format has none.
std::string_view format_name_of(ErrorCode code);
/// The check id under which `verify` reports the code when the error names no other; empty if none does.
std::string_view check_of(ErrorCode code);
std::optional<ErrorCode> error_code_from_string(std::string_view text);

/// What an error knows. Text fields are empty and lists are empty where a fact does not apply.
struct ErrorFacts {
  std::string file;                          ///< relative to the checkpoint root
  std::optional<std::uint64_t> byte_offset;  ///< absolute offset in `file`
  std::vector<std::string> keys;             ///< tensor keys concerned, all of them
  std::vector<std::uint64_t> coordinate;     ///< element coordinate, outermost first
  std::string expected;
  std::string actual;
  std::optional<int> rank;
  std::string hint;   ///< the remedy
  std::string check;  ///< check id where the code alone does not decide it
  std::vector<std::string> notes;
};

class Error : public std::runtime_error {
 public:
  /// `facts` is taken by reference: a message composed from the same facts in the same call is still whole when they
  /// are moved.
  Error(ErrorCode code, std::string message, ErrorFacts&& facts);
  Error(ErrorCode code, std::string message, const ErrorFacts& facts = {});

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const ErrorFacts& facts() const { return facts_; }
  /// facts().check or check_of(code()).
  std::string_view check() const;

  /// Adds context where it is known (a caught error is completed and rethrown).
  Error& in_file(std::string file);
  Error& on_rank(int rank);
  Error& note(std::string text);

 private:
  ErrorCode code_;
  std::string message_;
  ErrorFacts facts_;
};

/// Programmer errors. On in every build unless WEIGHTPROOF_NO_ASSERTS; the handler is replaceable because the library
/// may live in a training process. The default prints and aborts.
using AssertHandler = void (*)(const char* expression, const char* file, int line);
AssertHandler set_assert_handler(AssertHandler handler);
[[noreturn]] void assert_failed(const char* expression, const char* file, int line);

}  // namespace weightproof

#ifdef WEIGHTPROOF_NO_ASSERTS
#define WEIGHTPROOF_ASSERT(expression) static_cast<void>(sizeof(!(expression)))
#else
#define WEIGHTPROOF_ASSERT(expression) \
  ((expression) ? static_cast<void>(0) : ::weightproof::assert_failed(#expression, __FILE__, __LINE__))
#endif
