// SPDX-License-Identifier: Apache-2.0
#include "suites/cli/interrupt.hpp"

#include <csignal>
#include <ctime>

namespace weightproof::suites::cli {

InterruptGuard::InterruptGuard() {
  ::sigemptyset(&signals_);
  ::sigaddset(&signals_, SIGINT);
  ::sigaddset(&signals_, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  watcher_ = std::jthread([this](const std::stop_token& ended) {
    while (!ended.stop_requested()) {
      const timespec wait{0, 50'000'000};
      const int number = ::sigtimedwait(&signals_, nullptr, &wait);
      if (number > 0) {
        received_ = number;
        source_.request_stop();
        return;
      }
    }
  });
}

InterruptGuard::~InterruptGuard() {
  watcher_.request_stop();
  watcher_.join();
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  if (received_ != 0) {
    ::raise(received_);
  }
}

}  // namespace weightproof::suites::cli
