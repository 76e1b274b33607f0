// SPDX-License-Identifier: Apache-2.0
// The plans of all ranks beside one another: whether together they are the checkpoint, whether ranks that hold the same
// read the same, and what each and each node reads and holds. From headers alone.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "loader/plan/ranks.hpp"

namespace weightproof::plan {

struct RankFigures {
  std::uint32_t rank = 0;
  std::uint64_t tensors = 0;
  std::uint64_t moves = 0;
  std::uint64_t final_bytes = 0;     ///< tensors it holds
  std::uint64_t source_bytes = 0;    ///< stored bytes of them
  std::uint64_t compared_bytes = 0;  ///< of second copies, which are read to be compared
  std::uint64_t read_bytes = 0;      ///< with gaps and companions
  std::uint64_t requests = 0;
  /// Runs of stored elements that it holds, of which close ones share a request. Codes are read without gaps and are
  /// none.
  std::uint64_t ranges = 0;
  std::uint64_t beyond_final_bytes = 0;
  std::uint64_t peak_bytes = 0;

  /// Stored bytes that moves take, whatever is read beside them.
  std::uint64_t wanted_bytes() const { return source_bytes + compared_bytes; }
  /// Bytes read for each byte wanted.
  double amplification() const;
};

/// What one plan reads and holds; `rank` is 0.
RankFigures figures_of(const Plan& plan);

/// Ranks that share a page cache.
struct NodeFigures {
  std::uint32_t first_rank = 0;
  std::uint32_t ranks = 0;
  std::uint64_t read_bytes = 0;      ///< by its ranks one by one
  std::uint64_t distinct_bytes = 0;  ///< stored bytes of different parts: what has to come from the disk once
};

struct AllRanks {
  std::vector<RankFigures> ranks;
  std::vector<NodeFigures> nodes;
  std::uint64_t checkpoint_bytes = 0;  ///< stored bytes of a plan of the whole
  // Sums over ranks.
  std::uint64_t source_bytes = 0;
  std::uint64_t wanted_bytes = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t distinct_bytes = 0;  ///< stored bytes of different parts over all ranks
  /// The first native tensor whose parts of all ranks are not exactly it; empty where all are.
  std::optional<ProofFault> fault;
  /// A native tensor of which two ranks hold the same part and read it differently; empty where there is none.
  std::string diverged;

  /// Bytes read for each byte wanted.
  double amplification() const;
  /// Bytes read for each byte that the checkpoint has.
  double times_checkpoint() const;
  /// Largest share of a rank over the mean share.
  double balance() const;
  std::uint64_t peak_bytes() const;
};

/// Every rank's plan in turn; `visit` sees each. Time is linear in the number of ranks and what they hold. Errors as
/// PlanBasis::plan().
AllRanks plan_all_ranks(const PlanBasis& basis, const RankLayout& layout, std::uint32_t ranks_per_node = 8,
                        const std::function<void(std::uint32_t rank, const Plan& plan)>& visit = {});

}  // namespace weightproof::plan
