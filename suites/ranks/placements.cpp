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

}  // namespace

PlacementFindings judge_placements(const Schema& schema, const plan::RankLayout& layout,
                                   const std::function<void(const Schema&, plan::RankPlacement&)>& change) {
  const auto natives = schema.native_tensors();
  PlacementFindings out;
  std::vector<std::map<Words, std::uint32_t>> parts(natives.size());  // with the first rank that holds each
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
          parts[id].emplace(words_of(piece.global), rank);
        }
      }
    }
  }
  // Layers repeat the question.
  std::map<std::pair<Words, std::vector<Words>>, TilingVerdict> known;
  for (NativeId id = 0; id < natives.size(); ++id) {
    const Shape& shape = schema.shape_of(natives[id]);
    std::vector<Words> boxes;
    std::vector<std::uint32_t> ranks;
    for (const auto& [words, rank] : parts[id]) {
      boxes.push_back(words);
      ranks.push_back(rank);
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
