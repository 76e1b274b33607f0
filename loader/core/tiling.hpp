// SPDX-License-Identifier: Apache-2.0
// The coverage proof: do these views of one dense tensor cover every element exactly once? Decided from extents and
// strides, without walking elements: each axis is cut at every end of a narrow, one radix chain per segment, and views
// become boxes of factors; then volumes and disjointness of boxes decide. What cannot be decided that way is
// `unprovable`, never `exact`; small tensors are then settled with a bitmap (tiling_bitmap_elements_max).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "loader/core/view.hpp"

namespace weightproof {

enum class Tiling : std::uint8_t { exact, hole, overlap, unprovable };

struct TilingVerdict {
  Tiling tiling = Tiling::unprovable;
  Coordinate
      coordinate;  ///< of the tensor: first element, in row-major order, not covered or covered twice (hole, overlap)
  std::size_t first_view = SIZE_MAX;  ///< overlap: the two views that meet there
  std::size_t second_view = SIZE_MAX;
  std::string reason;  ///< unprovable: why; names the view
};

struct TilingOptions {
  std::uint64_t bitmap_elements_max = 1u << 20;  ///< tensors up to this size may be settled by a bitmap; 0 forbids it
};

/// `views` are views of a dense row-major tensor of `shape` (offset and strides in its elements). Views without
/// elements cover nothing. A view that leaves the tensor, or meets itself, is an overlap/unprovable verdict with the
/// reason, never undefined behaviour. Complexity: near-linear in views for the layouts that families use (splits along
/// axes, stacks, interleavings).
TilingVerdict prove_tiling(const Shape& shape, std::span<const View> views, const TilingOptions& options = {});

std::string to_string(Tiling tiling);

}  // namespace weightproof
