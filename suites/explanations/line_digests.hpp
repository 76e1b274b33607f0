// SPDX-License-Identifier: Apache-2.0
// Digests of the rows and columns of a tensor, taken in one pass. A row and a column of the same elements in the same
// order have the same digest, so that a transposition is two equal lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "loader/core/dtype.hpp"
#include "loader/core/shape.hpp"

namespace weightproof::suites {

/// A tensor as matrices: the last two axes are rows and columns, all others are counted through as leads. A vector is a
/// matrix of one column; a scalar one of one element.
struct MatrixView {
  std::uint64_t leads = 1;
  std::uint64_t rows = 1;
  std::uint64_t columns = 1;
};
MatrixView matrix_view(const Shape& shape);

struct LineDigests {
  MatrixView view;
  std::vector<std::uint64_t> rows;            ///< leads x rows; empty where there would be too many
  std::vector<std::uint64_t> columns;         ///< leads x columns, likewise
  std::vector<std::uint64_t> folded_columns;  ///< of the same bytes read as [columns, rows]: leads x rows of them
  std::vector<std::uint64_t> leads;
};

class LineDigester {
 public:
  /// Lines kept of one kind at most: 8 bytes each.
  static constexpr std::uint64_t k_lines_max = std::uint64_t{1} << 21;
  LineDigester(const MatrixView& view, unsigned element_bytes);
  /// Consecutive calls continue each other.
  void add(std::span<const std::byte> bytes);
  /// Lines that were begun and not ended are kept as they are.
  LineDigests take();

 private:
  void step(std::uint64_t value);
  LineDigests out_;
  unsigned width_;
  bool has_rows_;
  bool has_columns_;
  bool has_folded_;
  std::uint64_t lead_ = 0;
  std::uint64_t row_ = 0;
  std::uint64_t column_ = 0;
  std::uint64_t folded_ = 0;
};

}  // namespace weightproof::suites
