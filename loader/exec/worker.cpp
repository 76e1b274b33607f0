// SPDX-License-Identifier: Apache-2.0
// One thread of a load: its stages, its buffers and its slots.
#include <algorithm>
#include <cstring>
#include <new>

#include "loader/core/error.hpp"
#include "loader/exec/engine_internal.hpp"

namespace weightproof::exec {
namespace {

/// Ticket of a slot of which nothing was submitted yet.
constexpr Ticket k_never = UINT64_MAX;

}  // namespace

Worker::Worker(Engine& engine) : engine_(engine), plan_(engine.plan) {
  const std::uint64_t bytes = engine.read_bytes + engine.tile_bytes + engine.sink_bytes;
  staging_ = engine.allocator->allocate(MemoryKind::host, Purpose::staging, bytes, 4096);
  read_buffer_ = staging_.span().first(engine.read_bytes);
  tile_ = staging_.span().subspan(engine.read_bytes, engine.tile_bytes);
  sink_ = staging_.span().subspan(engine.read_bytes + engine.tile_bytes, engine.sink_bytes);
  companions_ = engine.allocator->allocate(MemoryKind::host, Purpose::companion, engine.companion_bytes);
  if (engine.options.has_ledger) ledger.copied.resize(plan_.tensors().size());
  if (engine.options.lane == nullptr) return;
  slots_.resize(std::max(1u, engine.options.lane_slots));
  for (Slot& slot : slots_) {
    slot.buffer = engine.allocator->allocate(MemoryKind::pinned, Purpose::staging, limits::read_bytes_max, 4096);
  }
}

Worker::~Worker() {
  if (engine_.options.lane != nullptr) engine_.options.lane->drain();
}

void Worker::run() {
  try {
    for (unsigned stage = 0; stage < Engine::k_stages; ++stage) {
      if (stage != 0 && !engine_.has_compares) break;
      if (engine_.take_whole(stage)) run_whole(stage);
      if (stage < 2) {
        while (const auto request = engine_.next_request(stage)) {
          engine_.check();
          run_request(*request, stage);
        }
      } else {
        while (const auto deferred = engine_.next_deferred()) {
          engine_.check();
          run_deferred(*deferred);
        }
      }
      if (stage != 1) run_decodes(stage);
      drain_slots();
      if (engine_.has_compares && stage + 1 < Engine::k_stages) engine_.next_stage();
    }
  } catch (const Abandoned&) {
    engine_.abandon();
  } catch (const Error& error) {
    engine_.fail(error);
  } catch (const std::bad_alloc&) {
    engine_.fail(Error(ErrorCode::alloc_failed, "no memory for what the load itself keeps"));
  } catch (const std::exception& other) {
    engine_.fail(Error(ErrorCode::internal, std::string("the load met an exception: ") + other.what()));
  }
  // What reached the device before the end is part of what was executed.
  if (engine_.options.lane == nullptr) return;
  engine_.options.lane->drain();
  for (Slot& slot : slots_) {
    if (slot.is_lent && engine_.options.lane->is_done(slot.ticket)) retire(slot);
  }
}

Worker::Slot& Worker::next_slot() {
  Slot& slot = slots_[next_slot_++ % slots_.size()];
  if (slot.is_lent) {
    if (!engine_.options.lane->is_done(slot.ticket)) {
      ++counters.slot_waits;
      const Timed timed(phases.lane);
      engine_.options.lane->wait(slot.ticket);
    }
    retire(slot);
  }
  slot.is_lent = true;
  slot.ticket = k_never;
  return slot;
}

void Worker::submit(Slot& slot, std::span<const LaneCopy> copies) {
  if (copies.empty()) return;
  slot.ticket = engine_.options.lane->submit(copies);
  counters.lane_copies += copies.size();
  for (const LaneCopy& copy : copies) counters.lane_bytes += copy.width * copy.rows;
}

/// The lease of a slot ends at its ticket; only then has what it carried arrived.
void Worker::retire(Slot& slot) {
  for (const Pending& pending : slot.pending) engine_.finish(pending.move, pending.bytes, phases.digest);
  slot.pending.clear();
  slot.is_lent = false;
  end_lease(slot.buffer.span());
}

void Worker::drain_slots() {
  for (Slot& slot : slots_) {
    if (!slot.is_lent) continue;
    engine_.options.lane->wait(slot.ticket);
    retire(slot);
  }
}

void Worker::end_lease(std::span<std::byte> buffer) {
  if (!engine_.options.poison || buffer.empty()) return;
  std::memset(buffer.data(), std::to_integer<int>(*engine_.options.poison), buffer.size());
}

}  // namespace weightproof::exec
