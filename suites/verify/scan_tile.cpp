// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/scan_tile.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace weightproof::suites {
namespace {

constexpr std::size_t k_chunk = 64;
constexpr double k_outlier_ratio = 1024;
constexpr double k_spread_max = 64;
constexpr std::size_t k_outliers_max = 3;
constexpr std::uint64_t k_ranked_min = 16;

// Formats whose elements are whole machine words: how magnitude, NaN and Inf are read off the bits.
template <typename Word>
struct WordFormat {
  Word magnitude_mask;  // everything but the sign
  Word inf;             // magnitude of Inf; 0: the format has none
  Word nan_from;        // magnitudes from here on are NaN; 0: none
  Word nan_exact;       // one bit pattern that is NaN (sign included); 0: none
  bool is_ranked;
};

template <typename Word>
void add_special(const WordFormat<Word>& format, const Word* values, std::size_t count, std::uint64_t index,
                 TileFacts& facts) {
  for (std::size_t i = 0; i < count; ++i) {
    const Word magnitude = static_cast<Word>(values[i] & format.magnitude_mask);
    if ((format.nan_from != 0 && magnitude >= format.nan_from) ||
        (format.nan_exact != 0 && values[i] == format.nan_exact)) {
      ++facts.nan_count;
      facts.first_nan = std::min(facts.first_nan, index + i);
    } else if (format.inf != 0 && magnitude == format.inf) {
      ++facts.inf_count;
      facts.first_inf = std::min(facts.first_inf, index + i);
    }
  }
}

template <typename Word>
void rank_chunk(const WordFormat<Word>& format, const Word* values, std::size_t count, std::uint64_t index,
                bool is_exact, MagnitudeRank& rank) {
  Word best = 0;
  std::size_t best_at = 0;
  bool has_any = false;
  for (std::size_t i = 0; i < count; ++i) {
    const Word magnitude = static_cast<Word>(values[i] & format.magnitude_mask);
    if (format.inf != 0 && magnitude >= format.inf) {
      continue;
    }
    if (is_exact) {
      rank.add(magnitude, index + i);
    } else if (!has_any || magnitude > best) {
      best = magnitude;
      best_at = i;
    }
    has_any = true;
  }
  if (!is_exact && has_any) {
    rank.add(best, index + best_at);
  }
}

template <typename Word>
TileFacts scan_words(const WordFormat<Word>& format, std::span<const std::byte> bytes, std::uint64_t first_element,
                     bool is_exact) {
  TileFacts facts;
  const std::size_t count = bytes.size() / sizeof(Word);
  facts.elements = count;
  if (count == 0) {
    return facts;
  }
  Word first = 0;
  std::memcpy(&first, bytes.data(), sizeof(Word));
  facts.first_bits = first;
  Word any_difference = 0;
  Word any_magnitude = 0;
  std::array<Word, k_chunk> values{};
  for (std::size_t at = 0; at < count; at += k_chunk) {
    // Copied because the data of a file may lie at any byte.
    const std::size_t size = std::min(k_chunk, count - at);
    std::memcpy(values.data(), bytes.data() + at * sizeof(Word), size * sizeof(Word));
    Word largest = 0;
    Word seen = 0;
    Word difference = 0;
    Word exact = 0;
    if (size == k_chunk) {
      for (std::size_t i = 0; i < k_chunk; ++i) {
        const Word magnitude = static_cast<Word>(values[i] & format.magnitude_mask);
        largest = std::max(largest, magnitude);
        seen = static_cast<Word>(seen | magnitude);
        difference = static_cast<Word>(difference | (values[i] ^ first));
        exact = static_cast<Word>(exact | static_cast<Word>(values[i] == format.nan_exact));
      }
    } else {
      for (std::size_t i = 0; i < size; ++i) {
        const Word magnitude = static_cast<Word>(values[i] & format.magnitude_mask);
        largest = std::max(largest, magnitude);
        seen = static_cast<Word>(seen | magnitude);
        difference = static_cast<Word>(difference | (values[i] ^ first));
        exact = static_cast<Word>(exact | static_cast<Word>(values[i] == format.nan_exact));
      }
    }
    any_magnitude = static_cast<Word>(any_magnitude | seen);
    any_difference = static_cast<Word>(any_difference | difference);
    const std::uint64_t index = first_element + at;
    const bool has_special = (format.inf != 0 && largest >= format.inf) ||
                             (format.nan_from != 0 && largest >= format.nan_from) ||
                             (format.nan_exact != 0 && exact != 0);
    if (has_special) {
      add_special(format, values.data(), size, index, facts);
    }
    if (format.is_ranked && (is_exact || has_special || facts.rank.ranked < MagnitudeRank::k_size ||
                             largest > facts.rank.largest.back().magnitude)) {
      rank_chunk(format, values.data(), size, index, is_exact, facts.rank);
    } else if (format.is_ranked) {
      ++facts.rank.ranked;
    }
  }
  facts.is_constant = any_difference == 0;
  facts.is_zero = any_magnitude == 0;
  return facts;
}

TileFacts scan_bool(std::span<const std::byte> bytes, std::uint64_t first_element) {
  TileFacts facts = scan_words<std::uint8_t>({0xFF, 0, 0, 0, false}, bytes, first_element, false);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (std::to_integer<unsigned>(bytes[i]) > 1) {
      ++facts.odd_bool_count;
      facts.first_odd_bool = std::min(facts.first_odd_bool, first_element + i);
    }
  }
  return facts;
}

// Elements narrower than a byte, least significant bits first: two F4 in a byte, four F6 in three bytes.
TileFacts scan_packed(unsigned bits, std::span<const std::byte> bytes, [[maybe_unused]] std::uint64_t first_element) {
  TileFacts facts;
  const std::uint32_t mask = (1U << bits) - 1U;
  const std::uint32_t magnitude = mask >> 1U;
  std::uint32_t window = 0;
  unsigned filled = 0;
  for (const std::byte byte : bytes) {
    window |= std::to_integer<std::uint32_t>(byte) << filled;
    filled += 8;
    while (filled >= bits) {
      const std::uint32_t value = window & mask;
      window >>= bits;
      filled -= bits;
      if (facts.elements == 0) {
        facts.first_bits = value;
      }
      facts.is_constant = facts.is_constant && value == facts.first_bits;
      facts.is_zero = facts.is_zero && (value & magnitude) == 0;
      ++facts.elements;
    }
  }
  return facts;
}

// A complex element is NaN or Inf where one of its parts is.
TileFacts scan_complex(std::span<const std::byte> bytes, std::uint64_t first_element) {
  TileFacts facts = scan_words<std::uint64_t>({0x7FFFFFFF7FFFFFFFULL, 0, 0, 0, false}, bytes, first_element, false);
  constexpr std::uint32_t inf = 0x7F800000;
  for (std::size_t i = 0; i < facts.elements; ++i) {
    std::array<std::uint32_t, 2> parts{};
    std::memcpy(parts.data(), bytes.data() + i * 8, 8);
    const std::uint32_t largest = std::max(parts[0] & 0x7FFFFFFFU, parts[1] & 0x7FFFFFFFU);
    if (largest > inf) {
      ++facts.nan_count;
      facts.first_nan = std::min(facts.first_nan, first_element + i);
    } else if (largest == inf) {
      ++facts.inf_count;
      facts.first_inf = std::min(facts.first_inf, first_element + i);
    }
  }
  return facts;
}

}  // namespace

void MagnitudeRank::add(std::uint64_t magnitude, std::uint64_t index) {
  ++ranked;
  // Equal magnitudes keep the lower index, so that the result does not depend on the order of merging.
  const auto precedes = [](const Entry& a, const Entry& b) {
    return a.magnitude != b.magnitude ? a.magnitude > b.magnitude : a.index < b.index;
  };
  const Entry entry{magnitude, index};
  if (!precedes(entry, largest.back())) {
    return;
  }
  std::size_t at = k_size - 1;
  while (at > 0 && precedes(entry, largest[at - 1])) {
    largest[at] = largest[at - 1];
    --at;
  }
  largest[at] = entry;
}

void MagnitudeRank::merge(const MagnitudeRank& other) {
  const std::uint64_t total = ranked + other.ranked;
  for (const Entry& entry : other.largest) {
    if (entry.index != UINT64_MAX) {
      add(entry.magnitude, entry.index);
    }
  }
  ranked = total;
}

void TileFacts::merge(const TileFacts& other) {
  if (other.elements == 0) {
    return;
  }
  if (elements == 0) {
    *this = other;
    return;
  }
  elements += other.elements;
  nan_count += other.nan_count;
  first_nan = std::min(first_nan, other.first_nan);
  inf_count += other.inf_count;
  first_inf = std::min(first_inf, other.first_inf);
  odd_bool_count += other.odd_bool_count;
  first_odd_bool = std::min(first_odd_bool, other.first_odd_bool);
  is_constant = is_constant && other.is_constant && first_bits == other.first_bits;
  is_zero = is_zero && other.is_zero;
  rank.merge(other.rank);
}

TileFacts scan_tile(DType dtype, std::span<const std::byte> bytes, std::uint64_t first_element, bool is_exact) {
  switch (dtype) {
    case DType::f16:
      return scan_words<std::uint16_t>({0x7FFF, 0x7C00, 0x7C01, 0, true}, bytes, first_element, is_exact);
    case DType::bf16:
      return scan_words<std::uint16_t>({0x7FFF, 0x7F80, 0x7F81, 0, true}, bytes, first_element, is_exact);
    case DType::f32:
      return scan_words<std::uint32_t>({0x7FFFFFFF, 0x7F800000, 0x7F800001, 0, true}, bytes, first_element, is_exact);
    case DType::f64:
      return scan_words<std::uint64_t>({0x7FFFFFFFFFFFFFFFULL, 0x7FF0000000000000ULL, 0x7FF0000000000001ULL, 0, true},
                                       bytes, first_element, is_exact);
    case DType::f8_e5m2:
      return scan_words<std::uint8_t>({0x7F, 0x7C, 0x7D, 0, false}, bytes, first_element, false);
    case DType::f8_e4m3:
      return scan_words<std::uint8_t>({0x7F, 0, 0x7F, 0, false}, bytes, first_element, false);
    case DType::f8_e4m3fnuz:
    case DType::f8_e5m2fnuz:
      // No negative zero: its pattern is the one NaN, so every bit counts for "zero".
      return scan_words<std::uint8_t>({0xFF, 0, 0, 0x80, false}, bytes, first_element, false);
    case DType::f8_e8m0: {
      // A power of two per byte, without sign or zero.
      TileFacts facts = scan_words<std::uint8_t>({0xFF, 0, 0xFF, 0, false}, bytes, first_element, false);
      facts.is_zero = facts.elements == 0;
      return facts;
    }
    case DType::f4:
      return scan_packed(4, bytes, first_element);
    case DType::f6_e2m3:
    case DType::f6_e3m2:
      return scan_packed(6, bytes, first_element);
    case DType::c64:
      return scan_complex(bytes, first_element);
    case DType::bool8:
      return scan_bool(bytes, first_element);
    case DType::u8:
    case DType::i8:
      return scan_words<std::uint8_t>({0xFF, 0, 0, 0, false}, bytes, first_element, false);
    case DType::i16:
    case DType::u16:
      return scan_words<std::uint16_t>({0xFFFF, 0, 0, 0, false}, bytes, first_element, false);
    case DType::i32:
    case DType::u32:
      return scan_words<std::uint32_t>({0xFFFFFFFF, 0, 0, 0, false}, bytes, first_element, false);
    case DType::i64:
    case DType::u64:
      return scan_words<std::uint64_t>({UINT64_MAX, 0, 0, 0, false}, bytes, first_element, false);
  }
  return {};
}

double magnitude_value(DType dtype, std::uint64_t bits) {
  const auto from_parts = [](std::uint64_t exponent, std::uint64_t mantissa, int mantissa_bits, int bias) {
    const int scale = exponent == 0 ? 1 - bias - mantissa_bits : static_cast<int>(exponent) - bias - mantissa_bits;
    const std::uint64_t whole = exponent == 0 ? mantissa : mantissa | (1ULL << mantissa_bits);
    return std::ldexp(static_cast<double>(whole), scale);
  };
  switch (dtype) {
    case DType::f16:
      return from_parts(bits >> 10U, bits & 0x3FFU, 10, 15);
    case DType::bf16:
      return from_parts(bits >> 7U, bits & 0x7FU, 7, 127);
    case DType::f32:
      return from_parts(bits >> 23U, bits & 0x7FFFFFU, 23, 127);
    case DType::f64: {
      double value = 0;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    default:
      return 0;
  }
}

std::optional<Outlier> find_outlier(DType dtype, const TileFacts& facts) {
  const auto& largest = facts.rank.largest;
  if (!is_ordinary_float(dtype) || facts.rank.ranked < k_ranked_min || largest.back().index == UINT64_MAX) {
    return std::nullopt;
  }
  std::array<double, MagnitudeRank::k_size> values{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = magnitude_value(dtype, largest[i].magnitude);
  }
  for (std::size_t alone = 1; alone <= k_outliers_max; ++alone) {
    const double next = values[alone];
    if (values.back() > 0 && values[alone - 1] / next > k_outlier_ratio && next / values.back() <= k_spread_max) {
      return Outlier{largest.front().index, values.front(), next, alone};
    }
  }
  return std::nullopt;
}

}  // namespace weightproof::suites
