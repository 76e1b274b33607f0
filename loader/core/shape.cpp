// SPDX-License-Identifier: Apache-2.0
#include "loader/core/shape.hpp"

#include <algorithm>

#include "loader/core/error.hpp"

namespace weightproof {
namespace {

void require_rank(std::size_t rank) {
  if (rank <= limits::rank_max) return;
  ErrorFacts facts;
  facts.expected = "at most " + std::to_string(limits::rank_max) + " axes";
  facts.actual = std::to_string(rank) + " axes";
  facts.check = "format.limits";
  throw Error(ErrorCode::limit_exceeded,
              "a shape of " + std::to_string(rank) + " axes; the limit is " + std::to_string(limits::rank_max),
              std::move(facts));
}

}  // namespace

Extents::Extents(std::initializer_list<std::uint64_t> values)
    : Extents(std::span<const std::uint64_t>(values.begin(), values.size())) {}

Extents::Extents(std::span<const std::uint64_t> values) {
  require_rank(values.size());
  std::copy(values.begin(), values.end(), values_.begin());
  rank_ = static_cast<std::uint8_t>(values.size());
}

void Extents::push_back(std::uint64_t value) {
  require_rank(rank_ + std::size_t{1});
  values_[rank_++] = value;
}

void Extents::insert(unsigned axis, std::uint64_t value) {
  WEIGHTPROOF_ASSERT(axis <= rank_);
  require_rank(rank_ + std::size_t{1});
  std::copy_backward(values_.begin() + axis, values_.begin() + rank_, values_.begin() + rank_ + 1);
  values_[axis] = value;
  ++rank_;
}

void Extents::erase(unsigned axis) {
  WEIGHTPROOF_ASSERT(axis < rank_);
  std::copy(values_.begin() + axis + 1, values_.begin() + rank_, values_.begin() + axis);
  values_[--rank_] = 0;
}

std::optional<std::uint64_t> element_count(const Shape& shape) {
  std::uint64_t product = 1;
  bool has_zero = false;
  for (const std::uint64_t extent : shape) {
    if (extent == 0) {
      has_zero = true;
    } else if (__builtin_mul_overflow(product, extent, &product)) {
      return std::nullopt;
    }
  }
  return has_zero ? 0 : product;
}

std::optional<std::uint64_t> byte_count(const Shape& shape, DType dtype) {
  const std::optional<std::uint64_t> elements = element_count(shape);
  std::uint64_t bits = 0;
  if (!elements || __builtin_mul_overflow(*elements, std::uint64_t{bits_of(dtype)}, &bits)) return std::nullopt;
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

Extents contiguous_strides(const Shape& shape) {
  Extents strides = shape;
  std::uint64_t stride = 1;
  for (unsigned axis = shape.rank(); axis-- > 0;) {
    strides[axis] = stride;
    // An empty axis must not wipe out the strides before it: they stay those of the non-zero extents.
    stride *= std::max<std::uint64_t>(shape[axis], 1);
  }
  return strides;
}

std::uint64_t linear_index(const Shape& shape, const Coordinate& coordinate) {
  WEIGHTPROOF_ASSERT(shape.rank() == coordinate.rank());
  std::uint64_t index = 0;
  for (unsigned axis = 0; axis < shape.rank(); ++axis) index = index * shape[axis] + coordinate[axis];
  return index;
}

Coordinate coordinate_of(const Shape& shape, std::uint64_t index) {
  Coordinate coordinate = shape;
  for (unsigned axis = shape.rank(); axis-- > 0;) {
    WEIGHTPROOF_ASSERT(shape[axis] != 0);
    coordinate[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return coordinate;
}

std::string to_string(const Extents& extents) {
  std::string text = "[";
  for (unsigned axis = 0; axis < extents.rank(); ++axis) {
    if (axis != 0) text += ',';
    text += std::to_string(extents[axis]);
  }
  text += ']';
  return text;
}

}  // namespace weightproof
