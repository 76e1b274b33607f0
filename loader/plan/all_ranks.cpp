// SPDX-License-Identifier: Apache-2.0
#include "loader/plan/all_ranks.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "loader/core/hash.hpp"
#include "loader/core/tiling.hpp"

namespace weightproof::plan {
namespace {

using Words = std::vector<std::uint64_t>;

void append(Words& words, const Extents& extents) {
  words.push_back(extents.rank());
  words.insert(words.end(), extents.begin(), extents.end());
}

Words words_of(const Box& box) {
  Words words;
  append(words, box.start);
  append(words, box.length);
  return words;
}

/// One tensor's part, as a number.
std::uint64_t part_of(NativeId native, const LocalTensor& local, Words& words) {
  words.assign(1, native);
  append(words, local.shape);
  for (const LocalPiece& piece : local.pieces) {
    append(words, piece.global.start);
    append(words, piece.global.length);
    append(words, piece.local.start);
  }
  return hash_words(words);
}

/// From where its elements come, as a number.
std::uint64_t origin_of(const Plan& plan, const PlannedTensor& tensor, Words& words) {
  words.assign(1, tensor.move_count);
  for (const Move& move : plan.moves().subspan(tensor.first_move, tensor.move_count)) {
    words.insert(words.end(), {static_cast<std::uint64_t>(move.action), move.row, move.decode, move.source_offset,
                               move.target_offset, static_cast<std::uint64_t>(tensor.dtype)});
    for (const LayoutId id : {move.source_layout, move.target_layout}) {
      append(words, plan.layout(id).extents);
      append(words, plan.layout(id).strides);
    }
  }
  return hash_words(words);
}

/// Runs of consecutive elements that a view consists of.
std::uint64_t runs_of(const View& view) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> axes;  // stride, extent
  for (unsigned axis = 0; axis < view.rank(); ++axis) {
    if (view.extents()[axis] != 1) axes.emplace_back(view.strides()[axis], view.extents()[axis]);
  }
  std::sort(axes.begin(), axes.end());
  std::uint64_t length = 1, runs = 1;
  for (const auto& [stride, extent] : axes) {
    if (runs == 1 && stride == length) {
      length *= extent;
    } else {
      runs *= extent;
    }
  }
  return runs;
}

double ratio(std::uint64_t bytes, std::uint64_t of) {
  return of == 0 ? 1 : static_cast<double>(bytes) / static_cast<double>(of);
}

/// Tensors that every topology treats alike: one of them stands for all.
class Representatives {
 public:
  explicit Representatives(const PlanBasis& basis, const RankLayout& layout) : schema_(basis.schema()) {
    const std::span<const NativeTensor> natives = schema_.native_tensors();
    std::map<std::tuple<LayoutId, std::uint32_t, std::uint32_t, std::size_t>, NativeId> known;
    for (NativeId id = 0; id < natives.size(); ++id) {
      std::size_t stage = layout.stages().size();
      for (std::size_t s = 0; s < layout.stages().size() && natives[id].layer != k_no_layer; ++s) {
        if (natives[id].layer < layout.stages()[s].end) {
          stage = s;
          break;
        }
      }
      const auto [at, is_new] =
          known.emplace(std::tuple(natives[id].shape, natives[id].parallel, natives[id].expert, stage), id);
      if (is_new) ids_.push_back(id);
    }
    boxes_.resize(ids_.size());
  }

  void add(const RankPlacement& placement) {
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      for (const LocalPiece& piece : placement.locals[ids_[i]].pieces) boxes_[i].insert(words_of(piece.global));
    }
  }

  std::optional<ProofFault> fault() const {
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      const NativeTensor& tensor = schema_.native_tensors()[ids_[i]];
      const Shape& shape = schema_.shape_of(tensor);
      std::vector<View> views;
      for (const Words& words : boxes_[i]) {
        View view = View::whole(shape);
        const unsigned rank = shape.rank();
        for (unsigned axis = 0; axis < rank; ++axis) view = view.narrow(axis, words[1 + axis], words[2 + rank + axis]);
        views.push_back(view);
      }
      const TilingVerdict verdict = prove_tiling(shape, views);
      if (verdict.tiling == Tiling::exact) continue;
      ProofFault fault;
      fault.tiling = verdict.tiling;
      fault.key = tensor.key;
      fault.coordinate = verdict.coordinate;
      fault.reason = verdict.reason;
      return fault;
    }
    return std::nullopt;
  }

 private:
  const Schema& schema_;
  std::vector<NativeId> ids_;
  std::vector<std::set<Words>> boxes_;
};

}  // namespace

RankFigures figures_of(const Plan& plan) {
  RankFigures figures;
  figures.tensors = plan.tensors().size();
  figures.moves = plan.moves().size();
  figures.final_bytes = plan.memory().final_tensor_bytes;
  figures.read_bytes = plan.traffic().read_bytes;
  figures.compared_bytes = plan.traffic().compare_bytes;
  figures.requests = plan.traffic().requests;
  figures.beyond_final_bytes = plan.memory().beyond_final_bytes();
  figures.peak_bytes = plan.memory().peak_bytes();
  for (const PlannedTensor& tensor : plan.tensors()) figures.source_bytes += tensor.source_bytes;
  for (const Move& move : plan.moves()) {
    if (move.action != Action::fill && move.decode == k_no_id) figures.ranges += runs_of(plan.source_view(move));
  }
  return figures;
}

double RankFigures::amplification() const { return ratio(read_bytes, wanted_bytes()); }
double AllRanks::amplification() const { return ratio(read_bytes, wanted_bytes); }
double AllRanks::times_checkpoint() const { return ratio(read_bytes, checkpoint_bytes); }

double AllRanks::balance() const {
  std::uint64_t largest = 0;
  for (const RankFigures& rank : ranks) largest = std::max(largest, rank.source_bytes);
  return source_bytes == 0
             ? 1
             : static_cast<double>(largest) * static_cast<double>(ranks.size()) / static_cast<double>(source_bytes);
}

std::uint64_t AllRanks::peak_bytes() const {
  std::uint64_t largest = 0;
  for (const RankFigures& rank : ranks) largest = std::max(largest, rank.peak_bytes);
  return largest;
}

AllRanks plan_all_ranks(const PlanBasis& basis, const RankLayout& layout, std::uint32_t ranks_per_node,
                        const std::function<void(std::uint32_t, const Plan&)>& visit) {
  AllRanks all;
  {
    const Plan whole = basis.plan();
    for (const PlannedTensor& tensor : whole.tensors()) all.checkpoint_bytes += tensor.source_bytes;
  }
  Representatives representatives(basis, layout);
  std::unordered_map<std::uint64_t, std::uint64_t> origins;  // of every part that some rank holds
  std::unordered_set<std::uint64_t> on_node;
  Words words;
  for (std::uint32_t rank = 0; rank < layout.topology().world(); ++rank) {
    const RankPlacement placement = layout.of(rank);
    const Plan plan = basis.plan(placement);
    if (all.nodes.empty() || all.nodes.back().ranks == std::max(ranks_per_node, 1u)) {
      all.nodes.push_back({rank, 0, 0, 0});
      on_node.clear();
    }
    NodeFigures& node = all.nodes.back();
    RankFigures figures = figures_of(plan);
    figures.rank = rank;
    for (const PlannedTensor& tensor : plan.tensors()) {
      const bool is_passed = tensor.id == k_no_id;
      const std::uint64_t part =
          is_passed ? hash_text(tensor.key) : part_of(tensor.id, placement.locals[tensor.id], words);
      const std::uint64_t origin = origin_of(plan, tensor, words);
      const auto [at, is_new] = origins.emplace(part, origin);
      if (is_new) all.distinct_bytes += tensor.source_bytes;
      if (at->second != origin && all.diverged.empty()) all.diverged = tensor.key;
      if (on_node.insert(part).second) node.distinct_bytes += tensor.source_bytes;
    }
    representatives.add(placement);
    all.source_bytes += figures.source_bytes;
    all.wanted_bytes += figures.wanted_bytes();
    all.read_bytes += figures.read_bytes;
    node.read_bytes += figures.read_bytes;
    ++node.ranks;
    all.ranks.push_back(figures);
    if (visit) visit(rank, plan);
  }
  all.fault = representatives.fault();
  return all;
}

}  // namespace weightproof::plan
