// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reports/evidence.hpp"
#include "reports/finding.hpp"
#include "reports/status.hpp"
#include "reports/value.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The records of a report: what `verify --json` prints and what every emitter of this room reads. Plain values without
/// behaviour; nothing here is shared between threads. Sizes are bytes, times are seconds.
namespace weightproof::reports {

/// Format name and version of the document.
inline constexpr std::string_view k_report_schema = "weightproof.report/1";

/// An error as every verb prints it.
struct ErrorRecord {
  std::string code;         ///< UPPER_SNAKE
  std::string error_class;  ///< the format's own class name, or empty
  std::string message;
  std::string file;
  std::vector<std::string> keys;
  Value expected;
  Value actual;
  std::optional<std::int64_t> rank;
  std::string hint;
};

/// One check and how it ended.
struct CheckRecord {
  std::string id;     ///< `group.name`
  std::string suite;  ///< group, filled by finish() where empty
  Status status = Status::pass;
  std::vector<std::string> subjects;  ///< tensors or files concerned, capped (CheckBuilder)
  std::uint64_t total = 0;            ///< how many were concerned; in a pass record how many were examined
  std::uint64_t shown = 0;            ///< size of `subjects`, filled by finish()
  std::string message;                ///< one sentence
  std::string explanation;            ///< what the difference is, if it was recognised; the note of a pass
  Value expected;                     ///< null: absent
  Value actual;                       ///< null: absent
  std::string reason;                 ///< why skipped, why it could not be carried out
  std::string hint;                   ///< what to do next, or what would make a skipped check run
  std::string code;                   ///< error code where the record stems from an error
  Value evidence;                     ///< object, or null
  std::string case_name;              ///< family/config/topology/route/destination/property where there is one
};

/// What was verified.
struct CheckpointInfo {
  std::string path;
  std::string format;
  std::string family;
  std::vector<std::string> architectures;
  std::uint64_t files = 0;
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;                      ///< of tensor data
  std::map<std::string, std::uint64_t> dtypes;  ///< number of tensors by dtype
  std::string quantization;                     ///< scheme, or empty
  std::optional<bool> tied;                     ///< unknown where empty
  std::string form;                             ///< namespace, expert layout, generation; empty: nothing to say
};

/// A class of tensors and the way it went.
struct RouteRecord {
  std::string tensors;  ///< key pattern
  std::uint64_t count = 0;
  std::string route;  ///< direct, bounded, materialized
  std::string reason;
  std::uint64_t stored_bytes = 0;
  std::string change;  ///< against base: "same", or what it was
};

/// A route that was considered for a class of tensors and not taken.
struct ConsideredRoute {
  std::string tensors;
  std::string route;
  std::string rejected;  ///< why
};

/// One band of the coverage ledger.
struct LedgerRow {
  std::string stored;  ///< what is stored
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
  std::string route;        ///< direct, bounded, materialized, dropped
  std::string destination;  ///< where to; the reason of a drop
  std::uint64_t destination_bytes = 0;
};

/// Proof that every stored byte is used once or dropped with a reason.
struct CoverageInfo {
  std::uint64_t native_tensors = 0;
  std::uint64_t exact = 0;
  std::uint64_t holes = 0;
  std::uint64_t overlaps = 0;
  std::uint64_t undecided = 0;
  std::uint64_t stored_bytes = 0;
  std::uint64_t moved_bytes = 0;    ///< copied as they are
  std::uint64_t decoded_bytes = 0;  ///< decoded or cast
  std::uint64_t dropped_bytes = 0;
  std::vector<LedgerRow> rows;
  /// stored less moved, decoded and dropped; must be 0.
  std::int64_t unaccounted() const;
};

/// The plan the run followed.
struct PlanInfo {
  std::vector<RouteRecord> routes;
  std::vector<ConsideredRoute> considered;
  std::optional<CoverageInfo> coverage;
  std::optional<std::uint64_t> predicted_peak;  ///< beyond final storage
  std::optional<std::uint64_t> bytes_planned;
  std::optional<std::uint64_t> bytes_read;
  std::optional<std::uint64_t> bytes_minimum;
  Value more;  ///< object: whatever else the plan says
};

/// A memory figure, or why there is none.
struct MemoryFigure {
  std::string name;
  std::optional<std::uint64_t> bytes;
  std::string method;  ///< how it was measured or computed
  std::string why;     ///< why there is no figure
};

/// Names every memory block holds, measured or null with the reason.
inline constexpr std::string_view k_memory_figures[] = {"predicted", "allocator_peak", "vm_hwm",
                                                        "rss_anon",  "page_cache",     "cgroup_peak",
                                                        "pinned",    "device",         "final_storage"};

/// Bytes beyond final storage at one moment.
struct MemorySample {
  double seconds = 0;
  std::uint64_t metadata = 0;
  std::uint64_t companion = 0;
  std::uint64_t staging = 0;
  std::uint64_t uncounted = 0;  ///< what only the kernel saw
  std::uint64_t final_storage = 0;
  std::uint64_t page_cache = 0;
};

/// Peak of one part of a load.
struct MemoryPart {
  std::string name;
  double begin_s = 0;
  double end_s = 0;
  std::uint64_t metadata = 0;
  std::uint64_t companion = 0;
  std::uint64_t staging = 0;
  std::uint64_t uncounted = 0;
};

struct MemoryInfo {
  std::vector<MemoryFigure> figures;
  std::optional<std::int64_t> rank;        ///< the rank shown
  std::optional<std::uint64_t> bound;      ///< beyond final storage
  std::optional<std::uint64_t> allowance;  ///< of the kernel's figure over the bound
  std::vector<MemoryPart> parts;
  std::vector<MemorySample> series;
  const MemoryFigure* find(std::string_view name) const;
  /// Replaces the figure of that name.
  void set(std::string_view name, std::uint64_t bytes, std::string_view method);
  void set_unavailable(std::string_view name, std::string_view why);
};

struct TimingPhase {
  std::string name;
  std::optional<double> seconds;
  std::optional<std::uint64_t> bytes;
  std::string why;  ///< why there is no time
};

/// Names every timing block holds.
inline constexpr std::string_view k_timing_phases[] = {"scan", "plan", "load", "compare", "report"};

/// A timed case against its baseline, both measured in this run.
struct TimingCase {
  std::string name;
  std::string baseline;
  std::string cache;                       ///< cold, mixed, warm, unknown
  std::string cache_note;                  ///< how the cache class was established
  std::optional<double> seconds;           ///< median of the case
  std::optional<double> baseline_seconds;  ///< median of the baseline
  std::vector<double> ratios;              ///< per round: case over baseline
  std::optional<double> goal;
  std::optional<double> base_median;  ///< median on the base commit
  std::optional<double> bytes_per_second;
};

struct TimingInfo {
  std::optional<double> total_s;
  std::vector<TimingPhase> phases;
  std::string cache_before = "unknown";  ///< cold, mixed, warm, unknown
  std::string cache_after = "unknown";
  std::string cache_method;  ///< how it was found, or why it was not
  std::vector<TimingCase> cases;
  TimingPhase* find(std::string_view name);
};

struct RunInfo {
  std::string tool;  ///< name and version
  std::string commit;
  std::string base;   ///< what it is compared with
  std::string title;  ///< eyebrow of the page, e.g. "verify, pull request 482"
  std::optional<std::uint64_t> seed;
  std::string start;  ///< ISO 8601, UTC
  std::string host;
  std::optional<double> duration_s;
  std::string command;       ///< the whole command line
  std::string command_base;  ///< command that commands of findings extend
};

/// A rule in force: severity, tolerance, cap, relaxation.
struct PolicyRecord {
  std::string name;
  std::string value;
  std::string source;  ///< default, option, config, expectation file
  bool relaxation = false;
};

/// Something taken by default because the input does not say it.
struct DefaultedRecord {
  std::string name;
  std::string value;
  std::string rule;
};

/// Whether a family x form x route x dtype is proved.
struct SupportRecord {
  std::string family;
  std::string form;
  std::string route;
  std::string dtype;
  Status status = Status::pass;
  std::uint64_t cases = 0;
  std::string note;
};

struct Report {
  CheckpointInfo checkpoint;
  std::vector<CheckRecord> checks;
  PlanInfo plan;
  MemoryInfo memory;  ///< empty figures are filled by finish() with the reason
  TimingInfo timing;
  std::map<std::string, Value> environment;
  RunInfo run;
  std::vector<PolicyRecord> policies;
  std::vector<DefaultedRecord> defaulted;
  bool sample = false;  ///< invented figures: every rendering says so
  bool strict = false;  ///< a warning counts as a failed check in the exit status

  // Optional parts.
  std::vector<Finding> findings;  ///< filled by fold_findings()
  std::optional<CompareInfo> compare;
  std::optional<TensorTable> tensors;
  std::optional<SelftestInfo> selftest;
  std::vector<SupportRecord> support;
};

/// Subjects that a record keeps at most, whoever made it; `total` counts all.
inline constexpr std::size_t k_subjects_max = 1000;

/// Puts a report into the state in which it is emitted: suites and `shown` filled in, lists capped, checks sorted by
/// the order of the groups, then id, then status, then case and first subject; missing memory figures and timing phases
/// become null with the reason; invalid UTF-8 becomes U+FFFD. Two calls equal one.
void finish(Report& report);

Summary summarize(const std::vector<CheckRecord>& checks);
/// A failed check outranks an error; nothing that ran at all is an error, never a pass.
Verdict verdict_of(const Summary& summary);
/// Exit status of `verify`: 0, 1 (failed, or warned under strict) or 3 (could not be carried out).
int exit_status(const Report& report);

/// Position of a check group in every listing: format, index, keys, tied, layout, quant, dtype, value, shard, adapter,
/// mem, io, expect; unknown groups come last.
int group_order(std::string_view group);
/// `group` of `group.name`.
std::string_view group_of(std::string_view check_id);

/// Collects the subjects of one check and makes its record. At most `cap` subjects are kept (the first in sorted
/// order), all are counted, so memory is bounded however many are reported. Not to be shared between threads.
class CheckBuilder {
 public:
  static constexpr std::size_t k_default_cap = 64;
  explicit CheckBuilder(std::string id, std::size_t cap = k_default_cap);

  /// A tensor or file that fails, warns or is noted.
  CheckBuilder& subject(std::string_view name);
  /// Counts what was examined; the `total` of a pass record.
  CheckBuilder& examined(std::uint64_t count);
  CheckBuilder& message(std::string text);
  CheckBuilder& explanation(std::string text);
  CheckBuilder& expected(Value value);
  CheckBuilder& actual(Value value);
  CheckBuilder& hint(std::string text);
  CheckBuilder& code(std::string text);
  CheckBuilder& case_name(std::string text);
  /// Adds a member to the evidence.
  CheckBuilder& evidence(std::string_view name, Value value);

  bool has_subjects() const { return subjects_total_ > 0; }
  std::uint64_t subject_count() const { return subjects_total_; }

  CheckRecord pass();
  /// Pass with an explanation that says what was seen.
  CheckRecord note(std::string explanation);
  CheckRecord fail(std::string message);
  CheckRecord warn(std::string message);
  CheckRecord skip(std::string reason);
  CheckRecord error(std::string reason);
  /// Fails (or warns) where a subject was reported, passes otherwise.
  CheckRecord fail_if_subjects(std::string message);
  CheckRecord warn_if_subjects(std::string message);

 private:
  CheckRecord make(Status status);
  CheckRecord record_;
  std::size_t cap_;
  std::uint64_t subjects_total_ = 0;
  std::uint64_t examined_ = 0;
};

}  // namespace weightproof::reports
