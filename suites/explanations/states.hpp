// SPDX-License-Identifier: Apache-2.0
// Explanations of two decoded states side by side, and the report of such a comparison.
#pragma once

#include <string>
#include <vector>

#include "reports/report.hpp"
#include "suites/explanations/explanation.hpp"
#include "suites/state/compare.hpp"

namespace weightproof::suites {

/// A tensor of a state, which must outlive the source.
TensorSource source_of(const DecodedState& state, const StateTensor& tensor);

/// Marks what differs and is the same once the scales of experts are multiplied in: `folded_a` and `folded_b` are a and
/// b after DecodedState::fold(), or null where the family has no such scales. Errors: io_error, file_changed.
void find_folded(const DecodedState& a, const DecodedState* folded_a, const DecodedState& b,
                 const DecodedState* folded_b, StateDifference& difference);

/// Explains the tensors that are different, in the order of `difference`; those that have to be looked at element by
/// element `max` of them at most. What a tensor is
/// called in the comparison becomes what the explanation says, where it says something. `earlier` is an older state of
/// `a`, or null. Errors: io_error, file_changed.
std::vector<Explanation> explain_difference(const DecodedState& a, const DecodedState& b, const DecodedState* earlier,
                                            StateDifference& difference, std::size_t max = 64);

/// The comparison as records and findings: names under keys.export, values under the check that is about the mistake,
/// else under value.exact. Neither checkpoint nor run are filled in; finish() and fold_findings() are left to do.
reports::Report report_of(const StateDifference& difference, const std::vector<Explanation>& explanations);

}  // namespace weightproof::suites
