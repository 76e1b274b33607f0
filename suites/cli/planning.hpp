// SPDX-License-Identifier: Apache-2.0
// From an opened checkpoint and the options to a plan, for plan and load.
#pragma once

#include "loader/plan/planner.hpp"
#include "suites/cli/checkpoints.hpp"

namespace weightproof::suites::cli {

/// Errors: usage without a schema; what make_plan() throws.
plan::Plan make_load_plan(const OpenedCheckpoint& opened, const Arguments& arguments);
/// What the plans of all ranks share.
plan::PlanBasis make_plan_basis(const OpenedCheckpoint& opened, const Arguments& arguments);

}  // namespace weightproof::suites::cli
