// SPDX-License-Identifier: Apache-2.0
#include "loader/exec/arena.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "loader/core/error.hpp"

namespace weightproof::exec {
namespace {

constexpr std::uint64_t k_huge_page = k_populate_bytes;
#ifdef MADV_POPULATE_WRITE
constexpr int k_populate_write = MADV_POPULATE_WRITE;
#else
constexpr int k_populate_write = 23;  // Linux 5.14; older headers do not name it
#endif

[[noreturn]] void throw_no_mapping(std::uint64_t bytes, int number) {
  ErrorFacts facts;
  facts.expected = std::to_string(bytes) + " bytes of address space";
  facts.actual = std::generic_category().message(number);
  throw Error(ErrorCode::alloc_failed, "no memory for final storage: " + facts.expected + ": " + facts.actual,
              std::move(facts));
}

}  // namespace

Arena Arena::make(Allocator& allocator, std::uint64_t bytes, std::optional<std::byte> sentinel) {
  Arena arena;
  arena.charge_ = allocator.charge(MemoryKind::host, Purpose::final_storage, bytes);
  if (bytes > SIZE_MAX / 2) throw_no_mapping(bytes, ENOMEM);
  const std::size_t wanted = static_cast<std::size_t>(std::max<std::uint64_t>(bytes, 1) + k_huge_page);
  void* mapping = ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw_no_mapping(bytes, errno);
  arena.mapping_ = static_cast<std::byte*>(mapping);
  arena.mapping_bytes_ = wanted;
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  arena.data_ = arena.mapping_ + ((k_huge_page - address % k_huge_page) % k_huge_page);
  arena.bytes_ = bytes;
  // A refusal leaves ordinary pages, which is all that is lost.
  if (bytes >= k_huge_page) ::madvise(arena.data_, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  arena.taken_ = std::make_unique<std::atomic<std::uint64_t>[]>(static_cast<std::size_t>(arena.steps() / 64 + 1));
  arena.steps_left_ = arena.steps();
  if (sentinel) {
    arena.populate(0, bytes);
    std::memset(arena.data_, std::to_integer<int>(*sentinel), static_cast<std::size_t>(bytes));
  }
  return arena;
}

Arena::Arena(Arena&& other) noexcept
    : charge_(std::move(other.charge_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(std::exchange(other.mapping_bytes_, 0)),
      taken_(std::move(other.taken_)),
      steps_left_(other.steps_left_.exchange(0)),
      has_populate_(other.has_populate_.load()) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  if (this != &other) {
    release();
    charge_ = std::move(other.charge_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    mapping_ = std::exchange(other.mapping_, nullptr);
    mapping_bytes_ = std::exchange(other.mapping_bytes_, 0);
    taken_ = std::move(other.taken_);
    steps_left_ = other.steps_left_.exchange(0);
    has_populate_ = other.has_populate_.load();
  }
  return *this;
}

Arena::~Arena() { release(); }

void Arena::release() noexcept {
  if (mapping_ != nullptr) ::munmap(mapping_, mapping_bytes_);
  mapping_ = nullptr;
}

std::uint64_t Arena::populated() const {
  std::uint64_t bytes = 0;
  for (std::uint64_t step = 0; step < steps(); ++step) {
    if ((taken_[step / 64].load(std::memory_order_relaxed) >> (step % 64) & 1) == 0) continue;
    bytes += std::min(k_populate_bytes, bytes_ - step * k_populate_bytes);
  }
  return bytes;
}

void Arena::populate(std::uint64_t begin, std::uint64_t end) {
  end = std::min(end, bytes_);
  if (begin >= end || is_populated()) return;
  for (std::uint64_t step = begin / k_populate_bytes; step * k_populate_bytes < end; ++step) {
    std::atomic<std::uint64_t>& word = taken_[step / 64];
    const std::uint64_t bit = std::uint64_t{1} << (step % 64);
    if ((word.load(std::memory_order_relaxed) & bit) != 0) continue;
    if ((word.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) continue;
    populate_step(step * k_populate_bytes, std::min(k_populate_bytes, bytes_ - step * k_populate_bytes));
    steps_left_.fetch_sub(1, std::memory_order_relaxed);
  }
}

void Arena::populate_step(std::uint64_t begin, std::uint64_t length) {
  if (has_populate_.load(std::memory_order_relaxed)) {
    int result = 0;
    do {
      result = ::madvise(data_ + begin, static_cast<std::size_t>(length), k_populate_write);
    } while (result != 0 && errno == EINTR);
    if (result == 0) return;
    // EINVAL: an older kernel. Anything else (no memory, a poisoned page) would come back at the touch as well, and
    // there as a signal; the kernel's word is taken.
    if (errno != EINVAL) throw_no_mapping(length, errno);
    has_populate_ = false;
  }
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  for (std::uint64_t at = begin; at < begin + length; at += page) {
    // Other threads may already have written here, so the byte is not changed.
    reinterpret_cast<std::atomic<unsigned char>*>(data_ + at)->fetch_or(0, std::memory_order_relaxed);
  }
}

}  // namespace weightproof::exec
