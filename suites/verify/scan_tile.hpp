// SPDX-License-Identifier: Apache-2.0
// What one pass over the stored bytes of a tensor tells, without decoding: NaN and Inf, zeros, one single value, bytes
// of a BOOL that are neither 0 nor 1, magnitudes that stand alone. For every dtype of the format.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "loader/core/dtype.hpp"

namespace weightproof::suites {

/// Bytes that a cut inside a tensor must be a multiple of: whole elements of every dtype, F6 included (4 in 3 bytes).
inline constexpr std::size_t k_cut_bytes = 24;
/// Tensors of at most so many elements are ranked element by element, larger ones by chunk.
inline constexpr std::uint64_t k_exact_elements_max = 4096;

/// Largest magnitudes, as ordered integers (bit patterns without the sign). Each entry stands for an element or a
/// chunk.
struct MagnitudeRank {
  static constexpr std::size_t k_size = 8;
  struct Entry {
    std::uint64_t magnitude = 0;
    std::uint64_t index = UINT64_MAX;  ///< element of that magnitude, counted in the tensor
  };
  std::array<Entry, k_size> largest;  ///< descending
  std::uint64_t ranked = 0;           ///< elements or chunks seen
  void add(std::uint64_t magnitude, std::uint64_t index);
  void merge(const MagnitudeRank& other);
};

/// Facts about a run of elements; runs of one tensor are merged in any order. Indices are row-major in the tensor.
struct TileFacts {
  std::uint64_t elements = 0;
  std::uint64_t nan_count = 0;
  std::uint64_t first_nan = UINT64_MAX;
  std::uint64_t inf_count = 0;
  std::uint64_t first_inf = UINT64_MAX;
  std::uint64_t odd_bool_count = 0;  ///< BOOL bytes other than 0 and 1
  std::uint64_t first_odd_bool = UINT64_MAX;
  std::uint64_t first_bits = 0;  ///< of any element, when elements > 0
  bool is_constant = true;       ///< every element has these bits
  bool is_zero = true;           ///< every element is +0 or -0 (floating), or 0
  MagnitudeRank rank;            ///< ordinary floating types alone
  void merge(const TileFacts& other);
};

/// `bytes` are whole elements; `first_element` is the index of the first. `is_exact` ranks element by element.
TileFacts scan_tile(DType dtype, std::span<const std::byte> bytes, std::uint64_t first_element, bool is_exact);

/// At most three magnitudes that stand alone: more than 1024 times the next one (of elements, or of chunks of 64),
/// where the next ones lie within a factor of 64 of each other. Values that spread over many decades by themselves are
/// none.
struct Outlier {
  std::uint64_t index = 0;
  double value = 0;         ///< the largest magnitude
  double next = 0;          ///< the largest of the others
  std::uint64_t alone = 0;  ///< how many stand out, at most three
};
std::optional<Outlier> find_outlier(DType dtype, const TileFacts& facts);

/// Value of an ordinary float from its bits without the sign.
double magnitude_value(DType dtype, std::uint64_t bits);

}  // namespace weightproof::suites
