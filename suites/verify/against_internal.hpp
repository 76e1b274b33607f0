// SPDX-License-Identifier: Apache-2.0
// What checks of two checkpoints share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "suites/explanations/states.hpp"
#include "suites/state/compare.hpp"
#include "suites/verify/against.hpp"
#include "suites/verify/context.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {

struct Against {
  std::string undecided;
  StateDifference difference;  // a: the base, b: this checkpoint
  std::uint64_t ordered = 0;   // tensors with codes whose order can be mistaken, on either side
  std::vector<Explanation> explanations;
};

/// Made on the first call.
const Against& against_of(Context& context);

/// Skip where there is nothing to compare with.
std::optional<reports::CheckRecord> no_base(Context& context, const char* id);

/// Of values that were converted.
std::span<const VerifyCheck> against_value_checks();

}  // namespace weightproof::suites
