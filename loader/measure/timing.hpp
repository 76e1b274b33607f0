// SPDX-License-Identifier: Apache-2.0
// Where the time of one attempt went, and what it moved. Everything may be added to by several threads at once; read it
// after they are done.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace weightproof::measure {

enum class Phase : std::uint8_t {
  metadata,      ///< headers, index, config
  planning,      ///< schema, routes, proof
  destinations,  ///< allocation and first touch of final storage
  storage_read,  ///< inside read calls; warm this is a copy, not the speed of a disk
  convert,       ///< decode, cast, transpose, strided copy
  install,       ///< hand-over of what is finished
  verify,        ///< digests and comparisons
  publish        ///< fsync and rename
};
inline constexpr std::size_t k_phase_count = 8;
std::string_view to_string(Phase phase);

/// Sums of time per phase over all threads: with several threads a sum may exceed the wall time.
class PhaseTimes {
 public:
  void add(Phase phase, std::chrono::nanoseconds time) {
    sums_[static_cast<std::size_t>(phase)].fetch_add(time.count(), std::memory_order_relaxed);
  }
  std::chrono::nanoseconds of(Phase phase) const {
    return std::chrono::nanoseconds(sums_[static_cast<std::size_t>(phase)].load(std::memory_order_relaxed));
  }
  /// Wall time since construction.
  std::chrono::nanoseconds total() const { return std::chrono::steady_clock::now() - begin_; }

  /// Adds the time from its construction to its destruction.
  class Scope {
   public:
    Scope(PhaseTimes& times, Phase phase) : times_(times), phase_(phase) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { times_.add(phase_, std::chrono::steady_clock::now() - begin_); }

   private:
    PhaseTimes& times_;
    Phase phase_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  };

 private:
  std::array<std::atomic<std::int64_t>, k_phase_count> sums_{};
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// What an attempt did, in counts and bytes. Deterministic for one plan where the field does not say otherwise.
struct Counters {
  std::atomic<std::uint64_t> opens{0};            ///< files opened
  std::atomic<std::uint64_t> requests{0};         ///< planned reads carried out
  std::atomic<std::uint64_t> read_calls{0};       ///< system calls; more than requests where reads came short
  std::atomic<std::uint64_t> bytes_requested{0};  ///< that somebody wants
  std::atomic<std::uint64_t> bytes_read{0};       ///< gaps that were read through included
  std::atomic<std::uint64_t> runs{0};             ///< contiguous pieces stored
  std::atomic<std::uint64_t> bytes_copied{0};     ///< between buffers, after they were read
  std::atomic<std::uint64_t> bytes_converted{0};  ///< results of decode and cast
  std::atomic<std::uint64_t> bytes_written{0};    ///< into final storage, by whatever way
  std::atomic<std::uint64_t> tiles{0};            ///< converted or copied
  std::atomic<std::uint64_t> headers{0};          ///< parsed
};

}  // namespace weightproof::measure
