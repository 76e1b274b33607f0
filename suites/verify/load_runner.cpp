// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/load_runner.hpp"

#include <algorithm>
#include <chrono>

#include "reference/failure.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/machine.hpp"
#include "suites/verify/plan_record.hpp"

namespace weightproof::suites {
namespace {

constexpr std::uint64_t k_budget_default_max = 2ULL << 30U;
constexpr std::uint64_t k_budget_least = 1U << 20U;
constexpr std::uint64_t k_reference_cache_max = 256U << 20U;

Shares shares_of(std::uint64_t budget) {
  Shares shares;
  shares.cache = std::min(k_reference_cache_max, budget / 8);
  shares.load = (budget - shares.cache) * 7 / 16;  // the rest: marks of the ledger, windows of the reference
  shares.staging = std::min<std::uint64_t>(limits::staging_bytes_max, shares.load / 3);
  shares.window = shares.load - shares.staging;
  return shares;
}

}  // namespace

void LoadRunner::progress() {
  if (context_.options.progress) {
    context_.options.progress("loading and comparing", run_.bytes, total_bytes_);
  }
}

void LoadRunner::set_budget(const plan::Plan& whole) {
  run_.metadata_bytes = whole.memory().metadata_bytes;
  run_.is_budget_given = context_.options.budget_bytes.has_value();
  run_.budget_bytes = context_.options.budget_bytes.value_or(
      std::clamp(describe_machine().memory_available_bytes.value_or(k_budget_default_max) / 4, k_budget_least,
                 k_budget_default_max));
  if (run_.budget_bytes < k_budget_least) {
    ErrorFacts facts;
    facts.expected = human_bytes(k_budget_least) + " or more";
    facts.actual = human_bytes(run_.budget_bytes);
    throw Error(ErrorCode::budget_too_small,
                "a budget of " + facts.actual + " is too small to load anything in; the least is " +
                    human_bytes(k_budget_least),
                std::move(facts));
  }
  shares_ = shares_of(run_.budget_bytes);
}

void LoadRunner::execute() {
  const auto start = std::chrono::steady_clock::now();
  inputs_ = asked_inputs(context_);
  const plan::Plan whole = plan::make_plan(inputs_.schema, inputs_.sources, {}, inputs_.request);
  run_.plan = plan_record_of(whole);
  set_budget(whole);
  total_bytes_ = whole.memory().final_tensor_bytes;
  if (run_.is_budget_given) {
    inputs_.request.budget_bytes = shares_.staging + whole.memory().metadata_bytes;
  }
  const LoadWindows windows(inputs_, whole, shares_.window);

  if (context_.options.calls != nullptr) {
    calls_.set_inner(*context_.options.calls);
  }
  calls_.watch(*inputs_.sources.front().catalog, context_.checkpoint.root);
  storage::FileCalls* calls = &calls_;
  if (wrong_.load_calls) {
    perturbed_calls_ = wrong_.load_calls(calls_);
    calls = perturbed_calls_.get();
  }
  const storage::Checkpoint* checkpoint = &context_.checkpoint;
  sources_ = std::make_unique<exec::SourceFiles>(exec::SourceFiles::of(std::span(&checkpoint, 1), *calls));
  ledger_ = std::make_unique<LedgerChecker>(whole.catalog());
  try {
    reference::ModelOptions options;
    options.family = context_.options.family;
    if (context_.adapter) {
      options.base = context_.options.base;
    }
    options.mapping.fold_expert_scale = context_.options.folds_expert_scales;
    options.cache_bytes_max = shares_.cache;
    if (wrong_.reference) {
      wrong_.reference(options);
    }
    const bool is_one_file = context_.checkpoint.kind == storage::CheckpointKind::single_file;
    model_ = std::make_unique<reference::Model>(
        reference::Model::open(is_one_file ? context_.checkpoint.path_of(0) : context_.checkpoint.root, options));
  } catch (const reference::Failure& failure) {
    run_.reference_failure = failure.what();
  }
  for (const plan::Route route : {plan::Route::direct, plan::Route::bounded, plan::Route::materialized}) {
    run_.route_runs.push_back({route, 0, 0, 0, {}});
  }
  run_.files = whole.traffic().files;
  run_.windows = windows.windows().size();
  for (const LoadWindow& window : windows.windows()) {
    run_.boxes += window.is_part_of_tensor ? 1 : 0;
    run_window(windows, window);
    progress();
  }
  require_same_tensors(whole);
  judge_ties(whole);
  run_.tensors = whole.tensors().size();
  run_.opens = calls_.opens();

  finish_ledger(whole);
  run_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Rows that no load has to read: declared drops, what was not asked for, and companions that decoding needs none of.
void LoadRunner::finish_ledger(const plan::Plan& whole) {
  std::vector<bool> is_declared(whole.catalog().size(), false);
  const plan::KeyCoverage& coverage = whole.coverage();
  const auto declare = [&](const std::vector<plan::Row>& rows) {
    for (const plan::Row row : rows) {
      is_declared[row] = true;
    }
  };
  for (const plan::MatchedRows& dropped : coverage.dropped) {
    declare(dropped.rows);
  }
  declare(coverage.excluded);
  declare(coverage.unexpected_allowed);
  for (const plan::DecodeSource& source : inputs_.request.decodes) {
    for (std::size_t c = 0; c < source.rows.size(); ++c) {
      switch (source.codec->components()[c].role) {
        case codec::Role::quant_state:  // read as probes, before the plan was made
        case codec::Role::weight_shape:
        case codec::Role::weight_format:
        case codec::Role::unused:
          is_declared[source.rows[c]] = true;
          break;
        default:
          break;
      }
    }
  }
  // Tensors of which another part is missing, and was allowed to be.
  std::vector<bool> is_needed(inputs_.schema->stored_tensors().size(), false);
  for (const Binding& binding : inputs_.schema->bindings()) {
    if (binding.stored != k_no_id && whole.proof().left_out[binding.native] == plan::LeftOut::no) {
      is_needed[binding.stored] = true;
    }
  }
  for (StoredId id = 0; id < is_needed.size(); ++id) {
    if (!is_needed[id] && coverage.row_of[id] != plan::k_no_row) {
      is_declared[coverage.row_of[id]] = true;
    }
  }
  std::vector<LedgerFault> faults;
  ledger_->finish(is_declared, faults);
  for (const LedgerFault& fault : faults) {
    run_.ledger.add(fault.key, {}, fault.what);
  }
  run_.ledger_regions = ledger_->regions();
  run_.ledger_ranges = ledger_->ranges();
}

exec::LoadAttempt LoadRunner::load(const plan::Plan& plan, const exec::LoadOptions& options) {
  exec::LoadAttempt attempt = exec::load(plan, *sources_, options);
  if (attempt.cause() && attempt.cause()->code() == ErrorCode::tied_values_differ) {
    run_.is_tie_broken = true;
  }
  // What no route leads to is the matter of io.route, however much was loaded before.
  if (attempt.cause() && attempt.cause()->check() == "io.route") {
    throw Error(*attempt.cause());
  }
  attempt.require_complete();
  return attempt;
}

void LoadRunner::run_window(const LoadWindows& windows, const LoadWindow& window) {
  const plan::Plan plan = windows.plan_of(window);
  const Seen seen{window, plan, windows.origins(window, plan)};
  calls_.start();
  const exec::LoadAttempt first = first_load(seen);
  judge_memory(seen, first);
  judge_reads(seen);
  judge_copies(seen, first);
  count_ties(seen, first);
  run_.bytes += plan.memory().final_tensor_bytes;
  run_.reads += first.counters().read_bytes;
  run_.threads = std::max(run_.threads, first.threads());
  std::vector<LedgerFault> faults;
  ledger_->add(plan, first.ledger(), seen.origins, faults);
  for (const LedgerFault& fault : faults) {
    run_.ledger.add(fault.key, {}, fault.what);
  }
  compare_second(seen, first);
  compare_reference(seen, first);
  compare_routes(windows, seen, first);
}

}  // namespace weightproof::suites
