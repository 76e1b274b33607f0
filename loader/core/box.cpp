// SPDX-License-Identifier: Apache-2.0
#include "loader/core/box.hpp"

#include <algorithm>

#include "loader/core/error.hpp"

namespace weightproof {

Box Box::whole(const Shape& shape) {
  Box box{shape, shape};
  for (unsigned axis = 0; axis < shape.rank(); ++axis) box.start[axis] = 0;
  return box;
}

bool Box::is_empty() const {
  return std::any_of(length.begin(), length.end(), [](std::uint64_t extent) { return extent == 0; });
}

std::optional<Box> Box::intersect(const Box& other) const {
  WEIGHTPROOF_ASSERT(start.rank() == other.start.rank());
  Box result = *this;
  for (unsigned axis = 0; axis < start.rank(); ++axis) {
    const std::uint64_t begin = std::max(start[axis], other.start[axis]);
    const std::uint64_t end = std::min(start[axis] + length[axis], other.start[axis] + other.length[axis]);
    if (begin >= end) return std::nullopt;
    result.start[axis] = begin;
    result.length[axis] = end - begin;
  }
  return result;
}

bool Box::contains(const Coordinate& coordinate) const {
  if (coordinate.rank() != start.rank()) return false;
  for (unsigned axis = 0; axis < start.rank(); ++axis) {
    if (coordinate[axis] < start[axis] || coordinate[axis] - start[axis] >= length[axis]) return false;
  }
  return true;
}

std::uint64_t Box::element_count() const {
  const std::optional<std::uint64_t> count = weightproof::element_count(length);
  WEIGHTPROOF_ASSERT(count.has_value());
  return *count;
}

std::string to_string(const Box& box) {
  std::string text = "[";
  for (unsigned axis = 0; axis < box.start.rank(); ++axis) {
    if (axis != 0) text += ',';
    text += std::to_string(box.start[axis]) + ':' + std::to_string(box.start[axis] + box.length[axis]);
  }
  text += ']';
  return text;
}

}  // namespace weightproof
