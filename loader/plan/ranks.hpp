// SPDX-License-Identifier: Apache-2.0
// From the rules that a family states to what every rank of a topology holds.
//
//   pp        layers by stage; what belongs to no layer stands on the first stage, on the last one, or on both (tied
//   head) tp        by the tensor's rule: components by their units, vocabulary by chunks, experts and norms not at all
//   ep        with ep > 1 routed experts live on a mesh of their own, (ep_shard, ep) over all ranks of a stage: experts
//             by ep, the next axis by ep_shard. With ep = 1 they are parameters like any other
//   fsdp      axis 0 of what tensor parallelism left, by the chunk rule; later ranks may hold less, or an empty tensor
//   dp, cp    replicas
#pragma once

#include <vector>

#include "loader/core/schema.hpp"
#include "loader/plan/placement.hpp"
#include "loader/plan/planner.hpp"

namespace weightproof::plan {

/// Decoder layers.
std::uint64_t layer_count(const Schema& schema);

/// Gaps between ranges that a plan of parts reads through at most; one of everything those of
/// limits::read_gap_bytes_max.
inline constexpr std::uint64_t k_part_gap_bytes_max = 4096;
std::uint64_t gap_bytes_max(const Schema& schema, const RankPlacement& placement);

/// A topology over a schema, found to be legal. Thread rule: immutable.
class RankLayout {
 public:
  /// `stages`: layers of each pipeline stage, empty for contiguous chunks. `schema` outlives this. Errors, with the
  /// rule, the tensor and what would be allowed: chunk_not_representable, ep_not_divisible; usage where stages and pp
  /// disagree.
  RankLayout(const Schema& schema, const Topology& topology, std::vector<Interval> stages = {});

  const Topology& topology() const { return topology_; }
  std::uint64_t layers() const { return layers_; }
  const std::vector<Interval>& stages() const { return stages_; }
  /// Cost: about 0.2 us a native tensor. Throws usage for a rank outside the topology.
  RankPlacement of(std::uint32_t rank) const;

 private:
  LocalTensor local(const NativeTensor& tensor, const RankPosition& position) const;
  void require_cut(const NativeTensor& tensor) const;
  bool is_on_stage(const NativeTensor& tensor, std::uint32_t stage) const;

  const Schema& schema_;
  Topology topology_;
  std::vector<Interval> stages_;
  std::uint64_t layers_ = 0;
  bool has_expert_mesh_ = false;
};

}  // namespace weightproof::plan
