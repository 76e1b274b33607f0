// SPDX-License-Identifier: Apache-2.0
// A nest: two walks over the same elements in step, one through the source and one through the target, as loops with a
// stride on either side. Everything that is copied, cast, compared or decoded into place is cut into nests.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "loader/core/view.hpp"
#include "loader/exec/destination.hpp"

namespace weightproof::exec {

struct NestAxis {
  std::uint64_t extent = 1;
  std::uint64_t source = 0;  ///< elements
  std::uint64_t target = 0;
};

inline constexpr unsigned k_nest_axes_max = 2 * limits::rank_max;

struct Nest {
  std::uint64_t source = 0;  ///< first element
  std::uint64_t target = 0;
  unsigned rank = 0;
  std::array<NestAxis, k_nest_axes_max> axes{};  ///< outermost first

  std::uint64_t element_count() const;
  /// Drops axes of one element, orders by descending source stride and joins axes that are one on both sides.
  void normalise();
  /// Elements of the source from the first to the last, both included.
  std::uint64_t source_span() const;
};

bool is_dense_layout(const Shape& shape, const Extents& strides);

/// Both views have equal extents; `target` is a view of a dense tensor of `shape` that lies at `strides`. Nothing where
/// the view crosses rows of a tensor that is not dense in a way that no strides express.
std::optional<Nest> make_nest(const View& source, const View& target, const Shape& shape, const Extents& strides);

namespace detail {
template <typename Use>
void parts_from(const Nest& nest, const std::array<std::uint64_t, k_nest_axes_max + 1>& spans, unsigned at,
                std::uint64_t source, std::uint64_t target, std::uint64_t begin, std::uint64_t end, Use& use) {
  if (source >= end || source + spans[at] <= begin) return;
  const auto emit = [&](std::uint64_t first, std::uint64_t extent) {
    Nest part;
    part.source = source;
    part.target = target;
    for (unsigned i = at; i < nest.rank; ++i) part.axes[part.rank++] = nest.axes[i];
    if (part.rank != 0) {
      part.source += first * part.axes[0].source;
      part.target += first * part.axes[0].target;
      part.axes[0].extent = extent;
    }
    use(part);
  };
  if (at == nest.rank) return emit(0, 1);
  const NestAxis& axis = nest.axes[at];
  if (begin <= source && source + spans[at] <= end) return emit(0, axis.extent);
  const std::uint64_t inner = spans[at + 1];
  const auto recurse = [&](std::uint64_t k) {
    parts_from(nest, spans, at + 1, source + k * axis.source, target + k * axis.target, begin, end, use);
  };
  if (axis.source == 0) {
    for (std::uint64_t k = 0; k < axis.extent; ++k) recurse(k);
    return;
  }
  // Indices that meet [begin, end), and among them those that lie in it whole.
  const std::uint64_t first = begin >= source + inner ? (begin - source - inner) / axis.source + 1 : 0;
  const std::uint64_t last = std::min(axis.extent - 1, (end - source - 1) / axis.source);
  const std::uint64_t whole_first = begin <= source ? 0 : (begin - source + axis.source - 1) / axis.source;
  std::uint64_t whole_end = end >= source + inner ? (end - inner - source) / axis.source + 1 : 0;
  whole_end = std::min(whole_end, axis.extent);
  if (whole_first >= whole_end) {
    for (std::uint64_t k = first; k <= last; ++k) recurse(k);
    return;
  }
  for (std::uint64_t k = first; k < whole_first; ++k) recurse(k);
  emit(whole_first, whole_end - whole_first);
  for (std::uint64_t k = whole_end; k <= last; ++k) recurse(k);
}
}  // namespace detail

/// Calls `use` with nests that together are the elements of `nest` whose source lies in [begin, end). `nest` is
/// normalised; so is none of the parts.
template <typename Use>
void for_each_part(const Nest& nest, std::uint64_t begin, std::uint64_t end, Use use) {
  if (begin >= end) return;
  std::array<std::uint64_t, k_nest_axes_max + 1> spans{};
  spans[nest.rank] = 1;
  for (unsigned i = nest.rank; i-- > 0;) {
    if (nest.axes[i].extent == 0) return;
    spans[i] = spans[i + 1] + (nest.axes[i].extent - 1) * nest.axes[i].source;
  }
  detail::parts_from(nest, spans, 0, nest.source, nest.target, begin, end, use);
}

}  // namespace weightproof::exec
