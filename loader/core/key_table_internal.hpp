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

inline std::uint32_t key_hash(std::string_view key) { return static_cast<std::uint32_t>(hash_text(key)); }

/// `key_of(position)` gives the key of a position. Returns the position or k_not_found.
template <typename KeyOf>
std::uint32_t find_key(const std::vector<std::uint32_t>& slots, std::string_view key, std::uint32_t hash,
                       KeyOf key_of) {
  if (slots.empty()) return k_not_found;
  const std::size_t mask = slots.size() - 1;
  const std::uint32_t tag = hash >> k_position_bits;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const std::uint32_t slot = slots[at];
    if (slot == 0) return k_not_found;
    if (slot >> k_position_bits != tag) continue;
    const std::uint32_t position = (slot & k_position_mask) - 1;
    if (key_of(position) == key) return position;
  }
}

/// find_key() for `count` keys at once: memory is asked for ahead, because on a million keys each look-up would wait
/// for the slot, the row and the characters in turn. `key_at(i)` gives the i-th key sought, `use(i, position)` takes
/// the answer, `row_at(position)` the address that key_of reads.
template <typename KeyAt, typename KeyOf, typename RowAt, typename Use>
void find_keys(const std::vector<std::uint32_t>& slots, std::size_t count, KeyAt key_at, KeyOf key_of, RowAt row_at,
               Use use) {
  constexpr std::size_t k_batch = 32;
  std::uint32_t hashes[k_batch];
  std::uint32_t candidates[k_batch];
  const std::size_t mask = slots.empty() ? 0 : slots.size() - 1;
  for (std::size_t first = 0; first < count; first += k_batch) {
    const std::size_t batch = std::min(k_batch, count - first);
    for (std::size_t i = 0; i < batch; ++i) {
      hashes[i] = key_hash(key_at(first + i));
      if (!slots.empty()) __builtin_prefetch(&slots[hashes[i] & mask]);
    }
    for (std::size_t i = 0; i < batch; ++i) {
      candidates[i] = k_not_found;
      if (slots.empty()) continue;
      const std::uint32_t tag = hashes[i] >> k_position_bits;
      std::size_t at = hashes[i] & mask;
      while (slots[at] != 0 && slots[at] >> k_position_bits != tag) at = (at + 1) & mask;
      if (slots[at] == 0) continue;
      candidates[i] = (slots[at] & k_position_mask) - 1;
      __builtin_prefetch(row_at(candidates[i]));
    }
    for (std::size_t i = 0; i < batch; ++i) {
      if (candidates[i] != k_not_found) __builtin_prefetch(key_of(candidates[i]).data());
    }
    for (std::size_t i = 0; i < batch; ++i) {
      if (candidates[i] == k_not_found) {
        use(first + i, k_not_found);
      } else if (key_of(candidates[i]) == key_at(first + i)) {
        use(first + i, candidates[i]);
      } else {  // another key with the same tag: the plain way
        use(first + i, find_key(slots, key_at(first + i), hashes[i], key_of));
      }
    }
  }
}

inline void place_key(std::vector<std::uint32_t>& slots, std::uint32_t hash, std::uint32_t position) {
  const std::size_t mask = slots.size() - 1;
  std::size_t at = hash & mask;
  while (slots[at] != 0) at = (at + 1) & mask;
  slots[at] = (hash & ~k_position_mask) | (position + 1);
}

/// Makes room for `count` keys at a load of at most one half; the keys of `hashes` are in the table already.
inline void reserve_keys(std::vector<std::uint32_t>& slots, std::size_t count,
                         const std::vector<std::uint32_t>& hashes) {
  if (slots.size() >= 2 * count) return;
  slots.assign(std::bit_ceil(std::max<std::size_t>(2 * count, 64)), 0);
  for (std::uint32_t position = 0; position < hashes.size(); ++position) place_key(slots, hashes[position], position);
}

/// Places a key that is not in the table, at the next position.
inline void insert_key(std::vector<std::uint32_t>& slots, std::uint32_t hash, std::vector<std::uint32_t>& hashes) {
  const std::uint32_t position = static_cast<std::uint32_t>(hashes.size());
  if (slots.size() < 2 * (std::size_t{position} + 1)) reserve_keys(slots, 2 * (std::size_t{position} + 1), hashes);
  place_key(slots, hash, position);
  hashes.push_back(hash);
}

}  // namespace weightproof::detail
