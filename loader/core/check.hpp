// SPDX-License-Identifier: Apache-2.0
// Every public check id, with its severities and what it needs. The table is checks.def; an id is never reused for
// another fact.
#pragma once

#include <span>
#include <string_view>

namespace weightproof {

struct CheckInfo {
  std::string_view id;          ///< "keys.missing"
  std::string_view severities;  ///< "fail", "fail, warn", "note", "error"
  std::string_view needs;       ///< "header", "index, config", "bytes", ...
  std::string_view summary;     ///< what it checks, one line
  std::string_view group() const { return id.substr(0, id.find('.')); }
};

/// In the order of the table.
std::span<const CheckInfo> all_checks();
/// Null for an unknown id.
const CheckInfo* find_check(std::string_view id);

}  // namespace weightproof
