// SPDX-License-Identifier: Apache-2.0
// Known failures: an expectation file says which findings are expected, why, and until when.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/report.hpp"

namespace weightproof::suites {

struct Expectation {
  std::string check;
  std::string tensor = "*";  ///< glob over the subjects
  std::string reason;
  std::string until;  ///< "2026-12-31", empty: no end
  std::string link;
};

/// A JSON array of entries, or an object with such an array under "expect". Throws Error(usage) naming the entry for
/// whatever is wrong in it.
std::vector<Expectation> parse_expectations(std::string_view text, const std::string& file);

/// Takes expected subjects out of failed and warned records (a record without any left is `skip` with the reason) and
/// adds the expect.* records. `today` is a UTC date like 2026-01-31.
void apply_expectations(const std::vector<Expectation>& expectations, std::string_view today,
                        std::vector<reports::CheckRecord>& records);

}  // namespace weightproof::suites
