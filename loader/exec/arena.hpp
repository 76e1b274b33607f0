// SPDX-License-Identifier: Apache-2.0
// Final storage as one mapping: 2 MiB aligned, huge pages where the system gives them, populated ahead of the writers.
// The first touch of a page costs more than everything a read does, so it is done in large steps, on all threads,
// before the bytes arrive.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "loader/exec/memory.hpp"

namespace weightproof::exec {

/// A byte that, repeated, is NaN in BF16, F16, F32, F64, E4M3 and E5M2.
inline constexpr std::byte k_sentinel{0xff};
/// How far pages are populated ahead of the writers.
inline constexpr std::uint64_t k_populate_window_bytes = 64u << 20;

class Arena {
 public:
  Arena() = default;
  /// Counted as host memory for final storage. Errors: as Allocator::charge; alloc_failed where the mapping is refused.
  /// With `sentinel` every byte has that value before it is written.
  static Arena make(Allocator& allocator, std::uint64_t bytes, std::optional<std::byte> sentinel = std::nullopt);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return bytes_; }
  std::span<std::byte> span() const { return {data_, static_cast<std::size_t>(bytes_)}; }

  /// Populates from where the last call ended up to `end` and a window beyond. Any number of threads at once: each
  /// takes steps of its own. Cheap where nothing is left to do.
  void populate_to(std::uint64_t end);
  /// Pages below are populated or being populated.
  std::uint64_t populated() const;
  /// True where the kernel populated huge steps by itself, false where pages are touched one by one.
  bool has_populate() const { return has_populate_.load(std::memory_order_relaxed); }

 private:
  void release() noexcept;

  Charge charge_;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::byte* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  std::atomic<std::uint64_t> next_step_{0};
  std::atomic<bool> has_populate_{true};
};

}  // namespace weightproof::exec
