// SPDX-License-Identifier: Apache-2.0
#include "suites/ranks/oracle.hpp"

#include <numeric>

namespace weightproof::suites {
namespace {

using Indices = std::vector<std::uint64_t>;

// Deals a list out in equal hands but for the last ones, and returns one hand.
Indices hand_of(const Indices& all, std::uint32_t hands, std::uint32_t wanted) {
  std::uint64_t size = 0;
  while (size * hands < all.size()) {
    ++size;
  }
  Indices hand;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (size != 0 && i / size == wanted) {
      hand.push_back(all[i]);
    }
  }
  return hand;
}

// Whether a unit of a component belongs to a rank: units are dealt to ranks, or ranks to units where there are fewer.
bool owns_unit(const FusedComponent& component, std::uint64_t unit, std::uint32_t ranks, std::uint32_t rank) {
  if (component.units >= ranks) {
    const std::uint64_t each = component.units / ranks;
    return unit / each == rank;
  }
  const std::uint64_t sharers = ranks / component.units;
  return rank / sharers == unit;
}

Indices rows_of_components(const ParallelRule& rule, std::uint32_t ranks, std::uint32_t rank) {
  Indices rows;
  std::uint64_t at = 0;
  for (std::size_t c = 0; c < rule.component_count; ++c) {
    for (std::uint64_t unit = 0; unit < rule.components[c].units; ++unit) {
      for (std::uint64_t row = 0; row < rule.components[c].unit; ++row, ++at) {
        if (owns_unit(rule.components[c], unit, ranks, rank)) {
          rows.push_back(at);
        }
      }
    }
  }
  return rows;
}

}  // namespace

std::vector<std::uint32_t> dealt_stages(std::uint64_t layers, std::uint32_t stages) {
  Indices all(layers);
  std::iota(all.begin(), all.end(), std::uint64_t{0});
  std::vector<std::uint32_t> stage_of(layers, 0);
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    for (const std::uint64_t layer : hand_of(all, stages, stage)) {
      stage_of[layer] = stage;
    }
  }
  return stage_of;
}

HeldIndices held_indices(const Schema& schema, const NativeTensor& tensor, const Topology& topology,
                         const std::vector<std::uint32_t>& stages, std::uint32_t rank) {
  // The rank's place on the grid pp, dp, fsdp, cp, tp, the last one running fastest.
  const std::uint32_t tp = rank % topology.tp;
  const std::uint32_t fsdp = rank / topology.tp / topology.cp % topology.fsdp;
  const std::uint32_t stage_size = topology.dp * topology.fsdp * topology.cp * topology.tp;
  const std::uint32_t pp = rank / stage_size;
  const std::uint32_t in_stage = rank % stage_size;

  const ParallelRule& rule = schema.parallel_rule(tensor);
  const Shape& shape = schema.shape_of(tensor);
  HeldIndices held;
  if (tensor.layer != k_no_layer) {
    held.is_held = stages[tensor.layer] == pp;
  } else {
    held.is_held =
        (pp == 0 && rule.stage != StageRule::last) || (pp + 1 == topology.pp && rule.stage != StageRule::first);
  }
  if (!held.is_held) {
    return held;
  }
  for (const std::uint64_t extent : shape) {
    Indices all(extent);
    std::iota(all.begin(), all.end(), std::uint64_t{0});
    held.axes.push_back(std::move(all));
  }
  const bool is_routed = rule.kind == ParallelKind::experts || rule.kind == ParallelKind::expert;
  if (is_routed && topology.ep > 1) {
    const std::uint32_t ep = in_stage % topology.ep;
    const std::uint32_t ep_shard = in_stage / topology.ep;
    if (rule.kind == ParallelKind::experts) {
      held.axes[0] = hand_of(held.axes[0], topology.ep, ep);
    } else if (tensor.expert / (rule.experts / topology.ep) != ep) {
      return {};
    }
    Indices& beside = held.axes[shape.rank() > 1 ? 1 : 0];
    beside = hand_of(beside, stage_size / topology.ep, ep_shard);
    return held;
  }
  if (rule.kind == ParallelKind::components) {
    held.axes[rule.axis] = rows_of_components(rule, topology.tp, tp);
  } else if (rule.kind == ParallelKind::chunks) {
    held.axes[rule.axis] = hand_of(held.axes[rule.axis], topology.tp, tp);
  }
  if (!rule.is_buffer && !held.axes.empty()) {
    held.axes[0] = hand_of(held.axes[0], topology.fsdp, fsdp);
  }
  return held;
}

}  // namespace weightproof::suites
