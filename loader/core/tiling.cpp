// SPDX-License-Identifier: Apache-2.0
#include "loader/core/tiling.hpp"

#include "loader/core/tiling_internal.hpp"

namespace weightproof {
namespace detail {

std::uint64_t view_elements(const View& view) {
  return weightproof::element_count(view.extents()).value_or(UINT64_MAX);
}

std::optional<std::uint64_t> view_last_element(const View& view) {
  std::uint64_t last = view.offset();
  for (unsigned axis = 0; axis < view.rank(); ++axis) {
    std::uint64_t step = 0;
    if (__builtin_mul_overflow(view.extents()[axis] - 1, view.strides()[axis], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return std::nullopt;
    }
  }
  return last;
}

}  // namespace detail

std::string to_string(Tiling tiling) {
  switch (tiling) {
    case Tiling::exact:
      return "exact";
    case Tiling::hole:
      return "hole";
    case Tiling::overlap:
      return "overlap";
    case Tiling::unprovable:
      return "unprovable";
  }
  return "unprovable";
}

TilingVerdict prove_tiling(const Shape& shape, std::span<const View> views, const TilingOptions& options) {
  TilingVerdict verdict;
  const std::optional<std::uint64_t> elements = element_count(shape);
  if (!elements) {
    verdict.reason = "the tensor of shape " + to_string(shape) + " has more elements than 64 bits count";
    return verdict;
  }
  std::uint64_t covered = 0;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const std::uint64_t count = detail::view_elements(views[i]);
    if (count == 0) continue;
    const std::optional<std::uint64_t> last = detail::view_last_element(views[i]);
    if (!last || *last >= *elements) {
      verdict.reason =
          "view " + std::to_string(i) + " " + to_string(views[i]) + " leaves the tensor " + to_string(shape);
      return verdict;
    }
    if (__builtin_add_overflow(covered, count, &covered)) covered = UINT64_MAX;
  }
  if (*elements == 0) {
    verdict.tiling = Tiling::exact;
    return verdict;
  }
  if (*elements <= options.bitmap_elements_max && covered <= 4 * *elements + 1024) {
    return detail::prove_by_bitmap(shape, *elements, views);
  }
  verdict.reason = "the tensor is too large to be settled element by element";
  return verdict;
}

}  // namespace weightproof
