// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <memory>

#include "suites/explanations/explanation.hpp"

namespace weightproof::suites {
namespace {

constexpr std::uint64_t k_box_elements = std::uint64_t{1} << 18;

// Consecutive elements as boxes: along the outermost axis whose rows are small enough, whole rows of everything inside.
class BoxReader {
 public:
  using ReadBox = std::function<std::vector<std::byte>(const Coordinate&, const Extents&)>;
  BoxReader(Shape shape, DType dtype, ReadBox read_box)
      : shape_(shape), width_(std::max(1U, bits_of(dtype) / 8)), read_box_(std::move(read_box)) {
    const unsigned rank = shape_.rank();
    inner_ = 1;
    axis_ = rank == 0 ? 0 : rank - 1;
    while (axis_ > 0 && inner_ * shape_[axis_] <= k_box_elements) {
      inner_ *= shape_[axis_];
      --axis_;
    }
  }

  void read(std::uint64_t offset, std::span<std::byte> target) {
    while (!target.empty()) {
      if (offset < begin_ || offset >= begin_ + piece_.size()) {
        fetch(offset / width_);
      }
      const std::size_t skip = static_cast<std::size_t>(offset - begin_);
      const std::size_t count = std::min(target.size(), piece_.size() - skip);
      std::memcpy(target.data(), piece_.data() + skip, count);
      offset += count;
      target = target.subspan(count);
    }
  }

 private:
  void fetch(std::uint64_t element) {
    if (shape_.rank() == 0) {
      piece_ = read_box_({}, {});
      begin_ = 0;
      return;
    }
    Coordinate start = coordinate_of(shape_, element);
    Extents length = shape_;
    for (unsigned axis = 0; axis < axis_; ++axis) {
      length[axis] = 1;
    }
    const std::uint64_t rows = std::max<std::uint64_t>(1, k_box_elements / inner_);
    for (unsigned axis = axis_ + 1; axis < shape_.rank(); ++axis) {
      start[axis] = 0;
    }
    length[axis_] = std::min(rows, shape_[axis_] - start[axis_]);
    begin_ = linear_index(shape_, start) * width_;
    piece_ = read_box_(start, length);
  }

  Shape shape_;
  std::uint64_t width_;
  ReadBox read_box_;
  unsigned axis_ = 0;
  std::uint64_t inner_ = 1;
  std::uint64_t begin_ = 0;
  std::vector<std::byte> piece_;
};

}  // namespace

TensorSource source_of(Shape shape, DType dtype, std::span<const std::byte> bytes) {
  return {shape, dtype, [bytes](std::uint64_t offset, std::span<std::byte> target) {
            std::memcpy(target.data(), bytes.data() + offset, target.size());
          }};
}

TensorSource source_of_boxes(
    Shape shape, DType dtype,
    std::function<std::vector<std::byte>(const Coordinate& start, const Extents& length)> read_box) {
  auto reader = std::make_shared<BoxReader>(shape, dtype, std::move(read_box));
  return {shape, dtype, [reader](std::uint64_t offset, std::span<std::byte> target) { reader->read(offset, target); }};
}

}  // namespace weightproof::suites
