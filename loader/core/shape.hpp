// SPDX-License-Identifier: Apache-2.0
// Extents of a tensor, outermost first, at most limits::rank_max of them, stored inline.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "loader/core/dtype.hpp"
#include "loader/core/limits.hpp"

namespace weightproof {

/// Inline list of up to limits::rank_max non-negative integers: extents, strides, coordinates. Rank 0 is a scalar.
class Extents {
 public:
  Extents() = default;
  Extents(std::initializer_list<std::uint64_t> values);
  explicit Extents(std::span<const std::uint64_t> values);

  unsigned rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  std::uint64_t operator[](unsigned axis) const { return values_[axis]; }
  std::uint64_t& operator[](unsigned axis) { return values_[axis]; }
  const std::uint64_t* begin() const { return values_.data(); }
  const std::uint64_t* end() const { return values_.data() + rank_; }
  std::span<const std::uint64_t> span() const { return {values_.data(), rank_}; }
  void push_back(std::uint64_t value);
  void insert(unsigned axis, std::uint64_t value);
  void erase(unsigned axis);

  // In line: layouts and shapes are compared several times for each tensor.
  friend bool operator==(const Extents& a, const Extents& b) {
    bool is_equal = a.rank_ == b.rank_;
    for (unsigned axis = 0; is_equal && axis < a.rank_; ++axis) is_equal = a.values_[axis] == b.values_[axis];
    return is_equal;
  }

 private:
  std::array<std::uint64_t, limits::rank_max> values_{};
  std::uint8_t rank_ = 0;
};

using Shape = Extents;
using Coordinate = Extents;

/// Elements, 1 for a scalar, 0 if an extent is 0. Nothing if the product of the non-zero extents does not fit 64 bits,
/// in whatever order it is taken.
std::optional<std::uint64_t> element_count(const Shape& shape);
/// Bytes of a dense tensor. Nothing on overflow or where the bits do not fill whole bytes.
std::optional<std::uint64_t> byte_count(const Shape& shape, DType dtype);
/// Row-major strides in elements. The shape must have a representable element count.
Extents contiguous_strides(const Shape& shape);
/// Row-major linear index of a coordinate.
std::uint64_t linear_index(const Shape& shape, const Coordinate& coordinate);
/// Inverse of linear_index. `index` < element_count(shape).
Coordinate coordinate_of(const Shape& shape, std::uint64_t index);
/// "[4096,2880]"; "[]" for a scalar.
std::string to_string(const Extents& extents);

}  // namespace weightproof
