// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace weightproof::reports {

/// How the failure of one rule explains that of another.
enum class Link {
  none,
  same_subject,  ///< where the consequence's subjects are among the cause's
  always,        ///< whatever the subjects are
};
Link link_between(std::string_view cause, std::string_view consequence);

/// Rank of a rule's group in the order of gravity: 0 silent wrong values, 1 missing data, 2 memory, 3 the rest.
int gravity_class(std::string_view rule);

}  // namespace weightproof::reports
