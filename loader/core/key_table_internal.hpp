// SPDX-License-Identifier: Apache-2.0
// Open addressing over keys that live elsewhere: a slot holds 8 bits of the key's hash and its position + 1, so that
// most probes that do not match never touch the key.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

#include "loader/core/hash.hpp"
#include "loader/core/limits.hpp"

namespace weightproof::detail {

inline constexpr std::uint32_t k_position_bits = 24;
inline constexpr std::uint32_t k_position_mask = (1u << k_position_bits) - 1;
inline constexpr std::uint32_t k_not_found = UINT32_MAX;
static_assert(limits::tensors_max < k_position_mask);

/// `key_of(position)` gives the key of a position. Returns the position or k_not_found.
template <typename KeyOf>
std::uint32_t find_key(const std::vector<std::uint32_t>& slots, std::string_view key, std::uint64_t hash,
                       KeyOf key_of) {
  if (slots.empty()) return k_not_found;
  const std::size_t mask = slots.size() - 1;
  const std::uint32_t tag = static_cast<std::uint32_t>(hash >> 56);
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const std::uint32_t slot = slots[at];
    if (slot == 0) return k_not_found;
    if (slot >> k_position_bits != tag) continue;
    const std::uint32_t position = (slot & k_position_mask) - 1;
    if (key_of(position) == key) return position;
  }
}

inline void place_key(std::vector<std::uint32_t>& slots, std::uint64_t hash, std::uint32_t position) {
  const std::size_t mask = slots.size() - 1;
  std::size_t at = hash & mask;
  while (slots[at] != 0) at = (at + 1) & mask;
  slots[at] = static_cast<std::uint32_t>(hash >> 56) << k_position_bits | (position + 1);
}

/// Makes room for `count` keys at a load of at most one half; the first `placed` of them are in the table already.
template <typename KeyOf>
void reserve_keys(std::vector<std::uint32_t>& slots, std::size_t count, std::uint32_t placed, KeyOf key_of) {
  if (slots.size() >= 2 * count) return;
  slots.assign(std::bit_ceil(std::max<std::size_t>(2 * count, 64)), 0);
  for (std::uint32_t position = 0; position < placed; ++position)
    place_key(slots, hash_text(key_of(position)), position);
}

/// Places a key that is not in the table.
template <typename KeyOf>
void insert_key(std::vector<std::uint32_t>& slots, std::uint64_t hash, std::uint32_t position, KeyOf key_of) {
  if (slots.size() < 2 * (std::size_t{position} + 1)) {
    reserve_keys(slots, 2 * (std::size_t{position} + 1), position, key_of);
  }
  place_key(slots, hash, position);
}

}  // namespace weightproof::detail
