// SPDX-License-Identifier: Apache-2.0
// Routed experts, one matrix of one expert at a time.
#include <algorithm>
#include <numeric>
#include <set>

#include "suites/mutants/mapping_internal.hpp"

namespace weightproof::suites::mapping {

namespace {

enum class Half : std::uint8_t { gate, up, only };

struct Piece {
  std::uint64_t expert = 0;
  Half half = Half::only;
  StoredId stored = k_no_id;
  View stored_view;  ///< [rows, input]
  View native_view;
};

// All experts of one native tensor, taken out of the draft.
struct ExpertGroup {
  NativeId native = k_no_id;
  std::uint64_t experts = 0, input = 0, width = 0;  ///< native [E, input, width]
  bool is_interleaved = false;
  std::vector<Piece> pieces;

  View slab(const SchemaDraft& draft, std::uint64_t expert) const {  ///< [input, width]
    return View::whole(draft.natives[native].shape).select(0, expert);
  }
  /// Where a matrix belongs: [rows, input].
  View place(const SchemaDraft& draft, std::uint64_t expert, Half half, bool interleaved) const {
    const View turned = slab(draft, expert).transpose(0, 1);
    if (half == Half::only) {
      return turned;
    }
    const std::uint64_t which = half == Half::up ? 1 : 0;
    return interleaved ? turned.unflatten(0, {width / 2, 2}).select(1, which)
                       : turned.narrow(0, which * (width / 2), width / 2);
  }
};

void split_halves(Piece piece, std::uint64_t width, bool is_interleaved, std::vector<Piece>& out) {
  const std::uint64_t rows = piece.native_view.extents()[0];
  if (rows == width / 2 && width % 2 == 0 && piece.half != Half::only) {
    out.push_back(piece);  // Whoever made it knows which.
    return;
  }
  for (const std::uint64_t which : {0U, 1U}) {
    Piece half = piece;
    half.half = which == 0 ? Half::gate : Half::up;
    const auto cut = [&](const View& view) {
      return is_interleaved ? view.unflatten(0, {width / 2, 2}).select(1, which)
                            : view.narrow(0, which * (width / 2), width / 2);
    };
    half.stored_view = cut(piece.stored_view);
    half.native_view = cut(piece.native_view);
    out.push_back(half);
  }
}

// The experts of the first layer that has some: gate and up, or down.
bool take_experts(SchemaDraft& draft, std::string_view ending, ExpertGroup& group) {
  const auto native = std::find_if(draft.natives.begin(), draft.natives.end(),
                                   [&](const SchemaDraft::Native& row) { return row.key.ends_with(ending); });
  if (native == draft.natives.end() || native->shape.rank() != 3) {
    return false;
  }
  group.native = static_cast<NativeId>(native - draft.natives.begin());
  group.experts = native->shape[0];
  group.input = native->shape[1];
  group.width = native->shape[2];
  group.is_interleaved = draft.family == "gpt_oss";
  const bool is_down = ending == "down_projs";
  const std::uint64_t row_stride = 1;
  std::vector<Bound> kept;
  for (const Bound& bound : draft.bindings) {
    if (bound.native != group.native || bound.kind != BindingKind::primary) {
      kept.push_back(bound);
      continue;
    }
    const bool has_all = bound.native_view.rank() == 3;
    for (std::uint64_t e = 0; e < (has_all ? group.experts : 1); ++e) {
      Piece piece;
      piece.stored = bound.stored;
      piece.stored_view = has_all ? bound.stored_view.select(0, e) : bound.stored_view;
      piece.native_view = has_all ? bound.native_view.select(0, e) : bound.native_view;
      piece.expert = piece.native_view.offset() / (group.input * group.width);
      if (piece.native_view.strides()[0] != row_stride) {
        piece.stored_view = piece.stored_view.transpose(0, 1);
        piece.native_view = piece.native_view.transpose(0, 1);
      }
      const std::uint64_t rows = piece.native_view.extents()[0];
      if (is_down || (rows == group.width && draft.family == "nemotron_v3")) {
        group.pieces.push_back(piece);
        continue;
      }
      if (rows < group.width) {
        piece.half = piece.native_view.offset() % group.width == 0 ? Half::gate : Half::up;
      }
      split_halves(piece, group.width, group.is_interleaved, group.pieces);
    }
  }
  draft.bindings = std::move(kept);
  return true;
}

void put_back(SchemaDraft& draft, const ExpertGroup& group, Names& blamed) {
  blamed.push_back(draft.natives[group.native].key);
  std::set<StoredId> seen;
  for (const Piece& piece : group.pieces) {
    draft.bindings.push_back(
        {BindingKind::primary, piece.stored, group.native, piece.stored_view, piece.native_view, 0, {}});
    if (seen.insert(piece.stored).second) {
      blamed.push_back(draft.stored[piece.stored].key);
    }
  }
}

}  // namespace

bool swap_expert_gate_up(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  ExpertGroup group;
  if (!take_experts(draft, "gate_and_up_projs", group) || group.pieces.front().half == Half::only) {
    return false;
  }
  for (Piece& piece : group.pieces) {
    piece.half = piece.half == Half::gate ? Half::up : Half::gate;
    piece.native_view = group.place(draft, piece.expert, piece.half, group.is_interleaved);
  }
  put_back(draft, group, blamed);
  return true;
}

bool interleave(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  ExpertGroup group;
  if (!take_experts(draft, "gate_and_up_projs", group) || group.pieces.front().half == Half::only) {
    return false;
  }
  for (Piece& piece : group.pieces) {
    piece.native_view = group.place(draft, piece.expert, piece.half, !group.is_interleaved);
  }
  put_back(draft, group, blamed);
  return true;
}

namespace {

// Every matrix lies in its slab as [rows, input]: a transpose that was forgotten, or added where there is none.
bool transpose_experts(SchemaDraft& draft, std::string_view ending, Names& blamed) {
  ExpertGroup group;
  if (!take_experts(draft, ending, group)) {
    return false;
  }
  for (Piece& piece : group.pieces) {
    const View slab(group.slab(draft, piece.expert).offset(), View::whole({group.width, group.input}).layout());
    const std::uint64_t half = group.width / 2;
    piece.native_view = piece.half == Half::only ? slab : slab.narrow(0, piece.half == Half::up ? half : 0, half);
  }
  put_back(draft, group, blamed);
  return true;
}

}  // namespace

bool transpose_gate_up(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  return transpose_experts(draft, "gate_and_up_projs", blamed);
}

bool transpose_down(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  return transpose_experts(draft, "down_projs", blamed);
}

namespace {

bool reorder_experts(SchemaDraft& draft, std::string_view ending, const std::vector<std::uint64_t>& slot_of,
                     Names& blamed) {
  ExpertGroup group;
  if (!take_experts(draft, ending, group)) {
    return false;
  }
  for (Piece& piece : group.pieces) {
    piece.native_view = group.place(draft, slot_of.at(piece.expert), piece.half, group.is_interleaved);
  }
  put_back(draft, group, blamed);
  return true;
}

std::uint64_t count_experts(const SchemaDraft& draft) {
  for (const SchemaDraft::Native& row : draft.natives) {
    if (row.key.ends_with("down_projs")) {
      return row.shape[0];
    }
  }
  return 0;
}

}  // namespace

bool experts_in_text_order(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  std::vector<std::uint64_t> numbers(count_experts(draft));
  std::iota(numbers.begin(), numbers.end(), 0);
  std::sort(numbers.begin(), numbers.end(),
            [](std::uint64_t a, std::uint64_t b) { return std::to_string(a) < std::to_string(b); });
  std::vector<std::uint64_t> slot_of(numbers.size());
  for (std::uint64_t slot = 0; slot < numbers.size(); ++slot) {
    slot_of[numbers[slot]] = slot;
  }
  return !numbers.empty() && reorder_experts(draft, "down_projs", slot_of, blamed);
}

bool expert_off_by_one(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  const std::uint64_t count = count_experts(draft);
  std::vector<std::uint64_t> slot_of(count);
  for (std::uint64_t e = 0; e < count; ++e) {
    slot_of[e] = (e + 1) % count;
  }
  return count != 0 && reorder_experts(draft, "gate_and_up_projs", slot_of, blamed);
}

bool drop_last_expert(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  ExpertGroup group;
  if (!take_experts(draft, "down_projs", group)) {
    return false;
  }
  std::erase_if(group.pieces, [&](const Piece& piece) {
    const bool is_last = piece.expert + 1 == group.experts;
    if (is_last) {
      blamed.push_back(draft.stored[piece.stored].key);
    }
    return is_last;
  });
  put_back(draft, group, blamed);
  return true;
}

bool shared_expert_for_first(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  const auto shared = std::find_if(draft.bindings.begin(), draft.bindings.end(), [&](const Bound& bound) {
    if (bound.kind != BindingKind::primary || bound.native_view.rank() != 2) {
      return false;
    }
    const std::string& key = draft.stored_of(bound).key;
    return (key.find(".shared_expert") != std::string::npos || key.find(".share_expert") != std::string::npos ||
            key.find(".shared_mlp") != std::string::npos) &&
           ends_with_any(key, {"down_proj.weight", "w2.weight"});
  });
  if (shared == draft.bindings.end()) {
    return false;
  }
  const StoredId shared_id = shared->stored;
  ExpertGroup group;
  if (!take_experts(draft, "down_projs", group)) {
    return false;
  }
  const std::size_t first_piece = draft.bindings.size();
  put_back(draft, group, blamed);
  const auto again = std::find_if(draft.bindings.begin(), draft.bindings.end(),
                                  [&](const Bound& bound) { return bound.stored == shared_id; });
  return exchange(draft, &*again, &draft.bindings[first_piece], blamed);
}

}  // namespace weightproof::suites::mapping
