// SPDX-License-Identifier: Apache-2.0
// A measured number that says how it was measured, or why it could not be. A figure without a value is never read as 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weightproof::measure {

struct Figure {
  std::optional<std::uint64_t> value;  ///< bytes, unless the field that holds it says otherwise
  std::string method;                  ///< "VmHWM of /proc/self/status"
  std::string why;                     ///< where there is no value: the reason

  static Figure of(std::uint64_t value, std::string method) { return {value, std::move(method), {}}; }
  static Figure unavailable(std::string method, std::string why) {
    return {std::nullopt, std::move(method), std::move(why)};
  }
  friend bool operator==(const Figure&, const Figure&) = default;
};

}  // namespace weightproof::measure
