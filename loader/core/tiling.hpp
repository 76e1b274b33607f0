// SPDX-License-Identifier: Apache-2.0
// The coverage proof: do these views of one dense tensor cover every element exactly once? Decided from extents and
// strides, without walking elements:
//   - cut: wherever no view crosses a position of some axis, the tensor falls into two dense tensors, each with its own
//     views and its own radix chain; repeated until nothing more can be cut;
//   - boxes: what is left is written in the digits of its radix chain, where a view is a box; disjointness of boxes and
//     the sum of volumes then decide.
// What cannot be decided that way is `unprovable`, never `exact`; small tensors are then settled by a bitmap.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "loader/core/view.hpp"

namespace weightproof {

enum class Tiling : std::uint8_t { exact, hole, overlap, unprovable };

struct TilingVerdict {
  Tiling tiling = Tiling::unprovable;
  /// hole, overlap: an element of the tensor that is not covered, or covered twice. The first one in row-major order,
  /// unless some other part of the tensor is unprovable or a view meets itself.
  Coordinate coordinate;
  std::size_t first_view = SIZE_MAX;   ///< overlap: the two views that meet there, first <= second;
  std::size_t second_view = SIZE_MAX;  ///< equal where one view meets itself
  std::string reason;                  ///< unprovable: why; names the view
};

struct TilingOptions {
  std::uint64_t bitmap_elements_max = 1u << 20;  ///< tensors up to this size may be settled by a
                                                 ///< bitmap; 0 forbids it
};

/// `views` are views of a dense row-major tensor of `shape` (offset and strides in its elements). Views without
/// elements cover nothing. A view that leaves the tensor is unprovable with the reason, never undefined behaviour.
/// Nested splits (views made by cutting views) are proved; about one random one in 20,000 is left unprovable, where
/// strides of different parts agree by chance. Complexity: near-linear in views for the layouts that families use
/// (splits along axes, stacks, interleavings), and capped: work beyond the cap ends as unprovable. Thread-safe.
TilingVerdict prove_tiling(const Shape& shape, std::span<const View> views, const TilingOptions& options = {});

std::string to_string(Tiling tiling);

}  // namespace weightproof
