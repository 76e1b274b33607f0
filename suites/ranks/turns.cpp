// SPDX-License-Identifier: Apache-2.0
#include "suites/ranks/turns.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace weightproof::suites {
namespace {

class Turns {
 public:
  Turns(std::uint32_t count, std::uint64_t seed) : random_(seed) {
    for (std::uint32_t i = 0; i < count; ++i) {
      running_.push_back(i);
    }
    draw();
  }

  void wait_for(std::uint32_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return current_ == number; });
  }
  void yield(std::uint32_t number) {
    std::unique_lock lock(mutex_);
    draw();
    changed_.notify_all();
    changed_.wait(lock, [&] { return current_ == number; });
  }
  void leave(std::uint32_t number) {
    const std::lock_guard lock(mutex_);
    std::erase(running_, number);
    draw();
    changed_.notify_all();
  }

 private:
  void draw() {
    if (!running_.empty()) {
      current_ = running_[random_() % running_.size()];
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937_64 random_;
  std::vector<std::uint32_t> running_;
  std::uint32_t current_ = 0;
};

class YieldingCalls final : public storage::FileCalls {
 public:
  YieldingCalls(Turns& turns, std::uint32_t number) : turns_(turns), number_(number) {}
  int open(const char* path, int flags) override {
    turns_.yield(number_);
    return FileCalls::open(path, flags);
  }
  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override {
    turns_.yield(number_);
    return FileCalls::pread(fd, buffer, bytes, offset);
  }
  std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) override {
    turns_.yield(number_);
    return FileCalls::preadv(fd, parts, count, offset);
  }

 private:
  Turns& turns_;
  std::uint32_t number_;
};

}  // namespace

void take_turns(std::uint32_t count, std::uint64_t seed,
                const std::function<void(std::uint32_t, storage::FileCalls&)>& body) {
  if (count == 0) {
    return;
  }
  Turns turns(count, seed);
  std::vector<std::exception_ptr> failures(count);
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (std::uint32_t number = 0; number < count; ++number) {
    threads.emplace_back([&, number] {
      turns.wait_for(number);
      try {
        YieldingCalls calls(turns, number);
        body(number, calls);
      } catch (...) {
        failures[number] = std::current_exception();
      }
      turns.leave(number);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
}

}  // namespace weightproof::suites
