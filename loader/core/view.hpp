// SPDX-License-Identifier: Apache-2.0
// A view: which elements of a dense row-major tensor, in which order. Base offset, extents and strides, in elements.
// All operations are affine, so a view stays a view: select, narrow, permute, unflatten, and flatten where the strides
// allow it. Interleaving is unflatten followed by select; there is no step.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "loader/core/shape.hpp"

namespace weightproof {

/// Extents and strides without the base offset: equal layers share one.
struct Layout {
  Extents extents;
  Extents strides;  ///< in elements, same rank as extents
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// Plain value; operations return a new view and throw Error(internal) on a misuse (axis out of range, extent that does
/// not divide): family descriptions are program text, so a misuse is a programmer error that a test of that family
/// meets at once.
class View {
 public:
  View() = default;
  /// The whole of a dense row-major tensor.
  static View whole(const Shape& shape);
  View(std::uint64_t offset, Layout layout) : offset_(offset), layout_(layout) {}

  std::uint64_t offset() const { return offset_; }
  const Layout& layout() const { return layout_; }
  const Extents& extents() const { return layout_.extents; }
  const Extents& strides() const { return layout_.strides; }
  unsigned rank() const { return layout_.extents.rank(); }
  std::uint64_t element_count() const;

  /// Fixes `axis` at `index`; the axis goes away.
  View select(unsigned axis, std::uint64_t index) const;
  /// Keeps [start, start + length) of `axis`. length may be 0.
  View narrow(unsigned axis, std::uint64_t start, std::uint64_t length) const;
  /// Axis i of the result is axis order[i] of this view; `order` is a permutation of 0..rank-1.
  View permute(std::span<const unsigned> order) const;
  View permute(std::initializer_list<unsigned> order) const {
    return permute(std::span<const unsigned>(order.begin(), order.size()));
  }
  /// Swaps two axes.
  View transpose(unsigned a, unsigned b) const;
  /// Splits `axis` of extent outer*inner*... into the given extents, outermost first. Their product must be the extent.
  View unflatten(unsigned axis, std::initializer_list<std::uint64_t> extents) const;
  /// Joins axes [first, first + count) into one where stride[i] == stride[i+1] * extent[i+1].
  View flatten(unsigned first, unsigned count) const;
  /// Adds an axis of extent 1 before `axis`.
  View unsqueeze(unsigned axis) const;

  /// Storage element of a view coordinate.
  std::uint64_t storage_index(const Coordinate& coordinate) const;
  /// True where the elements in view order are one run of consecutive storage elements.
  bool is_contiguous() const;

  friend bool operator==(const View&, const View&) = default;

 private:
  std::uint64_t offset_ = 0;
  Layout layout_;
};

std::string to_string(const View& view);

}  // namespace weightproof
