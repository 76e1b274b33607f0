// SPDX-License-Identifier: Apache-2.0
#include "loader/exec/attempt.hpp"

#include <array>
#include <utility>

#include "loader/exec/attempt_internal.hpp"

namespace weightproof::exec {

std::string_view to_string(Outcome outcome) {
  constexpr std::array<std::string_view, 3> k_names = {"complete", "failed", "stopped"};
  return k_names[static_cast<std::size_t>(outcome)];
}

void Counters::add(const Counters& other) {
  requests += other.requests;
  requested_bytes += other.requested_bytes;
  read_bytes += other.read_bytes;
  opens += other.opens;
  tiles += other.tiles;
  copies += other.copies;
  copied_bytes += other.copied_bytes;
  written_bytes += other.written_bytes;
  compared_bytes += other.compared_bytes;
  lane_copies += other.lane_copies;
  lane_bytes += other.lane_bytes;
  slot_waits += other.slot_waits;
  hot_digests += other.hot_digests;
  faults += other.faults;
}

void Phases::add(const Phases& other) {
  prepare += other.prepare;
  populate += other.populate;
  read += other.read;
  transform += other.transform;
  compare += other.compare;
  digest += other.digest;
  lane += other.lane;
  total += other.total;
}

LoadAttempt::LoadAttempt(std::unique_ptr<State> state) : state_(std::move(state)) {}
LoadAttempt::LoadAttempt(LoadAttempt&&) noexcept = default;
LoadAttempt& LoadAttempt::operator=(LoadAttempt&&) noexcept = default;
LoadAttempt::~LoadAttempt() = default;

Outcome LoadAttempt::outcome() const { return state_->outcome; }
const std::optional<Error>& LoadAttempt::error() const { return state_->error; }
const std::optional<Error>& LoadAttempt::cause() const { return state_->cause; }
void LoadAttempt::require_complete() const {
  if (state_->error) throw *state_->error;
}
const plan::Plan& LoadAttempt::plan() const { return *state_->plan; }
const Counters& LoadAttempt::counters() const { return state_->counters; }
const Phases& LoadAttempt::phases() const { return state_->phases; }
const Ledger& LoadAttempt::ledger() const { return state_->ledger; }
const MemoryStatistics& LoadAttempt::memory() const { return state_->memory; }
unsigned LoadAttempt::threads() const { return state_->threads; }

bool LoadAttempt::is_tensor_complete(std::size_t tensor) const {
  const plan::PlannedTensor& planned = state_->plan->tensors()[tensor];
  if (state_->left.empty()) return false;
  for (std::uint32_t move = planned.first_move; move < planned.first_move + planned.move_count; ++move) {
    if (state_->plan->moves()[move].action != plan::Action::compare && state_->left[move] != 0) return false;
  }
  return true;
}

std::vector<std::string_view> LoadAttempt::completed_keys() const {
  std::vector<std::string_view> keys;
  for (std::size_t i = 0; i < state_->plan->tensors().size(); ++i) {
    if (is_tensor_complete(i)) keys.push_back(state_->plan->tensors()[i].key);
  }
  return keys;
}

std::vector<View> LoadAttempt::completed_regions(std::size_t tensor) const {
  std::vector<View> regions;
  const plan::PlannedTensor& planned = state_->plan->tensors()[tensor];
  for (std::uint32_t at = planned.first_move; at < planned.first_move + planned.move_count; ++at) {
    const plan::Move& move = state_->plan->moves()[at];
    if (move.action == plan::Action::compare || state_->left.empty() || state_->left[at] != 0) continue;
    regions.push_back(state_->plan->target_view(move));
  }
  return regions;
}

std::optional<Digest> LoadAttempt::digest(std::size_t tensor) const {
  if (state_->digests.empty() || !is_complete()) return std::nullopt;
  return state_->digests[tensor];
}

std::string_view LoadAttempt::why_no_digest() const { return state_->why_no_digest; }

Arena& LoadAttempt::arena() {
  require_complete();
  if (!state_->arena) throw Error(ErrorCode::internal, "this load was given destinations and has no arena of its own");
  return *state_->arena;
}

std::span<const std::byte> LoadAttempt::bytes(std::size_t tensor) const {
  require_complete();
  if (!state_->arena) throw Error(ErrorCode::internal, "this load was given destinations and has no arena of its own");
  const plan::PlannedTensor& planned = state_->plan->tensors()[tensor];
  return {state_->arena->data() + planned.arena_offset, static_cast<std::size_t>(planned.bytes)};
}

std::span<const std::byte> LoadAttempt::bytes(std::string_view key) const {
  const std::size_t tensor = state_->plan->find(key);
  if (tensor == SIZE_MAX) {
    ErrorFacts facts;
    facts.keys.emplace_back(key);
    throw Error(ErrorCode::tensor_not_found, "no tensor '" + facts.keys[0] + "' was planned", std::move(facts));
  }
  return bytes(tensor);
}

}  // namespace weightproof::exec
