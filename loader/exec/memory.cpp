// SPDX-License-Identifier: Apache-2.0
#include "loader/exec/memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>

#include "loader/core/error.hpp"

namespace weightproof::exec {
namespace {

class HostSource final : public MemorySource {
 public:
  void* allocate(std::size_t bytes, std::size_t alignment) override {
    return ::operator new(std::max<std::size_t>(bytes, 1), std::align_val_t(alignment), std::nothrow);
  }
  void release(void* memory, std::size_t, std::size_t alignment) noexcept override {
    ::operator delete(memory, std::align_val_t(alignment));
  }
};

std::size_t index_of(MemoryKind kind) { return static_cast<std::size_t>(kind); }
std::size_t index_of(Purpose purpose) { return static_cast<std::size_t>(purpose); }

void add(Usage& usage, std::uint64_t bytes) {
  usage.live += bytes;
  usage.total += bytes;
  usage.peak = std::max(usage.peak, usage.live);
  ++usage.count;
}

std::string what(MemoryKind kind, Purpose purpose, std::uint64_t bytes) {
  return std::to_string(bytes) + " bytes of " + std::string(to_string(kind)) + " memory for " +
         std::string(to_string(purpose));
}

[[noreturn]] void throw_refused(MemoryKind kind, Purpose purpose, std::uint64_t bytes) {
  ErrorFacts facts;
  facts.expected = what(kind, purpose, bytes);
  facts.hint = "free memory, or give a smaller budget and fewer threads";
  throw Error(ErrorCode::alloc_failed, "no memory: " + facts.expected + " could not be had", std::move(facts));
}

}  // namespace

std::string_view to_string(MemoryKind kind) {
  constexpr std::array<std::string_view, k_memory_kinds> k_names = {"host", "pinned", "device", "foreign"};
  return k_names[index_of(kind)];
}

std::string_view to_string(Purpose purpose) {
  constexpr std::array<std::string_view, k_purposes> k_names = {"final storage", "staging",  "companions",
                                                                "whole tensors", "metadata", "the ledger"};
  return k_names[index_of(purpose)];
}

MemorySource& MemorySource::host() {
  static HostSource source;
  return source;
}

Charge::Charge(Charge&& other) noexcept
    : allocator_(std::exchange(other.allocator_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      kind_(other.kind_),
      purpose_(other.purpose_) {}

Charge& Charge::operator=(Charge&& other) noexcept {
  if (this != &other) {
    if (allocator_ != nullptr) allocator_->give_back(kind_, purpose_, bytes_);
    allocator_ = std::exchange(other.allocator_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    kind_ = other.kind_;
    purpose_ = other.purpose_;
  }
  return *this;
}

Charge::~Charge() {
  if (allocator_ != nullptr) allocator_->give_back(kind_, purpose_, bytes_);
}

void Charge::grow(std::uint64_t bytes) {
  WEIGHTPROOF_ASSERT(allocator_ != nullptr && purpose_ == Purpose::ledger);
  if (bytes <= bytes_) return;
  allocator_->take(kind_, purpose_, bytes - bytes_);
  bytes_ = bytes;
}

Buffer::Buffer(Buffer&& other) noexcept
    : charge_(std::move(other.charge_)),
      source_(other.source_),
      data_(std::exchange(other.data_, nullptr)),
      alignment_(other.alignment_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) source_->release(data_, size(), alignment_);
    charge_ = std::move(other.charge_);
    source_ = other.source_;
    data_ = std::exchange(other.data_, nullptr);
    alignment_ = other.alignment_;
  }
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) source_->release(data_, size(), alignment_);
}

Allocator::Allocator() { sources_[index_of(MemoryKind::host)] = &MemorySource::host(); }

Allocator::~Allocator() {
  for (const Usage& usage : statistics_.by_kind) WEIGHTPROOF_ASSERT(usage.live == 0);
}

void Allocator::set_limit(MemoryKind kind, std::optional<std::uint64_t> bytes) {
  const std::lock_guard lock(mutex_);
  limits_[index_of(kind)] = bytes;
}

std::optional<std::uint64_t> Allocator::limit(MemoryKind kind) const {
  const std::lock_guard lock(mutex_);
  return limits_[index_of(kind)];
}

void Allocator::set_source(MemoryKind kind, MemorySource* source) {
  const std::lock_guard lock(mutex_);
  sources_[index_of(kind)] = source;
}

void Allocator::fail_at(std::uint64_t n) {
  const std::lock_guard lock(mutex_);
  fail_in_ = n;
}

void Allocator::take(MemoryKind kind, Purpose purpose, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (fail_in_ != 0 && --fail_in_ == 0) throw_refused(kind, purpose, bytes);
  Usage& of_kind = statistics_.by_kind[index_of(kind)];
  if (purpose != Purpose::ledger) {
    const std::optional<std::uint64_t>& limit = limits_[index_of(kind)];
    if (limit && (of_kind.live > *limit || bytes > *limit - of_kind.live)) {
      ErrorFacts facts;
      facts.expected = std::to_string(*limit) + " bytes of " + std::string(to_string(kind)) + " memory at most";
      facts.actual = std::to_string(of_kind.live) + " bytes held and " + what(kind, purpose, bytes) + " asked for";
      throw Error(ErrorCode::budget_too_small, "the limit of " + facts.expected + " is reached: " + facts.actual,
                  std::move(facts));
    }
    add(of_kind, bytes);
  }
  add(statistics_.by_purpose[index_of(kind)][index_of(purpose)], bytes);
}

void Allocator::give_back(MemoryKind kind, Purpose purpose, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (purpose != Purpose::ledger) statistics_.by_kind[index_of(kind)].live -= bytes;
  statistics_.by_purpose[index_of(kind)][index_of(purpose)].live -= bytes;
}

Charge Allocator::charge(MemoryKind kind, Purpose purpose, std::uint64_t bytes) {
  take(kind, purpose, bytes);
  Charge charge;
  charge.allocator_ = this;
  charge.bytes_ = bytes;
  charge.kind_ = kind;
  charge.purpose_ = purpose;
  return charge;
}

Buffer Allocator::allocate(MemoryKind kind, Purpose purpose, std::uint64_t bytes, std::size_t alignment) {
  MemorySource* source = nullptr;
  {
    const std::lock_guard lock(mutex_);
    source = sources_[index_of(kind)];
  }
  if (source == nullptr) {
    throw Error(ErrorCode::device_unavailable, "no " + std::string(to_string(kind)) + " memory can be had here");
  }
  if (bytes > SIZE_MAX / 2) throw_refused(kind, purpose, bytes);
  Buffer buffer;
  buffer.charge_ = charge(kind, purpose, bytes);
  buffer.source_ = source;
  buffer.alignment_ = alignment;
  buffer.data_ = static_cast<std::byte*>(source->allocate(static_cast<std::size_t>(bytes), alignment));
  if (buffer.data_ == nullptr) throw_refused(kind, purpose, bytes);
  return buffer;
}

MemoryStatistics Allocator::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace weightproof::exec
