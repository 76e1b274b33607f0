// SPDX-License-Identifier: Apache-2.0
// One load at work. The engine holds what its threads share; a worker holds what one thread has for itself: buffers,
// slots, counters. Nothing here outlives load().
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "loader/exec/attempt_internal.hpp"
#include "loader/exec/copy_internal.hpp"
#include "loader/exec/digest_internal.hpp"
#include "loader/exec/engine.hpp"
#include "loader/exec/faults_internal.hpp"

namespace weightproof::exec {

using Clock = std::chrono::steady_clock;

/// Adds the time it lives to a sum.
class Timed {
 public:
  explicit Timed(double& seconds) : seconds_(seconds), begin_(Clock::now()) {}
  ~Timed() { seconds_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  double& seconds_;
  Clock::time_point begin_;
};

/// Ends a worker whose load was stopped or failed elsewhere.
struct Abandoned {};

/// A move and where it writes.
struct Target {
  std::uint32_t index = 0;
  const plan::Move* move = nullptr;
  const plan::PlannedTensor* tensor = nullptr;
  Destination destination;
  bool is_dense = false;
  bool is_device() const { return destination.kind == MemoryKind::device; }
};

/// A piece of the tiles of one decode move.
struct DecodeItem {
  std::uint32_t move = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// A comparison whose tensor was not complete when its bytes went by.
struct Deferred {
  std::uint32_t request = 0;
  std::uint32_t entry = 0;
};

class Engine {
 public:
  Engine(const plan::Plan& plan, const SourceFiles& sources, const LoadOptions& options);
  LoadAttempt run();

  // What workers share. Stages follow one another with all threads waiting in between:
  //   0  everything that writes, but for requests that also compare
  //   1  requests that compare: what they write, and comparisons whose tensor is complete
  //   2  the comparisons left over, among them those of codecs and of whole tensors
  static constexpr unsigned k_stages = 3;
  const plan::Plan& plan;
  const SourceFiles& sources;
  const LoadOptions& options;
  const Forecast forecast;
  std::byte* base = nullptr;  ///< of all tensors, where they are dense host memory in one block
  Arena* arena = nullptr;
  const Destinations* destinations = nullptr;
  bool has_compares = false;
  bool has_only_runs = false;  ///< every move is one run into dense host memory

  Target target_of(std::uint32_t move) const;
  std::optional<std::uint32_t> next_request(unsigned stage);
  std::optional<DecodeItem> next_decode(unsigned stage);
  std::uint64_t left_of(std::uint32_t move) const { return state_->left[move]; }
  /// True for one caller per stage.
  bool take_whole(unsigned stage) { return !whole_taken_[stage].exchange(true); }
  void defer(Deferred deferred);
  std::optional<Deferred> next_deferred();
  /// Waits for all threads. Throws Abandoned.
  void next_stage();
  /// Throws Abandoned where the load is over.
  void check() const;
  bool is_stopped() const { return options.stop.stop_requested(); }
  void fail(Error error);
  /// A thread leaves before the end: the others need not wait for it.
  void abandon();
  void mark_writing() { has_written_.store(true, std::memory_order_relaxed); }
  /// `bytes` of a move are where they belong, or were found equal.
  void finish(std::uint32_t move, std::uint64_t bytes, double& digest_seconds);
  bool is_written(std::uint32_t tensor) const;
  /// Digests of this tensor are made of its bytes as they arrive.
  bool is_hot(std::uint32_t tensor) const;
  DigestBook* digests() { return digests_ ? &*digests_ : nullptr; }
  void advance(std::uint64_t bytes);
  /// What is to go wrong with the next piece of this tensor.
  Fault next_fault(std::uint32_t tensor);

  // Sizes of the buffers of one worker.
  std::uint64_t read_bytes = 0;
  std::uint64_t tile_bytes = 0;
  std::uint64_t sink_bytes = 0;
  std::uint64_t companion_bytes = 0;
  Buffer whole;
  Allocator* allocator = nullptr;

 private:
  void prepare();
  void run_workers();
  void conclude();

  std::unique_ptr<LoadAttempt::State> state_;
  std::optional<ArenaDestinations> arena_destinations_;
  Charge metadata_;
  std::optional<DigestBook> digests_;
  std::atomic<bool> is_over_{false};
  std::atomic<bool> has_written_{false};
  std::atomic<std::uint64_t> advanced_{0};
  std::atomic<std::uint64_t> fault_pieces_{0};
  std::array<std::atomic<std::uint64_t>, k_stages> next_request_{};
  std::array<std::atomic<bool>, k_stages> whole_taken_{};

  mutable std::mutex mutex_;
  std::condition_variable gate_;
  unsigned waiting_ = 0;
  std::uint64_t generation_ = 0;
  struct DecodeCursor {
    std::size_t at = 0;  // in Plan::decode_order()
    std::uint64_t tile = 0;
    std::uint64_t tiles = 0;  // of the move it stands at; 0: not asked yet
  };
  std::array<DecodeCursor, k_stages> decode_cursors_{};
  std::vector<Deferred> deferred_;
};

class Worker {
 public:
  explicit Worker(Engine& engine);
  ~Worker();
  void run();

  Counters counters;
  Phases phases;
  Ledger ledger;

 private:
  struct Pending {
    std::uint32_t move = 0;
    std::uint64_t bytes = 0;
  };
  /// Pinned memory on its way to the device.
  struct Slot {
    Buffer buffer;
    Ticket ticket = 0;
    std::vector<Pending> pending;
    bool is_lent = false;
  };

  // request.cpp: coalesced reads.
  void run_request(std::uint32_t index, unsigned stage);
  void read_in_place(const plan::ReadRequest& request);
  void read_staged(std::uint32_t index, const plan::ReadRequest& request, unsigned stage);
  void read_to_device(const plan::ReadRequest& request);
  void run_deferred(const Deferred& deferred);
  void take_entry(const plan::ScatterEntry& entry, const std::byte* bytes, const Target& target);
  /// Pages of final storage that are about to be written: bytes [begin, end) of a tensor, or all that a move reaches.
  void populate(const plan::PlannedTensor& tensor, std::uint64_t begin, std::uint64_t end);
  void populate_move(std::uint32_t move);
  void populate_spans(std::span<const std::span<std::byte>> spans);
  void populate_entries(const plan::ReadRequest& request);
  void read(std::uint32_t file, std::uint64_t offset, std::span<std::byte> bytes);

  // store.cpp: from a buffer to where it belongs.
  /// Elements [begin, end) of the stored tensor stand at `bytes`; those that the move takes are cast and stored.
  void take_elements(const Target& target, const Nest& nest, std::uint64_t begin, std::uint64_t end,
                     const std::byte* bytes, DType dtype);
  /// A nest whose source counts from `bytes`, in elements of the target.
  void store(const Target& target, const Nest& part, const std::byte* bytes, unsigned element_bytes);
  void store_on_device(const Target& target, const Nest& part, const std::byte* bytes, unsigned element_bytes);
  void compare(const Target& target, const Nest& part, const std::byte* bytes, unsigned element_bytes);
  void compare_on_device(const Target& target, const Nest& part, const std::byte* bytes, unsigned element_bytes);
  PieceFault fault_of(const Target& target, const Nest& part, unsigned element_bytes);
  [[noreturn]] void throw_different(const Target& target, std::uint64_t target_element, const std::byte* found,
                                    const std::byte* held, unsigned element_bytes);
  void fill(std::uint32_t move);
  Nest nest_of(const Target& target) const;
  void count_copy(std::uint32_t tensor, std::uint64_t bytes);
  void record_read(std::uint32_t file, std::uint64_t offset, std::uint64_t bytes);
  void record_write(const Target& target, const View& region);
  void record_bytes(const Target& target, std::uint64_t offset, std::uint64_t bytes);
  void record_elements(const Target& target, const Nest& nest, std::uint64_t begin, std::uint64_t end);
  Slot& next_slot();
  void submit(Slot& slot, std::span<const LaneCopy> copies);
  void retire(Slot& slot);
  void drain_slots();
  void end_lease(std::span<std::byte> buffer);

  // decode.cpp
  void run_decodes(unsigned stage);
  void run_decode(const DecodeItem& item);
  void decode_tile(const Target& target, const Box& tile);
  void read_run(const plan::DecodeSource& source, const codec::ByteRun& run, std::span<std::byte> into);

  // whole.cpp
  void run_whole(unsigned stage);
  void run_whole_move(std::uint32_t move);
  void take_bits(const Target& target, const std::byte* bytes);

  Engine& engine_;
  const plan::Plan& plan_;
  Buffer staging_;
  Buffer companions_;
  std::span<std::byte> read_buffer_;
  std::span<std::byte> tile_;
  std::span<std::byte> sink_;
  std::vector<Slot> slots_;
  std::size_t next_slot_ = 0;
  static constexpr std::size_t k_spans = 1024;
  std::array<std::span<std::byte>, k_spans> spans_;
  // Of the tile before: companions that a tile shares with it are not read again.
  std::vector<codec::ByteRun> companion_runs_;
  std::vector<codec::ByteRun> runs_;
  std::vector<codec::ByteRun> weight_runs_;
  std::vector<std::span<const std::byte>> parts_;
};

}  // namespace weightproof::exec
