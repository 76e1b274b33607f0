// SPDX-License-Identifier: Apache-2.0
// How family files say what tensor parallelism does with a module [out, in]. Units are what may not be taken apart:
// heads, groups of heads, single rows of an MLP.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "loader/core/placement.hpp"

namespace weightproof::adapters {

/// Components one after the other along an axis.
inline ParallelRule along(std::uint8_t axis, std::initializer_list<FusedComponent> components) {
  ParallelRule rule;
  rule.kind = ParallelKind::components;
  rule.axis = axis;
  for (const FusedComponent& component : components) rule.components[rule.component_count++] = component;
  return rule;
}
/// Outputs: rows of the weight, and its bias.
inline ParallelRule columns(std::uint64_t units, std::uint64_t unit = 1) { return along(0, {{units, unit, false}}); }
/// Outputs of key and value projections: more ranks than heads share them.
inline ParallelRule kv_columns(std::uint64_t heads, std::uint64_t head_dim) {
  return along(0, {{heads, head_dim, true}});
}
/// Inputs: columns of the weight; the bias stays whole.
inline ParallelRule rows(std::uint64_t units, std::uint64_t unit = 1) { return along(1, {{units, unit, false}}); }
/// Rows of a vocabulary, on the given stage.
inline ParallelRule vocabulary(StageRule stage) {
  ParallelRule rule;
  rule.kind = ParallelKind::chunks;
  rule.stage = stage;
  return rule;
}
/// Whole, on the first stage: towers before the decoder.
inline ParallelRule on_first_stage() {
  ParallelRule rule;
  rule.stage = StageRule::first;
  return rule;
}
/// No parameter: whole on data parallel shards as well.
inline ParallelRule buffer() {
  ParallelRule rule;
  rule.is_buffer = true;
  return rule;
}

}  // namespace weightproof::adapters
