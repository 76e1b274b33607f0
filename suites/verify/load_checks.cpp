// SPDX-License-Identifier: Apache-2.0
// Checks that execute loads: the loader's native state against the reference, element by element, loads under different
// circumstances and on different routes against each other, and what loading took.
#include <array>

#include "suites/support/text.hpp"
#include "suites/verify/load_run.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"
#include "suites/verify/round_trip.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

// Skip or error where there are no loads to look at; nothing where there are.
std::optional<CheckRecord> no_loads(const LoadRun& run, const char* id) {
  if (!run.skipped.empty()) {
    return CheckBuilder(id).skip(run.skipped);
  }
  if (run.error && run.is_tie_broken) {
    return CheckBuilder(id).skip("the load stops where tied.mismatch fails");
  }
  // Errors that are the matter of one check.
  for (const std::string_view other : {"mem.budget", "io.route", "dtype.unsupported"}) {
    if (run.error && run.error->check() == other) {
      return CheckBuilder(id).skip("nothing was loaded: " + std::string(other) + " says why");
    }
  }
  if (run.error) {
    return error_record(id, *run.error);
  }
  return std::nullopt;
}

// Tensors with a finding, the first of them in words.
CheckRecord record_of_findings(CheckBuilder& builder, const TensorFindings& findings) {
  std::string message;
  for (const TensorFindings::Row& row : findings.rows()) {
    builder.subject(row.key);
    if (message.empty()) {
      message = printable(row.key) + row.where + row.what;
      if (!row.where.empty()) {
        builder.evidence("coordinate", row.where);
      }
    }
  }
  return builder.fail_if_subjects(message);
}

CheckRecord of_tensors(Context& context, const char* id, TensorFindings LoadRun::*findings) {
  const LoadRun& run = load_run_of(context);
  if (auto record = no_loads(run, id)) {
    return *record;
  }
  CheckBuilder builder(id);
  builder.examined(run.tensors);
  return record_of_findings(builder, run.*findings);
}

CheckRecord sentinel(Context& context) { return of_tensors(context, "io.sentinel", &LoadRun::sentinel); }
CheckRecord poison(Context& context) { return of_tensors(context, "io.poison", &LoadRun::poison); }
CheckRecord reload(Context& context) { return of_tensors(context, "io.reload", &LoadRun::reload); }

// The first of the loads has all threads of its plan, the second one.
CheckRecord determinism(Context& context) {
  const LoadRun& run = load_run_of(context);
  if (auto record = no_loads(run, "io.determinism")) {
    return *record;
  }
  CheckBuilder builder("io.determinism");
  if (run.threads < 2) {
    return builder.skip("one thread was used");
  }
  builder.examined(run.tensors);
  return record_of_findings(builder, run.reload);
}

CheckRecord ledger(Context& context) {
  const LoadRun& run = load_run_of(context);
  if (auto record = no_loads(run, "io.ledger")) {
    return *record;
  }
  CheckBuilder builder("io.ledger");
  builder.examined(run.ledger_ranges + run.ledger_regions)
      .evidence("source_ranges", run.ledger_ranges)
      .evidence("destination_regions", run.ledger_regions);
  return record_of_findings(builder, run.ledger);
}

CheckRecord opens(Context& context) {
  const LoadRun& run = load_run_of(context);
  if (auto record = no_loads(run, "io.opens")) {
    return *record;
  }
  CheckBuilder builder("io.opens");
  builder.examined(run.files).expected(run.files).actual(run.opens);
  if (run.opens > run.files) {
    return builder.fail("files were opened " + grouped(run.opens) + " times, planned were " + grouped(run.files));
  }
  return builder.pass();
}

CheckRecord amplification(Context& context) {
  const LoadRun& run = load_run_of(context);
  if (auto record = no_loads(run, "io.amplification")) {
    return *record;
  }
  CheckBuilder builder("io.amplification");
  builder.examined(run.ranges);
  if (!run.amplification.empty()) {
    builder.expected(run.reads_bound).actual(run.counted_reads);
  }
  TensorFindings findings = run.amplification;
  const std::string why_no_ranks = add_ranks_amplification(context, findings);
  const std::string note = why_no_ranks.empty() ? std::string() : "ranks were not judged: " + why_no_ranks;
  if (!findings.empty()) {
    return record_of_findings(builder.explanation(note), findings);
  }
  return note.empty() ? builder.pass() : builder.note(note);
}

CheckRecord route(Context& context) {
  const LoadRun& run = load_run_of(context);
  if (run.error && run.error->check() == "io.route") {
    return error_record("io.route", *run.error);
  }
  if (run.plan.routes.empty()) {
    if (auto record = no_loads(run, "io.route")) {
      return *record;
    }
  }
  CheckBuilder builder("io.route");
  std::uint64_t tensors = 0;
  for (const reports::RouteRecord& row : run.plan.routes) {
    tensors += row.count;
  }
  std::string text;
  for (const auto& row : run.plan.considered) {
    text += (text.empty() ? "not " : "; not ") + row.route + ": " + row.rejected;
  }
  return builder.examined(tensors).note(text);
}

CheckRecord copies(Context& context) {
  const LoadRun& run = load_run_of(context);
  if (auto record = no_loads(run, "mem.copies")) {
    return *record;
  }
  CheckBuilder builder("mem.copies");
  builder.examined(run.tensors);
  if (!run.copies.empty()) {
    builder.expected(run.copies_bound).actual(run.counted_copies);
  }
  return record_of_findings(builder, run.copies);
}

CheckRecord device_peak(Context&) {
  return CheckBuilder("mem.device_peak")
      .hint("`weightproof doctor` says what devices there are")
      .skip("loads go into host memory: no device was asked for");
}

CheckRecord one_storage(Context& context) {
  CheckBuilder builder("tied.storage");
  if (context.adapter) {
    return builder.skip("a low-rank adapter has no head of its own");
  }
  if (!context.form || !context.schema) {
    return builder.skip(context.no_schema_reason);
  }
  if (!context.form->is_tied) {
    return builder.skip("head and embedding are two tensors");
  }
  const LoadRun& run = load_run_of(context);
  if (auto record = no_loads(run, "tied.storage")) {
    return *record;
  }
  if (run.ties_examined == 0) {
    return builder.skip("head and embedding are outside the selection");
  }
  builder.examined(run.ties_examined);
  return record_of_findings(builder, run.ties);
}

std::string windows_text(const LoadRun& run) {
  std::string text = counted(run.windows, "window", "windows") + " under a budget of " + human_bytes(run.budget_bytes);
  if (run.boxes != 0) {
    text += ", " + counted(run.boxes, "box", "boxes") + " of larger tensors among them";
  }
  return text;
}

CheckRecord budget(Context& context) {
  const LoadRun& run = load_run_of(context);
  if (run.error && run.error->code() == ErrorCode::budget_too_small) {
    return error_record("mem.budget", *run.error);
  }
  if (auto record = no_loads(run, "mem.budget")) {
    return *record;
  }
  return CheckBuilder("mem.budget")
      .examined(run.windows)
      .evidence("budget", run.budget_bytes)
      .evidence("metadata", run.metadata_bytes)
      .note(windows_text(run));
}

CheckRecord predicted(Context& context) {
  const LoadRun& run = load_run_of(context);
  if (auto record = no_loads(run, "mem.predicted")) {
    return *record;
  }
  CheckBuilder builder("mem.predicted");
  builder.examined(run.windows).expected(run.predicted_peak).actual(run.counted_peak);
  return record_of_findings(builder, run.predicted);
}

CheckRecord peak(Context& context) {
  const LoadRun& run = load_run_of(context);
  if (auto record = no_loads(run, "mem.peak")) {
    return *record;
  }
  CheckBuilder builder("mem.peak");
  builder.examined(run.windows);
  if (!run.peak_unavailable.empty()) {
    return builder.skip(run.peak_unavailable);
  }
  // What passes says no figure that is another one in the next run.
  if (!run.peak.empty()) {
    builder.expected(run.peak_bound).actual(run.peak_growth).evidence("method", run.peak_method);
  }
  return record_of_findings(builder, run.peak);
}

CheckRecord temporaries(Context& context) {
  const LoadRun& run = load_run_of(context);
  if (auto record = no_loads(run, "mem.temporaries")) {
    return *record;
  }
  CheckBuilder builder("mem.temporaries");
  builder.examined(run.windows);
  if (!run.temporaries.empty()) {
    builder.actual(run.live_temporaries);
  }
  return record_of_findings(builder, run.temporaries);
}

CheckRecord exact(Context& context) {
  const LoadRun& run = load_run_of(context);
  if (auto record = no_loads(run, "value.exact")) {
    return *record;
  }
  CheckBuilder builder("value.exact");
  if (!run.reference_failure.empty() && run.exact.empty()) {
    return builder.error("the reference cannot follow: " + run.reference_failure);
  }
  builder.examined(run.compared_bytes);
  if (!run.exact_explanation.empty()) {
    builder.explanation(run.exact_explanation);
  }
  return record_of_findings(builder, run.exact);
}

CheckRecord routes(Context& context) {
  const LoadRun& run = load_run_of(context);
  if (auto record = no_loads(run, "value.routes")) {
    return *record;
  }
  CheckBuilder builder("value.routes");
  std::string text;
  std::uint64_t loads = 0;
  for (const RouteRun& route : run.route_runs) {
    loads += route.loads;
    text += (text.empty() ? "" : "; ") + std::string(plan::to_string(route.route)) + ": ";
    if (!route.refused.empty()) {
      text += "not possible";
    } else if (route.loads == 0 && route.same != 0) {
      text += "what is done anyway";
    } else {
      text += counted(route.loads, "load", "loads");
    }
    if (route.over_budget != 0) {
      text += ", " + counted(route.over_budget, "window", "windows") + " would have to hold more than the budget";
    }
  }
  builder.examined(loads + run.windows);
  if (!run.routes.empty()) {
    return record_of_findings(builder.explanation(text), run.routes);
  }
  return builder.note(text);
}

CheckRecord roundtrip(Context& context) {
  const LoadRun& run = load_run_of(context);
  if (auto record = no_loads(run, "value.roundtrip")) {
    return *record;
  }
  if (context.options.folds_expert_scales) {
    return CheckBuilder("value.roundtrip").skip("scales multiplied into their experts do not come apart again");
  }
  const RoundTrip trip = make_round_trip(context, run.budget_bytes, run.is_budget_given);
  if (trip.error) {
    return error_record("value.roundtrip", *trip.error);
  }
  CheckBuilder builder("value.roundtrip");
  builder.examined(trip.bytes);
  const std::string files = trip.has_files ? "whole files are compared, headers and index included"
                                           : "files are not compared: " + trip.why_no_files;
  if (!trip.tensors_found.empty()) {
    return record_of_findings(builder.explanation(files), trip.tensors_found);
  }
  if (!trip.files_found.empty()) {
    return record_of_findings(builder, trip.files_found);
  }
  return builder.note(files);
}

constexpr std::array k_checks = {
    VerifyCheck{"value.exact", &exact},
    VerifyCheck{"value.roundtrip", &roundtrip},
    VerifyCheck{"value.routes", &routes},
    VerifyCheck{"mem.budget", &budget},
    VerifyCheck{"mem.peak", &peak},
    VerifyCheck{"mem.predicted", &predicted},
    VerifyCheck{"mem.temporaries", &temporaries},
    VerifyCheck{"io.ledger", &ledger},
    VerifyCheck{"io.sentinel", &sentinel},
    VerifyCheck{"io.poison", &poison},
    VerifyCheck{"io.reload", &reload},
    VerifyCheck{"io.determinism", &determinism},
    VerifyCheck{"io.opens", &opens},
    VerifyCheck{"io.amplification", &amplification},
    VerifyCheck{"io.route", &route},
    VerifyCheck{"mem.copies", &copies},
    VerifyCheck{"mem.device_peak", &device_peak},
    VerifyCheck{"tied.storage", &one_storage},
};

}  // namespace

std::span<const VerifyCheck> load_checks() { return k_checks; }

}  // namespace weightproof::suites
