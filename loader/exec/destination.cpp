// SPDX-License-Identifier: Apache-2.0
#include "loader/exec/destination.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "loader/core/error.hpp"
#include "loader/exec/nest_internal.hpp"

namespace weightproof::exec {
namespace {

[[noreturn]] void refuse(ErrorCode code, std::string_view key, std::string expected, std::string actual) {
  ErrorFacts facts;
  facts.keys.emplace_back(key);
  facts.expected = std::move(expected);
  facts.actual = std::move(actual);
  throw Error(
      code,
      "the destination of '" + facts.keys[0] + "' has " + facts.actual + ", where " + facts.expected + " is needed",
      std::move(facts));
}

struct Axis {
  std::uint64_t stride;
  std::uint64_t extent;
};

/// Elements from the first to the last, both included; 0 where the strides let elements meet or run past 64 bits.
std::uint64_t span_of(const Shape& shape, const Extents& strides) {
  std::vector<Axis> axes;
  for (unsigned axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] > 1) axes.push_back({strides[axis], shape[axis]});
  }
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  std::uint64_t span = 1;
  for (const Axis& axis : axes) {
    std::uint64_t last = 0;
    if (axis.stride < span || __builtin_mul_overflow(axis.extent - 1, axis.stride, &last) ||
        __builtin_add_overflow(span, last, &span)) {
      return 0;
    }
  }
  return span;
}

}  // namespace

Destination dense_destination(const plan::Plan& plan, std::size_t tensor, MemoryKind kind, std::byte* base,
                              std::uint64_t bytes) {
  const plan::PlannedTensor& planned = plan.tensors()[tensor];
  return {0, kind, base, bytes, contiguous_strides(plan.shape_of(planned)), planned.dtype};
}

Destination ArenaDestinations::of(const plan::Plan& plan, std::size_t tensor) const {
  const plan::PlannedTensor& planned = plan.tensors()[tensor];
  return dense_destination(plan, tensor, MemoryKind::host, arena_->data() + planned.arena_offset, planned.bytes);
}

Destination BlockDestinations::of(const plan::Plan& plan, std::size_t tensor) const {
  const plan::PlannedTensor& planned = plan.tensors()[tensor];
  if (planned.arena_offset > bytes_ || planned.bytes > bytes_ - planned.arena_offset) {
    refuse(ErrorCode::shape_mismatch, planned.key,
           std::to_string(planned.bytes) + " bytes at offset " + std::to_string(planned.arena_offset),
           "a block of " + std::to_string(bytes_) + " bytes");
  }
  return dense_destination(plan, tensor, kind_, base_ + planned.arena_offset, planned.bytes);
}

Destination ForeignDestinations::of(const plan::Plan& plan, std::size_t tensor) const {
  if (tensor >= destinations_.size()) {
    refuse(ErrorCode::shape_mismatch, plan.tensors()[tensor].key, "one per planned tensor",
           "no entry among " + std::to_string(destinations_.size()));
  }
  return destinations_[tensor];
}

void require_usable(const plan::Plan& plan, const Destinations& destinations) {
  if (destinations.dense_host_base() != nullptr && destinations.arena() != nullptr) {
    // An arena is laid out by the plan itself.
    if (destinations.arena()->size() < plan.memory().final_bytes) {
      refuse(ErrorCode::shape_mismatch, plan.tensors().front().key,
             std::to_string(plan.memory().final_bytes) + " bytes for all tensors",
             "an arena of " + std::to_string(destinations.arena()->size()) + " bytes");
    }
    return;
  }
  struct Range {
    const std::byte* begin;
    const std::byte* end;
    std::size_t tensor;
    bool is_device;
  };
  std::vector<Range> dense;
  for (std::size_t i = 0; i < plan.tensors().size(); ++i) {
    const plan::PlannedTensor& planned = plan.tensors()[i];
    const Shape& shape = plan.shape_of(planned);
    const Destination destination = destinations.of(plan, i);
    if (destination.dtype != planned.dtype) {
      refuse(ErrorCode::dtype_unsupported, planned.key, "dtype " + std::string(name_of(planned.dtype)),
             "dtype " + std::string(name_of(destination.dtype)));
    }
    if (destination.strides.rank() != shape.rank()) {
      refuse(ErrorCode::shape_mismatch, planned.key, std::to_string(shape.rank()) + " strides",
             std::to_string(destination.strides.rank()) + " strides");
    }
    if (planned.bytes == 0) continue;
    const bool is_dense = is_dense_layout(shape, destination.strides);
    const std::uint64_t bits = bits_of(planned.dtype);
    if (!is_dense && bits % 8 != 0) {
      refuse(ErrorCode::dtype_unsupported, planned.key, "dense memory", "strides over elements of less than a byte");
    }
    const std::uint64_t span = is_dense ? *element_count(shape) : span_of(shape, destination.strides);
    if (span == 0) {
      refuse(ErrorCode::shape_mismatch, planned.key, "strides that keep elements apart",
             "strides " + to_string(destination.strides));
    }
    std::uint64_t bytes = planned.bytes;
    if (!is_dense && __builtin_mul_overflow(span, bits / 8, &bytes)) bytes = UINT64_MAX;
    if (destination.base == nullptr || destination.bytes < bytes) {
      refuse(ErrorCode::shape_mismatch, planned.key, std::to_string(bytes) + " bytes",
             destination.base == nullptr ? "no memory" : std::to_string(destination.bytes) + " bytes");
    }
    if (is_dense) {
      dense.push_back({destination.base, destination.base + bytes, i, destination.kind == MemoryKind::device});
    }
  }
  std::sort(dense.begin(), dense.end(), [](const Range& a, const Range& b) {
    return a.is_device != b.is_device ? a.is_device < b.is_device : a.begin < b.begin;
  });
  for (std::size_t i = 1; i < dense.size(); ++i) {
    if (dense[i].is_device != dense[i - 1].is_device || dense[i].begin >= dense[i - 1].end) continue;
    refuse(ErrorCode::part_repeated_destination, plan.tensors()[dense[i].tensor].key, "memory of its own",
           "bytes of '" + std::string(plan.tensors()[dense[i - 1].tensor].key) + "'");
  }
}

}  // namespace weightproof::exec
