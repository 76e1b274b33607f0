// SPDX-License-Identifier: Apache-2.0
#include "reports/evidence.hpp"

namespace weightproof::reports {

std::string TensorTable::key(const TensorRow& row) const {
  if (row.cls >= classes.size()) {
    return {};
  }
  const std::string& pattern = classes[row.cls].pattern;
  std::string out;
  for (std::size_t at = 0; at < pattern.size();) {
    if (pattern.compare(at, 2, "{}") == 0 && row.layer >= 0) {
      out += std::to_string(row.layer);
      at += 2;
    } else if (pattern.compare(at, 3, "{e}") == 0 && row.expert >= 0) {
      out += std::to_string(row.expert);
      at += 3;
    } else {
      out += pattern[at++];
    }
  }
  return out;
}

}  // namespace weightproof::reports
