// SPDX-License-Identifier: Apache-2.0
// In which portions decode tiles are worked on. What a load reads follows from it, so plan and execution share it.
#pragma once

#include <cstdint>
#include <span>

#include "loader/codec/codec.hpp"
#include "loader/core/limits.hpp"

namespace weightproof::plan {

/// Tiles of one move that one thread takes at a time: about one read request of output. Within them companions (scales
/// and the like) are read again only as for_each_new_companion() says. The first of them always reads its own, whichever
/// thread it is, so what is read does not depend on threads.
inline constexpr std::uint64_t k_tiles_at_once = limits::read_bytes_max / limits::tile_bytes_max;

/// Calls read(run, position) for every run of a tile's companions that the tile before has not left at the same position
/// of the companion buffer, which holds the runs one after another. A code book that all tiles take is read once beside
/// scales that each tile has of its own.
template <typename Read>
void for_each_new_companion(std::span<const codec::ByteRun> before, std::span<const codec::ByteRun> now, Read read) {
  std::uint64_t position_before = 0;
  std::uint64_t position = 0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const bool is_held = i < before.size() && position == position_before && before[i] == now[i];
    if (!is_held) read(now[i], position);
    position += now[i].bytes;
    position_before += i < before.size() ? before[i].bytes : 0;
  }
}

}  // namespace weightproof::plan
