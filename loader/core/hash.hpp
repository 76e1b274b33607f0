// SPDX-License-Identifier: Apache-2.0
// Hashing for the tables of this project: fast on tensor keys, and seeded per process so that a file cannot choose
// names that collide. Values are never stored or shown; nothing that is reported may depend on their order.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace weightproof {

namespace detail {
/// Drawn once per process.
std::uint64_t hash_seed();

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t load_word(const char* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

inline constexpr std::uint64_t k_prime_a = 0x9e3779b97f4a7c15u;
inline constexpr std::uint64_t k_prime_b = 0xd6e8feb86659fd93u;
}  // namespace detail

inline std::uint64_t hash_text(std::string_view text) {
  static const std::uint64_t seed = detail::hash_seed();
  std::uint64_t state = seed ^ (text.size() * detail::k_prime_a);
  const char* at = text.data();
  std::size_t left = text.size();
  for (; left > 8; left -= 8, at += 8) state = detail::mix(state ^ detail::load_word(at), detail::k_prime_b ^ seed);
  std::uint64_t tail = 0;
  if (left != 0) std::memcpy(&tail, at, left);
  state = detail::mix(state ^ tail, detail::k_prime_b ^ seed);
  return detail::mix(state, detail::k_prime_a);
}

inline std::uint64_t hash_words(std::span<const std::uint64_t> words, std::uint64_t state = 0) {
  static const std::uint64_t seed = detail::hash_seed();
  state ^= seed + words.size();
  for (const std::uint64_t word : words) state = detail::mix(state ^ word, detail::k_prime_b ^ seed);
  return detail::mix(state, detail::k_prime_a);
}

}  // namespace weightproof
