// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "reports/report.hpp"

/// Emitters: pure functions from a report (after finish() and fold_findings()) to bytes. None reads a clock, an environment
/// variable or a file, so equal reports give equal bytes. All may be called from any thread.
namespace weightproof::reports {

/// `report.json`: members sorted by name, two spaces of indentation when `pretty`, a newline at the end.
std::string emit_json(const Report& report, bool pretty = true);

struct TextOptions {
  bool color = false;
  int width = 100;     ///< columns; at least 40 are used
  bool quiet = false;  ///< verdict and failures alone
  std::string report_dir;  ///< where the report lies, told at the end; empty: nowhere
};
/// Terminal text: verdict first, causes with their tensors, warnings, what was skipped and why, what to do next.
std::string emit_text(const Report& report, const TextOptions& options = {});

}  // namespace weightproof::reports
