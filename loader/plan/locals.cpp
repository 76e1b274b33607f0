// SPDX-License-Identifier: Apache-2.0
// What a rank holds of each native tensor: the moves of its bindings clipped to its pieces, and the proof that they
// fill them.
#include <unordered_set>

#include "loader/core/error.hpp"
#include "loader/core/tiling.hpp"
#include "loader/plan/clip.hpp"
#include "loader/plan/planner_internal.hpp"

namespace weightproof::plan {

/// The moves of one native tensor as a whole. They decide its dtype, which every rank then has, and are clipped.
void Planner::take_moves(NativeId id) {
  const NativeTensor& native = schema_.native_tensors()[id];
  Gathered& gathered = gathered_[id];
  gathered.first = static_cast<std::uint32_t>(gathered_moves_.size());
  for (std::uint32_t i = first_binding_[id]; i < first_binding_[id + 1]; ++i) {
    const Binding& binding = schema_.bindings()[binding_ids_[i]];
    Move move;
    move.action = plan_.proof_.actions[binding_ids_[i]];
    if (move.action == Action::inactive) continue;
    move.rule = binding.rule;
    move.target_offset = binding.native_offset;
    move.target_layout = binding.native_layout;
    if (move.action == Action::fill) {
      move.value = binding.value;
      move.source_layout = binding.native_layout;
    } else {
      move.stored = binding.stored;
      move.row = plan_.coverage_.row_of[binding.stored];
      move.decode = decode_of_.empty() ? k_no_id : decode_of_[binding.stored];
      move.source_offset = binding.stored_offset;
      move.source_layout = binding.stored_layout;
      move.source_dtype = source_dtype(move);
    }
    gathered_moves_.push_back(move);
  }
  const std::span<const Move> moves = std::span(gathered_moves_).subspan(gathered.first);
  gathered.dtype = target_dtype(native.dtype_rule, native.dtype, stored_dtype(moves));
  if (!placement_.locals.empty() && !is_whole(placement_.locals[id], schema_.shape_of(native))) {
    const LocalTensor& local = placement_.locals[id];
    const std::vector<Move> all(moves.begin(), moves.end());
    gathered_moves_.resize(gathered.first);
    std::vector<ClippedBinding> parts;
    for (const Move& move : all) {
      parts.clear();
      const View target = plan_.target_view(move);
      const View source = move.action == Action::fill ? target : plan_.source_view(move);
      for (const LocalPiece& piece : local.pieces) {
        clip_binding(source, target, schema_.shape_of(native), piece, local.shape, parts);
      }
      for (const ClippedBinding& part : parts) {
        Move clipped = move;
        clipped.target_offset = part.target.offset();
        clipped.target_layout = intern(part.target.layout());
        clipped.source_offset = move.action == Action::fill ? 0 : part.source.offset();
        clipped.source_layout = move.action == Action::fill ? clipped.target_layout : intern(part.source.layout());
        gathered_moves_.push_back(clipped);
      }
    }
  }
  gathered.count = static_cast<std::uint32_t>(gathered_moves_.size()) - gathered.first;
}

void Planner::gather_moves() {
  const std::span<const Binding> bindings = schema_.bindings();
  const std::size_t count = schema_.native_tensors().size();
  first_binding_.assign(count + 1, 0);
  for (const Binding& binding : bindings) ++first_binding_[binding.native + 1];
  for (std::size_t i = 1; i < first_binding_.size(); ++i) first_binding_[i] += first_binding_[i - 1];
  binding_ids_.resize(bindings.size());
  std::vector<std::uint32_t> next(first_binding_.begin(), first_binding_.end() - 1);
  for (std::uint32_t id = 0; id < bindings.size(); ++id) binding_ids_[next[bindings[id].native]++] = id;
  gathered_.assign(count, {});
  gathered_moves_.reserve(bindings.size());
  for (NativeId native = 0; native < count; ++native) {
    if (plan_.proof_.left_out[native] != LeftOut::no) continue;
    if (!placement_.locals.empty() &&
        is_absent(placement_.locals[native], schema_.shape_of(schema_.native_tensors()[native]))) {
      continue;
    }
    gathered_[native].is_held = true;
    take_moves(native);
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
