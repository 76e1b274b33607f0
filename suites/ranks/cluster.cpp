// SPDX-License-Identifier: Apache-2.0
#include "suites/ranks/cluster.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <unordered_map>

#include "loader/core/error.hpp"
#include "loader/core/hash.hpp"
#include "loader/plan/clip.hpp"
#include "loader/plan/reshard.hpp"
#include "suites/ranks/oracle.hpp"
#include "suites/ranks/turns.hpp"

namespace weightproof::suites {
namespace {

std::vector<std::uint32_t> stages_of(const plan::RankLayout& layout, bool are_stated) {
  if (!are_stated) {
    return dealt_stages(layout.layers(), layout.topology().pp);
  }
  std::vector<std::uint32_t> stages(layout.layers(), 0);
  for (std::uint32_t stage = 0; stage < layout.stages().size(); ++stage) {
    for (std::uint64_t layer = layout.stages()[stage].begin; layer < layout.stages()[stage].end; ++layer) {
      stages[layer] = stage;
    }
  }
  return stages;
}

std::string text_of(const Coordinate& at) { return to_string(at); }

void append(std::vector<std::uint64_t>& words, const Extents& extents) {
  words.push_back(extents.rank());
  words.insert(words.end(), extents.begin(), extents.end());
}

std::uint64_t size_of(const plan::PlannedTensor& tensor) { return std::max(1U, bits_of(tensor.dtype) / 8); }

}  // namespace

Cluster::Cluster(const plan::PlanBasis& basis, const storage::Checkpoint& checkpoint, const WholeState& whole,
                 ClusterOptions options)
    : basis_(basis),
      checkpoint_(checkpoint),
      whole_(whole),
      options_(std::move(options)),
      layout_(basis.schema(), options_.topology, options_.stages),
      stages_(stages_of(layout_, !options_.stages.empty())),
      seen_(whole.plan->tensors().size()) {
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    seen_[i].assign(*element_count(whole.plan->shape_of(whole.plan->tensors()[i])), false);
  }
}

RankState Cluster::run_rank(std::uint32_t rank, storage::FileCalls& calls) const {
  RankState state;
  state.placement = layout_.of(rank);
  if (options_.placement) {
    options_.placement(basis_.schema(), state.placement);
  }
  state.plan = std::make_unique<plan::Plan>(basis_.plan(state.placement));
  const storage::Checkpoint* checkpoint = &checkpoint_;
  const exec::SourceFiles sources = exec::SourceFiles::of(std::span(&checkpoint, 1), calls);
  exec::LoadOptions load;
  load.threads = 1;
  state.attempt = exec::load(*state.plan, sources, load);
  if (state.attempt->error()) {
    throw Error(*state.attempt->error()).on_rank(static_cast<int>(rank));
  }
  return state;
}

std::vector<RankState> Cluster::run_all() const {
  const std::uint32_t world = layout_.topology().world();
  std::vector<RankState> states(world);
  if (!options_.interleaving) {
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      states[rank] = run_rank(rank);
    }
    return states;
  }
  take_turns(world, *options_.interleaving,
             [&](std::uint32_t rank, storage::FileCalls& calls) { states[rank] = run_rank(rank, calls); });
  return states;
}

void Cluster::compare(std::uint32_t rank, const RankState& state, std::vector<RankFinding>& findings) {
  const Schema& schema = basis_.schema();
  const plan::Plan& whole = *whole_.plan;
  for (std::size_t w = 0; w < whole.tensors().size(); ++w) {
    const plan::PlannedTensor& all = whole.tensors()[w];
    const std::size_t mine = state.plan->find(all.key);
    const auto found = [&](std::string message) {
      findings.push_back({std::string(all.key), rank, "rank " + std::to_string(rank) + " " + std::move(message)});
    };
    const Shape& shape = whole.shape_of(all);
    HeldIndices held;
    if (all.id == k_no_id) {
      // What passes through is whole on the first stage.
      held.is_held = rank < layout_.topology().world() / layout_.topology().pp;
      for (const std::uint64_t extent : shape) {
        held.axes.emplace_back(extent);
        for (std::uint64_t i = 0; i < extent; ++i) {
          held.axes.back()[i] = i;
        }
      }
    } else {
      held = held_indices(schema, schema.native_tensors()[all.id], layout_.topology(), stages_, rank);
    }
    if (held.is_held != (mine != SIZE_MAX)) {
      found(held.is_held ? "lacks this tensor" : "holds this tensor, which is another's");
      continue;
    }
    if (!held.is_held) {
      continue;
    }
    const plan::PlannedTensor& local = state.plan->tensors()[mine];
    Shape wanted;
    for (const auto& axis : held.axes) {
      wanted.push_back(axis.size());
    }
    if (state.plan->shape_of(local) != wanted || local.dtype != all.dtype) {
      found("holds " + std::string(name_of(local.dtype)) + to_string(state.plan->shape_of(local)) + " instead of " +
            std::string(name_of(all.dtype)) + to_string(wanted));
      continue;
    }
    const std::uint64_t size = size_of(all);
    const std::span<const std::byte> ours = state.bytes(mine);
    const std::span<const std::byte> theirs = whole_.attempt->bytes(w);
    const Extents strides = contiguous_strides(shape);
    const std::uint64_t count = *element_count(wanted);
    // Runs along the last axis are compared at once.
    std::array<std::uint64_t, limits::rank_max> at{};
    const unsigned rank_of_tensor = wanted.rank();
    for (std::uint64_t i = 0; i < count;) {
      std::uint64_t global = 0;
      for (unsigned axis = 0; axis < rank_of_tensor; ++axis) {
        global += held.axes[axis][at[axis]] * strides[axis];
      }
      std::uint64_t run = 1;
      if (rank_of_tensor != 0) {
        const auto& last = held.axes[rank_of_tensor - 1];
        const std::uint64_t from = at[rank_of_tensor - 1];
        while (from + run < last.size() && last[from + run] == last[from] + run) {
          ++run;
        }
      }
      for (std::uint64_t e = 0; e < run; ++e) {
        seen_[w][global + e] = true;
      }
      const auto offset = static_cast<std::size_t>(i * size);
      if (std::memcmp(ours.data() + offset, theirs.data() + static_cast<std::size_t>(global * size),
                      static_cast<std::size_t>(run * size)) != 0) {
        found("differs from the single rank's at " + text_of(coordinate_of(shape, global)) + " of the whole");
        break;
      }
      i += run;
      for (unsigned axis = rank_of_tensor; axis-- > 0;) {
        at[axis] += axis + 1 == rank_of_tensor ? run : 1;
        if (at[axis] < wanted[axis]) {
          break;
        }
        at[axis] = 0;
      }
    }
  }
}

std::vector<RankFinding> Cluster::unseen() const {
  std::vector<RankFinding> findings;
  for (std::size_t w = 0; w < seen_.size(); ++w) {
    const auto missing = std::find(seen_[w].begin(), seen_[w].end(), false);
    if (missing == seen_[w].end()) {
      continue;
    }
    const plan::PlannedTensor& tensor = whole_.plan->tensors()[w];
    const Coordinate at =
        coordinate_of(whole_.plan->shape_of(tensor), static_cast<std::uint64_t>(missing - seen_[w].begin()));
    findings.push_back({std::string(tensor.key), 0, "element " + text_of(at) + " is on no rank"});
  }
  return findings;
}

Twins twins_of(std::span<const LocalTensor* const> parts) {
  Twins twins;
  twins.first.reserve(parts.size());
  std::unordered_multimap<std::uint64_t, std::size_t> known;  // different ones, by what they are hashed to
  std::vector<std::uint64_t> words;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    words.clear();
    append(words, parts[i]->shape);
    for (const LocalPiece& piece : parts[i]->pieces) {
      for (const Box* box : {&piece.global, &piece.local}) {
        append(words, box->start);
        append(words, box->length);
      }
    }
    const std::uint64_t hash = hash_words(words);
    auto [at, end] = known.equal_range(hash);
    for (; at != end; ++at) {
      ++twins.comparisons;
      const LocalTensor& other = *parts[at->second];
      if (other.shape == parts[i]->shape && other.pieces == parts[i]->pieces) {
        break;
      }
    }
    twins.first.push_back(at == end ? i : at->second);
    if (at == end) {
      known.emplace(hash, i);
    }
  }
  return twins;
}

std::vector<RankFinding> disagreements(const std::vector<RankState>& states) {
  std::vector<RankFinding> findings;
  for (std::size_t rank = 1; rank < states.size(); ++rank) {
    if (states[rank].attempt->outcome() != states[0].attempt->outcome()) {
      findings.push_back({"", static_cast<std::uint32_t>(rank), "ended otherwise than rank 0"});
    }
  }
  const std::size_t natives = states.empty() ? 0 : states[0].placement.locals.size();
  std::vector<const LocalTensor*> parts(states.size());
  for (NativeId id = 0; id < natives; ++id) {
    const std::string_view key = states[0].plan->schema().native_tensors()[id].key;
    std::transform(states.begin(), states.end(), parts.begin(),
                   [id](const RankState& state) { return &state.placement.locals[id]; });
    const Twins twins = twins_of(parts);
    for (std::size_t rank = 0; rank < states.size(); ++rank) {
      const std::size_t twin = twins.first[rank];
      if (twin == rank) {
        continue;
      }
      const plan::Plan& a = *states[twin].plan;
      const plan::Plan& b = *states[rank].plan;
      const std::size_t x = a.find(key);
      const std::size_t y = b.find(key);
      if (x == SIZE_MAX && y == SIZE_MAX) {
        continue;
      }
      const auto differ = [&] {
        if (x == SIZE_MAX || y == SIZE_MAX || a.tensors()[x].move_count != b.tensors()[y].move_count ||
            a.tensors()[x].dtype != b.tensors()[y].dtype) {
          return true;
        }
        for (std::uint32_t m = 0; m < a.tensors()[x].move_count; ++m) {
          const plan::Move& p = a.moves()[a.tensors()[x].first_move + m];
          const plan::Move& q = b.moves()[b.tensors()[y].first_move + m];
          if (p.row != q.row || p.action != q.action || !(a.source_view(p) == b.source_view(q)) ||
              !(a.target_view(p) == b.target_view(q))) {
            return true;
          }
        }
        return !std::ranges::equal(states[twin].bytes(x), states[rank].bytes(y));
      };
      if (differ()) {
        findings.push_back({std::string(key), static_cast<std::uint32_t>(rank),
                            "ranks " + std::to_string(twin) + " and " + std::to_string(rank) +
                                " hold the same part and filled it differently"});
        break;
      }
    }
  }
  return findings;
}

std::vector<RankFinding> reshard(const std::vector<RankState>& from, const std::vector<RankState>& to) {
  std::vector<RankFinding> findings;
  if (from.empty() || to.empty()) {
    return findings;
  }
  const Schema& schema = from.front().plan->schema();
  for (NativeId id = 0; id < schema.native_tensors().size(); ++id) {
    const std::string_view key = schema.native_tensors()[id].key;
    // Each different chunk once, with a rank that holds it.
    std::vector<Box> boxes;
    std::vector<std::pair<std::size_t, Box>> holders;  // rank, where the chunk lies in its tensor
    std::set<std::vector<std::uint64_t>> known;
    std::vector<std::uint64_t> words;
    for (std::size_t rank = 0; rank < from.size(); ++rank) {
      if (from[rank].plan->find(key) == SIZE_MAX) {
        continue;
      }
      for (const LocalPiece& piece : from[rank].placement.locals[id].pieces) {
        words.clear();
        append(words, piece.global.start);
        append(words, piece.global.length);
        if (known.insert(words).second) {
          boxes.push_back(piece.global);
          holders.emplace_back(rank, piece.local);
        }
      }
    }
    const plan::StoredChunks chunks(boxes);
    for (std::size_t rank = 0; rank < to.size(); ++rank) {
      const std::size_t at = to[rank].plan->find(key);
      if (at == SIZE_MAX) {
        continue;
      }
      const plan::PlannedTensor& tensor = to[rank].plan->tensors()[at];
      const std::uint64_t size = size_of(tensor);
      std::vector<std::byte> put(tensor.bytes);
      try {
        for (const LocalPiece& piece : to[rank].placement.locals[id].pieces) {
          for (const plan::ReadItem& item : chunks.items(piece.global, key)) {
            const auto& [holder, local] = holders[item.chunk];
            const std::size_t source = from[holder].plan->find(key);
            const std::span<const std::byte> bytes = from[holder].bytes(source);
            const Shape& source_shape = from[holder].plan->shape_of(from[holder].plan->tensors()[source]);
            const std::uint64_t count = *element_count(item.length);
            for (std::uint64_t i = 0; i < count; ++i) {
              Coordinate read = coordinate_of(item.length, i);
              Coordinate write = read;
              for (unsigned axis = 0; axis < read.rank(); ++axis) {
                read[axis] += local.start[axis] + item.storage_offset[axis];
                write[axis] += piece.local.start[axis] + item.target_offset[axis];
              }
              std::memcpy(put.data() + linear_index(to[rank].plan->shape_of(tensor), write) * size,
                          bytes.data() + linear_index(source_shape, read) * size, static_cast<std::size_t>(size));
            }
          }
        }
      } catch (const Error& error) {
        findings.push_back({std::string(key), static_cast<std::uint32_t>(rank), error.message()});
        continue;
      }
      if (!std::ranges::equal(put, to[rank].bytes(at))) {
        findings.push_back({std::string(key), static_cast<std::uint32_t>(rank),
                            "rank " + std::to_string(rank) + " put together from another layout differs"});
      }
    }
  }
  return findings;
}

}  // namespace weightproof::suites
