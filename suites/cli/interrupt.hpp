// SPDX-License-Identifier: Apache-2.0
// SIGINT and SIGTERM as a wish to stop: work ends at its next step and cleans up, then the signal takes its course.
#pragma once

#include <signal.h>

#include <atomic>
#include <stop_token>
#include <thread>

namespace weightproof::suites::cli {

/// Lives on the main thread while a verb works; threads started meanwhile leave the signals alone too.
class InterruptGuard {
 public:
  InterruptGuard();
  /// Raises the signal again where one came: the process ends with its status.
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  std::stop_token token() const { return source_.get_token(); }

 private:
  sigset_t signals_{};
  sigset_t before_{};
  std::stop_source source_;
  std::atomic<int> received_{0};
  std::thread watcher_;
};

}  // namespace weightproof::suites::cli
