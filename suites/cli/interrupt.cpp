// SPDX-License-Identifier: Apache-2.0
#include "suites/cli/interrupt.hpp"

#include <pthread.h>

#include <csignal>

namespace weightproof::suites::cli {
namespace {

/// Sent to the watcher alone, so that it ends at once: a wait with a timeout would hold up the end of every verb.
int end_signal() { return SIGRTMIN; }

}  // namespace

InterruptGuard::InterruptGuard() {
  ::sigemptyset(&signals_);
  ::sigaddset(&signals_, SIGINT);
  ::sigaddset(&signals_, SIGTERM);
  ::sigaddset(&signals_, end_signal());
  ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  watcher_ = std::thread([this] {
    int number = 0;
    do {
      number = ::sigwaitinfo(&signals_, nullptr);
    } while (number < 0);  // interrupted by a signal that is none of these
    if (number == end_signal()) return;
    received_ = number;
    source_.request_stop();
  });
}

InterruptGuard::~InterruptGuard() {
  // Where a signal came first the watcher has ended, and this reaches nobody.
  ::pthread_kill(watcher_.native_handle(), end_signal());
  watcher_.join();
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  if (received_ != 0) {
    ::raise(received_);
  }
}

}  // namespace weightproof::suites::cli
