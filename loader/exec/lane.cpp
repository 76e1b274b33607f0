// SPDX-License-Identifier: Apache-2.0
#include "loader/exec/lane.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "loader/core/error.hpp"

namespace weightproof::exec {

QueueLane::QueueLane(QueueLaneOptions options) : options_(options), thread_([this] { run(); }) {}

QueueLane::~QueueLane() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  has_work_.notify_all();
  thread_.join();
}

void QueueLane::throw_if_failed() const {
  if (has_failed_)
    throw Error(ErrorCode::device_error, "a copy to the device failed on lane '" + std::string(name()) + "'");
}

Ticket QueueLane::submit(std::span<const LaneCopy> copies) {
  const std::lock_guard lock(mutex_);
  throw_if_failed();
  queue_.insert(queue_.end(), copies.begin(), copies.end());
  given_ += copies.size();
  deepest_ = std::max(deepest_, queue_.size());
  has_work_.notify_one();
  return given_;
}

bool QueueLane::is_done(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  return done_ >= ticket;
}

void QueueLane::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  has_progress_.wait(lock, [&] { return done_ >= ticket || has_failed_; });
  if (done_ < ticket) throw_if_failed();
}

void QueueLane::drain() noexcept {
  std::unique_lock lock(mutex_);
  has_progress_.wait(lock, [&] { return done_ == given_ || has_failed_; });
}

void QueueLane::read_back(std::byte* host, const std::byte* device, std::size_t bytes) {
  Ticket last = 0;
  {
    const std::lock_guard lock(mutex_);
    last = given_;
  }
  wait(last);
  if (bytes != 0) std::memcpy(host, device, bytes);
}

std::size_t QueueLane::deepest() const {
  const std::lock_guard lock(mutex_);
  return deepest_;
}

void QueueLane::run() {
  std::uint64_t position = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    has_work_.wait(lock, [&] { return !queue_.empty() || is_closing_; });
    if (queue_.empty()) return;
    const LaneCopy copy = queue_.front();
    lock.unlock();
    if (options_.delay.count() != 0) std::this_thread::sleep_for(options_.delay);
    const bool fails = ++position == options_.fail_at;
    for (std::size_t row = 0; !fails && row < copy.rows && copy.width != 0; ++row) {
      std::memcpy(copy.device + row * copy.device_pitch, copy.host + row * copy.host_pitch, copy.width);
    }
    lock.lock();
    if (fails) {
      has_failed_ = true;
      queue_.clear();  // what stands behind a failed copy is given up
      has_progress_.notify_all();
      continue;
    }
    queue_.pop_front();
    ++done_;
    has_progress_.notify_all();
  }
}

}  // namespace weightproof::exec
