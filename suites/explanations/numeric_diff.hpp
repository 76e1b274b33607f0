// SPDX-License-Identifier: Apache-2.0
// Numbers about a difference: how far apart in steps of the dtype, by which rounding, and, where one side is decoded,
// which known mistake of a decoder gives the other side.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "suites/explanations/numeric_operators.hpp"
#include "suites/explanations/rounding.hpp"
#include "suites/state/decoded_state.hpp"
#include "suites/state/nearest_codes.hpp"

namespace weightproof::suites {

/// Elements by distance: 0, 1, 2, 3-4, 5-8, ..., above 2^20, and those that no distance can be given for (NaN against a
/// number, infinity).
struct UlpHistogram {
  static constexpr std::size_t k_buckets = 24;
  std::array<std::uint64_t, k_buckets> counts{};
  void add(std::uint64_t steps, std::uint64_t elements = 1) { counts[bucket_of(steps)] += elements; }
  void add_unmeasurable() { ++counts[k_buckets - 1]; }
  std::uint64_t total() const;
  static std::size_t bucket_of(std::uint64_t steps);
  /// "0", "3-4", "above 1048576", "none".
  static std::string label(std::size_t bucket);
};

/// The mistake of numeric_operators() that `is_match` accepts, the plainest first; null where there is none or it says
/// no more than that nothing is wrong.
const NumericOperator* recognise_mistake(const SharedCodec& codec,
                                         const std::function<bool(const SharedCodec& mistaken)>& is_match);

struct NumericEvidence {
  std::optional<RoundingVote> rounding;
  std::optional<CodesVote> codes;  ///< where one side is codes that were made of the other
  std::string_view mistake;        ///< id of the operator whose values the other side holds; empty: none
  /// Id of the order of codes in which one side decodes to what the other holds; beside weights that were never
  /// quantized, the order that is by far the nearest to them. Empty: the format's own.
  std::string_view order;
  std::string explanation;
};

/// For two tensors of one shape that differ. Nothing is held but windows, and of a large tensor the beginning is looked
/// at, which the explanation then says. Errors: io_error, file_changed.
NumericEvidence numeric_evidence(const DecodedState& a, const StateTensor& left, const DecodedState& b,
                                 const StateTensor& right);

}  // namespace weightproof::suites
