// SPDX-License-Identifier: Apache-2.0
// Executes a plan: exactly its reads and its moves, inside the memory that it states.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <thread>

#include "loader/exec/attempt.hpp"
#include "loader/exec/destination.hpp"
#include "loader/exec/faults.hpp"
#include "loader/exec/lane.hpp"
#include "loader/exec/memory.hpp"
#include "loader/exec/sources.hpp"
#include "loader/plan/planner.hpp"

namespace weightproof::exec {

/// Told at every tile, by the thread that finished it: thread-safe by contract. What it throws ends the load.
class ProgressSink {
 public:
  virtual ~ProgressSink() = default;
  virtual void advance(std::uint64_t read_bytes, std::uint64_t read_bytes_total) = 0;
};

struct LoadOptions {
  unsigned threads = 0;                        ///< at most and, where 0, exactly Plan::memory().threads
  const Destinations* destinations = nullptr;  ///< null: an arena of the attempt's own
  Allocator* allocator = nullptr;              ///< null: one of the attempt's own, limited to what was predicted
  Lane* lane = nullptr;                        ///< needed where a destination is device memory
  unsigned lane_slots = 2;                     ///< per thread
  std::optional<std::byte> sentinel;           ///< fills the attempt's own arena before anything is written
  std::optional<std::byte> poison;             ///< overwrites every buffer when its lease ends
  bool has_digests = false;                    ///< XXH3-128 of every tensor
  bool has_ledger = false;
  std::stop_token stop;
  ProgressSink* progress = nullptr;
  const Faults* faults = nullptr;  ///< for tests of the checks
  /// For tests: starts a thread. Empty: std::thread.
  std::function<std::thread(std::function<void()>)> start_thread;
};

/// Bytes by kind that a load takes, known beforehand. With default options it is Plan::memory().
struct Forecast {
  unsigned threads = 1;
  std::uint64_t final_bytes = 0;  ///< 0 where the caller brings the memory
  std::uint64_t staging_bytes = 0;
  std::uint64_t companion_bytes = 0;
  std::uint64_t whole_bytes = 0;
  std::uint64_t metadata_bytes = 0;
  std::uint64_t pinned_bytes = 0;
  std::uint64_t host_bytes() const {
    return final_bytes + staging_bytes + companion_bytes + whole_bytes + metadata_bytes;
  }
};
Forecast forecast(const plan::Plan& plan, const LoadOptions& options);

/// Never throws for what goes wrong with the load: the attempt says it. Codes of causes: budget_too_small,
/// alloc_failed, io_error, file_changed, tied_values_differ (with tensor and coordinate), route_unavailable (a
/// destination that a move cannot reach), device_unavailable, device_error, what require_usable() throws, and what a
/// codec throws. Plan, sources, destinations and allocator outlive the attempt. Loads may run at once.
[[nodiscard]] LoadAttempt load(const plan::Plan& plan, const SourceFiles& sources, const LoadOptions& options = {});

}  // namespace weightproof::exec
