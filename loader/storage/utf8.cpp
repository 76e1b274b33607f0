// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>

#include "loader/storage/utf8_internal.hpp"

namespace weightproof::storage::detail {
namespace {

constexpr std::size_t k_block_bytes = 64;

// Length of the well-formed sequence at `at`, 0 if there is none.
std::size_t sequence_length(const unsigned char* at, std::size_t left) {
  const auto is_tail = [&](std::size_t i, unsigned low, unsigned high) {
    return i < left && at[i] >= low && at[i] <= high;
  };
  const unsigned lead = at[0];
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return is_tail(1, 0x80, 0xBF) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    // E0 would allow overlong forms, ED surrogates.
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;
    return is_tail(1, low, high) && is_tail(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;
    return is_tail(1, low, high) && is_tail(2, 0x80, 0xBF) && is_tail(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t at = 0;
  while (at < text.size()) {
    if (text.size() - at >= 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes + at, 8);
      if ((word & 0x8080808080808080ULL) == 0) {
        at += 8;
        continue;
      }
    }
    const std::size_t length = sequence_length(bytes + at, text.size() - at);
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

void TextCensus::add(std::string_view piece) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(piece.data());
  unsigned seen = 0;  // high bits of all bytes so far
  std::size_t at = 0;
  // Counters of one byte let the compiler keep a block in vector registers.
  for (; piece.size() - at >= k_block_bytes; at += k_block_bytes) {
    unsigned char braces = 0;
    unsigned char deletes = 0;
    unsigned char high = 0;
    for (std::size_t i = 0; i < k_block_bytes; ++i) {
      const unsigned char byte = bytes[at + i];
      braces = static_cast<unsigned char>(braces + (byte == '{' ? 1 : 0));
      deletes = static_cast<unsigned char>(deletes | (byte == 0x7F ? 1 : 0));
      high = static_cast<unsigned char>(high | byte);
    }
    open_braces += braces;
    has_delete |= deletes != 0;
    seen |= high;
  }
  for (; at < piece.size(); ++at) {
    open_braces += bytes[at] == '{' ? 1 : 0;
    has_delete |= bytes[at] == 0x7F;
    seen |= bytes[at];
  }
  is_ascii &= (seen & 0x80) == 0;
}

}  // namespace weightproof::storage::detail
