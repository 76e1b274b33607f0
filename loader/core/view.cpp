// SPDX-License-Identifier: Apache-2.0
#include "loader/core/view.hpp"

#include "loader/core/error.hpp"

namespace weightproof {
namespace {

[[noreturn]] void misuse(const View& view, const std::string& what) {
  throw Error(ErrorCode::internal, "view " + to_string(view) + ": " + what);
}

void require_axis(const View& view, unsigned axis, const char* operation) {
  if (axis >= view.rank())
    misuse(view, std::string(operation) + " of axis " + std::to_string(axis) + ", which it has not");
}

}  // namespace

View View::whole(const Shape& shape) {
  // Strides and their overflow in one pass. As contiguous_strides() has it, an empty axis leaves the strides before it.
  View view(0, Layout{shape, shape});
  std::uint64_t stride = 1;
  for (unsigned axis = shape.rank(); axis-- > 0;) {
    view.layout_.strides[axis] = stride;
    if (shape[axis] != 0 && __builtin_mul_overflow(stride, shape[axis], &stride)) {
      throw Error(ErrorCode::internal,
                  "a tensor of shape " + to_string(shape) + " has more elements than 64 bits count");
    }
  }
  return view;
}

std::uint64_t View::element_count() const {
  const std::optional<std::uint64_t> count = weightproof::element_count(layout_.extents);
  WEIGHTPROOF_ASSERT(count.has_value());
  return *count;
}

View View::select(unsigned axis, std::uint64_t index) const {
  require_axis(*this, axis, "select");
  if (index >= extents()[axis])
    misuse(*this, "select of index " + std::to_string(index) + " on axis " + std::to_string(axis));
  View result = *this;
  result.offset_ += index * strides()[axis];
  result.layout_.extents.erase(axis);
  result.layout_.strides.erase(axis);
  return result;
}

View View::narrow(unsigned axis, std::uint64_t start, std::uint64_t length) const {
  require_axis(*this, axis, "narrow");
  const std::uint64_t extent = extents()[axis];
  if (start > extent || length > extent - start) {
    misuse(*this, "narrow of axis " + std::to_string(axis) + " to " + std::to_string(length) + " from " +
                      std::to_string(start));
  }
  View result = *this;
  // An empty view keeps its offset, so that no offset ever points behind the tensor.
  if (length != 0) result.offset_ += start * strides()[axis];
  result.layout_.extents[axis] = length;
  return result;
}

View View::permute(std::span<const unsigned> order) const {
  if (order.size() != rank()) misuse(*this, "permute with " + std::to_string(order.size()) + " axes");
  View result = *this;
  unsigned seen = 0;
  for (unsigned axis = 0; axis < rank(); ++axis) {
    const unsigned from = order[axis];
    if (from >= rank() || (seen >> from & 1u) != 0) misuse(*this, "permute by an order that is no permutation");
    seen |= 1u << from;
    result.layout_.extents[axis] = extents()[from];
    result.layout_.strides[axis] = strides()[from];
  }
  return result;
}

View View::transpose(unsigned a, unsigned b) const {
  require_axis(*this, a, "transpose");
  require_axis(*this, b, "transpose");
  View result = *this;
  std::swap(result.layout_.extents[a], result.layout_.extents[b]);
  std::swap(result.layout_.strides[a], result.layout_.strides[b]);
  return result;
}

View View::unflatten(unsigned axis, std::initializer_list<std::uint64_t> parts) const {
  require_axis(*this, axis, "unflatten");
  const std::optional<std::uint64_t> product = weightproof::element_count(Extents(parts));
  if (!product || *product != extents()[axis]) {
    misuse(*this, "unflatten of axis " + std::to_string(axis) + " into " + to_string(Extents(parts)));
  }
  View result = *this;
  result.layout_.extents.erase(axis);
  result.layout_.strides.erase(axis);
  std::uint64_t stride = strides()[axis];
  for (std::size_t i = parts.size(); i-- > 0;) {
    const std::uint64_t extent = parts.begin()[i];
    result.layout_.extents.insert(axis, extent);
    result.layout_.strides.insert(axis, stride);
    stride *= extent == 0 ? 1 : extent;
  }
  return result;
}

View View::flatten(unsigned first, unsigned count) const {
  if (count == 0 || first >= rank() || count > rank() - first) {
    misuse(*this, "flatten of " + std::to_string(count) + " axes from axis " + std::to_string(first));
  }
  // Axes of one element have no stride that matters; the others must form one arithmetic sequence.
  std::uint64_t extent = 1;
  std::uint64_t stride = 1;
  bool has_stride = false;
  bool is_empty = false;
  for (unsigned axis = first + count; axis-- > first;) {
    const std::uint64_t length = extents()[axis];
    if (length == 0) is_empty = true;
    if (length <= 1) continue;
    if (!has_stride) {
      stride = strides()[axis];
      has_stride = true;
    } else if (!is_empty && strides()[axis] != stride * extent) {
      misuse(*this, "axes " + std::to_string(first) + " to " + std::to_string(first + count - 1) + " do not flatten");
    }
    extent *= length;
  }
  if (!has_stride) stride = strides()[first + count - 1];
  View result = *this;
  for (unsigned i = 1; i < count; ++i) {
    result.layout_.extents.erase(first);
    result.layout_.strides.erase(first);
  }
  result.layout_.extents[first] = is_empty ? 0 : extent;
  result.layout_.strides[first] = stride;
  return result;
}

View View::unsqueeze(unsigned axis) const {
  if (axis > rank()) misuse(*this, "unsqueeze before axis " + std::to_string(axis));
  View result = *this;
  const std::uint64_t stride = axis < rank() ? extents()[axis] * strides()[axis] : 1;
  result.layout_.extents.insert(axis, 1);
  result.layout_.strides.insert(axis, stride);
  return result;
}

std::uint64_t View::storage_index(const Coordinate& coordinate) const {
  WEIGHTPROOF_ASSERT(coordinate.rank() == rank());
  std::uint64_t index = offset_;
  for (unsigned axis = 0; axis < rank(); ++axis) index += coordinate[axis] * strides()[axis];
  return index;
}

bool View::is_contiguous() const {
  std::uint64_t expected = 1;
  bool dense = true;
  for (unsigned axis = rank(); axis-- > 0;) {
    const std::uint64_t extent = extents()[axis];
    if (extent == 0) return true;
    if (extent == 1) continue;
    dense = dense && strides()[axis] == expected;
    expected *= extent;
  }
  return dense;
}

std::string to_string(const View& view) {
  return "{offset " + std::to_string(view.offset()) + ", extents " + to_string(view.extents()) + ", strides " +
         to_string(view.strides()) + "}";
}

}  // namespace weightproof
