// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/load_run.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <set>

#include "loader/exec/engine.hpp"
#include "loader/measure/memory.hpp"
#include "reference/failure.hpp"
#include "reference/model.hpp"
#include "suites/state/decoded_state.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/load_boxes.hpp"
#include "suites/verify/machine.hpp"
#include "suites/verify/plan_record.hpp"
#include "suites/verify/value_explanations.hpp"

namespace weightproof::suites {
namespace {

constexpr std::byte k_first_fill{0xFF};
constexpr std::byte k_second_fill{0x5A};
constexpr std::byte k_poison{0xA5};
constexpr std::uint64_t k_reference_window_bytes = 1U << 20U;
constexpr std::uint64_t k_budget_default_max = 2ULL << 30U;
constexpr std::uint64_t k_budget_least = 1U << 20U;
constexpr std::uint64_t k_reference_cache_max = 256U << 20U;
/// What the allocator and the kernel may take beside what is counted.
constexpr std::uint64_t k_peak_slack_bytes = 8U << 20U;
constexpr std::size_t k_compare_step = 64U << 10U;

// The thread sanitizer keeps several bytes for each one that is touched.
#if defined(__SANITIZE_THREAD__)
constexpr bool k_is_instrumented = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
constexpr bool k_is_instrumented = true;
#else
constexpr bool k_is_instrumented = false;
#endif
#else
constexpr bool k_is_instrumented = false;
#endif

// Counts what the loads really ask the system for, whatever the loader says of itself.
class CountingCalls final : public storage::FileCalls {
 public:
  void set_inner(storage::FileCalls& inner) { inner_ = &inner; }
  std::uint64_t opens() const { return opens_.load(); }
  int open(const char* path, int flags) override {
    opens_.fetch_add(1, std::memory_order_relaxed);
    return inner_->open(path, flags);
  }
  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override {
    return inner_->pread(fd, buffer, bytes, offset);
  }
  std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) override {
    return inner_->preadv(fd, parts, count, offset);
  }

 private:
  storage::FileCalls* inner_ = &storage::FileCalls::system();
  std::atomic<std::uint64_t> opens_{0};
};

std::optional<std::size_t> first_difference(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::size_t size = std::min(a.size(), b.size());
  for (std::size_t at = 0; at < size; at += k_compare_step) {
    const std::size_t step = std::min(k_compare_step, size - at);
    if (std::memcmp(a.data() + at, b.data() + at, step) == 0) {
      continue;
    }
    const auto [left, right] = std::mismatch(a.begin() + static_cast<std::ptrdiff_t>(at), a.end(),
                                             b.begin() + static_cast<std::ptrdiff_t>(at), b.end());
    return static_cast<std::size_t>(left - a.begin());
  }
  return a.size() == b.size() ? std::nullopt : std::optional(size);
}

// How a budget is spent: two loads side by side, and the reference's cache of file blocks.
struct Shares {
  std::uint64_t cache = 0;
  std::uint64_t load = 0;     // one of the two, metadata apart
  std::uint64_t staging = 0;  // of it
  std::uint64_t window = 0;   // of it
};

Shares shares_of(std::uint64_t budget) {
  Shares shares;
  shares.cache = std::min(k_reference_cache_max, budget / 8);
  shares.load = (budget - shares.cache) * 7 / 16;  // the rest: marks of the ledger, windows of the reference
  shares.staging = std::min<std::uint64_t>(limits::staging_bytes_max, shares.load / 3);
  shares.window = shares.load - shares.staging;
  return shares;
}

class Runner {
 public:
  Runner(Context& context, LoadRun& run) : context_(context), run_(run), wrong_(context.options.perturbation) {}
  void execute();

 private:
  // One window under the first load's eyes.
  struct Seen {
    const LoadWindow& window;
    const plan::Plan& plan;
    std::vector<Coordinate> origins;
  };
  void set_budget(const plan::Plan& whole);
  void run_window(const LoadWindows& windows, const LoadWindow& window);
  exec::LoadAttempt load(const plan::Plan& plan, const exec::LoadOptions& options);
  exec::LoadAttempt first_load(const Seen& seen);
  void judge_memory(const Seen& seen, const exec::LoadAttempt& attempt);
  void judge_peak(const Seen& seen, const exec::LoadAttempt& attempt, const measure::ProcessMemory& before);
  void compare_second(const Seen& seen, const exec::LoadAttempt& first);
  void compare_reference(const Seen& seen, const exec::LoadAttempt& first);
  void compare_routes(const LoadWindows& windows, const Seen& seen, const exec::LoadAttempt& first);
  std::string place(const Seen& seen, std::size_t tensor, std::uint64_t byte) const;
  // Native tensors of the reference that no load knows of.
  void require_same_tensors(const plan::Plan& whole);
  // A tensor to name for what concerns a load as a whole: its largest.
  std::string_view largest(const plan::Plan& plan) const;
  void progress();

  Context& context_;
  LoadRun& run_;
  const Perturbation& wrong_;
  LoadInputs inputs_;
  Shares shares_;
  CountingCalls calls_;
  std::unique_ptr<storage::FileCalls> perturbed_calls_;
  std::unique_ptr<exec::SourceFiles> sources_;
  std::unique_ptr<reference::Model> model_;
  std::unique_ptr<LedgerChecker> ledger_;
  std::uint64_t total_bytes_ = 0;
};

std::string Runner::place(const Seen& seen, std::size_t tensor, std::uint64_t byte) const {
  const plan::PlannedTensor& row = seen.plan.tensors()[tensor];
  Coordinate at = coordinate_of(seen.plan.shape_of(row), byte * 8 / bits_of(row.dtype));
  const Coordinate& origin = seen.origins[tensor];
  for (unsigned axis = 0; axis < at.rank() && axis < origin.rank(); ++axis) {
    at[axis] += origin[axis];
  }
  return to_string(at);
}

std::string_view Runner::largest(const plan::Plan& plan) const {
  const plan::PlannedTensor* found = &plan.tensors().front();
  for (const plan::PlannedTensor& tensor : plan.tensors()) {
    found = tensor.bytes > found->bytes ? &tensor : found;
  }
  return found->key;
}

void Runner::progress() {
  if (context_.options.progress) {
    context_.options.progress("loading and comparing", run_.bytes, total_bytes_);
  }
}

void Runner::set_budget(const plan::Plan& whole) {
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

void Runner::execute() {
  const auto start = std::chrono::steady_clock::now();
  inputs_ = load_inputs(context_);
  const plan::Plan whole = plan::make_plan(inputs_.schema, inputs_.sources, {}, inputs_.request);
  set_budget(whole);
  total_bytes_ = whole.memory().final_tensor_bytes;
  run_.plan = plan_record_of(whole);
  if (run_.is_budget_given) {
    inputs_.request.budget_bytes = shares_.staging + whole.memory().metadata_bytes;
  }
  const LoadWindows windows(inputs_, whole, shares_.window);

  if (context_.options.calls != nullptr) {
    calls_.set_inner(*context_.options.calls);
  }
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
  run_.tensors = whole.tensors().size();
  run_.opens = calls_.opens();

  // Rows that no load has to read: declared drops, what was not asked for, and companions that decoding needs none of.
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
  run_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

exec::LoadAttempt Runner::load(const plan::Plan& plan, const exec::LoadOptions& options) {
  exec::LoadAttempt attempt = exec::load(plan, *sources_, options);
  if (attempt.cause() && attempt.cause()->code() == ErrorCode::tied_values_differ) {
    run_.is_tie_broken = true;
  }
  attempt.require_complete();
  return attempt;
}

exec::LoadAttempt Runner::first_load(const Seen& seen) {
  exec::LoadOptions options;
  options.sentinel = k_first_fill;
  options.has_ledger = true;
  if (wrong_.first_load) {
    wrong_.first_load(seen.plan, options);
  }
  const measure::ProcessMemory before = measure::read_process_memory();
  run_.peak_before_reset = std::max(run_.peak_before_reset, before.peak_rss.value.value_or(0));
  const std::string reset_fault = measure::reset_peak_rss();
  exec::LoadAttempt attempt = load(seen.plan, options);
  if (k_is_instrumented) {
    run_.peak_unavailable = "memory of the sanitizer is in every figure of this build";
  } else if (!reset_fault.empty()) {
    run_.peak_unavailable = "the peak of the resident set cannot be set back: " + reset_fault;
  } else {
    judge_peak(seen, attempt, before);
  }
  return attempt;
}

void Runner::judge_peak(const Seen& seen, const exec::LoadAttempt& attempt, const measure::ProcessMemory& before) {
  const measure::ProcessMemory after = measure::read_process_memory();
  if (!before.rss.value || !after.peak_rss.value) {
    run_.peak_unavailable = before.rss.value ? after.peak_rss.why : before.rss.why;
    return;
  }
  run_.peak_method = after.peak_rss.method;
  const std::uint64_t growth =
      *after.peak_rss.value > *before.rss.value ? *after.peak_rss.value - *before.rss.value : 0;
  const std::uint64_t ledger = attempt.memory().of(exec::MemoryKind::host, exec::Purpose::ledger).peak;
  const std::uint64_t bound = seen.plan.memory().peak_bytes() + ledger + k_peak_slack_bytes;
  const bool is_over = growth > bound;
  if (is_over) {
    run_.peak.add(
        largest(seen.plan), {},
        ": loading it and what is loaded with it took " + human_bytes(growth) + ", bound " + human_bytes(bound));
  }
  if (growth >= run_.peak_growth && (is_over || run_.peak.empty())) {
    run_.peak_growth = growth;
    run_.peak_bound = bound;
  }
}

void Runner::judge_memory(const Seen& seen, const exec::LoadAttempt& attempt) {
  const exec::Usage& used = attempt.memory().of(exec::MemoryKind::host);
  const std::uint64_t bound = seen.plan.memory().peak_bytes();
  if (used.peak != bound || (bound > run_.predicted_peak && run_.predicted.empty())) {
    run_.predicted_peak = bound;
    run_.counted_peak = used.peak;
    run_.final_bytes = seen.plan.memory().final_bytes;
  }
  if (used.peak != bound) {
    run_.predicted.add(
        largest(seen.plan), {},
        ": the allocator counted a peak of " + grouped(used.peak) + " bytes, predicted were " + grouped(bound));
  }
  std::uint64_t live = 0;
  for (const exec::Purpose purpose : {exec::Purpose::staging, exec::Purpose::companion, exec::Purpose::whole}) {
    live += attempt.memory().of(exec::MemoryKind::host, purpose).live;
  }
  if (live != 0) {
    run_.live_temporaries += live;
    run_.temporaries.add(largest(seen.plan), {}, ": " + grouped(live) + " bytes of temporaries outlived the load");
  }
}

void Runner::compare_second(const Seen& seen, const exec::LoadAttempt& first) {
  exec::LoadOptions options;
  options.sentinel = k_second_fill;
  options.poison = k_poison;
  options.threads = 1;
  if (wrong_.second_load) {
    wrong_.second_load(seen.plan, options);
  }
  const exec::LoadAttempt second = load(seen.plan, options);
  for (std::size_t i = 0; i < seen.plan.tensors().size(); ++i) {
    const auto a = first.bytes(i);
    const auto b = second.bytes(i);
    const auto at = first_difference(a, b);
    if (!at) {
      continue;
    }
    const std::string_view key = seen.plan.tensors()[i].key;
    const std::string where = place(seen, i, *at);
    if (a[*at] == k_first_fill && b[*at] == k_second_fill) {
      run_.sentinel.add(key, where, " was never written");
    }
    if (b[*at] == k_poison) {
      run_.poison.add(key, where, " holds bytes of a buffer whose lease had ended");
    }
    run_.reload.add(key, where, " differs after a second load");
  }
}

void Runner::compare_reference(const Seen& seen, const exec::LoadAttempt& first) {
  if (!model_) {
    return;
  }
  try {
    std::vector<std::size_t> differing;
    for (std::size_t i = 0; i < seen.plan.tensors().size(); ++i) {
      const plan::PlannedTensor& tensor = seen.plan.tensors()[i];
      const Shape& shape = seen.plan.shape_of(tensor);
      const auto ours = first.bytes(i);
      const ReferenceTensor answer =
          reference_tensor(seen.plan, i, *model_, seen.window.is_passed_through || !context_.schema);
      const auto dtype = reference_dtype(tensor.dtype);
      const std::uint64_t bits = bits_of(tensor.dtype);
      bool has_difference = false;
      const auto compare = [&](const Box& piece, std::uint64_t element) {
        if (has_difference) {
          return;
        }
        reference::Box box;
        for (unsigned axis = 0; axis < piece.start.rank(); ++axis) {
          box.start.push_back(piece.start[axis] + (axis < seen.origins[i].rank() ? seen.origins[i][axis] : 0));
          box.extent.push_back(piece.length[axis]);
        }
        const reference::Bytes theirs = answer.native < 0 ? model_->stored_region(answer.stored_key, box)
                                        : dtype           ? model_->region(answer.native, box, *dtype)
                                                          : model_->region(answer.native, box);
        const auto window = ours.subspan(static_cast<std::size_t>(element * bits / 8),
                                         static_cast<std::size_t>(piece.element_count() * bits / 8));
        run_.compared_bytes += window.size();
        if (const auto at = first_difference(window, theirs)) {
          has_difference = true;
          run_.exact.add(tensor.key, place(seen, i, element * bits / 8 + *at), " differs from the reference");
        }
      };
      if (bits % 8 != 0) {
        compare(Box::whole(shape), 0);  // a row may end inside a byte
      } else {
        for_each_box(Box::whole(shape), std::max<std::uint64_t>(1, k_reference_window_bytes * 8 / bits), compare);
      }
      if (has_difference) {
        differing.push_back(i);
      }
    }
    const std::string text = explain_loaded(
        context_, {seen.plan, first, *model_, seen.window.is_passed_through || !context_.schema, seen.origins},
        differing);
    run_.exact_explanation = run_.exact_explanation.empty() ? text : run_.exact_explanation;
  } catch (const reference::Failure& failure) {
    run_.reference_failure = failure.what();
    model_.reset();
  }
}

// Every route that is possible, forced, against the automatic one.
void Runner::compare_routes(const LoadWindows& windows, const Seen& seen, const exec::LoadAttempt& first) {
  for (RouteRun& route : run_.route_runs) {
    if (!route.refused.empty()) {
      continue;
    }
    std::optional<plan::Plan> forced;
    try {
      forced = windows.plan_of(seen.window, route.route);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::route_unavailable) {
        route.refused = error.message();
      } else if (error.code() == ErrorCode::budget_too_small) {
        ++route.over_budget;
      } else {
        throw;
      }
      continue;
    }
    if (std::equal(forced->moves().begin(), forced->moves().end(), seen.plan.moves().begin(),
                   seen.plan.moves().end())) {
      ++route.same;
      continue;
    }
    if (run_.is_budget_given && forced->memory().peak_bytes() > shares_.load + run_.metadata_bytes) {
      ++route.over_budget;
      continue;
    }
    exec::LoadOptions options;
    options.sentinel = k_second_fill;
    options.threads = 1;
    if (wrong_.route_load) {
      wrong_.route_load(*forced, options);
    }
    const exec::LoadAttempt other = load(*forced, options);
    ++route.loads;
    for (std::size_t i = 0; i < seen.plan.tensors().size(); ++i) {
      const std::string_view key = seen.plan.tensors()[i].key;
      if (const auto at = first_difference(first.bytes(i), other.bytes(key))) {
        run_.routes.add(key, place(seen, i, *at),
                        " differs when it is loaded by route " + std::string(plan::to_string(route.route)));
      }
    }
  }
}

void Runner::require_same_tensors(const plan::Plan& whole) {
  if (!model_ || context_.has_subset() || !context_.options.allow_missing.empty()) {
    return;
  }
  std::set<std::string_view> passed;
  for (const plan::MatchedRows& rows : whole.coverage().passed_through) {
    for (const plan::Row row : rows.rows) {
      passed.insert(whole.catalog().tensors()[row].key);
    }
  }
  const reference::Mapping& mapping = model_->mapping();
  for (const reference::NativeTensor& native : mapping.native_tensors()) {
    const bool is_passed =
        !native.keys.empty() && passed.count(mapping.keys()[static_cast<std::size_t>(native.keys.front())].name) != 0;
    if (native.alias_of < 0 && !is_passed && whole.find(native.name) == SIZE_MAX) {
      run_.exact.add(native.name, {}, " is native state by the reference, and no load makes it");
    }
  }
}

void Runner::run_window(const LoadWindows& windows, const LoadWindow& window) {
  const plan::Plan plan = windows.plan_of(window);
  const Seen seen{window, plan, windows.origins(window, plan)};
  const exec::LoadAttempt first = first_load(seen);
  judge_memory(seen, first);
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

}  // namespace

void TensorFindings::add(std::string_view key, std::string where, std::string what) {
  // Boxes of one tensor come one after the other.
  if (rows_.empty() || rows_.back().key != key) {
    rows_.push_back({std::string(key), std::move(where), std::move(what)});
  }
}

std::string why_no_load(Context& context) {
  if (context.adapter && !context.schema) {
    return "no load is possible where adapter.* checks fail";
  }
  // Without any family every tensor is itself; a family that cannot be followed is another matter.
  const bool is_identity = !context.schema && context.detection.family == nullptr;
  if (!is_identity && (!context.schema || !context.has_schema_shapes)) {
    return context.schema ? "there is no config.json to derive shapes from" : context.no_schema_reason;
  }
  if (!context.faults.empty() || !context.index_fault().empty()) {
    return "undecided where " + context.fault_text();
  }
  const auto& diagnostics = context.checkpoint.diagnostics;
  if (std::any_of(diagnostics.begin(), diagnostics.end(),
                  [](const Diagnostic& row) { return row.severity == Severity::fail; })) {
    return "no load is possible where checks of files and index fail";
  }
  const QuantizedState& state = context.quantization();
  const bool has_quant_finding = std::any_of(state.diagnostics.begin(), state.diagnostics.end(),
                                             [](const Diagnostic& row) { return row.severity == Severity::fail; });
  if (has_quant_finding || !state.undecodable.empty()) {
    return "no load is possible where quant.* checks fail";
  }
  if (is_identity) {
    const auto& tensors = state.found.tensors;
    const bool has_codes = std::any_of(tensors.begin(), tensors.end(), [](const codec::QuantizedTensor& tensor) {
      return tensor.scheme.id != "fp8_bare";
    });
    return context.keys().size() == 0 ? "there is no tensor"
           : has_codes                ? "quantized tensors, and " + context.no_schema_reason
                                      : std::string();
  }
  if (!context.coverage().is_complete()) {
    return "no load is possible where keys.* checks fail";
  }
  return context.family_errors.empty() ? std::string() : "no load is possible where the family refuses the names";
}

LoadInputs load_inputs(Context& context) {
  LoadInputs inputs;
  if (context.schema) {
    inputs.schema = std::shared_ptr<const Schema>(&*context.schema, [](const Schema*) {});
  } else {
    SchemaBuilder builder("identity");
    for (const StoredTensor& row : context.keys().tensors()) {
      builder.identity(row.key, row.shape, DTypeRule::any);
    }
    inputs.schema = std::make_shared<const Schema>(std::move(builder).finish());
  }
  const std::shared_ptr<const Catalog> catalog(&context.keys(), [](const Catalog*) {});
  plan::Request& request = inputs.request;
  request.decoded_dtype = decoded_dtype(context.checkpoint.config ? &*context.checkpoint.config : nullptr);
  request.keys.include = context.options.include;
  request.keys.exclude = context.options.exclude;
  request.keys.allow_missing = context.options.allow_missing;
  request.keys.allow_unexpected = context.options.selection.allow_unexpected;
  // Two at least: io.determinism compares them with one.
  request.threads = std::max(2U, context.options.threads);
  const QuantizedState& state = context.quantization();
  for (std::size_t i = 0; i < state.found.tensors.size(); ++i) {
    const StoredId id = inputs.schema->find_stored(state.found.tensors[i].key);
    if (id == k_no_id || !state.codecs[i] || !context.schema) {
      continue;
    }
    std::vector<plan::Row> rows;
    for (const codec::Component& component : state.found.tensors[i].components) {
      rows.push_back(static_cast<plan::Row>(catalog->index_of(component.key)));
    }
    request.decodes.push_back({id, state.codecs[i], std::move(rows)});
  }
  if (context.schema) {
    for (plan::DecodeSource& fold : declared_decodes(*context.schema, context.keys())) {
      request.decodes.push_back(std::move(fold));
    }
  }
  inputs.sources = {{context.checkpoint.display_path, catalog}};
  return inputs;
}

const LoadRun& load_run_of(Context& context) {
  if (context.loads) {
    return *context.loads;
  }
  context.loads.reset(new LoadRun);
  LoadRun& run = *context.loads;
  run.skipped = why_no_load(context);
  if (!run.skipped.empty()) {
    return run;
  }
  try {
    Runner(context, run).execute();
  } catch (const Error& error) {
    run.error = error;
  }
  return run;
}

void LoadRunDeleter::operator()(LoadRun* run) const { delete run; }

}  // namespace weightproof::suites
