// SPDX-License-Identifier: Apache-2.0
// All ranks of a topology in one process: each plans and loads what it holds, and what it then has is compared with the
// state of a single rank at the places where an independent reckoning puts it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loader/exec/engine.hpp"
#include "loader/plan/ranks.hpp"
#include "loader/storage/checkpoint.hpp"

namespace weightproof::suites {

struct ClusterOptions {
  Topology topology;
  std::vector<plan::Interval> stages;  ///< empty: contiguous chunks of layers
  /// For mutants: what a rank is told to hold instead.
  std::function<void(const Schema&, plan::RankPlacement&)> placement;
  /// Ranks load at once, one going on at each file call, drawn with this seed. Empty: one after the other.
  std::optional<std::uint64_t> interleaving;
};

/// What one rank ended with.
struct RankState {
  plan::RankPlacement placement;
  std::unique_ptr<plan::Plan> plan;
  std::optional<exec::LoadAttempt> attempt;
  std::span<const std::byte> bytes(std::size_t tensor) const { return attempt->bytes(tensor); }
};

struct RankFinding {
  std::string tensor;
  std::uint32_t rank = 0;
  std::string message;
};

/// The state of one rank that holds everything.
struct WholeState {
  const plan::Plan* plan = nullptr;
  const exec::LoadAttempt* attempt = nullptr;
};

/// Thread rule: none; each call runs what it needs.
class Cluster {
 public:
  /// `basis`, `checkpoint` and `whole` outlive this. Throws what an illegal topology throws.
  Cluster(const plan::PlanBasis& basis, const storage::Checkpoint& checkpoint, const WholeState& whole,
          ClusterOptions options);

  const plan::RankLayout& layout() const { return layout_; }
  /// One rank by itself.
  RankState run_rank(std::uint32_t rank, storage::FileCalls& calls = storage::FileCalls::system()) const;
  /// All of them, kept.
  std::vector<RankState> run_all() const;

  /// Shape and every element of every tensor against the whole. What was seen is remembered for unseen().
  void compare(std::uint32_t rank, const RankState& state, std::vector<RankFinding>& findings);
  /// After all ranks: tensors of which some element was on no rank.
  std::vector<RankFinding> unseen() const;

 private:
  const plan::PlanBasis& basis_;
  const storage::Checkpoint& checkpoint_;
  WholeState whole_;
  ClusterOptions options_;
  plan::RankLayout layout_;
  std::vector<std::uint32_t> stages_;    // of each layer
  std::vector<std::vector<bool>> seen_;  // per tensor of the whole plan, per element
};

/// Which parts of one tensor are the same.
struct Twins {
  std::vector<std::size_t> first;  ///< of each part, the first that is the same: itself where there is none before it
  std::uint64_t comparisons = 0;   ///< of two parts, piece by piece; near the number of parts, however they differ
};
Twins twins_of(std::span<const LocalTensor* const> parts);

/// Ranks that hold the same part must have planned it alike and ended with the same outcome.
std::vector<RankFinding> disagreements(const std::vector<RankState>& states);

/// Puts the ranks of one layout together out of the ranks of another, as a load of a sharded checkpoint would, and
/// compares with what those ranks loaded themselves.
std::vector<RankFinding> reshard(const std::vector<RankState>& from, const std::vector<RankState>& to);

}  // namespace weightproof::suites
