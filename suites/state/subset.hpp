// SPDX-License-Identifier: Apache-2.0
// --include and --exclude that leave nothing: which of the two took the last name, and how near the globs came.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weightproof::suites {

struct EmptySubset {
  std::string message;
  std::string hint;
};

/// Precondition: of `names` none passes both lists.
EmptySubset explain_empty_subset(const std::vector<std::string>& include, const std::vector<std::string>& exclude,
                                 std::span<const std::string_view> names);

}  // namespace weightproof::suites
