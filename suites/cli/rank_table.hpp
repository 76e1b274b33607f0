// SPDX-License-Identifier: Apache-2.0
// plan and load with a topology: which ranks are asked about, and all of them side by side.
#pragma once

#include <optional>

#include "loader/plan/all_ranks.hpp"
#include "suites/cli/checkpoints.hpp"

namespace weightproof::suites::cli {

struct RankChoice {
  std::optional<Topology> topology;  ///< empty: one rank holds everything
  std::uint32_t rank = 0;
  bool is_all = false;
};

/// Errors: usage where --rank, --all-ranks or --stages stand without --topology, with a topology neither or both of the
/// first two, or together with the hf layout, whose tensors are not divided.
RankChoice rank_choice(const Arguments& arguments);
/// The layout that --topology and --stages ask for. Throws what an illegal one throws.
plan::RankLayout rank_layout(const Schema& schema, const RankChoice& choice, const Arguments& arguments);

/// What one rank reads, wants and how often, in the same words wherever a plan is told.
void write_traffic(JsonWriter& json, const plan::RankFigures& rank);

/// Plans every rank. The status is that of a failed check where ranks together are not the checkpoint.
int run_all_ranks(const OpenedCheckpoint& opened, const plan::PlanBasis& basis, const plan::RankLayout& layout,
                  Console& console);

}  // namespace weightproof::suites::cli
