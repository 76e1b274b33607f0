// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace weightproof::reports {

/// What a report says about a check id. The texts are static.
struct Rule {
  std::string_view id;
  std::string_view title;        ///< title of a finding of this rule
  std::string_view description;  ///< one sentence: what is checked
  std::string_view severity;     ///< of fail, warn, note, error: those it can have, comma-separated
};

/// All rules in the order of listings.
std::span<const Rule> rules();
/// nullptr for an unknown id.
const Rule* find_rule(std::string_view id);

}  // namespace weightproof::reports
