// SPDX-License-Identifier: Apache-2.0
// What checks of two checkpoints share.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
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
  std::optional<Error> failure;  ///< of reading the base: said once, under value.manifest
  StateDifference difference;    // a: the base, b: this checkpoint
  std::uint64_t ordered = 0;     // tensors with codes whose order can be mistaken, on either side
  std::vector<Explanation> explanations;
  /// Tensors that are bit for bit what the formula in this checkpoint's config makes of the base: as declared, no
  /// fault.
  std::set<std::string, std::less<>> as_stated;
  std::string formula;
  std::size_t folded = 0;  ///< scales of experts, multiplied in on both sides as was asked
};

/// What lossy exports declare. `theirs` and `ours` are folded where that is asked for; `against.difference` is there
/// for the other two.
void fold_as_asked(Context& context, const storage::Checkpoint& base, DecodedState& theirs, DecodedState& ours,
                   Against& against);
void find_folds(Context& context, const storage::Checkpoint& base, const StateOptions& options,
                const DecodedState& theirs, const DecodedState& ours, Against& against);
void find_stated_codes(Context& context, const DecodedState& theirs, const DecodedState& ours, Against& against);

/// Made on the first call.
const Against& against_of(Context& context);

/// Skip where there is nothing to compare with.
std::optional<reports::CheckRecord> no_base(Context& context, const char* id);

/// Of values that were converted.
std::span<const VerifyCheck> against_value_checks();

}  // namespace weightproof::suites
