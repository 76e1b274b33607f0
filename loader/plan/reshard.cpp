// SPDX-License-Identifier: Apache-2.0
#include "loader/plan/reshard.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "loader/core/error.hpp"
#include "loader/core/tiling.hpp"

namespace weightproof::plan {
namespace {

std::uint64_t first_of(const Box& box) { return box.start.rank() == 0 ? 0 : box.start[0]; }
std::uint64_t end_of(const Box& box) { return box.start.rank() == 0 ? 1 : box.start[0] + box.length[0]; }

}  // namespace

StoredChunks::StoredChunks(std::vector<Box> chunks) : boxes_(std::move(chunks)), order_(boxes_.size()) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::size_t a, std::size_t b) { return first_of(boxes_[a]) < first_of(boxes_[b]); });
  std::uint64_t furthest = 0;
  for (const std::size_t chunk : order_) furthest_.push_back(furthest = std::max(furthest, end_of(boxes_[chunk])));
}

std::vector<ReadItem> StoredChunks::items(const Box& part, std::string_view key) const {
  std::vector<ReadItem> items;
  if (part.is_empty()) return items;
  std::vector<View> filled;
  const auto begin = static_cast<std::size_t>(std::upper_bound(furthest_.begin(), furthest_.end(), first_of(part)) -
                                              furthest_.begin());
  for (std::size_t at = begin; at < order_.size() && first_of(boxes_[order_[at]]) < end_of(part); ++at) {
    const Box& chunk = boxes_[order_[at]];
    const std::optional<Box> both = chunk.intersect(part);
    if (!both) continue;
    ReadItem item{order_[at], both->start, both->start, both->length};
    View view = View::whole(part.length);
    for (unsigned axis = 0; axis < part.start.rank(); ++axis) {
      item.storage_offset[axis] -= chunk.start[axis];
      item.target_offset[axis] -= part.start[axis];
      view = view.narrow(axis, item.target_offset[axis], item.length[axis]);
    }
    items.push_back(item);
    filled.push_back(view);
  }
  std::stable_sort(items.begin(), items.end(), [](const ReadItem& a, const ReadItem& b) { return a.chunk < b.chunk; });
  const TilingVerdict verdict = prove_tiling(part.length, filled);
  if (verdict.tiling == Tiling::exact) return items;
  ErrorFacts facts;
  facts.keys.emplace_back(key);
  facts.coordinate.assign(verdict.coordinate.begin(), verdict.coordinate.end());
  const bool is_overlap = verdict.tiling == Tiling::overlap;
  throw Error(is_overlap ? ErrorCode::duplicate_destination : ErrorCode::dest_not_covered,
              "element " + to_string(verdict.coordinate) + " of the part " + to_string(part) + " of '" +
                  std::string(key) + (is_overlap ? "' is in two chunks" : "' is in no chunk"),
              std::move(facts));
}

}  // namespace weightproof::plan
