// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "loader/core/error.hpp"
#include "loader/exec/nest_internal.hpp"

namespace weightproof::exec {

std::uint64_t Nest::element_count() const {
  std::uint64_t count = 1;
  for (unsigned i = 0; i < rank; ++i) count *= axes[i].extent;
  return count;
}

std::uint64_t Nest::source_span() const {
  std::uint64_t span = 1;
  for (unsigned i = 0; i < rank; ++i) {
    if (axes[i].extent == 0) return 0;
    span += (axes[i].extent - 1) * axes[i].source;
  }
  return span;
}

void Nest::normalise() {
  unsigned kept = 0;
  for (unsigned i = 0; i < rank; ++i) {
    if (axes[i].extent != 1) axes[kept++] = axes[i];
  }
  rank = kept;
  std::stable_sort(axes.begin(), axes.begin() + rank, [](const NestAxis& a, const NestAxis& b) {
    return a.source != b.source ? a.source > b.source : a.target > b.target;
  });
  unsigned last = 0;
  for (unsigned i = 1; i < rank; ++i) {
    NestAxis& outer = axes[last];
    const NestAxis& inner = axes[i];
    if (outer.source == inner.source * inner.extent && outer.target == inner.target * inner.extent) {
      outer = {outer.extent * inner.extent, inner.source, inner.target};
    } else {
      axes[++last] = inner;
    }
  }
  rank = rank == 0 ? 0 : last + 1;
}

bool is_dense_layout(const Shape& shape, const Extents& strides) {
  std::uint64_t expected = 1;
  for (unsigned axis = shape.rank(); axis-- > 0;) {
    if (shape[axis] == 0) return true;
    if (shape[axis] != 1 && strides[axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

std::optional<Nest> make_nest(const View& source, const View& target, const Shape& shape, const Extents& strides) {
  WEIGHTPROOF_ASSERT(source.extents() == target.extents());
  Nest nest;
  nest.source = source.offset();
  if (is_dense_layout(shape, strides)) {
    nest.target = target.offset();
    for (unsigned axis = 0; axis < source.rank(); ++axis) {
      nest.axes[nest.rank++] = {source.extents()[axis], source.strides()[axis], target.strides()[axis]};
    }
    return nest;
  }
  if (source.element_count() == 0) {
    nest.axes[nest.rank++] = {0, 1, 1};
    return nest;
  }
  // Each axis of the view walks one axis of the tensor, or several that it crosses in full.
  const Extents dense = contiguous_strides(shape);
  const Coordinate first = coordinate_of(shape, target.offset());
  std::array<std::uint64_t, limits::rank_max> reach{};  // last coordinate that is met, per axis of the tensor
  for (unsigned axis = 0; axis < shape.rank(); ++axis) {
    nest.target += first[axis] * strides[axis];
    reach[axis] = first[axis];
  }
  for (unsigned axis = 0; axis < target.rank(); ++axis) {
    std::uint64_t extent = target.extents()[axis];
    std::uint64_t source_stride = source.strides()[axis];
    std::uint64_t step = target.strides()[axis];
    while (extent > 1) {
      unsigned at = 0;
      while (at < shape.rank() && (shape[at] == 1 || dense[at] > step)) ++at;
      if (at == shape.rank() || step % dense[at] != 0 || nest.rank == k_nest_axes_max) return std::nullopt;
      const std::uint64_t steps = step / dense[at];
      // Steps that stay in this axis; the rest goes on in the axes outside, which asks for whole turns.
      const std::uint64_t fitting = (shape[at] - 1 - reach[at]) / steps + 1;
      std::uint64_t here = extent;
      if (extent > fitting) {
        if (reach[at] != 0 || shape[at] % steps != 0 || extent % fitting != 0) return std::nullopt;
        here = fitting;
        if (here == 1) return std::nullopt;
      }
      if (here > 1) nest.axes[nest.rank++] = {here, source_stride, steps * strides[at]};
      reach[at] += (here - 1) * steps;
      extent /= here;
      source_stride *= here;
      step *= here;
    }
  }
  return nest;
}

}  // namespace weightproof::exec
