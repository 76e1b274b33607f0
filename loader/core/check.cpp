// SPDX-License-Identifier: Apache-2.0
#include "loader/core/check.hpp"

#include <iterator>

namespace weightproof {
namespace {

constexpr CheckInfo k_checks[] = {
#define X(id, severities, needs, summary) {id, severities, needs, summary},
#include "loader/core/checks.def"
#undef X
};

}  // namespace

std::span<const CheckInfo> all_checks() { return k_checks; }

const CheckInfo* find_check(std::string_view id) {
  for (const CheckInfo& info : k_checks) {
    if (info.id == id) return &info;
  }
  return nullptr;
}

}  // namespace weightproof
