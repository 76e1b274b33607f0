// SPDX-License-Identifier: Apache-2.0
#include "loader/exec/digest.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "loader/core/error.hpp"
#include "loader/exec/digest_internal.hpp"
#include "loader/exec/nest_internal.hpp"
#include "loader/exec/xxh3_internal.hpp"

namespace weightproof::exec {
namespace {

#ifdef WEIGHTPROOF_HAS_XXHASH
const Xxh3& xxh3() {
#ifdef WEIGHTPROOF_XXH3_TIERS
  static const Xxh3& fastest = __builtin_cpu_supports("avx512f") ? k_xxh3_avx512
                               : __builtin_cpu_supports("avx2")  ? k_xxh3_avx2
                                                                 : k_xxh3_base;
  return fastest;
#else
  return k_xxh3_base;
#endif
}
#else
const Xxh3& xxh3() { throw Error(ErrorCode::internal, std::string(digest_unavailable())); }
#endif

}  // namespace

std::string_view digest_unavailable() {
#ifdef WEIGHTPROOF_HAS_XXHASH
  return {};
#else
  return "built without the xxHash header";
#endif
}

std::string to_string(const Digest& digest) {
  constexpr std::string_view k_digits = "0123456789abcdef";
  std::string text;
  for (const std::uint64_t word : {digest.high, digest.low}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += k_digits[(word >> shift) & 0xf];
  }
  return text;
}

Digest digest_of(std::span<const std::byte> bytes) { return xxh3().at_once(bytes.data(), bytes.size()); }

DigestStream::DigestStream() : state_(xxh3().make()) {
  if (state_ == nullptr) throw std::bad_alloc();
}
DigestStream::DigestStream(DigestStream&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
DigestStream& DigestStream::operator=(DigestStream&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
DigestStream::~DigestStream() {
  if (state_ != nullptr) xxh3().free(state_);
}
void DigestStream::update(std::span<const std::byte> bytes) { xxh3().update(state_, bytes.data(), bytes.size()); }
Digest DigestStream::finish() const { return xxh3().finish(state_); }

DigestBook::DigestBook(const plan::Plan& plan)
    : plan_(plan), digests_(plan.tensors().size()), is_done_(plan.tensors().size(), false) {}

void DigestBook::arrived(std::size_t tensor, std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::uint64_t total = plan_.tensors()[tensor].bytes;
  if (bytes.empty()) return;
  if (offset == 0 && bytes.size() == total) {
    const Digest digest = digest_of(bytes);
    const std::lock_guard lock(mutex_);
    digests_[tensor] = digest;
    is_done_[tensor] = true;
    return;
  }
  std::unique_lock lock(mutex_);
  Running& running = running_[tensor];
  running.waiting.emplace(offset, bytes);
  if (running.is_busy) return;  // whoever digests this tensor goes on with these bytes
  running.is_busy = true;
  for (;;) {
    const auto next = running.waiting.find(running.next);
    if (next == running.waiting.end()) break;
    const std::span<const std::byte> piece = next->second;
    running.waiting.erase(next);
    lock.unlock();
    running.stream.update(piece);  // references into the map stay valid while others insert
    lock.lock();
    running.next += piece.size();
  }
  running.is_busy = false;
  if (running.next != total) return;
  digests_[tensor] = running.stream.finish();
  is_done_[tensor] = true;
  running_.erase(tensor);
}

std::vector<Digest> DigestBook::take() {
  for (std::size_t i = 0; i < digests_.size(); ++i) {
    if (plan_.tensors()[i].bytes == 0) digests_[i] = digest_of({});
  }
  return std::move(digests_);
}

void DigestBook::complete(std::size_t tensor, const Destination& destination) {
  const plan::PlannedTensor& planned = plan_.tensors()[tensor];
  {
    const std::lock_guard lock(mutex_);
    // Bytes that still wait belong to the thread that digests them.
    if (is_done_[tensor] || running_.count(tensor) != 0) return;
    is_done_[tensor] = true;
  }
  const Shape& shape = plan_.shape_of(planned);
  Digest digest;
  if (is_dense_layout(shape, destination.strides)) {
    digest = digest_of({destination.base, static_cast<std::size_t>(planned.bytes)});
  } else {
    DigestStream stream;
    const std::uint64_t size = bits_of(planned.dtype) / 8;
    const std::uint64_t count = *element_count(shape);
    const std::uint64_t row = shape[shape.rank() - 1];
    const bool has_rows = destination.strides[shape.rank() - 1] == 1 || row == 1;
    const std::uint64_t step = has_rows ? row : 1;
    for (std::uint64_t i = 0; i < count; i += step) {
      const Coordinate at = coordinate_of(shape, i);
      std::uint64_t element = 0;
      for (unsigned axis = 0; axis < shape.rank(); ++axis) element += at[axis] * destination.strides[axis];
      stream.update({destination.base + element * size, static_cast<std::size_t>(step * size)});
    }
    digest = stream.finish();
  }
  const std::lock_guard lock(mutex_);
  digests_[tensor] = digest;
}

}  // namespace weightproof::exec
