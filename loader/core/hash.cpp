// SPDX-License-Identifier: Apache-2.0
#include "loader/core/hash.hpp"

#include <chrono>
#include <exception>
#include <random>

namespace weightproof::detail {

std::uint64_t hash_seed() {
  static const std::uint64_t seed = [] {
    try {
      std::random_device device;
      return static_cast<std::uint64_t>(device()) << 32 | device();
    } catch (const std::exception&) {
      // No entropy source: the clock still differs from run to run.
      return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) * k_prime_a;
    }
  }();
  return seed;
}

}  // namespace weightproof::detail
