// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/report.hpp"
#include "reports/value.hpp"

/// What a change did: one report against another, several reports as one, many reports over time. Pure functions.
namespace weightproof::reports {

struct CompareOptions {
  /// A deterministic counter (predicted peak, bytes planned, bytes read, allocator's peak) that grows by more than this
  /// share is a new failure; below it is listed as changed. Times never gate.
  double counter_tolerance = 0.05;
  std::string base_label = {};  ///< how the base is called; empty: its commit
  std::string head_label = {};
};

/// Compares a head with its base: failures and warnings that are new, fixed, still there; what changed though it
/// passes. A failure of the base whose check did not run on the head is not fixed: it is listed as changed, with the
/// reason.
CompareInfo compare(const Report& base, const Report& head, const CompareOptions& options = {});

/// Puts the comparison into the head and marks its findings and tensors. Idempotent with one base.
void apply_compare(Report& head, const Report& base, const CompareOptions& options = {});

/// 1 where the comparison holds a new failure, else 0.
int exit_status(const CompareInfo& comparison);

/// One report of several: shards of one verification, ranks, or fixture runs whose support matrix adds up. Equal
/// passing records are summed, others kept; figures of the rank with the highest peak; times added. Empty input gives
/// an empty report.
Report merge(std::vector<Report> reports);

/// One point of a trend.
struct TrendPoint {
  std::string label;  ///< commit, or file name
  std::string start;  ///< ISO 8601
  Verdict verdict = Verdict::error;
  Summary summary;
  std::uint64_t causes = 0;
  std::optional<std::uint64_t> allocator_peak;
  std::optional<std::uint64_t> bytes_read;
  std::optional<double> total_s;
  std::string note;  ///< why a file gave no figures
};
TrendPoint trend_point(const Report& report, std::string_view file_name);
/// Reads every *.json of a folder (one level deep and its direct subfolders' report.json), oldest first. A file that is
/// no report gives a point with the reason as its note. Throws DocumentError where the folder cannot be read.
std::vector<TrendPoint> read_trend(const std::string& folder);
/// Tab-separated, one line a point, first line the names of the columns.
std::string emit_trend(const std::vector<TrendPoint>& points);

}  // namespace weightproof::reports
