// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/report.hpp"

/// Known failures: an expectation file says which check may fail on which tensors, why and until when.
namespace weightproof::reports {

struct Expectation {
  std::string check;   ///< check id
  std::string tensor;  ///< glob over subjects; "*" is all, also those past the cap of a list
  std::string reason;
  std::string until;  ///< YYYY-MM-DD, the last day it holds
  std::string link;
};

/// Reads `[{"check", "tensor", "reason", "until", "link"}]`, or an object with that list under "expect". `link` may be
/// absent. Throws DocumentError that names the entry for an unknown check or field, an empty reason or a date that is
/// none.
std::vector<Expectation> parse_expectations(std::string_view json);

/// Applies them on the day `today` (YYYY-MM-DD): a failure they cover becomes a note that says so, partly covered
/// records are split, and the three expect.* checks are added. Expired entries cover nothing. Call before finish() and
/// fold_findings().
void apply_expectations(Report& report, const std::vector<Expectation>& expectations, std::string_view today);

/// Glob with `*` (any run of characters, dots included), `?` and `[a-z]`; linear in pattern times text.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace weightproof::reports
