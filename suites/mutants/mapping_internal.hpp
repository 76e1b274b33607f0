// SPDX-License-Identifier: Apache-2.0
// What the operators of mapping mutants share, and those that concern routed experts.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/config.hpp"
#include "suites/mutants/schema_draft.hpp"

namespace weightproof::suites::mapping {

using Bound = SchemaDraft::Bound;
using Names = std::vector<std::string>;

bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> ends);
/// A part of a binding: the same box of both views.
Bound narrowed(Bound bound, unsigned axis, std::uint64_t start, std::uint64_t length);
/// Two bindings of the draft trade the destinations of what both have in common at their beginning. False where there
/// are no two.
bool exchange(SchemaDraft& draft, const Bound* first, const Bound* second, Names& blamed);

// Operators on the experts of the first layer that has some; see mapping_operators.hpp.
bool swap_expert_gate_up(SchemaDraft& draft, const ConfigValue& config, Names& blamed);
bool interleave(SchemaDraft& draft, const ConfigValue& config, Names& blamed);
bool transpose_gate_up(SchemaDraft& draft, const ConfigValue& config, Names& blamed);
bool transpose_down(SchemaDraft& draft, const ConfigValue& config, Names& blamed);
bool experts_in_text_order(SchemaDraft& draft, const ConfigValue& config, Names& blamed);
bool expert_off_by_one(SchemaDraft& draft, const ConfigValue& config, Names& blamed);
bool drop_last_expert(SchemaDraft& draft, const ConfigValue& config, Names& blamed);
bool shared_expert_for_first(SchemaDraft& draft, const ConfigValue& config, Names& blamed);

}  // namespace weightproof::suites::mapping
