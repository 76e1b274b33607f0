// SPDX-License-Identifier: Apache-2.0
#include "reports/rules.hpp"

#include <algorithm>
#include <array>

namespace weightproof::reports {
namespace {

constexpr auto k_rules = std::to_array<Rule>({
#define WEIGHTPROOF_RULE(group, name, title, description, severity) \
  Rule{#group "." #name, title, description, severity},
#include "reports/rules.def"
#undef WEIGHTPROOF_RULE
});

}  // namespace

std::span<const Rule> rules() { return k_rules; }

const Rule* find_rule(std::string_view id) {
  const auto it = std::find_if(k_rules.begin(), k_rules.end(), [&](const Rule& rule) { return rule.id == id; });
  return it == k_rules.end() ? nullptr : &*it;
}

}  // namespace weightproof::reports
