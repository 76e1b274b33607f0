// SPDX-License-Identifier: Apache-2.0
// Which part of a tensor a rank owns. Types only: the arithmetic lives in loader/plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loader/core/box.hpp"

namespace weightproof {

/// world = pp x tp x fsdp x dp x cp; ep divides tp x fsdp x dp x cp and is carved out of it. Rank order: pp, dp, fsdp,
/// cp, tp with tp fastest.
struct Topology {
  std::uint32_t pp = 1;
  std::uint32_t dp = 1;
  std::uint32_t fsdp = 1;
  std::uint32_t cp = 1;
  std::uint32_t tp = 1;
  std::uint32_t ep = 1;
  std::uint32_t world() const { return pp * dp * fsdp * cp * tp; }
  friend bool operator==(const Topology&, const Topology&) = default;
};

enum class PlacementKind : std::uint8_t { replicate, shard, strided_shard };

/// One mesh dimension's effect on one tensor.
struct Placement {
  PlacementKind kind = PlacementKind::replicate;
  std::uint8_t axis = 0;           ///< tensor axis, for shards
  std::uint32_t split_factor = 1;  ///< strided_shard only
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// One piece of a rank's local tensor.
struct LocalPiece {
  Box global;  ///< in the whole tensor
  Box local;   ///< in the rank's tensor; same lengths
  friend bool operator==(const LocalPiece&, const LocalPiece&) = default;
};

/// A rank's local tensor: its shape and the ordered pieces that fill it. No pieces: the rank owns nothing of it.
struct LocalTensor {
  Shape shape;
  std::vector<LocalPiece> pieces;
};

}  // namespace weightproof
