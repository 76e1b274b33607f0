// SPDX-License-Identifier: Apache-2.0
// Ways to get a family's mapping wrong, one operator each, as people have really got them wrong.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/config.hpp"
#include "suites/mutants/schema_draft.hpp"

namespace weightproof::suites {

/// Says whether the operator has anything to change in this schema, changes it, and adds whom a check must blame.
struct MappingOperator {
  std::string_view name;
  std::string_view fault;  ///< one sentence
  bool (*apply)(SchemaDraft& draft, const ConfigValue& config, std::vector<std::string>& blamed);
};

std::span<const MappingOperator> mapping_operators();

/// Null where there is none of that name.
const MappingOperator* find_mapping_operator(std::string_view name);

/// True where the two schemas move every element the same way, under the same names and dtypes: nothing was changed.
bool moves_the_same(const Schema& a, const Schema& b);

}  // namespace weightproof::suites
