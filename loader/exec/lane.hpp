// SPDX-License-Identifier: Apache-2.0
// A lane carries bytes from pinned host memory to a device and says when they have arrived. Copies of one lane happen
// in the order in which they were given; a buffer may be used again once its ticket is done. A CUDA stream is a lane;
// QueueLane is one whose device is host memory behind a queue, a thread and a delay, so that order, reuse of buffers
// and failures are the same wherever the tests run.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "loader/exec/memory.hpp"

namespace weightproof::exec {

/// `rows` runs of `width` bytes, apart by a pitch on either side.
struct LaneCopy {
  std::byte* device = nullptr;
  const std::byte* host = nullptr;
  std::size_t width = 0;
  std::size_t rows = 1;
  std::size_t device_pitch = 0;
  std::size_t host_pitch = 0;
};

/// Point in the order of a lane: done when everything given before it is done. 0 is done from the start.
using Ticket = std::uint64_t;

/// Thread-safe.
class Lane {
 public:
  virtual ~Lane() = default;
  virtual std::string_view name() const = 0;
  /// Host memory that the device reads by itself, and memory of the device.
  virtual MemorySource& pinned() = 0;
  virtual MemorySource& device() = 0;
  /// Queues the copies. Host memory stays as it is until the ticket is done. Errors: device_error, of this call or of
  /// an earlier copy: a lane that failed stays failed.
  virtual Ticket submit(std::span<const LaneCopy> copies) = 0;
  virtual bool is_done(Ticket ticket) = 0;
  /// Returns when the ticket is done, or throws device_error where it never will be. Nothing of the lane reads host
  /// memory of that ticket any more, either way.
  virtual void wait(Ticket ticket) = 0;
  /// Everything that was queued is done or given up; never throws.
  virtual void drain() noexcept = 0;
  /// Copies from the device after everything that was queued before, and waits.
  virtual void read_back(std::byte* host, const std::byte* device, std::size_t bytes) = 0;
};

struct QueueLaneOptions {
  std::chrono::microseconds delay{0};  ///< before each copy
  std::uint64_t fail_at = 0;           ///< the n-th copy fails; 0 none
};

class QueueLane final : public Lane {
 public:
  explicit QueueLane(QueueLaneOptions options = {});
  ~QueueLane() override;
  std::string_view name() const override { return "queue"; }
  MemorySource& pinned() override { return MemorySource::host(); }
  MemorySource& device() override { return MemorySource::host(); }
  Ticket submit(std::span<const LaneCopy> copies) override;
  bool is_done(Ticket ticket) override;
  void wait(Ticket ticket) override;
  void drain() noexcept override;
  void read_back(std::byte* host, const std::byte* device, std::size_t bytes) override;
  /// Most copies that were waiting at once.
  std::size_t deepest() const;

 private:
  void run();
  void throw_if_failed() const;

  const QueueLaneOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable has_work_;
  std::condition_variable has_progress_;
  std::deque<LaneCopy> queue_;
  Ticket given_ = 0;
  Ticket done_ = 0;
  std::size_t deepest_ = 0;
  bool has_failed_ = false;
  bool is_closing_ = false;
  std::thread thread_;
};

}  // namespace weightproof::exec
