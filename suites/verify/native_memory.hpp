// SPDX-License-Identifier: Apache-2.0
// Native state as one file that is not there: whoever reads a range of it gets the bytes that a load left in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "loader/core/catalog.hpp"
#include "loader/core/placement.hpp"
#include "loader/plan/plan.hpp"
#include "loader/storage/file.hpp"

namespace weightproof::suites {

/// The part of one native tensor that lies in memory: some rows of the outermost axis, of the others one range each.
struct NativePart {
  std::uint32_t row = 0;             ///< of the catalog
  LocalTensor local;                 ///< pieces along the outermost axis
  std::span<const std::byte> bytes;  ///< dense
};

/// Boxes of one tensor as a local tensor that holds them all: intervals of the outermost axis, the hull of the others.
LocalTensor cover(const Shape& shape, std::span<const Box> boxes);

/// The smallest box of a dense tensor that the elements of a view lie in, as far as its strides tell.
Box hull_of(const View& view, const Shape& shape);

class NativeMemory final : public storage::FileCalls {
 public:
  /// The tensors of a plan, one after the other in one file.
  explicit NativeMemory(const plan::Plan& whole);
  ~NativeMemory() override;
  NativeMemory(const NativeMemory&) = delete;
  NativeMemory& operator=(const NativeMemory&) = delete;

  const std::shared_ptr<const Catalog>& catalog() const { return catalog_; }
  /// What can be read from now on; everything else reads as zeros, as gaps between wanted ranges may be.
  void hold(std::vector<NativePart> parts);

  int open(const char* path, int flags) override;
  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override;
  std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) override;

 private:
  void read(std::uint64_t offset, std::span<std::byte> target) const;
  void read_tensor(const StoredTensor& row, const NativePart& part, std::uint64_t first,
                   std::span<std::byte> target) const;

  std::shared_ptr<const Catalog> catalog_;
  std::vector<NativePart> parts_;  // ascending rows
  std::uint64_t bytes_ = 0;
  int descriptor_ = -1;  // an empty file of that size
};

}  // namespace weightproof::suites
