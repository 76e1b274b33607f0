// SPDX-License-Identifier: Apache-2.0
// What every codec does alike: boxes of up to three axes as ranges (leading, row, column), byte runs of a sub-grid, and
// reading scales of any dtype from bytes that have no alignment.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "loader/codec/codec.hpp"
#include "loader/codec/scalar.hpp"

namespace weightproof::codec {

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t size() const { return end - begin; }
};

/// Half-open ranges of a box; missing leading axes are [0, 1).
struct Ranges {
  Range lead, rows, cols;
};

inline Ranges ranges_of(const Box& box) {
  Ranges r{{0, 1}, {0, 1}, {0, 1}};
  const unsigned rank = box.start.rank();
  Range* axes[3] = {&r.lead, &r.rows, &r.cols};
  for (unsigned axis = 0; axis < rank; ++axis)
    *axes[3 - rank + axis] = {box.start[axis], box.start[axis] + box.length[axis]};
  return r;
}

/// Stored bytes seen as [leads][rows][row_bytes].
struct ByteGrid {
  std::uint64_t rows = 1;
  std::uint64_t row_bytes = 0;
};

/// Runs of leads x rows x [byte_begin, byte_end) of each row; merged where they touch.
inline void append_runs(std::uint32_t component, const ByteGrid& grid, Range leads, Range rows, Range bytes,
                        std::vector<ByteRun>& runs) {
  if (bytes.size() == 0 || rows.size() == 0) return;
  for (std::uint64_t lead = leads.begin; lead < leads.end; ++lead) {
    if (bytes.size() == grid.row_bytes) {
      const std::uint64_t offset = (lead * grid.rows + rows.begin) * grid.row_bytes;
      const std::uint64_t length = rows.size() * grid.row_bytes;
      if (!runs.empty() && runs.back().component == component && runs.back().offset + runs.back().bytes == offset)
        runs.back().bytes += length;
      else
        runs.push_back({component, offset, length});
      continue;
    }
    for (std::uint64_t row = rows.begin; row < rows.end; ++row)
      runs.push_back({component, (lead * grid.rows + row) * grid.row_bytes + bytes.begin, bytes.size()});
  }
}

/// F32 value of a scale element of `dtype` at element `index` of `bytes`.
inline float scale_at(DType dtype, const std::byte* bytes, std::uint64_t index) {
  switch (dtype) {
    case DType::f32: {
      std::uint32_t bits;
      std::memcpy(&bits, bytes + 4 * index, 4);
      return float_of_bits(bits);
    }
    case DType::bf16: {
      std::uint16_t bits;
      std::memcpy(&bits, bytes + 2 * index, 2);
      return float_of_bits(bf16_to_f32_bits(bits));
    }
    case DType::f16: {
      std::uint16_t bits;
      std::memcpy(&bits, bytes + 2 * index, 2);
      return float_of_bits(f16_to_f32_bits(bits));
    }
    case DType::u8:
    case DType::f8_e8m0:
      return float_of_bits(e8m0_to_f32_bits(std::to_integer<std::uint8_t>(bytes[index])));
    case DType::f8_e4m3:
      return float_of_bits(e4m3fn_to_f32_bits(std::to_integer<std::uint8_t>(bytes[index])));
    default:
      return float_of_bits(k_nan_f32);
  }
}

/// Little-endian bit field of up to 16 bits at bit `position` of a byte stream that holds it whole.
inline std::uint32_t field_at(const std::byte* bytes, std::uint64_t position, unsigned bits) {
  const std::uint64_t first = position / 8;
  const std::uint64_t last = (position + bits - 1) / 8;
  std::uint32_t word = 0;
  for (std::uint64_t i = first; i <= last; ++i) word |= std::to_integer<std::uint32_t>(bytes[i]) << (8 * (i - first));
  return (word >> (position % 8)) & ((1u << bits) - 1u);
}

/// Sets such a field in bytes that hold zeros there.
inline void set_field_at(std::byte* bytes, std::uint64_t position, unsigned bits, std::uint32_t value) {
  const std::uint32_t word = (value & ((1u << bits) - 1u)) << (position % 8);
  const std::uint64_t first = position / 8;
  const std::uint64_t last = (position + bits - 1) / 8;
  for (std::uint64_t i = first; i <= last; ++i) bytes[i] |= static_cast<std::byte>(word >> (8 * (i - first)));
}

/// The integer difference that a value is under a scale: to nearest even, 0 where the scale tells nothing.
inline int difference_of(float value, float scale, int least, int most) {
  const float ratio = value / scale;
  if (!(ratio > static_cast<float>(least))) return is_nan_bits(bits_of_float(ratio)) ? 0 : least;
  return ratio >= static_cast<float>(most) ? most : static_cast<int>(std::nearbyintf(ratio));
}

inline std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return b == 0 ? 0 : a / b + (a % b != 0 ? 1 : 0); }

/// Bytes of a target element: 2 or 4; throws dtype_unsupported for anything but bf16, f16 and f32.
std::uint64_t target_bytes(DType target);

/// Names a component in an error.
[[noreturn]] void throw_scale_shape(const Component& scale, const Component& weight, const std::string& expected);

/// How a scale tensor spreads over [leads, rows, cols]: which scale element belongs to (lead, row, col).
struct ScaleGrid {
  std::uint64_t leads = 1;  ///< 1: shared by all leading indices
  std::uint64_t grid_rows = 1;
  std::uint64_t grid_cols = 1;   ///< as stored: may be larger than needed (cropped)
  std::uint64_t block_rows = 0;  ///< 0: one block for all rows
  std::uint64_t block_cols = 0;

  std::uint64_t row_block(std::uint64_t row) const { return block_rows == 0 ? 0 : row / block_rows; }
  std::uint64_t col_block(std::uint64_t col) const { return block_cols == 0 ? 0 : col / block_cols; }
  Range lead_range(Range leads_of_box) const { return leads == 1 ? Range{0, 1} : leads_of_box; }
  Range row_range(Range rows) const { return {row_block(rows.begin), row_block(rows.end - 1) + 1}; }
  Range col_range(Range cols) const { return {col_block(cols.begin), col_block(cols.end - 1) + 1}; }

  /// Runs of the scales that a box needs, for elements of `element_bytes`.
  void append(std::uint32_t component, std::uint64_t element_bytes, const Ranges& box,
              std::vector<ByteRun>& runs) const {
    const Range cols_needed = col_range(box.cols);
    append_runs(component, {grid_rows, grid_cols * element_bytes}, lead_range(box.lead), row_range(box.rows),
                {cols_needed.begin * element_bytes, cols_needed.end * element_bytes}, runs);
  }
  /// Element index of (lead, row, col) inside the bytes that append() asked for.
  std::uint64_t window_index(const Ranges& box, std::uint64_t lead, std::uint64_t row, std::uint64_t col) const {
    const Range rows_needed = row_range(box.rows);
    const Range cols_needed = col_range(box.cols);
    const std::uint64_t lead_index = leads == 1 ? 0 : lead - box.lead.begin;
    return (lead_index * rows_needed.size() + row_block(row) - rows_needed.begin) * cols_needed.size() +
           col_block(col) - cols_needed.begin;
  }
};

}  // namespace weightproof::codec
