// SPDX-License-Identifier: Apache-2.0
// Checks of a model divided among ranks: every rank is planned and loaded in this process, and what it holds is
// compared with the state of a single rank.
#include <algorithm>
#include <array>
#include <set>

#include "loader/exec/engine.hpp"
#include "loader/plan/all_ranks.hpp"
#include "loader/plan/ranks.hpp"
#include "suites/ranks/cluster.hpp"
#include "suites/ranks/placements.hpp"
#include "suites/ranks/shared_bytes.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/counting_calls.hpp"
#include "suites/verify/load_run.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {

struct ExecutedRanks {
  std::string skipped;           ///< why no rank was loaded
  std::optional<Error> illegal;  ///< why there can be no such ranks
  std::optional<Error> error;
  std::uint32_t ranks = 0;
  std::uint64_t elements = 0;  ///< of the whole
  std::vector<RankFinding> findings;
  std::vector<RankFinding> disagreements;
  std::string not_kept;  ///< why ranks were not compared with one another
  PlacementFindings placements;
  std::vector<RankFinding> equal_overlaps;  ///< of the overlaps of `placements`, those of equal bytes
  TensorFindings amplification;
  std::uint32_t refused = 0;  ///< ranks that could not be loaded
  std::uint64_t fused = 0;    ///< tensors that are cut part by part
  std::vector<RankFinding> fused_findings;
};

void ExecutedRanksDeleter::operator()(ExecutedRanks* ranks) const { delete ranks; }

namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

constexpr std::uint64_t k_whole_bytes_max = 1ULL << 30U;
constexpr std::uint64_t k_kept_bytes_max = 256ULL << 20U;
constexpr std::uint32_t k_ranks_max = 4096;

bool is_illegal(const Error& error) {
  return error.code() == ErrorCode::chunk_not_representable || error.code() == ErrorCode::ep_not_divisible;
}

// A rank's load under its plan's bound.
void judge_reads(const RankState& state, const CountingCalls& calls, std::uint32_t rank, TensorFindings& findings) {
  if (state.plan->tensors().empty()) {
    return;
  }
  const std::uint64_t bound = reads_bound(*state.plan, plan::gap_bytes_max(state.plan->schema(), state.placement));
  if (calls.bytes() <= bound) {
    return;
  }
  const std::string name = "rank " + std::to_string(rank);
  const std::string sum = " read " + grouped(calls.bytes()) + " bytes in all, allowed are " + grouped(bound);
  const std::vector<std::string> keys = calls.overread(*state.plan, bound);
  for (const std::string& key : keys) {
    findings.add(key, {}, ": " + name + " read more of it than it wants; it" + sum);
  }
  if (keys.empty()) {
    findings.add(largest_of(*state.plan), {}, ": " + name + " holds of it, and" + sum);
  }
}

// What a rank's plan or load was refused for counts against the tensors that it names.
void add_error(const Error& error, std::uint32_t rank, std::vector<RankFinding>& findings) {
  const std::string message = "rank " + std::to_string(rank) + ": " + error.message();
  if (error.facts().keys.empty()) {
    findings.push_back({"", rank, message});
  }
  for (const std::string& key : error.facts().keys) {
    findings.push_back({key, rank, message});
  }
}

// Of equal bytes an overlap is no loss. Without every rank's bytes nothing is known of it.
void weigh_overlaps(const SharedBytes& shared, ExecutedRanks& run) {
  if (run.refused != 0) {
    return;
  }
  std::vector<RankFinding> differing;
  for (RankFinding& finding : run.placements.overlaps) {
    const std::string_view difference = shared.difference(finding.tensor);
    finding.message += difference.empty() ? ", with equal bytes" : "; " + std::string(difference);
    (difference.empty() ? run.equal_overlaps : differing).push_back(std::move(finding));
  }
  run.placements.overlaps = std::move(differing);
}

void run_ranks(Context& context, ExecutedRanks& run) {
  const Topology topology = plan::parse_topology(context.options.topology);
  run.ranks = topology.world();
  // The context outlives the plans.
  const LoadInputs inputs = asked_inputs(context);
  ClusterOptions options;
  options.topology = topology;
  if (!context.options.stages.empty()) {
    options.stages = plan::parse_stages(context.options.stages, plan::layer_count(*inputs.schema));
  }
  std::optional<plan::RankLayout> layout;
  try {
    layout.emplace(*inputs.schema, topology, options.stages);
  } catch (const Error& error) {
    if (!is_illegal(error)) {
      throw;
    }
    run.illegal = error;
    return;
  }
  if (run.ranks > k_ranks_max) {
    run.skipped = "at most " + grouped(k_ranks_max) + " ranks are loaded in one process; plan --all-ranks has no limit";
    return;
  }
  run.placements = judge_placements(*inputs.schema, *layout, context.options.perturbation.placement);
  const plan::PlanBasis basis(inputs.schema, inputs.sources, inputs.request);
  const plan::Plan whole = basis.plan();
  if (whole.memory().peak_bytes() > k_whole_bytes_max) {
    run.skipped = "the state of all ranks is compared with that of one, which takes " +
                  human_bytes(whole.memory().peak_bytes()) + " of memory";
    return;
  }
  const storage::Checkpoint* checkpoint = &context.checkpoint;
  const exec::SourceFiles files = exec::SourceFiles::of(std::span(&checkpoint, 1));
  const exec::LoadAttempt attempt = exec::load(whole, files);
  attempt.require_complete();
  for (const plan::PlannedTensor& tensor : whole.tensors()) {
    run.elements += *element_count(whole.shape_of(tensor));
  }

  options.placement = context.options.perturbation.placement;
  const WholeState state{&whole, &attempt};
  Cluster cluster(basis, context.checkpoint, state, options);
  SharedBytes shared(whole, run.placements.overlaps);
  std::vector<RankState> kept;
  std::uint64_t kept_bytes = 0;
  for (std::uint32_t rank = 0; rank < run.ranks; ++rank) {
    if (context.options.progress) {
      context.options.progress("loading ranks", rank, run.ranks);
    }
    try {
      CountingCalls calls;
      calls.watch(*inputs.sources.front().catalog, context.checkpoint.root);
      const auto& wrong_calls = context.options.perturbation.load_calls;
      const auto wrong = wrong_calls ? wrong_calls(calls) : nullptr;
      RankState loaded = cluster.run_rank(rank, wrong ? *wrong : calls);
      judge_reads(loaded, calls, rank, run.amplification);
      cluster.compare(rank, loaded, run.findings);
      shared.add(rank, loaded);
      kept_bytes += loaded.plan->memory().final_bytes;
      if (kept_bytes <= k_kept_bytes_max) {
        kept.push_back(std::move(loaded));
      }
    } catch (const Error& error) {
      add_error(error, rank, run.findings);
      ++run.refused;
    }
  }
  weigh_overlaps(shared, run);
  const std::vector<RankFinding> unseen = cluster.unseen();
  run.findings.insert(run.findings.end(), unseen.begin(), unseen.end());
  const std::vector<bool> is_fused = fused_tensors(*inputs.schema);
  run.fused = static_cast<std::uint64_t>(std::count(is_fused.begin(), is_fused.end(), true));
  for (const RankFinding& finding : run.findings) {
    const NativeId native = inputs.schema->find_native(finding.tensor);
    if (native != k_no_id && is_fused[native]) {
      run.fused_findings.push_back(finding);
    }
  }
  if (kept.size() != run.ranks) {
    run.not_kept = run.refused == 0 ? "the ranks together take " + human_bytes(kept_bytes) + " of memory"
                                    : "not every rank could be loaded";
    return;
  }
  run.disagreements = disagreements(kept);
  if (run.findings.empty()) {
    // The same state out of these ranks for one rank more, which no cut of theirs fits.
    ClusterOptions others;
    others.topology.fsdp = run.ranks + 1;
    const Cluster changed(basis, context.checkpoint, state, others);
    run.findings = reshard(kept, changed.run_all());
  }
}

ExecutedRanks& ranks_of(Context& context) {
  if (context.ranks) {
    return *context.ranks;
  }
  context.ranks.reset(new ExecutedRanks);
  ExecutedRanks& run = *context.ranks;
  run.skipped = context.schema ? why_no_load(context) : context.no_schema_reason;
  if (!run.skipped.empty()) {
    return run;
  }
  try {
    run_ranks(context, run);
  } catch (const Error& error) {
    run.error = error;
  }
  return run;
}

// Why ranks were not loaded; empty where they were.
std::string why_no_ranks(const ExecutedRanks& run) {
  if (run.error) {
    return run.error->message();
  }
  return run.illegal ? "there are no such ranks (shard.topology)" : run.skipped;
}

// The same where only some of them were.
std::string why_not_all_ranks(const ExecutedRanks& run) {
  const std::string why = why_no_ranks(run);
  return !why.empty() || run.refused == 0
             ? why
             : counted(run.refused, "rank", "ranks") + " of " + grouped(run.ranks) + " could not be loaded";
}

std::optional<CheckRecord> no_ranks(const ExecutedRanks& run, const char* id) {
  if (!run.skipped.empty()) {
    return CheckBuilder(id).skip(run.skipped);
  }
  if (run.error) {
    return error_record(id, *run.error);
  }
  if (run.illegal) {
    return CheckBuilder(id).skip(why_no_ranks(run));
  }
  return std::nullopt;
}

CheckRecord record_of_findings(const char* id, const std::vector<RankFinding>& findings, std::uint64_t examined) {
  CheckBuilder builder(id);
  builder.examined(examined);
  std::set<std::string> named;
  for (const RankFinding& finding : findings) {
    if (named.insert(finding.tensor).second) {
      builder.subject(finding.tensor);
    }
  }
  if (findings.empty()) {
    return builder.pass();
  }
  builder.evidence("rank", findings.front().rank);
  return builder.fail(printable(findings.front().tensor) + ": " + findings.front().message);
}

CheckRecord topology(Context& context) {
  const ExecutedRanks& run = ranks_of(context);
  if (!run.skipped.empty() && run.ranks == 0) {
    return CheckBuilder("shard.topology").skip(run.skipped);
  }
  if (run.illegal) {
    return failed_record("shard.topology", *run.illegal);
  }
  if (run.error) {
    return error_record("shard.topology", *run.error);
  }
  return CheckBuilder("shard.topology")
      .examined(run.ranks)
      .note(run.skipped.empty()
                ? "each of the " + counted(run.ranks, "rank", "ranks") + " of " + context.options.topology +
                      " was planned and loaded"
                : counted(run.ranks, "rank", "ranks") + " of " + context.options.topology + " are possible");
}

CheckRecord reassembly(Context& context) {
  const ExecutedRanks& run = ranks_of(context);
  if (auto record = no_ranks(run, "shard.reassembly")) {
    return *record;
  }
  return record_of_findings("shard.reassembly", run.findings, run.elements);
}

CheckRecord agreement(Context& context) {
  const ExecutedRanks& run = ranks_of(context);
  if (auto record = no_ranks(run, "shard.agreement")) {
    return *record;
  }
  if (!run.not_kept.empty()) {
    return CheckBuilder("shard.agreement").skip(run.not_kept);
  }
  return record_of_findings("shard.agreement", run.disagreements, run.ranks);
}

// Checks of files that ranks have written, and of what one plan for all ranks makes so by itself.
constexpr const char* k_no_rank_files = "files written by single ranks are not read yet (index.selection names them)";

template <std::vector<RankFinding> PlacementFindings::*Findings>
CheckRecord of_placements(Context& context, const char* id) {
  const ExecutedRanks& run = ranks_of(context);
  if (run.placements.parts == 0) {
    if (auto record = no_ranks(run, id)) {
      return *record;
    }
  }
  return record_of_findings(id, run.placements.*Findings, run.placements.parts);
}
CheckRecord bounds(Context& context) { return of_placements<&PlacementFindings::bounds>(context, "shard.bounds"); }
CheckRecord coverage(Context& context) { return of_placements<&PlacementFindings::holes>(context, "shard.coverage"); }

CheckRecord overlap(Context& context) {
  const ExecutedRanks& run = ranks_of(context);
  CheckRecord failed = of_placements<&PlacementFindings::overlaps>(context, "shard.overlap");
  if (failed.status != reports::Status::pass) {
    const std::string why = why_not_all_ranks(run);
    failed.explanation = why.empty() ? std::string() : "the bytes that ranks share were not compared: " + why;
    return failed;
  }
  CheckBuilder builder("shard.overlap");
  builder.examined(run.placements.parts);
  for (const RankFinding& finding : run.equal_overlaps) {
    builder.subject(finding.tensor);
  }
  if (builder.has_subjects()) {
    const RankFinding& first = run.equal_overlaps.front();
    return builder.hint("give each rank the part that the rule states")
        .warn(printable(first.tensor) + ": " + first.message);
  }
  const std::vector<std::string>& whole = run.placements.replicated;
  return whole.empty() ? builder.pass()
                       : builder.note("held whole where others are cut, as their rule states: " +
                                      counted(whole.size(), "matrix", "matrices") + ", " + listed(whole));
}

CheckRecord info(Context&) { return CheckBuilder("shard.info").skip(k_no_rank_files); }
CheckRecord dtype(Context&) { return CheckBuilder("shard.dtype").skip(k_no_rank_files); }

CheckRecord fused_cut(Context& context) {
  CheckBuilder builder("layout.qkv_tp");
  if (context.options.topology.empty()) {
    return builder.hint("give --topology tp=N").skip("one rank was asked about");
  }
  const ExecutedRanks& run = ranks_of(context);
  if (auto record = no_ranks(run, "layout.qkv_tp")) {
    return *record;
  }
  if (plan::parse_topology(context.options.topology).tp == 1) {
    return builder.hint("give --topology tp=N").skip("nothing is cut by tensor parallelism");
  }
  if (run.fused == 0) {
    return builder.skip("no tensor holds several parts along the axis that is cut");
  }
  return record_of_findings("layout.qkv_tp", run.fused_findings, run.fused);
}

constexpr std::array k_checks = {
    VerifyCheck{"shard.topology", &topology},   VerifyCheck{"shard.reassembly", &reassembly},
    VerifyCheck{"shard.agreement", &agreement}, VerifyCheck{"shard.bounds", &bounds},
    VerifyCheck{"shard.coverage", &coverage},   VerifyCheck{"shard.overlap", &overlap},
    VerifyCheck{"shard.info", &info},           VerifyCheck{"shard.dtype", &dtype},
    VerifyCheck{"layout.qkv_tp", &fused_cut},
};

}  // namespace

std::string add_ranks_amplification(Context& context, TensorFindings& findings) {
  if (context.options.topology.empty()) {
    return {};
  }
  const ExecutedRanks& run = ranks_of(context);
  for (const TensorFindings::Row& row : run.amplification.rows()) {
    findings.add(row.key, row.where, row.what);
  }
  return why_not_all_ranks(run);
}

std::span<const VerifyCheck> shard_checks() { return k_checks; }

}  // namespace weightproof::suites
