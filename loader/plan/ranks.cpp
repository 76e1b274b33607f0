// SPDX-License-Identifier: Apache-2.0
#include "loader/plan/ranks.hpp"

#include <algorithm>
#include <map>

#include "loader/core/error.hpp"

namespace weightproof::plan {
namespace {

bool is_routed(ParallelKind kind) { return kind == ParallelKind::experts || kind == ParallelKind::expert; }

std::uint64_t expert_count(const Schema& schema, const NativeTensor& tensor) {
  const ParallelRule& rule = schema.parallel_rule(tensor);
  return rule.kind == ParallelKind::expert ? rule.experts : schema.shape_of(tensor)[0];
}

LocalTensor whole(const Shape& shape) { return {shape, {{Box::whole(shape), Box::whole(shape)}}}; }

/// The axis that ep_shard cuts: a parameter of one axis, or of one axis beside the experts, has no other.
std::uint8_t ep_shard_axis(const Shape& shape) { return shape.rank() < 2 ? 0 : 1; }

}  // namespace

std::uint64_t layer_count(const Schema& schema) {
  std::uint64_t layers = 0;
  for (const NativeTensor& tensor : schema.native_tensors()) {
    if (tensor.layer != k_no_layer) layers = std::max<std::uint64_t>(layers, std::uint64_t{tensor.layer} + 1);
  }
  return layers;
}

RankLayout::RankLayout(const Schema& schema, const Topology& topology, std::vector<Interval> stages)
    : schema_(schema),
      topology_(topology),
      stages_(std::move(stages)),
      layers_(layer_count(schema)),
      has_expert_mesh_(topology.ep > 1) {
  std::uint64_t experts = 0;
  for (const NativeTensor& tensor : schema.native_tensors()) {
    if (!is_routed(schema.parallel_rule(tensor).kind)) continue;
    // Layers may differ in experts; the first that cannot be shared out is the one to name.
    const std::uint64_t count = expert_count(schema, tensor);
    if (experts == 0 || (topology.ep != 0 && count % topology.ep != 0)) experts = count;
  }
  require_legal(topology, experts);
  if (topology.pp > std::max<std::uint64_t>(layers_, 1)) {
    throw Error(ErrorCode::chunk_not_representable, "every pipeline stage holds a layer",
                {.expected = "at most " + std::to_string(layers_) + " stages",
                 .actual = std::to_string(topology.pp),
                 .check = "shard.topology"});
  }
  if (stages_.empty()) {
    for (std::uint32_t stage = 0; stage < topology.pp; ++stage)
      stages_.push_back(stage_layers(layers_, topology.pp, stage));
  }
  if (stages_.size() != topology.pp) {
    throw Error(ErrorCode::usage,
                std::to_string(stages_.size()) + (stages_.size() == 1 ? " stage is" : " stages are") +
                    " stated for pp=" + std::to_string(topology.pp),
                {.expected = std::to_string(topology.pp) + " stages",
                 .actual = std::to_string(stages_.size()),
                 .hint = "state one range of layers for each of the pp ranks"});
  }
  if (const auto empty = std::find_if(stages_.begin(), stages_.end(), [](const Interval& s) { return s.size() == 0; });
      empty != stages_.end() && layers_ != 0) {
    throw Error(ErrorCode::chunk_not_representable, "every pipeline stage holds a layer",
                {.expected = "a number of stages whose chunks of " + std::to_string(layers_) + " layers are not empty",
                 .actual = std::to_string(topology.pp),
                 .check = "shard.topology"});
  }
  for (const NativeTensor& tensor : schema.native_tensors()) require_cut(tensor);
}

void RankLayout::require_cut(const NativeTensor& tensor) const {
  const ParallelRule& rule = schema_.parallel_rule(tensor);
  const Shape& shape = schema_.shape_of(tensor);
  try {
    if (rule.kind == ParallelKind::components && topology_.tp > 1) {
      place_fused(shape, rule.axis, std::span(rule.components).first(rule.component_count), topology_.tp, 0);
    }
    // Shards of an axis other than the first must be equal.
    if (is_routed(rule.kind) && has_expert_mesh_ && ep_shard_axis(shape) == 1 && shape[1] % ep_shards(topology_) != 0) {
      throw Error(ErrorCode::chunk_not_representable, "ep_shard divides the axis beside the experts",
                  {.expected = "a divisor of " + std::to_string(shape[1]),
                   .actual = std::to_string(ep_shards(topology_)) + " ep shards",
                   .check = "shard.topology"});
    }
  } catch (const Error& error) {
    ErrorFacts facts = error.facts();
    facts.keys.emplace_back(tensor.key);
    throw Error(error.code(), error.message() + ": '" + std::string(tensor.key) + "' of shape " + to_string(shape),
                std::move(facts));
  }
}

bool RankLayout::is_on_stage(const NativeTensor& tensor, std::uint32_t stage) const {
  if (tensor.layer != k_no_layer) return tensor.layer >= stages_[stage].begin && tensor.layer < stages_[stage].end;
  const StageRule rule = schema_.parallel_rule(tensor).stage;
  return (rule != StageRule::last && stage == 0) || (rule != StageRule::first && stage + 1 == topology_.pp);
}

LocalTensor RankLayout::local(const NativeTensor& tensor, const RankPosition& position) const {
  const ParallelRule& rule = schema_.parallel_rule(tensor);
  const Shape& shape = schema_.shape_of(tensor);
  if (is_routed(rule.kind) && has_expert_mesh_) {
    if (rule.kind == ParallelKind::experts) return place_experts(shape, topology_, position);
    const Interval own = expert_interval(rule.experts, topology_, position);
    if (tensor.expert < own.begin || tensor.expert >= own.end) return {};
    return shard_local(whole(shape), ep_shard_axis(shape), ep_shards(topology_), position.ep_shard);
  }
  LocalTensor held = whole(shape);
  if (rule.kind == ParallelKind::components && topology_.tp > 1) {
    held = place_fused(shape, rule.axis, std::span(rule.components).first(rule.component_count), topology_.tp,
                       position.tp);
  } else if (rule.kind == ParallelKind::chunks) {
    held = shard_local(held, rule.axis, topology_.tp, position.tp);
  }
  if (rule.is_buffer || shape.rank() == 0) return held;
  return shard_local(held, 0, topology_.fsdp, position.fsdp);
}

RankPlacement RankLayout::of(std::uint32_t rank) const {
  const RankPosition position = position_of(topology_, rank);
  RankPlacement placement;
  placement.rank = rank;
  placement.topology = topology_;
  placement.has_passthrough = position.pp == 0;
  placement.locals.resize(schema_.native_tensors().size());
  // Equal tensors of equal rules have equal parts: layers repeat them.
  std::map<std::tuple<LayoutId, std::uint32_t, std::uint32_t>, NativeId> known;
  for (NativeId id = 0; id < placement.locals.size(); ++id) {
    const NativeTensor& tensor = schema_.native_tensors()[id];
    if (!is_on_stage(tensor, position.pp)) continue;
    const auto [at, is_new] = known.emplace(std::tuple(tensor.shape, tensor.parallel, tensor.expert), id);
    placement.locals[id] = is_new ? local(tensor, position) : placement.locals[at->second];
  }
  return placement;
}

}  // namespace weightproof::plan
