// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/report.hpp"

// Invented reports for tests and screenshots. Every one is finished and folded.
namespace weightproof::reports::sample {

/// Everything a report can hold: four causes, warnings, notes, skips, comparison, map, ledger, memory, timings,
/// selftest.
Report full();
/// A small checkpoint on which everything passes.
Report passing();
/// `checks` records and as many tensors, of which every `fail_every`th fails (0: none).
Report large(std::size_t checks, std::size_t fail_every = 97);
/// A planted fault and what the first viewport must name.
struct Fault {
  std::string name;
  std::string kind;
  std::string key;
  Report report;
};
std::vector<Fault> faults();
/// Names and texts that try to break out of every format.
Report hostile();

/// The name used in hostile(): markup, quotes, a direction override, a NUL and a lone surrogate's bytes.
std::string hostile_name();

}  // namespace weightproof::reports::sample
