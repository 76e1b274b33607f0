// SPDX-License-Identifier: Apache-2.0
#include "loader/exec/engine.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "loader/core/error.hpp"
#include "loader/exec/engine_internal.hpp"
#include "loader/plan/decode_items.hpp"

namespace weightproof::exec {
namespace {

constexpr std::size_t k_notes_max = 8;

std::uint64_t largest_request(const plan::Plan& plan) {
  std::uint64_t bytes = 0;
  for (const plan::ReadRequest& request : plan.requests()) bytes = std::max<std::uint64_t>(bytes, request.bytes);
  return bytes;
}

/// Reads straight into place need dense host memory; elsewhere they need a buffer.
bool reads_in_place(const LoadOptions& options) {
  return options.destinations == nullptr || options.destinations->dense_host_base() != nullptr;
}

}  // namespace

Forecast forecast(const plan::Plan& plan, const LoadOptions& options) {
  const plan::Memory& memory = plan.memory();
  Forecast result;
  result.threads = options.threads == 0 ? memory.threads : std::min<unsigned>(options.threads, memory.threads);
  result.final_bytes = options.destinations == nullptr ? memory.final_bytes : 0;
  std::uint64_t read = memory.read_buffer_bytes;
  if (!reads_in_place(options)) read = std::max(read, largest_request(plan));
  result.staging_bytes = result.threads * (read + memory.tile_bytes + memory.sink_bytes);
  result.companion_bytes = memory.companion_bytes / memory.threads * result.threads;
  result.whole_bytes = memory.whole_bytes;
  result.metadata_bytes = memory.metadata_bytes;
  if (options.has_digests) {
    result.metadata_bytes +=
        plan.tensors().size() * (sizeof(Digest) + 1) + (result.threads + 1) * k_digest_stream_bytes;
  }
  if (options.lane != nullptr)
    result.pinned_bytes = result.threads * std::max(1u, options.lane_slots) * limits::read_bytes_max;
  return result;
}

LoadAttempt load(const plan::Plan& plan, const SourceFiles& sources, const LoadOptions& options) {
  return Engine(plan, sources, options).run();
}

Engine::Engine(const plan::Plan& plan_, const SourceFiles& sources_, const LoadOptions& options_)
    : plan(plan_),
      sources(sources_),
      options(options_),
      forecast(exec::forecast(plan_, options_)),
      state_(std::make_unique<LoadAttempt::State>()) {
  state_->plan = &plan;
}

void Engine::prepare() {
  const Timed timed(state_->phases.prepare);
  allocator = options.allocator;
  if (allocator == nullptr) {
    state_->own_allocator = std::make_unique<Allocator>();
    allocator = state_->own_allocator.get();
    const std::optional<std::uint64_t>& budget = plan.memory().budget_bytes;
    allocator->set_limit(MemoryKind::host, budget ? forecast.final_bytes + *budget : forecast.host_bytes());
  }
  if (options.lane != nullptr) {
    allocator->set_source(MemoryKind::pinned, &options.lane->pinned());
    allocator->set_source(MemoryKind::device, &options.lane->device());
  }
  if (plan.catalog().files().size() > sources.size()) {
    throw Error(ErrorCode::internal, "the plan reads " + std::to_string(plan.catalog().files().size()) + " files and " +
                                         std::to_string(sources.size()) + " were given");
  }
  sources.require_unchanged();
  if (options.has_ledger) {
    state_->ledger_charge = allocator->charge(MemoryKind::host, Purpose::ledger, 0);
  }
  metadata_ = allocator->charge(MemoryKind::host, Purpose::metadata, forecast.metadata_bytes);
  state_->threads = forecast.threads;
  state_->left.resize(plan.moves().size());
  has_only_runs = true;
  for (std::uint32_t i = 0; i < plan.moves().size(); ++i) {
    const plan::Move& move = plan.moves()[i];
    const std::uint64_t elements = *element_count(plan.layout(move.target_layout).extents);
    state_->left[i] = (elements * bits_of(plan.tensors()[move.tensor].dtype) + 7) / 8;
    has_compares = has_compares || move.action == plan::Action::compare;
    has_only_runs = has_only_runs && (move.reason == plan::Reason::contiguous || move.action == plan::Action::fill);
  }
  if (options.destinations != nullptr) {
    destinations = options.destinations;
    require_usable(plan, *destinations);
    const bool may_be_device = options.lane == nullptr && destinations->dense_host_base() == nullptr;
    for (std::size_t i = 0; may_be_device && i < plan.tensors().size(); ++i) {
      if (destinations->of(plan, i).kind != MemoryKind::device) continue;
      ErrorFacts facts;
      facts.keys.emplace_back(plan.tensors()[i].key);
      throw Error(ErrorCode::device_unavailable,
                  "the destination of '" + facts.keys[0] + "' is device memory, and no lane leads there",
                  std::move(facts));
    }
  } else {
    state_->arena.emplace(Arena::make(*allocator, plan.memory().final_bytes, options.sentinel));
    arena_destinations_.emplace(*state_->arena);
    destinations = &*arena_destinations_;
  }
  base = destinations->dense_host_base();
  arena = destinations->arena();
  has_only_runs = has_only_runs && base != nullptr && !has_compares;
  const unsigned planned = plan.memory().threads;
  tile_bytes = plan.memory().tile_bytes;
  sink_bytes = plan.memory().sink_bytes;
  read_bytes = forecast.staging_bytes / forecast.threads - tile_bytes - sink_bytes;
  companion_bytes = plan.memory().companion_bytes / planned;
  whole = allocator->allocate(MemoryKind::host, Purpose::whole, forecast.whole_bytes, 4096);
  if (options.has_digests) {
    state_->why_no_digest = digest_unavailable();
    if (options.lane != nullptr) state_->why_no_digest = "the tensors are in device memory";
    if (state_->why_no_digest.empty()) digests_.emplace(plan);
  }
}

LoadAttempt Engine::run() {
  {
    const Timed timed(state_->phases.total);
    const std::uint64_t opens = sources.opens();
    try {
      prepare();
      run_workers();
      if (!state_->cause && !is_stopped()) sources.require_unchanged();
    } catch (const Error& error) {
      fail(error);
    } catch (const std::bad_alloc&) {
      fail(Error(ErrorCode::alloc_failed, "no memory for what the load itself keeps"));
    }
    state_->counters.opens = sources.opens() - opens;
    conclude();
  }
  whole = Buffer();
  metadata_ = Charge();
  if (state_->outcome != Outcome::complete) state_->arena.reset();
  if (allocator != nullptr) state_->memory = allocator->statistics();
  return LoadAttempt(std::move(state_));
}

void Engine::run_workers() {
  // Buffers first: a load that has no memory for them fails before it has written.
  std::vector<std::unique_ptr<Worker>> workers;
  for (unsigned i = 0; i < forecast.threads; ++i) workers.push_back(std::make_unique<Worker>(*this));
  std::vector<std::thread> threads;
  std::mutex start;
  std::condition_variable started;
  enum class Go : std::uint8_t { wait, run, cancel } go = Go::wait;
  const auto let = [&](Go what) {
    const std::lock_guard lock(start);
    go = what;
    started.notify_all();
  };
  try {
    for (unsigned i = 1; i < forecast.threads; ++i) {
      std::function<void()> body = [&, worker = workers[i].get()] {
        {
          std::unique_lock lock(start);
          started.wait(lock, [&] { return go != Go::wait; });
          if (go == Go::cancel) return;
        }
        worker->run();
      };
      threads.push_back(options.start_thread ? options.start_thread(std::move(body)) : std::thread(std::move(body)));
    }
    let(Go::run);
  } catch (const std::exception& failure) {
    let(Go::cancel);
    for (std::thread& thread : threads) thread.join();
    ErrorFacts facts;
    facts.actual = failure.what();
    facts.hint = "use fewer threads";
    throw Error(ErrorCode::alloc_failed,
                "thread " + std::to_string(threads.size() + 1) + " of the load could not be started: " + failure.what(),
                std::move(facts));
  }
  workers[0]->run();
  for (std::thread& thread : threads) thread.join();
  for (const std::unique_ptr<Worker>& worker : workers) {
    state_->counters.add(worker->counters);
    state_->phases.add(worker->phases);
    Ledger& ledger = state_->ledger;
    ledger.read.insert(ledger.read.end(), worker->ledger.read.begin(), worker->ledger.read.end());
    ledger.written.insert(ledger.written.end(), worker->ledger.written.begin(), worker->ledger.written.end());
    ledger.copied.resize(std::max(ledger.copied.size(), worker->ledger.copied.size()));
    for (std::size_t i = 0; i < worker->ledger.copied.size(); ++i) ledger.copied[i] += worker->ledger.copied[i];
  }
  if (options.faults != nullptr && options.faults->fault == Fault::skip_tile) {
    // A skipped piece leaves no row either; a stale record does.
    std::vector<WrittenRegion>& written = state_->ledger.written;
    std::uint64_t piece = 0;
    const auto is_skipped = [&](const WrittenRegion& region) {
      return region.tensor == options.faults->tensor && piece++ == options.faults->piece;
    };
    const auto skipped = std::find_if(written.begin(), written.end(), is_skipped);
    if (skipped != written.end()) written.erase(skipped);
  }
  if (options.has_ledger) {
    state_->ledger_charge.grow(state_->ledger.read.size() * sizeof(SourceRange) +
                               state_->ledger.written.size() * sizeof(WrittenRegion) +
                               state_->ledger.copied.size() * sizeof(std::uint64_t));
  }
}

void Engine::conclude() {
  LoadAttempt::State& state = *state_;
  if (!state.cause && !is_stopped()) {
    ErrorFacts facts;
    for (std::size_t i = 0; i < state.left.size(); ++i) {
      if (state.left[i] != 0) facts.keys.emplace_back(plan.tensors()[plan.moves()[i].tensor].key);
    }
    if (!facts.keys.empty()) {
      state.cause.emplace(ErrorCode::internal,
                          "the load ended with " + std::to_string(facts.keys.size()) +
                              " moves undone, the first into '" + facts.keys.front() + "'",
                          facts);
    }
  }
  if (!state.cause && is_stopped()) {
    // A stop that came when all was done changes nothing.
    const bool is_done = !state.left.empty() && std::all_of(state.left.begin(), state.left.end(),
                                                            [](std::uint64_t left) { return left == 0; });
    if (!is_done) state.outcome = Outcome::stopped;
    if (is_done) state.outcome = Outcome::complete;
  } else {
    state.outcome = state.cause ? Outcome::failed : Outcome::complete;
  }
  if (state.outcome == Outcome::complete) {
    if (digests_) state.digests = digests_->take();
    return;
  }
  if (state.cause && !has_written_.load()) {
    state.error = state.cause;
    return;
  }
  ErrorFacts facts;
  std::size_t completed = 0;
  for (std::uint32_t i = 0; i < plan.tensors().size(); ++i) {
    if (!is_written(i)) continue;
    facts.keys.emplace_back(plan.tensors()[i].key);
    ++completed;
  }
  std::string why = "it was stopped";
  if (state.cause) {
    facts.file = state.cause->facts().file;
    facts.byte_offset = state.cause->facts().byte_offset;
    facts.check = state.cause->check();
    facts.expected = state.cause->facts().expected;
    facts.actual = state.cause->facts().actual;
    facts.coordinate = state.cause->facts().coordinate;
    facts.notes.push_back("cause: " + std::string(state.cause->what()));
    for (const std::string& note : state.cause->facts().notes) facts.notes.push_back(note);
    why = state.cause->what();
  }
  facts.hint = "nothing that was loaded can be used; start again";
  state.error.emplace(ErrorCode::load_failed_partial,
                      "the load ended with " + std::to_string(completed) + " of " +
                          std::to_string(plan.tensors().size()) + " tensors complete: " + why,
                      std::move(facts));
}

void Engine::fail(Error error) {
  const std::lock_guard lock(mutex_);
  if (!state_->cause) {
    state_->cause = std::move(error);
  } else if (state_->cause->facts().notes.size() < k_notes_max) {
    state_->cause->note("then: " + std::string(error.what()));
  }
  is_over_.store(true, std::memory_order_release);
  gate_.notify_all();
}

void Engine::abandon() {
  const std::lock_guard lock(mutex_);
  is_over_.store(true, std::memory_order_release);
  gate_.notify_all();
}

void Engine::check() const {
  if (is_over_.load(std::memory_order_acquire) || is_stopped()) throw Abandoned();
}

void Engine::next_stage() {
  std::unique_lock lock(mutex_);
  const std::uint64_t generation = generation_;
  if (++waiting_ == forecast.threads) {
    waiting_ = 0;
    ++generation_;
    gate_.notify_all();
    return;
  }
  gate_.wait(lock, [&] { return generation_ != generation || is_over_.load(std::memory_order_relaxed); });
  if (generation_ == generation) throw Abandoned();
}

std::optional<std::uint32_t> Engine::next_request(unsigned stage) {
  const std::uint64_t at = next_request_[stage].fetch_add(1, std::memory_order_relaxed);
  if (at >= plan.requests().size()) return std::nullopt;
  return static_cast<std::uint32_t>(at);
}

std::optional<DecodeItem> Engine::next_decode(unsigned stage) {
  const plan::Action wanted = stage == 0 ? plan::Action::write : plan::Action::compare;
  const std::lock_guard lock(mutex_);
  DecodeCursor& cursor = decode_cursors_[stage];
  for (; cursor.at < plan.decode_order().size(); ++cursor.at, cursor.tile = cursor.tiles = 0) {
    const std::uint32_t index = plan.decode_order()[cursor.at];
    const plan::Move& move = plan.moves()[index];
    if (move.action != wanted) continue;
    if (cursor.tiles == 0) cursor.tiles = plan::decode_grid(plan, move).count;
    if (cursor.tile >= cursor.tiles) continue;
    const DecodeItem item{index, cursor.tile, std::min(plan::k_tiles_at_once, cursor.tiles - cursor.tile)};
    cursor.tile += item.count;
    return item;
  }
  return std::nullopt;
}

void Engine::defer(Deferred deferred) {
  const std::lock_guard lock(mutex_);
  deferred_.push_back(deferred);
}

std::optional<Deferred> Engine::next_deferred() {
  const std::lock_guard lock(mutex_);
  if (deferred_.empty()) return std::nullopt;
  const Deferred deferred = deferred_.back();
  deferred_.pop_back();
  return deferred;
}

Target Engine::target_of(std::uint32_t index) const {
  Target target;
  target.index = index;
  target.move = &plan.moves()[index];
  target.tensor = &plan.tensors()[target.move->tensor];
  target.destination = destinations->of(plan, target.move->tensor);
  target.is_dense = base != nullptr || is_dense_layout(plan.shape_of(*target.tensor), target.destination.strides);
  return target;
}

bool Engine::is_written(std::uint32_t tensor) const {
  const plan::PlannedTensor& planned = plan.tensors()[tensor];
  if (state_->left.empty()) return false;
  for (std::uint32_t at = planned.first_move; at < planned.first_move + planned.move_count; ++at) {
    if (plan.moves()[at].action == plan::Action::compare) continue;
    if (std::atomic_ref(state_->left[at]).load(std::memory_order_acquire) != 0) return false;
  }
  return true;
}

bool Engine::is_hot(std::uint32_t tensor) const {
  const plan::PlannedTensor& planned = plan.tensors()[tensor];
  if (!digests_ || planned.move_count != 1 || base == nullptr || options.faults != nullptr) return false;
  const plan::Move& move = plan.moves()[planned.first_move];
  if (move.action != plan::Action::write || move.route == plan::Route::materialized) return false;
  if (move.reason == plan::Reason::contiguous) return true;
  if (!plan.source_view(move).is_contiguous() || !plan.target_view(move).is_contiguous()) return false;
  if (move.reason == plan::Reason::cast) return true;
  if (move.reason != plan::Reason::decode) return false;
  // Every tile must be one run as well, and all of it wanted.
  const Shape& natural = plan.decodes()[move.decode].codec->natural_shape();
  if (plan.source_view(move).element_count() != *element_count(natural)) return false;
  const plan::DecodeGrid grid = plan::decode_grid(plan, move);
  unsigned axis = 0;
  while (axis < natural.rank() && grid.lengths[axis] == 1) ++axis;
  for (++axis; axis < natural.rank(); ++axis) {
    if (grid.lengths[axis] != natural[axis]) return false;
  }
  return true;
}

void Engine::finish(std::uint32_t index, std::uint64_t bytes, double& digest_seconds) {
  const plan::Move& move = plan.moves()[index];
  std::atomic_ref left(state_->left[index]);
  const std::uint64_t before = left.fetch_sub(bytes, std::memory_order_acq_rel);
  WEIGHTPROOF_ASSERT(before >= bytes);
  if (before != bytes || !digests_ || move.action == plan::Action::compare || !is_written(move.tensor)) return;
  const Timed timed(digest_seconds);
  digests_->complete(move.tensor, destinations->of(plan, move.tensor));
}

Fault Engine::next_fault(std::uint32_t tensor) {
  if (options.faults == nullptr || options.faults->tensor != tensor) return Fault::none;
  return fault_pieces_.fetch_add(1, std::memory_order_relaxed) == options.faults->piece ? options.faults->fault
                                                                                        : Fault::none;
}

void Engine::advance(std::uint64_t bytes) {
  const std::uint64_t all = advanced_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (options.progress != nullptr) options.progress->advance(all, plan.traffic().read_bytes);
}

}  // namespace weightproof::exec
