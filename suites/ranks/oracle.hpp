// SPDX-License-Identifier: Apache-2.0
// What a rank holds, worked out a second time and another way: as lists of indices that are dealt out one by one. It
// shares the families' rules with the planner, and none of its arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "loader/core/placement.hpp"
#include "loader/core/schema.hpp"

namespace weightproof::suites {

/// A rank's tensor as, axis by axis, the indices of the whole tensor that it is made of, in its own order.
struct HeldIndices {
  bool is_held = false;  ///< false: the rank has no such tensor, not even an empty one
  std::vector<std::vector<std::uint64_t>> axes;
};

/// `stages`: the stage of each decoder layer.
HeldIndices held_indices(const Schema& schema, const NativeTensor& tensor, const Topology& topology,
                         const std::vector<std::uint32_t>& stages, std::uint32_t rank);

/// Stages by contiguous chunks of layers, the later ones shorter.
std::vector<std::uint32_t> dealt_stages(std::uint64_t layers, std::uint32_t stages);

}  // namespace weightproof::suites
