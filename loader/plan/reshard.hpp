// SPDX-License-Identifier: Apache-2.0
// What a part of a tensor is made of where the tensor lies in chunks of another layout of ranks.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "loader/core/box.hpp"

namespace weightproof::plan {

/// Elements of one stored chunk and where they go in the part.
struct ReadItem {
  std::size_t chunk = 0;  ///< position in the list of chunks
  Coordinate storage_offset;
  Coordinate target_offset;
  Extents length;
  friend bool operator==(const ReadItem&, const ReadItem&) = default;
};

/// Chunks in the order of their first axis, so that a part looks at those alone that may meet it. Thread rule:
/// immutable.
class StoredChunks {
 public:
  explicit StoredChunks(std::vector<Box> chunks);
  const std::vector<Box>& boxes() const { return boxes_; }
  /// What makes up `part`, by chunk. Chunks without elements give nothing; scalars always meet. Errors, with the
  /// coordinate: dest_not_covered, duplicate_destination.
  std::vector<ReadItem> items(const Box& part, std::string_view key) const;

 private:
  std::vector<Box> boxes_;
  std::vector<std::size_t> order_;       // by start on the first axis
  std::vector<std::uint64_t> furthest_;  // largest end so far, in that order
};

}  // namespace weightproof::plan
