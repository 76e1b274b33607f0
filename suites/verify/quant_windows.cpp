// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/quant_windows.hpp"

#include <algorithm>

namespace weightproof::suites {

bool for_each_quant_window(const codec::Codec& decoder, const std::function<bool(const Box&)>& f) {
  const Shape& shape = decoder.natural_shape();
  const unsigned rank = shape.rank();
  if (element_count(shape).value_or(0) == 0) {
    return true;
  }
  const std::uint64_t cols = shape[rank - 1];
  const std::uint64_t rows = rank >= 2 ? shape[rank - 2] : 1;
  const std::uint64_t leads = rank == 3 ? shape[0] : 1;
  const std::uint64_t step_cols = std::min<std::uint64_t>(cols, k_quant_window_bytes / 4);
  const std::uint64_t step_rows = std::max<std::uint64_t>(1, k_quant_window_bytes / 4 / step_cols);
  for (std::uint64_t lead = 0; lead < leads; ++lead) {
    for (std::uint64_t row = 0; row < rows; row += step_rows) {
      for (std::uint64_t col = 0; col < cols; col += step_cols) {
        Box box = Box::whole(shape);
        box.start[rank - 1] = col;
        box.length[rank - 1] = std::min(step_cols, cols - col);
        if (rank >= 2) {
          box.start[rank - 2] = row;
          box.length[rank - 2] = std::min(step_rows, rows - row);
        }
        if (rank == 3) {
          box.start[0] = lead;
          box.length[0] = 1;
        }
        if (!f(decoder.align(box))) {
          return false;
        }
      }
    }
  }
  return true;
}

std::vector<std::vector<std::byte>> read_parts(const codec::Codec& decoder, const Box& box, const Catalog& keys,
                                               ComponentReader& reader) {
  std::vector<codec::ByteRun> runs;
  decoder.byte_runs(box, runs);
  std::vector<std::vector<std::byte>> parts(decoder.components().size());
  for (const codec::ByteRun& run : runs) {
    std::vector<std::byte>& part = parts[run.component];
    const std::size_t at = part.size();
    part.resize(at + run.bytes);
    reader.read(*keys.find(decoder.components()[run.component].key), run.offset, std::span(part).subspan(at));
  }
  return parts;
}

std::vector<std::span<const std::byte>> views_of_parts(const std::vector<std::vector<std::byte>>& parts) {
  return {parts.begin(), parts.end()};
}

}  // namespace weightproof::suites
