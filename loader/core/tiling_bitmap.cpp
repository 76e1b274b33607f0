// SPDX-License-Identifier: Apache-2.0
// The proof for small tensors: every element is counted.
#include <algorithm>

#include "loader/core/tiling_internal.hpp"

namespace weightproof::detail {
namespace {

/// Calls `visit(index)` for each element of the view in view order; stops where it returns false.
template <typename Visit>
bool for_each_element(const View& view, Visit visit) {
  const unsigned rank = view.rank();
  Extents at = view.extents();
  for (unsigned axis = 0; axis < rank; ++axis) at[axis] = 0;
  std::uint64_t index = view.offset();
  for (;;) {
    if (!visit(index)) return false;
    unsigned axis = rank;
    for (;;) {
      if (axis == 0) return true;
      --axis;
      index += view.strides()[axis];
      if (++at[axis] < view.extents()[axis]) break;
      index -= view.strides()[axis] * view.extents()[axis];
      at[axis] = 0;
    }
  }
}

}  // namespace

TilingVerdict prove_by_bitmap(const Shape& shape, std::uint64_t elements, std::span<const View> views) {
  TilingVerdict verdict;
  std::vector<bool> covered(static_cast<std::size_t>(elements));
  std::uint64_t overlap = UINT64_MAX;
  for (const View& view : views) {
    if (view_elements(view) == 0) continue;
    for_each_element(view, [&](std::uint64_t index) {
      if (covered[static_cast<std::size_t>(index)]) overlap = std::min(overlap, index);
      covered[static_cast<std::size_t>(index)] = true;
      return true;
    });
  }
  const auto first_hole = std::find(covered.begin(), covered.end(), false);
  const std::uint64_t hole =
      first_hole == covered.end() ? UINT64_MAX : static_cast<std::uint64_t>(first_hole - covered.begin());
  if (hole == UINT64_MAX && overlap == UINT64_MAX) {
    verdict.tiling = Tiling::exact;
    return verdict;
  }
  verdict.coordinate = coordinate_of(shape, std::min(hole, overlap));
  if (hole < overlap) {
    verdict.tiling = Tiling::hole;
    return verdict;
  }
  verdict.tiling = Tiling::overlap;
  for (std::size_t i = 0; i < views.size() && verdict.second_view == SIZE_MAX; ++i) {
    if (view_elements(views[i]) == 0) continue;
    for_each_element(views[i], [&](std::uint64_t index) {
      if (index != overlap) return true;
      (verdict.first_view == SIZE_MAX ? verdict.first_view : verdict.second_view) = i;
      return verdict.second_view == SIZE_MAX;
    });
  }
  return verdict;
}

}  // namespace weightproof::detail
