// SPDX-License-Identifier: Apache-2.0
#include "loader/measure/timing.hpp"

namespace weightproof::measure {

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::metadata:
      return "metadata";
    case Phase::planning:
      return "planning";
    case Phase::destinations:
      return "destinations";
    case Phase::storage_read:
      return "storage_read";
    case Phase::convert:
      return "convert";
    case Phase::install:
      return "install";
    case Phase::verify:
      return "verify";
    case Phase::publish:
      return "publish";
  }
  return "metadata";
}

}  // namespace weightproof::measure
