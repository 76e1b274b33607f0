// SPDX-License-Identifier: Apache-2.0
#include "suites/ranks/placements.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "loader/core/tiling.hpp"
#include "loader/plan/clip.hpp"

namespace weightproof::suites {
namespace {

/// Start and length of a box, axis by axis.
using Words = std::vector<std::uint64_t>;

Words words_of(const Box& box) {
  Words words(box.start.begin(), box.start.end());
  words.insert(words.end(), box.length.begin(), box.length.end());
  return words;
}

bool is_inside(const Box& box, const Shape& shape) {
  if (box.start.rank() != shape.rank() || box.length.rank() != shape.rank()) {
    return false;
  }
  for (unsigned axis = 0; axis < shape.rank(); ++axis) {
    if (box.start[axis] > shape[axis] || box.length[axis] > shape[axis] - box.start[axis]) {
      return false;
    }
  }
  return true;
}

/// Axes along which a layout of ranks may cut the tensor.
std::set<unsigned> cut_axes(const ParallelRule& rule, const Topology& topology) {
  const bool is_expert = rule.kind == ParallelKind::experts || rule.kind == ParallelKind::expert;
  if (is_expert && topology.ep > 1) {
    return {0, 1};  // a mesh of their own
  }
  std::set<unsigned> axes;
  if (topology.fsdp > 1 && !rule.is_buffer) {
    axes.insert(0);
  }
  if (!is_expert && rule.kind != ParallelKind::replicate && topology.tp > 1) {
    axes.insert(rule.axis);
  }
  return axes;
}

/// Why the part cannot be one; empty where it can.
std::string fault_of(const LocalTensor& local, const Shape& shape, const std::set<unsigned>& axes) {
  for (const LocalPiece& piece : local.pieces) {
    if (!is_inside(piece.global, shape)) {
      return "holds " + to_string(piece.global.length) + " from " + to_string(piece.global.start) + ", outside of " +
             to_string(shape);
    }
    if (!is_inside(piece.local, local.shape) || piece.local.length != piece.global.length) {
      return "puts a part of " + to_string(piece.global.length) + " outside of its own tensor of " +
             to_string(local.shape);
    }
    for (unsigned axis = 0; axis < shape.rank(); ++axis) {
      if (piece.global.length[axis] != shape[axis] && axes.count(axis) == 0) {
        return "cuts axis " + std::to_string(axis) + " of " + to_string(shape) + ", along which it is not divided";
      }
    }
  }
  return {};
}

/// On how many ranks each element is to be, by its place along one axis.
struct Due {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t copies = 0;
};
struct Dues {
  unsigned axis = 0;
  std::vector<Due> rows;
};

Dues dues_of(const NativeTensor& tensor, const ParallelRule& rule, const Shape& shape, const Topology& topology) {
  const bool is_on_both = tensor.layer == k_no_layer && rule.stage == StageRule::both && topology.pp > 1;
  const std::uint64_t stages = is_on_both ? 2 : 1;
  std::uint64_t copies = topology.world() / topology.pp;
  const bool is_expert = rule.kind == ParallelKind::experts || rule.kind == ParallelKind::expert;
  if (is_expert && topology.ep > 1) {
    copies = 1;  // their mesh has all ranks of a stage
  } else if (topology.fsdp > 1 && !rule.is_buffer && shape.rank() != 0) {
    copies /= topology.fsdp;
  }
  Dues dues;
  if (rule.kind == ParallelKind::components) {
    dues.axis = rule.axis;
    std::uint64_t at = 0;
    for (std::size_t c = 0; c < rule.component_count; ++c) {
      const FusedComponent& component = rule.components[c];
      const std::uint64_t sharers = component.units < topology.tp ? topology.tp / component.units : 1;
      const std::uint64_t end = at + component.units * component.unit;
      dues.rows.push_back({at, end, stages * (copies / topology.tp * sharers)});
      at = end;
    }
    return dues;
  }
  if (rule.kind == ParallelKind::chunks) {
    copies /= topology.tp;
  }
  dues.rows.push_back({0, shape.rank() == 0 ? 1 : shape[0], stages * copies});
  return dues;
}

/// Who holds a part.
struct Holders {
  std::uint32_t first = 0;
  std::uint32_t second = 0;  ///< equal to the first where there is one
  std::uint64_t count = 0;
};

using Parts = std::map<Words, Holders>;

struct Excess {
  Coordinate at;
  std::uint64_t copies = 0;  ///< 0: the parts are too many to be counted
  std::uint64_t due = 0;
  std::uint32_t first = 0;  ///< two of the ranks that hold it
  std::uint32_t second = 0;
};

constexpr std::uint64_t k_cells_max = 1U << 22U;

/// The tensor cut wherever some part begins or ends: in each cell one number of ranks. The first cell, in row-major
/// order, that more ranks hold than should; nothing where there is none.
std::optional<Excess> held_too_often(const Shape& shape, const Parts& parts, const Dues& dues) {
  const unsigned rank = shape.rank();
  std::vector<std::vector<std::uint64_t>> cuts(rank);
  std::vector<std::uint64_t> sides(rank);  // cells and one more
  std::uint64_t cells = 1;
  for (unsigned axis = 0; axis < rank; ++axis) {
    std::set<std::uint64_t> at = {0, shape[axis]};
    for (const Due& due : dues.rows) {
      if (axis == dues.axis) {
        at.insert({std::min(due.begin, shape[axis]), std::min(due.end, shape[axis])});
      }
    }
    for (const auto& [words, holders] : parts) {
      at.insert({words[axis], words[axis] + words[rank + axis]});
    }
    cuts[axis].assign(at.begin(), at.end());
    sides[axis] = cuts[axis].size();
    cells *= sides[axis];
    if (sides[axis] < 2) {
      return std::nullopt;  // no element
    }
    if (cells > k_cells_max) {
      return Excess{};
    }
  }
  // Differences along every axis, which are then summed up.
  std::vector<std::int64_t> held(static_cast<std::size_t>(cells), 0);
  for (const auto& [words, holders] : parts) {
    for (std::uint64_t corner = 0; corner < (std::uint64_t{1} << rank); ++corner) {
      std::uint64_t cell = 0;
      std::int64_t count = static_cast<std::int64_t>(holders.count);
      for (unsigned axis = 0; axis < rank; ++axis) {
        const bool is_end = ((corner >> axis) & 1U) != 0;
        const std::uint64_t place = words[axis] + (is_end ? words[rank + axis] : 0);
        const auto found = std::lower_bound(cuts[axis].begin(), cuts[axis].end(), place);
        cell = cell * sides[axis] + static_cast<std::uint64_t>(found - cuts[axis].begin());
        count = is_end ? -count : count;
      }
      held[cell] += count;
    }
  }
  std::uint64_t stride = 1;
  for (unsigned axis = rank; axis-- > 0; stride *= sides[axis]) {
    for (std::uint64_t cell = 0; cell < cells; ++cell) {
      if (cell / stride % sides[axis] != 0) {
        held[cell] += held[cell - stride];
      }
    }
  }
  for (std::uint64_t cell = 0; cell < cells; ++cell) {
    Excess found;
    found.copies = static_cast<std::uint64_t>(held[cell]);
    std::uint64_t left = cell;
    found.at = shape;
    bool is_inside_shape = true;
    for (unsigned axis = rank; axis-- > 0; left /= sides[axis]) {
      found.at[axis] = cuts[axis][left % sides[axis]];
      is_inside_shape = is_inside_shape && found.at[axis] < shape[axis];
    }
    const std::uint64_t along = rank == 0 ? 0 : found.at[dues.axis];
    const auto due = std::find_if(dues.rows.begin(), dues.rows.end(),
                                  [along](const Due& row) { return along >= row.begin && along < row.end; });
    if (!is_inside_shape || due == dues.rows.end() || found.copies <= due->copies) {
      continue;
    }
    found.due = due->copies;
    std::set<std::uint32_t> ranks;
    for (const auto& [words, holders] : parts) {
      bool has_it = true;
      for (unsigned axis = 0; axis < rank; ++axis) {
        has_it = has_it && words[axis] <= found.at[axis] && found.at[axis] - words[axis] < words[rank + axis];
      }
      if (has_it) {
        ranks.insert({holders.first, holders.second});
      }
    }
    found.first = *ranks.begin();
    found.second = *std::next(ranks.begin(), ranks.size() > 1 ? 1 : 0);
    return found;
  }
  return std::nullopt;
}

/// Whether ranks of a topology hold a whole matrix each although they divide others.
bool is_replicated(const ParallelRule& rule, const Shape& shape, const Topology& topology) {
  const bool is_expert = rule.kind == ParallelKind::experts || rule.kind == ParallelKind::expert;
  return shape.rank() > 1 && ((topology.tp > 1 && !is_expert && rule.kind == ParallelKind::replicate) ||
                              (topology.fsdp > 1 && rule.is_buffer));
}

}  // namespace

PlacementFindings judge_placements(const Schema& schema, const plan::RankLayout& layout,
                                   const std::function<void(const Schema&, plan::RankPlacement&)>& change) {
  const auto natives = schema.native_tensors();
  PlacementFindings out;
  std::vector<Parts> parts(natives.size());
  std::vector<bool> is_blamed(natives.size(), false);
  for (std::uint32_t rank = 0; rank < layout.topology().world(); ++rank) {
    plan::RankPlacement placement = layout.of(rank);
    if (change) {
      change(schema, placement);
    }
    for (NativeId id = 0; id < natives.size(); ++id) {
      const LocalTensor& local = placement.locals[id];
      const Shape& shape = schema.shape_of(natives[id]);
      if (plan::is_absent(local, shape)) {
        continue;
      }
      out.parts += local.pieces.size();
      std::string fault = fault_of(local, shape, cut_axes(schema.parallel_rule(natives[id]), layout.topology()));
      if (!fault.empty() && !is_blamed[id]) {
        is_blamed[id] = true;
        out.bounds.push_back(
            {std::string(natives[id].key), rank, "rank " + std::to_string(rank) + " " + std::move(fault)});
      }
      for (const LocalPiece& piece : local.pieces) {
        if (is_inside(piece.global, shape)) {
          Holders& holders = parts[id].emplace(words_of(piece.global), Holders{rank, rank, 0}).first->second;
          holders.second = holders.count == 1 ? rank : holders.second;
          ++holders.count;
        }
      }
    }
  }
  // Layers repeat the question.
  std::map<std::pair<Words, std::vector<Words>>, TilingVerdict> known;
  std::map<std::pair<Words, std::vector<Words>>, std::optional<Excess>> known_excess;
  for (NativeId id = 0; id < natives.size(); ++id) {
    const Shape& shape = schema.shape_of(natives[id]);
    std::vector<Words> boxes;
    std::vector<std::uint32_t> ranks;
    for (const auto& [words, holders] : parts[id]) {
      boxes.push_back(words);
      ranks.push_back(holders.first);
    }
    const auto [at, is_new] = known.emplace(std::pair(Words(shape.begin(), shape.end()), boxes), TilingVerdict{});
    if (is_new) {
      std::vector<View> views;
      for (const Words& words : boxes) {
        View view = View::whole(shape);
        for (unsigned axis = 0; axis < shape.rank(); ++axis) {
          view = view.narrow(axis, words[axis], words[shape.rank() + axis]);
        }
        views.push_back(view);
      }
      at->second = prove_tiling(shape, views);
    }
    const ParallelRule& rule = schema.parallel_rule(natives[id]);
    if (is_replicated(rule, shape, layout.topology())) {
      out.replicated.emplace_back(natives[id].key);
    }
    const Dues dues = dues_of(natives[id], rule, shape, layout.topology());
    Words asked(shape.begin(), shape.end());
    asked.push_back(dues.axis);
    for (const Due& due : dues.rows) {
      asked.insert(asked.end(), {due.begin, due.end, due.copies});
    }
    std::vector<Words> counted_boxes = boxes;
    auto counted = counted_boxes.begin();
    for (const auto& [words, holders] : parts[id]) {
      counted->insert(counted->end(), {holders.count, holders.first, holders.second});
      ++counted;
    }
    const auto [excess, is_new_question] =
        known_excess.emplace(std::pair(std::move(asked), std::move(counted_boxes)), std::nullopt);
    if (is_new_question) {
      excess->second = held_too_often(shape, parts[id], dues);
    }
    const TilingVerdict& verdict = at->second;
    const std::string where = to_string(verdict.coordinate);
    if (verdict.tiling == Tiling::hole) {
      out.holes.push_back({std::string(natives[id].key), 0, "element " + where + " is on no rank"});
    } else if (verdict.tiling == Tiling::overlap) {
      const std::uint32_t first = ranks[verdict.first_view];
      const std::uint32_t second = ranks[verdict.second_view];
      out.overlaps.push_back({std::string(natives[id].key), second,
                              "element " + where + " is in different parts, of rank " + std::to_string(first) +
                                  " and of rank " + std::to_string(second)});
    } else if (verdict.tiling == Tiling::unprovable) {
      out.holes.push_back({std::string(natives[id].key), 0, "its parts cannot be judged: " + verdict.reason});
    }
    if (excess->second && excess->second->copies == 0) {
      out.holes.push_back(
          {std::string(natives[id].key), 0, "its parts cannot be judged: they are cut in too many ways"});
    } else if (verdict.tiling != Tiling::overlap && excess->second) {
      const Excess& found = *excess->second;
      out.overlaps.push_back({std::string(natives[id].key), found.second,
                              "element " + to_string(found.at) + " is on " + std::to_string(found.copies) +
                                  " ranks, rank " + std::to_string(found.first) + " and rank " +
                                  std::to_string(found.second) + " among them, and its rule puts it on " +
                                  std::to_string(found.due)});
    }
  }
  return out;
}

std::vector<bool> fused_tensors(const Schema& schema) {
  const auto natives = schema.native_tensors();
  std::vector<std::set<NativeId>> natives_of(schema.stored_tensors().size());
  std::vector<std::set<StoredId>> stored_of(natives.size());
  for (const Binding& binding : schema.bindings()) {
    if (binding.kind == BindingKind::primary) {
      natives_of[binding.stored].insert(binding.native);
      stored_of[binding.native].insert(binding.stored);
    }
  }
  std::vector<bool> is_fused(natives.size(), false);
  for (NativeId id = 0; id < natives.size(); ++id) {
    const ParallelRule& rule = schema.parallel_rule(natives[id]);
    if (rule.kind == ParallelKind::experts || rule.kind == ParallelKind::expert) {
      continue;
    }
    const bool is_split = std::any_of(stored_of[id].begin(), stored_of[id].end(),
                                      [&](StoredId stored) { return natives_of[stored].size() > 1; });
    // Groups of heads stand in one component: then the name tells.
    const bool is_grouped = natives[id].key.find("qkv") != std::string_view::npos;
    is_fused[id] = rule.component_count > 1 || stored_of[id].size() > 1 || is_split || is_grouped;
  }
  return is_fused;
}

}  // namespace weightproof::suites
