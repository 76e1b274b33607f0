// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loader/core/tiling.hpp"

namespace weightproof::detail {

/// Elements of a view whose extents may be anything; saturates.
std::uint64_t view_elements(const View& view);
/// Highest element that a non-empty view reaches. Nothing on overflow.
std::optional<std::uint64_t> view_last_element(const View& view);

/// `views` stay inside the tensor and have together at most a small multiple of `elements`. Always decides.
TilingVerdict prove_by_bitmap(const Shape& shape, std::uint64_t elements, std::span<const View> views);

}  // namespace weightproof::detail
