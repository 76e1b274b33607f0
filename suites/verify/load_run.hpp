// SPDX-License-Identifier: Apache-2.0
// The loads that checks execute, window by window under a budget. What is kept is what they showed, never weights.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/error.hpp"
#include "loader/plan/plan.hpp"
#include "suites/verify/context.hpp"
#include "suites/verify/ledger.hpp"
#include "suites/verify/load_windows.hpp"

namespace weightproof::suites {

/// What one check found: at most one row per tensor.
class TensorFindings {
 public:
  /// `where` is the coordinate in the whole tensor, empty where it has none.
  void add(std::string_view key, std::string where, std::string what);
  bool empty() const { return rows_.empty(); }
  struct Row {
    std::string key;
    std::string where;
    std::string what;
  };
  const std::vector<Row>& rows() const { return rows_; }

 private:
  std::vector<Row> rows_;
  std::set<std::string, std::less<>> keys_;
};

/// One route for all windows.
struct RouteRun {
  plan::Route route = plan::Route::direct;
  std::uint64_t loads = 0;
  std::uint64_t same = 0;         ///< windows whose plan is the automatic one anyway
  std::uint64_t over_budget = 0;  ///< windows that this route would have to hold more for than the budget
  std::string refused;            ///< why it is not possible
};

struct LoadRun {
  std::string skipped;         ///< why nothing was loaded
  std::optional<Error> error;  ///< why it did not end
  bool is_tie_broken = false;  ///< ... because tied values differ

  reports::PlanInfo plan;  ///< of everything at once
  std::uint64_t budget_bytes = 0;
  bool is_budget_given = false;
  std::uint64_t windows = 0;
  std::uint64_t boxes = 0;  ///< of these, boxes of a tensor larger than a window
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;  ///< of native state, by the first loads
  unsigned threads = 0;     ///< most of any first load
  std::uint64_t reads = 0;  ///< bytes that these read
  double seconds = 0;
  std::uint64_t metadata_bytes = 0;

  TensorFindings exact;
  std::uint64_t compared_bytes = 0;
  std::string reference_failure;
  std::string exact_explanation;  ///< of the first tensor whose difference was recognised
  TensorFindings sentinel;
  TensorFindings poison;
  TensorFindings reload;
  TensorFindings ledger;
  std::uint64_t ledger_regions = 0;
  std::uint64_t ledger_ranges = 0;
  TensorFindings routes;
  std::vector<RouteRun> route_runs;

  std::uint64_t files = 0;
  std::uint64_t opens = 0;
  std::uint64_t ranges = 0;  ///< runs of stored elements that the first loads held

  // Of the first load that reads, or copies, more than it may.
  TensorFindings amplification;
  std::uint64_t counted_reads = 0;
  std::uint64_t reads_bound = 0;
  TensorFindings copies;
  std::uint64_t counted_copies = 0;
  std::uint64_t copies_bound = 0;

  // Head and embedding of a tied model.
  TensorFindings ties;
  std::uint64_t ties_examined = 0;

  // Of the load with the largest prediction, or of the first that breaks it.
  std::uint64_t predicted_peak = 0;
  std::uint64_t counted_peak = 0;
  std::uint64_t final_bytes = 0;
  TensorFindings predicted;
  TensorFindings temporaries;
  std::uint64_t live_temporaries = 0;

  // mem.peak
  TensorFindings peak;
  std::uint64_t peak_growth = 0;  ///< largest growth of the resident set over one load
  std::uint64_t peak_bound = 0;   ///< of that load
  std::string peak_method;
  std::string peak_unavailable;
  std::uint64_t peak_before_reset = 0;  ///< VmHWM that was set back meanwhile
};

/// Executed on the first call.
const LoadRun& load_run_of(Context& context);

/// What load plans of this checkpoint are made from, values as they are stored or decode. The context outlives it.
LoadInputs load_inputs(Context& context);
/// The same under --dtype and --route.
LoadInputs asked_inputs(Context& context);

/// io.amplification of the ranks of a topology: adds what they read beyond the bound. Answers why they were not judged;
/// empty where they were, or where no topology was asked for.
std::string add_ranks_amplification(Context& context, TensorFindings& findings);

/// Why no load is possible; empty where one is.
std::string why_no_load(Context& context);

}  // namespace weightproof::suites
