// SPDX-License-Identifier: Apache-2.0
#include "suites/explanations/votes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "suites/state/elements.hpp"

namespace weightproof::suites {
namespace {

constexpr std::uint32_t k_bin_rows_max = 16;
constexpr std::uint32_t k_bin_columns_max = 32;
constexpr std::uint64_t k_fits_max = std::uint64_t{1} << 18;
constexpr double k_offset_tolerance = 0x1p-5;

std::uint64_t bits_at(std::span<const std::byte> run, std::size_t i, unsigned width) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, run.data() + i * width, width);
  return bits;
}

std::uint64_t reversed_bytes(std::uint64_t bits, unsigned width) {
  std::uint64_t out = 0;
  for (unsigned i = 0; i < width; ++i) {
    out = (out << 8U) | ((bits >> (8U * i)) & 0xFFU);
  }
  return out;
}

bool is_ordinary(DType dtype) { return can_cast(dtype, DType::f32); }

// How far two ratios of rounded values may lie apart: half a step in each of four values.
double ratio_tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 0x1p-6;
    case DType::f16:
      return 0x1p-9;
    case DType::f32:
      return 0x1p-22;
    case DType::f64:
      return 0x1p-51;
    default:
      return 0x1p-2;
  }
}

}  // namespace

void ConstantFit::add_ratio(double expected, double actual, double tolerance) {
  if (!holds) {
    return;
  }
  if (expected == 0 || actual == 0 || !std::isfinite(expected) || !std::isfinite(actual)) {
    holds = expected == 0 && actual == 0;
    return;
  }
  if (!has_value) {
    value = actual / expected;
    has_value = true;
  }
  holds = std::fabs(actual - value * expected) <= std::fabs(actual) * tolerance;
}

void ConstantFit::add_offset(double expected, double actual) {
  if (!holds) {
    return;
  }
  const double offset = actual - expected;
  if (!std::isfinite(offset)) {
    holds = false;
    return;
  }
  if (!has_value) {
    value = offset;
    has_value = true;
  }
  holds = std::fabs(offset - value) <= std::fabs(value) * k_offset_tolerance;
}

ElementVotes::ElementVotes(DType dtype, const MatrixView& view, std::optional<DType> source_dtype)
    : ratio_tolerance(ratio_tolerance_of(dtype)),
      has_steps(is_ordinary(dtype)),
      has_source(source_dtype == DType::f32 && (dtype == DType::bf16 || dtype == DType::f16)),
      dtype_(dtype),
      width_(std::max(1U, bits_of(dtype) / 8)),
      view_(view),
      has_numbers_(has_numbers(dtype)) {
  if (view_.leads == 1) {
    // A vector is drawn along the width.
    const std::uint64_t rows = view_.columns == 1 ? 1 : view_.rows;
    const std::uint64_t columns = view_.columns == 1 ? view_.rows : view_.columns;
    bin_rows_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(rows, 1, k_bin_rows_max));
    bin_columns_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(columns, 1, k_bin_columns_max));
    bins_.assign(std::size_t{bin_rows_} * bin_columns_, 0);
  }
  if (view_.leads <= LineDigester::k_lines_max) {
    lead_counts_.assign(view_.leads, 0);
  }
  if (view_.leads * view_.rows <= LineDigester::k_lines_max) {
    row_counts_.assign(view_.leads * view_.rows, 0);
  }
  if (has_numbers_ && view_.columns > 1 && view_.rows <= k_fits_max && view_.columns <= k_fits_max) {
    row_ratio.resize(view_.rows);
    column_ratio.resize(view_.columns);
  }
}

void ElementVotes::add(std::uint64_t begin, std::span<const std::byte> expected, std::span<const std::byte> actual,
                       std::span<const std::byte> source) {
  const std::size_t count = expected.size() / width_;
  elements += count;
  const bool votes_on_source = has_source && !source.empty();
  if (std::memcmp(expected.data(), actual.data(), expected.size()) == 0 && !votes_on_source) {
    steps[2] += count;
    if (has_numbers_) {
      for (std::size_t i = 0; i < count; ++i) {
        const double x = number_at(dtype_, expected, i);
        nonzero += x != 0 && std::isfinite(x) ? 1U : 0U;
      }
    }
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t e = bits_at(expected, i, width_);
    const std::uint64_t a = bits_at(actual, i, width_);
    const double x = has_numbers_ ? number_at(dtype_, expected, i) : 0;
    const bool counts = x != 0 && std::isfinite(x);
    nonzero += counts ? 1U : 0U;
    if (votes_on_source) {
      float value = 0;
      std::memcpy(&value, source.data() + i * 4, 4);
      rounding.add(value, static_cast<std::uint16_t>(a), dtype_);
    }
    if (e == a) {
      ++steps[2];
      continue;
    }
    differing_nonzero += counts ? 1U : 0U;
    if (!first || begin + i < *first) {
      first = begin + i;
      first_expected = e;
      first_actual = a;
      first_source = votes_on_source ? bits_at(source, i, 4) : 0;
    }
    const double y = has_numbers_ ? number_at(dtype_, actual, i) : 0;
    note_difference(begin + i, e, a, x, y);
    if (has_steps) {
      const std::int64_t distance = ordered_position(dtype_, actual, i) - ordered_position(dtype_, expected, i);
      ++steps[static_cast<std::size_t>(std::clamp<std::int64_t>(distance, -2, 2) + 2)];
      const bool is_one = (distance == 1 || distance == -1) && std::isfinite(y);
      if (std::isfinite(x)) {
        are_within_one = are_within_one && is_one;
        are_toward_zero = are_toward_zero && is_one && std::fabs(y) < std::fabs(x);
      }
    }
  }
}

void ElementVotes::note_difference(std::uint64_t index, std::uint64_t expected, std::uint64_t actual, double x,
                                   double y) {
  if (differing++ == 0) {
    one_value = actual;
  }
  last = std::max(last, index);
  are_one_value = are_one_value && actual == one_value;
  are_bytes_reversed = are_bytes_reversed && width_ > 1 && reversed_bytes(expected, width_) == actual;
  are_one_bit = are_one_bit && std::has_single_bit(expected ^ actual);
  if (has_numbers_) {
    are_zeros = are_zeros && y == 0;
    are_negated = are_negated && x != 0 && y == -x;
    are_canonical_nan = are_canonical_nan && std::isnan(x) && std::isnan(y);
    are_nan = are_nan && !std::isnan(x) && std::isnan(y);
    if (std::isfinite(x)) {
      are_flushed = are_flushed && has_steps && y == 0 && x != 0 && std::fabs(x) < least_normal(dtype_);
    } else {
      ++differing_nonfinite;
    }
    ratio.add_ratio(x, y, ratio_tolerance);
    offset.add_offset(x, y);
    if (!row_ratio.empty()) {
      row_ratio[index / view_.columns % view_.rows].add_ratio(x, y, ratio_tolerance);
      column_ratio[index % view_.columns].add_ratio(x, y, ratio_tolerance);
    }
  } else {
    are_zeros = are_zeros && actual == 0;
    are_negated = are_flushed = are_canonical_nan = are_nan = ratio.holds = offset.holds = false;
  }
  if (!has_steps) {
    are_toward_zero = are_within_one = false;
  }
  note_place(index);
}

void ElementVotes::note_place(std::uint64_t index) {
  const std::uint64_t line = index / view_.columns;
  if (!row_counts_.empty()) {
    ++row_counts_[line];
  }
  if (!lead_counts_.empty()) {
    ++lead_counts_[line / view_.rows];
  }
  if (!bins_.empty()) {
    const bool is_vector = view_.columns == 1;
    const std::uint64_t row = is_vector ? 0 : line;
    const std::uint64_t column = is_vector ? line : index % view_.columns;
    const std::uint64_t rows = is_vector ? 1 : view_.rows;
    const std::uint64_t columns = is_vector ? view_.rows : view_.columns;
    ++bins_[row * bin_rows_ / rows * bin_columns_ + column * bin_columns_ / columns];
  }
}

reports::WhereMap ElementVotes::where() const {
  reports::WhereMap out;
  if (view_.leads > 1 && !lead_counts_.empty()) {
    // One cell a lead while they fit, else bins of leads.
    const std::uint64_t cells = std::min<std::uint64_t>(view_.leads, std::uint64_t{k_bin_rows_max} * k_bin_columns_max);
    out.columns = static_cast<std::uint32_t>(std::min<std::uint64_t>(cells, k_bin_columns_max));
    out.rows = static_cast<std::uint32_t>((cells + out.columns - 1) / out.columns);
    out.unit = cells == view_.leads ? "matrix" : "bin of matrices";
    out.shares.assign(std::size_t{out.rows} * out.columns, 0);
    std::vector<double> sizes(out.shares.size(), 0);
    for (std::uint64_t lead = 0; lead < view_.leads; ++lead) {
      const std::size_t cell = lead * cells / view_.leads;
      out.shares[cell] += lead_counts_[lead];
      sizes[cell] += static_cast<double>(view_.rows) * static_cast<double>(view_.columns);
    }
    for (std::size_t i = 0; i < out.shares.size(); ++i) {
      out.shares[i] = sizes[i] > 0 ? out.shares[i] / sizes[i] : 0;
    }
    return out;
  }
  if (bins_.empty()) {
    return out;
  }
  out.rows = bin_rows_;
  out.columns = bin_columns_;
  const bool is_vector = view_.columns == 1;
  const std::uint64_t rows = is_vector ? 1 : view_.rows;
  const std::uint64_t columns = is_vector ? view_.rows : view_.columns;
  // Elements whose bin is b: those from ceil(b * n / bins) to ceil((b + 1) * n / bins).
  const auto extent = [](std::uint64_t bin, std::uint64_t bins, std::uint64_t n) {
    return ((bin + 1) * n + bins - 1) / bins - (bin * n + bins - 1) / bins;
  };
  for (std::uint32_t r = 0; r < bin_rows_; ++r) {
    for (std::uint32_t c = 0; c < bin_columns_; ++c) {
      const double size =
          static_cast<double>(extent(r, bin_rows_, rows)) * static_cast<double>(extent(c, bin_columns_, columns));
      out.shares.push_back(size > 0 ? static_cast<double>(bins_[std::size_t{r} * bin_columns_ + c]) / size : 0);
    }
  }
  return out;
}

}  // namespace weightproof::suites
