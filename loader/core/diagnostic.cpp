// SPDX-License-Identifier: Apache-2.0
#include "loader/core/diagnostic.hpp"

namespace weightproof {

Diagnostic diagnostic_of(const Error& error) {
  Diagnostic diagnostic;
  diagnostic.check = std::string(error.check());
  diagnostic.severity = Severity::fail;
  diagnostic.message = error.message();
  diagnostic.facts = error.facts();
  diagnostic.code = std::string(to_string(error.code()));
  return diagnostic;
}

}  // namespace weightproof
