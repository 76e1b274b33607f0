// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "loader/plan/plan.hpp"
#include "reports/report.hpp"

namespace weightproof::suites {

/// What a report says of a plan: routes by class of tensors, routes weighed, the coverage ledger, memory and traffic.
/// Bytes of the ledger add up to those of the catalog.
reports::PlanInfo plan_record_of(const plan::Plan& plan);

}  // namespace weightproof::suites
