// SPDX-License-Identifier: Apache-2.0
// In which portions decode tiles are worked on. What a load reads follows from it, so plan and execution share it.
#pragma once

#include <cstdint>

#include "loader/core/limits.hpp"

namespace weightproof::plan {

/// Tiles of one move that one thread takes at a time: about one read request of output. Within them companions (scales
/// and the like) are read again only where a tile takes others than the tile before it. The first of them always reads
/// its own, whichever thread it is, so what is read does not depend on threads.
inline constexpr std::uint64_t k_tiles_at_once = limits::read_bytes_max / limits::tile_bytes_max;

}  // namespace weightproof::plan
