// SPDX-License-Identifier: Apache-2.0
// Element by element: where two sides differ, by how much, and which simple rule would make one of the other. One pass.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/finding.hpp"
#include "suites/explanations/line_digests.hpp"
#include "suites/explanations/rounding.hpp"

namespace weightproof::suites {

/// One number that holds for all elements seen, as far as it does.
struct ConstantFit {
  bool holds = true;
  bool has_value = false;
  double value = 0;
  void add_ratio(double expected, double actual, double tolerance);
  void add_offset(double expected, double actual);
};

class ElementVotes {
 public:
  /// `source_dtype`: what `source` spans hold, where there are any.
  ElementVotes(DType dtype, const MatrixView& view, std::optional<DType> source_dtype);
  /// Elements from `first` on; `source` may be empty. Windows may come in any order, each once.
  void add(std::uint64_t first, std::span<const std::byte> expected, std::span<const std::byte> actual,
           std::span<const std::byte> source);

  std::uint64_t elements = 0;
  std::uint64_t differing = 0;
  std::uint64_t nonzero = 0;            ///< expected values that are not zero, NaN or infinite
  std::uint64_t differing_nonzero = 0;  ///< of those, that differ
  std::optional<std::uint64_t> first;   ///< index of the first difference
  std::uint64_t first_expected = 0, first_actual = 0, first_source = 0;  ///< bits at `first`
  std::uint64_t last = 0;                                                ///< index of the last difference
  /// Differing elements that were to be NaN or infinite: nothing about rounding is asked of them.
  std::uint64_t differing_nonfinite = 0;

  // True while it holds of every element that differs.
  bool are_bytes_reversed = true;
  bool are_zeros = true;          ///< actual is zero
  bool are_negated = true;        ///< the sign bit alone
  bool are_one_bit = true;        ///< exactly one bit
  bool are_canonical_nan = true;  ///< NaN on both sides
  bool are_nan = true;            ///< NaN where a number or infinity belongs
  bool are_one_value = true;      ///< all actual bits equal
  std::uint64_t one_value = 0;
  // The same of those that were to be numbers.
  bool are_flushed = true;      ///< subnormal expected, zero found
  bool are_toward_zero = true;  ///< one step smaller in magnitude
  bool are_within_one = true;   ///< one step either way
  ConstantFit ratio, offset;    ///< of the elements that differ
  double ratio_tolerance = 0;
  std::vector<ConstantFit> row_ratio, column_ratio;  ///< of each row and column over all leads together; may be empty

  std::array<std::uint64_t, 5> steps{};  ///< -2 and below, -1, 0, 1, 2 and above: in steps of the dtype
  bool has_steps = false;                ///< ordinary float
  bool has_source = false;
  RoundingVote rounding;  ///< with a source

  /// Shares of at most 16 x 32 bins, or of one cell for each lead where there are several.
  reports::WhereMap where() const;
  /// Rows (and leads) that hold differences, counted; empty vectors where there are too many to keep.
  const std::vector<std::uint32_t>& lead_counts() const { return lead_counts_; }
  const std::vector<std::uint32_t>& row_counts() const { return row_counts_; }

 private:
  void note_difference(std::uint64_t index, std::uint64_t expected, std::uint64_t actual, double x, double y);
  void note_place(std::uint64_t index);
  DType dtype_;
  unsigned width_;
  MatrixView view_;
  bool has_numbers_;
  std::vector<std::uint64_t> bins_;
  std::uint32_t bin_rows_ = 1;
  std::uint32_t bin_columns_ = 1;
  std::vector<std::uint32_t> lead_counts_;
  std::vector<std::uint32_t> row_counts_;  ///< leads x rows
};

}  // namespace weightproof::suites
