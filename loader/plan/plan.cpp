// SPDX-License-Identifier: Apache-2.0
#include "loader/plan/plan.hpp"

#include <algorithm>

namespace weightproof::plan {
namespace {

template <typename Row>
bool equal(std::span<const Row> a, std::span<const Row> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// The same move, whatever numbers its layouts and rules have in the two plans.
bool same_move(const Plan& a, const Move& x, const Plan& b, const Move& y) {
  const bool has_rule = x.rule != k_no_id;
  if (has_rule != (y.rule != k_no_id) || (has_rule && a.schema().rule(x.rule) != b.schema().rule(y.rule))) return false;
  const auto key_of = [](const Plan& plan, const Move& move) {
    return move.row == k_no_row ? std::string_view() : plan.catalog().tensors()[move.row].key;
  };
  return x.tensor == y.tensor && x.action == y.action && x.route == y.route && x.reason == y.reason &&
         x.source_dtype == y.source_dtype && x.value == y.value && x.decode == y.decode && x.row == y.row &&
         key_of(a, x) == key_of(b, y) && a.source_view(x) == b.source_view(y) && a.target_view(x) == b.target_view(y);
}

bool same_tensor(const Plan& a, const PlannedTensor& x, const Plan& b, const PlannedTensor& y) {
  return x.key == y.key && x.dtype == y.dtype && x.bytes == y.bytes && x.source_bytes == y.source_bytes &&
         x.arena_offset == y.arena_offset && x.first_move == y.first_move && x.move_count == y.move_count &&
         a.shape_of(x) == b.shape_of(y);
}

}  // namespace

bool operator==(const DecodeSource& a, const DecodeSource& b) {
  return a.stored == b.stored && a.rows == b.rows && a.codec->scheme() == b.codec->scheme() &&
         a.codec->natural_shape() == b.codec->natural_shape();
}

std::size_t Plan::find(std::string_view key) const {
  const std::uint32_t id = side_ == Side::native ? schema_->find_native(key) : schema_->find_stored(key);
  if (id != k_no_id) return tensor_of_[id] == 0 ? SIZE_MAX : tensor_of_[id] - 1;
  if (passed_through_.empty()) return SIZE_MAX;
  std::size_t row = side_ == Side::native ? SIZE_MAX : catalog_->index_of(key);
  for (const Passthrough& pass : schema_->passthroughs()) {
    if (row != SIZE_MAX) break;
    if (key.starts_with(pass.native_prefix))
      row = catalog_->index_of(pass.prefix + std::string(key.substr(pass.native_prefix.size())));
  }
  const auto at = std::lower_bound(passed_through_.begin(), passed_through_.end(), row,
                                   [](const auto& entry, std::size_t wanted) { return entry.first < wanted; });
  return at != passed_through_.end() && at->first == row ? at->second : SIZE_MAX;
}

bool operator==(const Plan& a, const Plan& b) {
  if (a.side_ != b.side_ || a.route_ != b.route_ || a.memory_ != b.memory_ || a.traffic_ != b.traffic_) return false;
  if (a.tensors_.size() != b.tensors_.size() || a.moves_.size() != b.moves_.size()) return false;
  if (!equal(a.requests(), b.requests()) || !equal(a.entries(), b.entries()) || !equal(a.decodes(), b.decodes()) ||
      !equal(a.considered(), b.considered()) || !equal(a.unread(), b.unread()) || !equal(a.probes(), b.probes()) ||
      !equal(a.sources(), b.sources()) || a.catalog_->files() != b.catalog_->files()) {
    return false;
  }
  for (std::size_t i = 0; i < a.tensors_.size(); ++i) {
    if (!same_tensor(a, a.tensors_[i], b, b.tensors_[i])) return false;
  }
  for (std::size_t i = 0; i < a.moves_.size(); ++i) {
    if (!same_move(a, a.moves_[i], b, b.moves_[i])) return false;
  }
  return true;
}

}  // namespace weightproof::plan
