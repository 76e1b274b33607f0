// SPDX-License-Identifier: Apache-2.0
// What a rank holds of each native tensor: the moves of its bindings clipped to its pieces, and the proof that they
// fill them.
#include <algorithm>
#include <unordered_set>

#include "loader/core/error.hpp"
#include "loader/core/tiling.hpp"
#include "loader/plan/clip.hpp"
#include "loader/plan/planner_internal.hpp"

namespace weightproof::plan {

/// False where the binding takes no part.
bool Planner::take_binding(std::uint32_t id, Move& move) const {
  const Binding& binding = schema_.bindings()[id];
  move.action = plan_.proof_->actions[id];
  if (move.action == Action::inactive) return false;
  move.rule = binding.rule;
  move.target_offset = binding.native_offset;
  move.target_layout = binding.native_layout;
  if (move.action == Action::fill) {
    move.value = binding.value;
    move.source_layout = binding.native_layout;
    return true;
  }
  move.stored = binding.stored;
  move.row = plan_.coverage_->row_of[binding.stored];
  move.decode = basis_.decode_of.empty() ? k_no_id : basis_.decode_of[binding.stored];
  move.source_offset = binding.stored_offset;
  move.source_layout = binding.stored_layout;
  move.source_dtype = basis_.source_dtype(binding.stored, move.row);
  return true;
}

void Planner::take_moves(NativeId native) {
  for (std::uint32_t i = basis_.first_binding[native]; i < basis_.first_binding[native + 1]; ++i) {
    Move move;
    if (take_binding(basis_.binding_ids[i], move)) gathered_moves_.push_back(move);
  }
}

/// Only bindings that meet a piece along the first axis are looked at: a rank with four of 256 experts does not walk
/// over the others.
void Planner::take_parts(NativeId native) {
  const LocalTensor& local = placement_.locals[native];
  const Shape& shape = schema_.shape_of(schema_.native_tensors()[native]);
  const auto first = basis_.first_at.begin() + basis_.first_binding[native];
  const auto first_end = basis_.first_at.begin() + basis_.first_binding[native + 1];
  const auto last = basis_.last_at.begin() + basis_.first_binding[native];
  const auto last_end = basis_.last_at.begin() + basis_.first_binding[native + 1];
  std::vector<ClippedBinding> parts;
  for (const LocalPiece& piece : local.pieces) {
    const std::uint64_t begin = shape.rank() == 0 ? 0 : piece.global.start[0];
    const std::uint64_t end = shape.rank() == 0 ? 1 : begin + piece.global.length[0];
    std::uint32_t from = basis_.first_binding[native];
    std::uint32_t to = basis_.first_binding[native + 1];
    if (basis_.is_ascending[native]) {
      to = from + static_cast<std::uint32_t>(std::lower_bound(first, first_end, end) - first);
      from += static_cast<std::uint32_t>(std::lower_bound(last, last_end, begin) - last);
    }
    for (std::uint32_t i = from; i < to; ++i) {
      Move move;
      if (basis_.first_at[i] >= end || basis_.last_at[i] < begin || !take_binding(basis_.binding_ids[i], move))
        continue;
      parts.clear();
      const bool is_fill = move.action == Action::fill;
      const View target = plan_.target_view(move);
      clip_binding(is_fill ? target : plan_.source_view(move), target, shape, piece, local.shape, parts);
      for (const ClippedBinding& part : parts) {
        move.target_offset = part.target.offset();
        move.target_layout = intern(part.target.layout());
        move.source_offset = is_fill ? 0 : part.source.offset();
        move.source_layout = is_fill ? move.target_layout : intern(part.source.layout());
        gathered_moves_.push_back(move);
      }
    }
  }
}

/// Left out of the whole for no other reason than that a required key is absent.
bool Planner::is_incomplete(NativeId native) const {
  if (!basis_.missing) return false;
  bool has_missing = false;
  for (std::uint32_t i = basis_.first_binding[native]; i < basis_.first_binding[native + 1]; ++i) {
    const Binding& binding = schema_.bindings()[basis_.binding_ids[i]];
    if (binding.stored == k_no_id || plan_.coverage_->row_of[binding.stored] != k_no_row) continue;
    if (binding.kind == BindingKind::primary && !basis_.is_missing[binding.stored]) return false;
    has_missing = has_missing || basis_.is_missing[binding.stored];
  }
  return has_missing;
}

/// Throws where the rank holds something of a key that is absent, with those keys.
void Planner::require_present() {
  if (request_.side != Side::native || placement_.locals.empty()) throw *basis_.missing;
  std::vector<std::string> keys;
  std::vector<ClippedBinding> parts;
  for (NativeId native = 0; native < schema_.native_tensors().size(); ++native) {
    const LocalTensor& local = placement_.locals[native];
    const Shape& shape = schema_.shape_of(schema_.native_tensors()[native]);
    if (is_absent(local, shape)) continue;
    for (std::uint32_t i = basis_.first_binding[native]; i < basis_.first_binding[native + 1]; ++i) {
      const Binding& binding = schema_.bindings()[basis_.binding_ids[i]];
      if (binding.stored == k_no_id || !basis_.is_missing[binding.stored]) continue;
      parts.clear();
      for (const LocalPiece& piece : local.pieces) {
        clip_binding(schema_.stored_view(binding), schema_.native_view(binding), shape, piece, local.shape, parts);
      }
      if (!parts.empty()) keys.emplace_back(schema_.stored_tensors()[binding.stored].key);
    }
  }
  if (keys.empty()) return;
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  ErrorFacts facts = basis_.missing->facts();
  facts.keys = keys;
  throw Error(basis_.missing->code(),
              std::to_string(keys.size()) + " required keys that this rank holds something of are missing, first '" +
                  keys.front() + "'",
              std::move(facts))
      .on_rank(static_cast<int>(placement_.rank));
}

void Planner::gather_moves() {
  const std::size_t count = schema_.native_tensors().size();
  gathered_.assign(count, {});
  if (!is_part_) gathered_moves_.reserve(schema_.bindings().size());
  for (NativeId native = 0; native < count; ++native) {
    if (plan_.proof_->left_out[native] != LeftOut::no && !is_incomplete(native)) continue;
    const Shape& shape = schema_.shape_of(schema_.native_tensors()[native]);
    if (!placement_.locals.empty() && is_absent(placement_.locals[native], shape)) continue;
    Gathered& gathered = gathered_[native];
    gathered.is_held = true;
    gathered.first = static_cast<std::uint32_t>(gathered_moves_.size());
    if (placement_.locals.empty() || is_whole(placement_.locals[native], shape)) {
      take_moves(native);
    } else {
      take_parts(native);
    }
    gathered.count = static_cast<std::uint32_t>(gathered_moves_.size()) - gathered.first;
  }
}

/// The proof for the whole tensors says nothing of a placement: what fills the local ones is proved once more.
void Planner::prove_locals() const {
  struct Hash {
    std::size_t operator()(const std::vector<std::uint64_t>& words) const { return hash_words(words); }
  };
  std::unordered_set<std::vector<std::uint64_t>, Hash> proved;
  std::vector<std::uint64_t> question;
  std::vector<View> views;
  for (const PlannedTensor& tensor : plan_.tensors_) {
    if (tensor.id == k_no_id) continue;
    if (is_whole(placement_.locals[tensor.id], schema_.shape_of(schema_.native_tensors()[tensor.id]))) continue;
    question.assign(1, tensor.shape);
    views.clear();
    std::vector<std::string_view> keys;
    for (std::uint32_t m = tensor.first_move; m < tensor.first_move + tensor.move_count; ++m) {
      const Move& move = plan_.moves_[m];
      if (move.action == Action::compare) continue;
      question.push_back(move.target_layout);
      question.push_back(move.target_offset);
      views.push_back(plan_.target_view(move));
      keys.push_back(move.stored == k_no_id ? std::string_view() : schema_.stored_tensors()[move.stored].key);
    }
    if (proved.count(question) != 0) continue;
    const TilingVerdict verdict = prove_tiling(plan_.shape_of(tensor), views);
    if (verdict.tiling == Tiling::exact) {
      proved.insert(question);
      continue;
    }
    ProofFault fault;
    fault.tiling = verdict.tiling;
    fault.key = tensor.key;
    fault.coordinate = verdict.coordinate;
    fault.reason = verdict.reason;
    if (verdict.tiling == Tiling::overlap) {
      fault.first_key = keys[verdict.first_view];
      fault.second_key = keys[verdict.second_view];
    }
    throw error_of(schema_, fault)
        .on_rank(static_cast<int>(placement_.rank))
        .note("in the rank's own tensor of shape " + to_string(plan_.shape_of(tensor)));
  }
}

}  // namespace weightproof::plan
