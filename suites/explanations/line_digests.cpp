// SPDX-License-Identifier: Apache-2.0
#include "suites/explanations/line_digests.hpp"

#include <cstring>

namespace weightproof::suites {
namespace {

constexpr std::uint64_t k_factor = 0x9E3779B97F4A7C15ULL;

std::uint64_t mixed(std::uint64_t value) {
  value += k_factor;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31U);
}

}  // namespace

MatrixView matrix_view(const Shape& shape) {
  MatrixView out;
  const unsigned rank = shape.rank();
  if (rank == 1) {
    out.rows = shape[0];
  } else if (rank >= 2) {
    out.rows = shape[rank - 2];
    out.columns = shape[rank - 1];
    for (unsigned axis = 0; axis + 2 < rank; ++axis) {
      out.leads *= shape[axis];
    }
  }
  return out;
}

LineDigester::LineDigester(const MatrixView& view, unsigned element_bytes)
    : width_(element_bytes),
      has_rows_(view.leads * view.rows <= k_lines_max),
      has_columns_(view.leads * view.columns <= k_lines_max),
      has_folded_(has_rows_ && view.rows != view.columns && view.columns > 1) {
  out_.view = view;
  out_.rows.assign(has_rows_ ? view.leads * view.rows : 0, 0);
  out_.columns.assign(has_columns_ ? view.leads * view.columns : 0, 0);
  out_.folded_columns.assign(has_folded_ ? view.leads * view.rows : 0, 0);
  out_.leads.assign(view.leads <= k_lines_max ? view.leads : 0, 0);
}

void LineDigester::step(std::uint64_t value) {
  const MatrixView& view = out_.view;
  if (has_rows_) {
    std::uint64_t& digest = out_.rows[lead_ * view.rows + row_];
    digest = digest * k_factor + value;
  }
  if (has_columns_) {
    std::uint64_t& digest = out_.columns[lead_ * view.columns + column_];
    digest = digest * k_factor + value;
  }
  if (has_folded_) {
    std::uint64_t& digest = out_.folded_columns[lead_ * view.rows + folded_];
    digest = digest * k_factor + value;
    folded_ = folded_ + 1 == view.rows ? 0 : folded_ + 1;
  }
  if (!out_.leads.empty()) {
    out_.leads[lead_] = out_.leads[lead_] * k_factor + value;
  }
  if (++column_ == view.columns) {
    column_ = 0;
    if (++row_ == view.rows) {
      row_ = 0;
      folded_ = 0;
      ++lead_;
    }
  }
}

void LineDigester::add(std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at + width_ <= bytes.size(); at += width_) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, width_ <= 8 ? width_ : 8);
    step(mixed(value));
  }
}

LineDigests LineDigester::take() { return std::move(out_); }

}  // namespace weightproof::suites
