// SPDX-License-Identifier: Apache-2.0
// Which part of a native tensor a rank holds, and what stands there.
#include <algorithm>
#include <numeric>

#include "suites/judge/expected.hpp"
#include "suites/ranks/oracle.hpp"

namespace weightproof::suites::judge {
namespace {

constexpr std::uint32_t k_ranks_tried = 64;

}  // namespace

bool ExpectedState::cut_to_rank(ExpectedTensor& row, std::uint32_t rank) const {
  const auto& natives = model_.mapping().native_tensors();
  const reference::NativeTensor& native = natives[static_cast<std::size_t>(row.native)];
  NativeId id = schema_->find_native(native.name);
  if (id == k_no_id && native.alias_of >= 0) {
    id = schema_->find_native(natives[static_cast<std::size_t>(native.alias_of)].name);
  }
  HeldIndices held;
  if (id == k_no_id) {
    // What passes through the family is whole, on the first stage.
    held.is_held = rank < topology_.world() / topology_.pp;
    for (const std::uint64_t extent : native.shape) {
      held.axes.emplace_back(extent);
      std::iota(held.axes.back().begin(), held.axes.back().end(), std::uint64_t{0});
    }
  } else {
    held = held_indices(*schema_, schema_->native_tensors()[id], topology_, stages_, rank);
  }
  if (!held.is_held) {
    return false;
  }
  row.whole_shape = native.shape;
  row.held = std::move(held.axes);
  row.shape.clear();
  for (const auto& axis : row.held) {
    row.shape.push_back(axis.size());
  }
  if (reference::count_of(row.shape) == 0) {
    row.need = Need::optional;  // ranks may keep an empty tensor, or none
  }
  return true;
}

reference::Bytes ExpectedState::held_region(const ExpectedTensor& tensor, const reference::Box& box,
                                            reference::Dtype dtype) const {
  const std::size_t width = bits_of(dtype) / 8;
  const std::size_t axes = tensor.held.size();
  reference::Bytes out(static_cast<std::size_t>(reference::count_of(box.extent)) * width);
  if (out.empty()) {
    return out;
  }
  // Runs of consecutive indices are read at once: a box of the whole tensor for each choice of one run per axis.
  struct Run {
    std::uint64_t to, from, length;
  };
  std::vector<std::vector<Run>> runs(axes);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    for (std::uint64_t i = 0; i < box.extent[axis]; ++i) {
      const std::uint64_t index = tensor.held[axis][box.start[axis] + i];
      if (!runs[axis].empty() && runs[axis].back().from + runs[axis].back().length == index) {
        ++runs[axis].back().length;
      } else {
        runs[axis].push_back({i, index, 1});
      }
    }
  }
  std::vector<std::size_t> chosen(axes, 0);
  for (bool is_left = true; is_left;) {
    reference::Box from = box;
    for (std::size_t axis = 0; axis < axes; ++axis) {
      from.start[axis] = runs[axis][chosen[axis]].from;
      from.extent[axis] = runs[axis][chosen[axis]].length;
    }
    const reference::Bytes bytes = model_.region(tensor.native, from, dtype);
    const auto row = static_cast<std::size_t>(from.extent[axes - 1]) * width;
    std::vector<std::uint64_t> at(axes, 0);
    for (std::size_t read = 0; read < bytes.size(); read += row) {
      std::uint64_t flat = 0;
      for (std::size_t axis = 0; axis < axes; ++axis) {
        flat = flat * box.extent[axis] + runs[axis][chosen[axis]].to + at[axis];
      }
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(read), row,
                  out.begin() + static_cast<std::ptrdiff_t>(flat * width));
      for (std::size_t axis = axes - 1; axis-- > 0;) {
        if (++at[axis] < from.extent[axis]) {
          break;
        }
        at[axis] = 0;
      }
    }
    is_left = false;
    for (std::size_t axis = axes; axis-- > 0 && !is_left;) {
      is_left = ++chosen[axis] < runs[axis].size();
      if (!is_left) {
        chosen[axis] = 0;
      }
    }
  }
  return out;
}

std::optional<std::uint32_t> ExpectedState::rank_holding(const ExpectedTensor& tensor, reference::Dtype dtype,
                                                         const reference::Bytes& bytes) const {
  if (!schema_ || tensor.native < 0) {
    return std::nullopt;
  }
  for (std::uint32_t rank = 0; rank < std::min(topology_.world(), k_ranks_tried); ++rank) {
    ExpectedTensor other = tensor;
    if (rank != case_.rank && cut_to_rank(other, rank) && other.shape == tensor.shape &&
        region(other, reference::whole(other.shape), dtype) == bytes) {
      return rank;
    }
  }
  return std::nullopt;
}

}  // namespace weightproof::suites::judge
