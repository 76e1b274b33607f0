// SPDX-License-Identifier: Apache-2.0
// The algebra of parts: which elements of a binding lie in one piece of a rank's local tensor, again as bindings.
//
//   target view over the whole tensor          global box -> local box          target views over the local tensor
//   +--------------------+                                                      +-------+
//   |    xxxx    xxxx    |     axes of the view that walk the same axis of      |xx  xx |
//   |    xxxx    xxxx    |     the tensor are digits of its coordinate          +-------+
//   +--------------------+
#pragma once

#include <span>
#include <vector>

#include "loader/core/placement.hpp"
#include "loader/core/view.hpp"

namespace weightproof::plan {

struct ClippedBinding {
  View source;  ///< the same elements of the stored tensor
  View target;  ///< of the rank's dense local tensor
};

/// Appends the parts of the binding that lie in `piece`: disjoint, together exactly its elements inside. `target` is a
/// view of a dense tensor of `shape`; the local tensor has `local_shape`. Throws route_unavailable where an axis of the
/// view runs through several axes of the tensor in more than 4096 steps. Pure; cost: one walk over the axes a part.
void clip_binding(const View& source, const View& target, const Shape& shape, const LocalPiece& piece,
                  const Shape& local_shape, std::vector<ClippedBinding>& out);

/// The whole tensor, as it is.
bool is_whole(const LocalTensor& local, const Shape& shape);
/// A rank that has nothing of a tensor, not even an empty one: no pieces and a shape of another rank. Scalars have no
/// empty parts.
bool is_absent(const LocalTensor& local, const Shape& shape);
/// Throws internal where pieces leave the tensors or differ in size on both sides.
void require_sound(const LocalTensor& local, const Shape& shape, std::string_view key);

}  // namespace weightproof::plan
