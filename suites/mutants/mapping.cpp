// SPDX-License-Identifier: Apache-2.0
// Families that map wrongly: every operator on every family and form in which it moves an element.
#include <algorithm>
#include <set>

#include "suites/mutants/mapping_operators.hpp"
#include "suites/mutants/mutant.hpp"
#include "suites/mutants/norm_offset.hpp"
#include "suites/mutants/planned_family.hpp"

namespace weightproof::suites {
namespace {

// The config's own count of experts, raised so that their numbers have two digits: only then text has another order.
std::string with_eleven_experts(const ConfigValue& config) {
  for (const std::string& level :
       {std::string(), std::string("text_config"), std::string("thinker_config/text_config")}) {
    for (const char* name : {"num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"}) {
      std::string dotted = level.empty() ? std::string(name) : level + "." + name;
      std::string slashed = level.empty() ? std::string(name) : level + "/" + name;
      std::replace(dotted.begin(), dotted.end(), '/', '.');
      if (config.find(dotted) != nullptr) {
        return "{\"" + slashed + "\": 11}";
      }
    }
  }
  return {};
}

// The plain variant, the square one, and one of every stored form; what has biases or a tie of its own for these alone.
bool takes_part(const Variant& variant, std::set<std::string>& forms) {
  const bool is_new_form = forms.insert(variant.fixture + variant.form).second;
  return is_new_form || variant.preset == "tiny" || variant.preset == "tiny_square";
}
bool takes_part_for(const Variant& variant, std::string_view operation) {
  const std::string_view preset = variant.preset;
  return (operation == "bias_not_split" && preset.find("bias") != std::string_view::npos) ||
         (operation == "tie_lost" && preset.ends_with("_tied")) ||
         (operation == "shared_for_expert" && preset == "tiny_mtp");
}

// What shapes alone cannot show where they are equal.
bool hides_in_squares(std::string_view operation) {
  return operation.starts_with("transpose") || operation.starts_with("swap_") || operation == "interleave" ||
         operation == "kv_grouping" || operation == "off_by_one";
}

Mutant mutant_of(const Variant& variant, std::string_view operation, std::string_view fault) {
  Mutant mutant;
  mutant.id = "mapping." + std::string(operation) + "." + variant.name();
  mutant.kind = "mapping";
  mutant.fault = fault;
  mutant.fixture = variant.options();
  mutant.family = variant.asked_family();
  return mutant;
}

void add_operator(const Variant& variant, const PlannedFamily& planned, const MappingOperator& operation,
                  std::vector<Mutant>& out) {
  Mutant mutant = mutant_of(variant, operation.name, operation.fault);
  SchemaDraft draft(*planned.schema);
  if (!operation.apply(draft, planned.config, mutant.tensors)) {
    return;
  }
  if (moves_the_same(*planned.schema, draft.build())) {
    mutant.equivalent = "no element moves: there is one of what is to change places";
  }
  mutant.perturbation.schema = [&operation, config = planned.config](const Schema& schema) {
    SchemaDraft changed(schema);
    std::vector<std::string> blamed;
    operation.apply(changed, config, blamed);
    return changed.build();
  };
  out.push_back(std::move(mutant));
}

// The first norm of a layer that is stored as it is used.
void add_norm_offset(const Variant& variant, const PlannedFamily& planned, std::vector<Mutant>& out) {
  const Schema& schema = *planned.schema;
  for (const Binding& binding : schema.bindings()) {
    if (binding.kind != BindingKind::primary) {
      continue;
    }
    const LogicalTensor& stored = schema.stored_tensors()[binding.stored];
    if (stored.layer == k_no_layer || stored.key.find("norm") == std::string_view::npos ||
        !stored.key.ends_with(".weight") || schema.shape_of(stored).rank() != 1) {
      continue;
    }
    Mutant mutant = mutant_of(variant, "norm_offset", "one is added to a norm weight, as another convention wants it");
    mutant.tensors = {std::string(stored.key), std::string(schema.native_tensors()[binding.native].key)};
    mutant.perturbation.load_calls = [key = std::string(stored.key)](storage::FileCalls& inner) {
      return add_one_to(key, inner);
    };
    out.push_back(std::move(mutant));
    return;
  }
}

}  // namespace

std::vector<Mutant> mapping_mutants() {
  std::vector<Mutant> out;
  std::set<std::string> forms;
  for (const Variant& variant : variants_of("tiny")) {
    const bool is_full = takes_part(variant, forms);
    const bool is_partial = std::any_of(mapping_operators().begin(), mapping_operators().end(),
                                        [&](const auto& row) { return takes_part_for(variant, row.name); });
    if (!is_full && !is_partial) {
      continue;
    }
    const PlannedFamily planned = plan_family(variant);
    for (const MappingOperator& operation : mapping_operators()) {
      const bool is_asked = variant.preset != "tiny_square" || hides_in_squares(operation.name);
      if ((is_full && is_asked) || takes_part_for(variant, operation.name)) {
        add_operator(variant, planned, operation, out);
      }
    }
    if (!is_full) {
      continue;
    }
    add_norm_offset(variant, planned, out);
    Variant eleven = variant;
    eleven.config_changes = with_eleven_experts(planned.config);
    if (eleven.config_changes.empty() || variant.preset != "tiny") {
      continue;
    }
    const PlannedFamily more = plan_family(eleven);
    add_operator(eleven, more, *find_mapping_operator("text_order"), out);
  }
  return out;
}

}  // namespace weightproof::suites
