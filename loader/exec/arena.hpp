// SPDX-License-Identifier: Apache-2.0
// Final storage as one mapping: 2 MiB aligned, huge pages where the system gives them, populated just before they are
// written. The first touch of a page costs more than everything a read does, so it is done in steps of a huge page, by
// the thread whose bytes come next: what the kernel has cleared is still in the cache when they arrive. Far ahead, the
// same pages would be brought from memory twice.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "loader/exec/memory.hpp"

namespace weightproof::exec {

/// A byte that, repeated, is NaN in BF16, F16, F32, F64, E4M3 and E5M2.
inline constexpr std::byte k_sentinel{0xff};
/// What is populated at once: a huge page.
inline constexpr std::uint64_t k_populate_bytes = 2u << 20;

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

  /// Populates the steps that [begin, end) touches, but for those that another call has taken. Any number of threads at
  /// once. Cheap where nothing is left to do.
  void populate(std::uint64_t begin, std::uint64_t end);
  /// All pages are populated or being populated.
  bool is_populated() const { return steps_left_.load(std::memory_order_relaxed) == 0; }
  /// Pages that are populated or being populated, in bytes.
  std::uint64_t populated() const;
  /// True where the kernel populated huge steps by itself, false where pages are touched one by one.
  bool has_populate() const { return has_populate_.load(std::memory_order_relaxed); }

 private:
  void release() noexcept;
  void populate_step(std::uint64_t begin, std::uint64_t length);
  std::uint64_t steps() const { return (bytes_ + k_populate_bytes - 1) / k_populate_bytes; }

  Charge charge_;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::byte* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  std::unique_ptr<std::atomic<std::uint64_t>[]> taken_;  ///< one bit a step
  std::atomic<std::uint64_t> steps_left_{0};
  std::atomic<bool> has_populate_{true};
};

}  // namespace weightproof::exec
