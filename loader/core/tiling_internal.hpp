// SPDX-License-Identifier: Apache-2.0
// Pieces of the coverage proof, shared by its three files.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loader/core/tiling.hpp"

namespace weightproof::detail {

/// A non-empty view in normal form: axes of extent 1 gone, strides ascending, axes merged where they continue each
/// other.
struct NormalView {
  std::uint64_t offset = 0;
  std::array<std::uint64_t, limits::rank_max> extents{};
  std::array<std::uint64_t, limits::rank_max> strides{};
  std::uint32_t view = 0;  ///< position in the caller's list
  std::uint8_t rank = 0;

  void normalize();
  std::uint64_t elements() const;
  /// Distance between the first and the last element.
  std::uint64_t span() const;
  /// No stride is reached by the axes below it: then no two coordinates meet.
  bool is_nested() const;
};

/// First element that is covered by no view, or by two.
struct Fault {
  std::uint64_t index = UINT64_MAX;
  bool is_hole = false;
  std::uint32_t first_view = 0;
  std::uint32_t second_view = 0;
};

struct Outcome {
  std::optional<Fault> fault;
  std::string unprovable;  ///< reason, empty where everything was decided
};

/// Elements of a view whose extents may be anything; saturates.
std::uint64_t view_elements(const View& view);
/// Highest element that a non-empty view reaches. Nothing on overflow.
std::optional<std::uint64_t> view_last_element(const View& view);

/// Decides nested views inside [begin, end) by boxes in the digits of one radix chain. `work` is lowered by what it
/// costs; below zero the outcome is unprovable.
Outcome solve_by_boxes(std::uint64_t begin, std::uint64_t end, const std::vector<NormalView>& views,
                       std::int64_t& work);

/// `views` stay inside the tensor and have together at most a small multiple of `elements`. Always decides.
TilingVerdict prove_by_bitmap(const Shape& shape, std::uint64_t elements, std::span<const View> views);

}  // namespace weightproof::detail
