// SPDX-License-Identifier: Apache-2.0
// Which part of a tensor a rank owns. Types only: the arithmetic lives in loader/plan.
#pragma once

#include <array>
#include <cstddef>
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

/// One component of an axis that tensor parallelism cuts: q, k or v of a fused projection, gate or up, the heads of a
/// plain one. `units` of `unit` rows each.
struct FusedComponent {
  std::uint64_t units = 0;
  std::uint64_t unit = 1;
  bool may_replicate = false;  ///< KV heads: with more ranks than units each unit is shared by ranks / units ranks
  friend bool operator==(const FusedComponent&, const FusedComponent&) = default;
};

/// What a layout of ranks does with a native tensor, as its family states it.
enum class ParallelKind : std::uint8_t {
  replicate,   ///< tensor parallel ranks hold it whole: norms, routers, low-rank projections
  components,  ///< `axis` is cut by component, each by its units; a rank holds its pieces one after the other
  chunks,      ///< `axis` is cut by the chunk rule: vocabulary, whose rows need not divide
  experts,  ///< routed experts along axis 0: expert parallelism cuts there and ep_shard along the next axis, TP never
  expert    ///< one routed expert by itself, owned by one expert parallel rank
};

/// Which pipeline stage holds a tensor that belongs to no decoder layer.
enum class StageRule : std::uint8_t { last, first, both };

struct ParallelRule {
  static constexpr std::size_t components_max = 3;
  ParallelKind kind = ParallelKind::replicate;
  StageRule stage = StageRule::last;
  std::uint8_t axis = 0;
  std::uint8_t component_count = 0;
  bool is_buffer = false;     ///< no parameter: data parallel shards hold it whole
  std::uint32_t experts = 0;  ///< expert: of how many
  std::array<FusedComponent, components_max> components{};
  friend bool operator==(const ParallelRule&, const ParallelRule&) = default;
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
