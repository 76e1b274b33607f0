// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weightproof::reports {

/// How a check ended. The order is that of listings: what matters first.
enum class Status : std::uint8_t { fail, error, warn, skip, pass };

/// How a whole report ended.
enum class Verdict : std::uint8_t { pass, fail, error };

std::string_view to_string(Status status);
std::string_view to_string(Verdict verdict);
std::optional<Status> status_from(std::string_view text);
std::optional<Verdict> verdict_from(std::string_view text);

/// Number of check records by status.
struct Summary {
  std::uint64_t pass = 0;
  std::uint64_t fail = 0;
  std::uint64_t warn = 0;
  std::uint64_t skip = 0;
  std::uint64_t error = 0;
  std::uint64_t ran() const { return pass + fail + warn + error; }
  std::uint64_t total() const { return ran() + skip; }
  friend bool operator==(const Summary&, const Summary&) = default;
};

}  // namespace weightproof::reports
