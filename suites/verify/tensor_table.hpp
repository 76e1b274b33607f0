// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "loader/core/catalog.hpp"
#include "reports/report.hpp"

namespace weightproof::suites {

/// Tensors that a report's map holds at most; a larger checkpoint has none.
inline constexpr std::size_t k_table_tensors_max = 100'000;

/// The stored tensors for map and drawer, and native ones that a finding is about. Verdicts come from fold_findings().
void add_tensor_table(const Catalog& catalog, reports::Report& report);

}  // namespace weightproof::suites
