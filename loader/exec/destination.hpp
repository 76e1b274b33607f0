// SPDX-License-Identifier: Apache-2.0
// Where a load writes. Every planned tensor has one destination; an arena is one provider of them, memory of the caller
// another. Tensors need not be dense there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "loader/core/dtype.hpp"
#include "loader/core/shape.hpp"
#include "loader/exec/arena.hpp"
#include "loader/exec/memory.hpp"
#include "loader/plan/plan.hpp"

namespace weightproof::exec {

struct Destination {
  std::uint64_t storage = 0;  ///< equal for destinations in one block of memory
  MemoryKind kind = MemoryKind::host;
  std::byte* base = nullptr;  ///< first element; an address of the device where `kind` is device
  std::uint64_t bytes = 0;    ///< addressable from `base`
  Extents strides;            ///< in elements, one per axis of the tensor
  DType dtype = DType::bf16;
};

/// Thread rule: asked by several threads at once.
class Destinations {
 public:
  virtual ~Destinations() = default;
  /// Of Plan::tensors()[tensor].
  virtual Destination of(const plan::Plan& plan, std::size_t tensor) const = 0;
  /// The arena behind it, whose pages are populated just before they are written; null where there is none.
  virtual Arena* arena() const { return nullptr; }
  /// True where all tensors are dense host memory at `arena offset` of one block, which then is its base.
  virtual std::byte* dense_host_base() const { return nullptr; }
};

class ArenaDestinations final : public Destinations {
 public:
  /// The arena has at least Plan::memory().final_bytes bytes and outlives this.
  explicit ArenaDestinations(Arena& arena) : arena_(&arena) {}
  Destination of(const plan::Plan& plan, std::size_t tensor) const override;
  Arena* arena() const override { return arena_; }
  std::byte* dense_host_base() const override { return arena_->data(); }

 private:
  Arena* arena_;
};

/// The same layout in one block of another kind of memory: a device's, or the caller's.
class BlockDestinations final : public Destinations {
 public:
  BlockDestinations(MemoryKind kind, std::byte* base, std::uint64_t bytes) : kind_(kind), base_(base), bytes_(bytes) {}
  Destination of(const plan::Plan& plan, std::size_t tensor) const override;
  std::byte* dense_host_base() const override { return kind_ == MemoryKind::device ? nullptr : base_; }

 private:
  MemoryKind kind_;
  std::byte* base_;
  std::uint64_t bytes_;
};

/// Memory that the caller owns, one destination per planned tensor in the order of Plan::tensors().
class ForeignDestinations final : public Destinations {
 public:
  explicit ForeignDestinations(std::vector<Destination> destinations) : destinations_(std::move(destinations)) {}
  Destination of(const plan::Plan& plan, std::size_t tensor) const override;

 private:
  std::vector<Destination> destinations_;
};

/// Dense row-major tensor at `base`.
Destination dense_destination(const plan::Plan& plan, std::size_t tensor, MemoryKind kind, std::byte* base,
                              std::uint64_t bytes);

/// Throws what makes a destination unusable, naming the tensor: shape_mismatch (strides of another rank, strides that
/// let elements meet: each must be at least what the inner axes span, or memory too small), dtype_unsupported (another
/// dtype, or a strided one of less than a byte), part_repeated_destination (dense destinations that overlap).
void require_usable(const plan::Plan& plan, const Destinations& destinations);

}  // namespace weightproof::exec
