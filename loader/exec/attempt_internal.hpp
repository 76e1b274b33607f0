// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "loader/exec/attempt.hpp"

namespace weightproof::exec {

struct LoadAttempt::State {
  const plan::Plan* plan = nullptr;
  std::unique_ptr<Allocator> own_allocator;  // before what it counts
  std::optional<Arena> arena;
  Outcome outcome = Outcome::failed;
  std::optional<Error> error;
  std::optional<Error> cause;
  std::vector<std::uint64_t> left;  // bytes per move that are not yet executed
  std::vector<Digest> digests;      // per tensor, empty where none
  std::string why_no_digest = "digests were not asked for";
  Counters counters;
  Phases phases;
  Ledger ledger;
  Charge ledger_charge;
  MemoryStatistics memory;
  unsigned threads = 1;
};

}  // namespace weightproof::exec
