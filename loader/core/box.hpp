// SPDX-License-Identifier: Apache-2.0
// A box of coordinates: start and length per axis. Used for regions, rank-local pieces and codec work, always in global
// coordinates.
#pragma once

#include <optional>
#include <string>

#include "loader/core/shape.hpp"

namespace weightproof {

struct Box {
  Extents start;
  Extents length;

  static Box whole(const Shape& shape);
  bool is_empty() const;
  /// Nothing where the boxes share no element. Scalars (rank 0) always meet.
  std::optional<Box> intersect(const Box& other) const;
  bool contains(const Coordinate& coordinate) const;
  std::uint64_t element_count() const;
  friend bool operator==(const Box&, const Box&) = default;
};

std::string to_string(const Box& box);

}  // namespace weightproof
