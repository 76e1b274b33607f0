// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>

#include "loader/codec/cpu/tiers_internal.hpp"

namespace weightproof::codec {
namespace {

struct Tiers {
  std::array<const Kernels*, 4> list{};
  std::size_t count = 0;
};

const Tiers& tiers() {
  static const Tiers found = [] {
    Tiers t;
    t.list[t.count++] = &k_scalar_kernels;
    return t;
  }();
  return found;
}

std::atomic<const Kernels*> g_forced{nullptr};

}  // namespace

std::span<const Kernels* const> available_kernels() { return {tiers().list.data(), tiers().count}; }

const Kernels& kernels() {
  const Kernels* forced = g_forced.load(std::memory_order_relaxed);
  return forced != nullptr ? *forced : *tiers().list[tiers().count - 1];
}

void force_kernels(const Kernels* kernels) { g_forced.store(kernels, std::memory_order_relaxed); }

}  // namespace weightproof::codec
