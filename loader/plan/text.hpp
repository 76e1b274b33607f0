// SPDX-License-Identifier: Apache-2.0
// A plan for people and for programs. Both are stable: equal plans give equal bytes.
#pragma once

#include <cstddef>
#include <string>

#include "loader/core/config.hpp"
#include "loader/plan/plan.hpp"

namespace weightproof::plan {

struct TextOptions {
  std::size_t tensors_max = 40;  ///< tensors and requests listed; the rest is counted
};

/// How it reads: "in 3 reads", "tensor by tensor", or both.
std::string reads_text(const Plan& plan);

/// Like EXPLAIN: summary, routes weighed, proof, memory, traffic, then one block per tensor.
std::string to_text(const Plan& plan, const TextOptions& options = {});

/// The same facts as a tree of plain values (ConfigValue::dump() is its JSON). Lists are cut to `tensors_max` with
/// `total` and `shown`. Integers are numbers.
ConfigValue to_value(const Plan& plan, const TextOptions& options = {});

}  // namespace weightproof::plan
