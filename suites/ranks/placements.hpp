// SPDX-License-Identifier: Apache-2.0
// What the ranks of a topology are told to hold, judged by itself: parts inside their tensors and cut where the
// family's rule lets them be cut, together the whole, no element in two different parts, and none on more ranks than
// the rule puts it. From shapes alone.
#pragma once

#include <functional>
#include <vector>

#include "loader/plan/ranks.hpp"
#include "suites/ranks/cluster.hpp"

namespace weightproof::suites {

struct PlacementFindings {
  std::uint64_t parts = 0;  ///< looked at, of all ranks
  std::vector<RankFinding> bounds;
  std::vector<RankFinding> holes;
  std::vector<RankFinding> overlaps;
  /// Matrices that every tensor parallel rank, or every data parallel shard, holds whole as their rule states.
  std::vector<std::string> replicated;
};

/// `change`: for mutants, what a rank is told to hold instead; may be empty. At most one finding of each kind for a
/// tensor.
PlacementFindings judge_placements(const Schema& schema, const plan::RankLayout& layout,
                                   const std::function<void(const Schema&, plan::RankPlacement&)>& change);

/// Native tensors that are made of several parts of an axis, or are one of several that the files hold in one tensor:
/// query, key and value, gate and up. Routed experts are none of them.
std::vector<bool> fused_tensors(const Schema& schema);

}  // namespace weightproof::suites
