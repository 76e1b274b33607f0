// SPDX-License-Identifier: Apache-2.0
// A box in pieces of at most so many bytes, in row-major order: every piece is consecutive in the dense bytes of the
// box.
#pragma once

#include <algorithm>
#include <cstdint>

#include "loader/core/box.hpp"

namespace weightproof::suites {

/// Calls `use(piece, first_element)`; one element at least, whatever `elements_max` is. Scalars are one piece.
template <typename Use>
void for_each_box(const Box& box, std::uint64_t elements_max, const Use& use) {
  const std::uint64_t elements = box.element_count();
  if (elements == 0) {
    return;
  }
  const unsigned rank = box.length.rank();
  if (rank == 0 || elements <= elements_max) {
    use(box, std::uint64_t{0});
    return;
  }
  // The outermost axis of which one step fits; axes in front of it go one by one.
  std::uint64_t step_elements = elements;
  unsigned axis = 0;
  for (;; ++axis) {
    step_elements /= box.length[axis];
    if (step_elements <= elements_max || axis + 1 == rank) {
      break;
    }
  }
  const std::uint64_t steps = std::max<std::uint64_t>(1, elements_max / step_elements);
  Box piece = box;
  for (unsigned i = 0; i < axis; ++i) {
    piece.length[i] = 1;
  }
  std::uint64_t first = 0;
  for (;;) {
    for (std::uint64_t at = 0; at < box.length[axis]; at += steps) {
      piece.start[axis] = box.start[axis] + at;
      piece.length[axis] = std::min(steps, box.length[axis] - at);
      use(piece, first);
      first += piece.length[axis] * step_elements;
    }
    unsigned outer = axis;
    for (; outer > 0; --outer) {
      if (++piece.start[outer - 1] < box.start[outer - 1] + box.length[outer - 1]) {
        break;
      }
      piece.start[outer - 1] = box.start[outer - 1];
    }
    if (outer == 0) {
      return;
    }
  }
}

}  // namespace weightproof::suites
