// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "reports/report.hpp"

// Pieces of the full sample report.
namespace weightproof::reports::sample {

inline constexpr std::string_view k_gate_up = "model.layers.17.mlp.experts.gate_up_proj";
inline constexpr std::string_view k_down = "model.layers.22.mlp.experts.down_proj";
inline constexpr std::string_view k_outlier = "model.layers.30.self_attn.o_proj.weight";

CheckpointInfo checkpoint();
RunInfo run();
std::vector<Finding> findings();
PlanInfo plan();
MemoryInfo memory();
TimingInfo timing();
TensorTable tensors();
CompareInfo compare();
SelftestInfo selftest();
std::vector<SupportRecord> support();

}  // namespace weightproof::reports::sample
