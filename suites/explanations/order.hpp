// SPDX-License-Identifier: Apache-2.0
// Lines in another order: which, and in the fewest words.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weightproof::suites {

/// found[i] = declared[order[i]] for every i, or nothing where the two do not hold the same lines. Equal lines keep
/// their places where they can.
std::optional<std::vector<std::uint64_t>> order_between(std::span<const std::uint64_t> declared,
                                                        std::span<const std::uint64_t> found);

enum class OrderKind : std::uint8_t {
  identity,
  exchanged,  ///< two blocks have changed places
  rotated,    ///< all moved by one distance
  reversed,
  interleaved,    ///< read as [count, n / count], found as its transpose
  within_groups,  ///< the same order inside every group
  text_order,     ///< sorted as decimal text: 0, 1, 10, 11, 2, ...
  other
};

struct OrderFacts {
  OrderKind kind = OrderKind::identity;
  std::uint64_t lines = 0;
  std::uint64_t block = 1;                 ///< consecutive lines that travel together
  std::vector<std::uint64_t> blocks;       ///< declared number of the block found at each place
  std::uint64_t first = 0, second = 0;     ///< the exchanged blocks
  std::uint64_t distance = 0;              ///< of a rotation: what stood at `distance` stands at 0
  std::uint64_t count = 0;                 ///< interleaved: pieces that were shuffled into one another; groups
  OrderKind inner = OrderKind::identity;   ///< within_groups: the order inside
  std::vector<std::uint64_t> inner_order;  ///< in blocks
  /// True where the two halves have changed places, as a whole or inside every group of two blocks.
  bool are_halves_exchanged() const;
  /// "blocks of 64 rows in order 0, 2, 1, 3".
  std::string text(const std::string& unit) const;
};
OrderFacts describe_order(std::span<const std::uint64_t> order);

/// "0, 2, 1, 3, 4, 5, 6, 7, ... 63".
std::string listed_order(std::span<const std::uint64_t> order);
/// 0, 1, 10, 11, ..., 2, 20, ...: the order of decimal texts below `count`.
std::vector<std::uint64_t> text_order(std::uint64_t count);

}  // namespace weightproof::suites
