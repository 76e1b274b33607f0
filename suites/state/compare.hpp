// SPDX-License-Identifier: Apache-2.0
// Two states side by side, tensor by tensor, streamed: equal bytes, equal values, within a tolerance, or different and
// how.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "suites/explanations/numeric_diff.hpp"
#include "suites/state/decoded_state.hpp"

namespace weightproof::suites {

struct Tolerance {
  std::uint64_t ulp = 0;
  double rtol = 0;
  double atol = 0;
  bool is_exact() const { return ulp == 0 && rtol == 0 && atol == 0; }
};

enum class Equality : std::uint8_t {
  equal,         ///< same dtype, shape and bytes
  equal_values,  ///< other dtype, every value the same, zeros with their sign, NaN where NaN is
  within,        ///< every difference inside the tolerance
  different
};
std::string_view to_string(Equality equality);

/// What became of values that a conversion may not lose. Meaningful where the elements are what some rounding gives of
/// those of the first side: are_elsewhere() says that they are not, as of another tensor, or of the same in another
/// order.
struct ValueFates {
  struct Fate {
    std::uint64_t count = 0;
    std::uint64_t first = 0;  ///< row-major index of the first
  };
  Fate nan;        ///< NaN that is none, infinity that is none or has the other sign; in one dtype also another NaN
  Fate zero;       ///< zero with the other sign
  Fate overflow;   ///< finite, and infinite on the second side
  Fate flushed;    ///< subnormal in either dtype, zero on the second side, and to nearest it would be none
  Fate saturated;  ///< beyond the largest number of the second side's dtype, and that number
  std::uint64_t far = 0;     ///< elements to which no rounding leads
  std::uint64_t silent = 0;  ///< elements of the first side that say nothing of where they went: zero, NaN, infinity
  /// By the majority of those that say it: one damaged element hides nothing.
  bool are_elsewhere(std::uint64_t elements) const { return far > 0 && 2 * far > elements - silent; }
};

enum class Side : std::uint8_t { none, first, second };

struct TensorDifference {
  std::string key;
  Equality equality = Equality::equal;
  std::uint64_t elements = 0;
  std::uint64_t differing = 0;
  std::optional<std::uint64_t> max_ulp;  ///< floating, equal dtypes: steps of that dtype
  std::optional<double> max_abs;
  std::optional<double> max_rel;
  std::optional<std::uint64_t> first;  ///< row-major index of the first element that differs
  std::string first_a;                 ///< its bits and value on either side
  std::string first_b;
  std::string explanation;   ///< what the difference is, where it was recognised
  std::string_view mistake;  ///< id of the mistake of a decoder that gives the other side exactly; empty: none known
  std::string_view order;    ///< id of the order of codes that one side has and the other has not; empty: none
  std::optional<UlpHistogram> ulps;      ///< floating, equal dtypes
  std::optional<RoundingVote> rounding;  ///< where one side is wider, or decoded
  std::optional<CodesVote> codes;        ///< where one side is codes that were made of the other
  Side folded = Side::none;  ///< which side holds the other with the scales of experts multiplied in (find_folded())
  ValueFates fates;          ///< of values with numbers
  std::string dtype_a, dtype_b;
  Shape shape_a, shape_b;
};

/// Errors: io_error, file_changed.
TensorDifference compare_tensors(const DecodedState& a, const StateTensor& left, const DecodedState& b,
                                 const StateTensor& right, const Tolerance& tolerance);

struct StateDifference {
  std::vector<std::string> only_in_a;  ///< sorted
  std::vector<std::string> only_in_b;
  std::vector<TensorDifference> tensors;  ///< those of both, sorted by key
  std::uint64_t count(Equality equality) const;
  /// True where nothing is missing on either side and nothing is different.
  bool is_within() const;
};
StateDifference compare_states(const DecodedState& a, const DecodedState& b, const Tolerance& tolerance,
                               unsigned threads,
                               const std::function<void(std::uint64_t, std::uint64_t)>& progress = {});

}  // namespace weightproof::suites
