// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters in pull form: one element of a native factor, and the stored element it comes from.
#pragma once

#include <string>
#include <vector>

#include "reference/json.hpp"
#include "reference/mapping.hpp"

namespace weightproof::reference {

/// `base` is the mapping of the base model, whose shapes are known. `config`: adapter_config.json. `stamp`:
/// automodel_peft_config.json, or null. Keys are those of the adapter.
/// Throws Failure (CONFIG_INVALID, ADAPTER_LAYOUT_UNDECIDED, MISSING_KEYS, SHAPE_MISMATCH, TENSOR_NOT_MAPPED).
Mapping adapter_mapping(const Mapping& base, const Json& config, const Json* stamp, std::vector<Key> keys);

}  // namespace weightproof::reference
