// SPDX-License-Identifier: Apache-2.0
// A fact found while reading untrusted input, when the reader is asked to go on instead of throwing: verify collects
// these.
#pragma once

#include <string>
#include <vector>

#include "loader/core/error.hpp"

namespace weightproof {

enum class Severity : std::uint8_t { note, warn, fail };

struct Diagnostic {
  std::string check;  ///< id of checks.def
  Severity severity = Severity::fail;
  std::string message;  ///< one sentence with the value found and the value allowed
  ErrorFacts facts;     ///< file, keys, offset, expected, actual, hint
  std::string code;     ///< error code text, empty for notes and warnings that have none
};

/// The diagnostic that says the same as the error (severity fail, check from Error::check()).
Diagnostic diagnostic_of(const Error& error);

}  // namespace weightproof
