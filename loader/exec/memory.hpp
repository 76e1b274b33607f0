// SPDX-License-Identifier: Apache-2.0
// Memory as a limit: every buffer of a load is taken here, counted by kind and by purpose, and refused above a limit. A
// breach therefore fails at the guilty call, and what was counted can be compared with what was predicted. The page
// cache is the kernel's and is shown elsewhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>

namespace weightproof::exec {

enum class MemoryKind : std::uint8_t {
  host,
  pinned,  ///< host memory that a device can read by itself
  device,
  foreign  ///< memory of the caller: never taken, shown where it is loaded into
};
inline constexpr std::size_t k_memory_kinds = 4;
std::string_view to_string(MemoryKind kind);

enum class Purpose : std::uint8_t {
  final_storage,
  staging,    ///< read buffers, tiles, slots
  companion,  ///< windows of scales and the like
  whole,      ///< a stored tensor held whole
  metadata,   ///< plan, schema, catalog, progress
  ledger      ///< what was read and written, where it is asked for; counted, outside the limit
};
inline constexpr std::size_t k_purposes = 6;
std::string_view to_string(Purpose purpose);

struct Usage {
  std::uint64_t live = 0;   ///< bytes held now
  std::uint64_t peak = 0;   ///< most that was held at once
  std::uint64_t total = 0;  ///< bytes ever taken
  std::uint64_t count = 0;  ///< times it was taken
  friend bool operator==(const Usage&, const Usage&) = default;
};

struct MemoryStatistics {
  std::array<Usage, k_memory_kinds> by_kind;  ///< without Purpose::ledger
  std::array<std::array<Usage, k_purposes>, k_memory_kinds> by_purpose;
  const Usage& of(MemoryKind kind) const { return by_kind[static_cast<std::size_t>(kind)]; }
  const Usage& of(MemoryKind kind, Purpose purpose) const {
    return by_purpose[static_cast<std::size_t>(kind)][static_cast<std::size_t>(purpose)];
  }
};

/// Where memory of one kind comes from. Thread-safe by contract.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// Null where there is none. `alignment` is a power of two.
  virtual void* allocate(std::size_t bytes, std::size_t alignment) = 0;
  virtual void release(void* memory, std::size_t bytes, std::size_t alignment) noexcept = 0;
  /// Aligned memory of the C library.
  static MemorySource& host();
};

class Allocator;

/// Counts bytes that are held elsewhere (a mapping, rows of a plan) for as long as it lives.
class Charge {
 public:
  Charge() = default;
  Charge(Charge&& other) noexcept;
  Charge& operator=(Charge&& other) noexcept;
  ~Charge();
  std::uint64_t bytes() const { return bytes_; }
  /// A ledger grows: counts up to `bytes`. Only for Purpose::ledger.
  void grow(std::uint64_t bytes);

 private:
  friend class Allocator;
  Allocator* allocator_ = nullptr;
  std::uint64_t bytes_ = 0;
  MemoryKind kind_ = MemoryKind::host;
  Purpose purpose_ = Purpose::staging;
};

/// Owns memory of an allocator. Not larger than asked for.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();
  std::byte* data() const { return data_; }
  std::size_t size() const { return static_cast<std::size_t>(charge_.bytes()); }
  std::span<std::byte> span() const { return {data_, size()}; }

 private:
  friend class Allocator;
  Charge charge_;
  MemorySource* source_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t alignment_ = 1;
};

/// Thread-safe. Outlives its buffers and charges.
class Allocator {
 public:
  Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  ~Allocator();

  /// Bytes of `kind` that may be held at once, Purpose::ledger apart. Empty: no limit.
  void set_limit(MemoryKind kind, std::optional<std::uint64_t> bytes);
  std::optional<std::uint64_t> limit(MemoryKind kind) const;
  /// Host memory comes from MemorySource::host() unless said otherwise; other kinds have no source by themselves.
  void set_source(MemoryKind kind, MemorySource* source);
  /// For tests: the n-th request from now on is refused, and none after it (1 is the next; 0 none).
  void fail_at(std::uint64_t n);

  /// Errors: budget_too_small above the limit, with limit and need; alloc_failed where the system has no memory;
  /// device_unavailable for a kind without a source. `bytes` may be 0.
  Buffer allocate(MemoryKind kind, Purpose purpose, std::uint64_t bytes, std::size_t alignment = 64);
  /// Same errors but for the source.
  Charge charge(MemoryKind kind, Purpose purpose, std::uint64_t bytes);

  MemoryStatistics statistics() const;

 private:
  friend class Charge;
  void take(MemoryKind kind, Purpose purpose, std::uint64_t bytes);
  void give_back(MemoryKind kind, Purpose purpose, std::uint64_t bytes) noexcept;

  mutable std::mutex mutex_;
  MemoryStatistics statistics_;
  std::array<std::optional<std::uint64_t>, k_memory_kinds> limits_;
  std::array<MemorySource*, k_memory_kinds> sources_{};
  std::uint64_t fail_in_ = 0;
};

}  // namespace weightproof::exec
