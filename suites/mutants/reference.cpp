// SPDX-License-Identifier: Apache-2.0
// Mutants of the reference: every rule of a mapping stated wrongly, one native tensor at a time. The loader is right,
// so whatever compares the two has to complain, and about that tensor.
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "fixtures/schema.hpp"
#include "reference/failure.hpp"
#include "reference/model.hpp"
#include "suites/mutants/mutant.hpp"

namespace weightproof::suites {
namespace {

using reference::Coord;
using reference::NativeTensor;
using reference::Place;

/// A rule is asked at another coordinate than it should be.
template <typename Wrong>
void ask_elsewhere(NativeTensor& native, Wrong wrong) {
  native.run = 1;
  native.step = 1;
  native.pull = [right = native.pull, wrong, shape = native.shape](Coord at) {
    wrong(at, shape);
    return right(at);
  };
}

std::size_t last_wide_axis(const reference::Shape& shape) {
  std::size_t axis = shape.size();
  while (axis > 0 && shape[axis - 1] < 2) --axis;
  return axis;  // one beyond it; 0 where there is none
}

bool has_elements(const NativeTensor& native) { return !native.is_default && last_wide_axis(native.shape) != 0; }

struct Misstatement {
  std::string_view name;
  std::string_view fault;
  bool (*fits)(const NativeTensor&);
  void (*apply)(NativeTensor&);
};

constexpr std::array k_misstatements = {
    Misstatement{"neighbour", "takes every element from the place of the next one", &has_elements,
                 [](NativeTensor& native) {
                   ask_elsewhere(native, [axis = last_wide_axis(native.shape) - 1](Coord& at, const auto& shape) {
                     at[axis] = (at[axis] + 1) % shape[axis];
                   });
                 }},
    Misstatement{"next_outer", "is off by one along the outermost axis",
                 [](const NativeTensor& native) {
                   return has_elements(native) && native.shape.size() > 1 && native.shape[0] > 1;
                 },
                 [](NativeTensor& native) {
                   ask_elsewhere(native, [](Coord& at, const auto& shape) { at[0] = (at[0] + 1) % shape[0]; });
                 }},
    Misstatement{"transposed", "exchanges the two innermost axes",
                 [](const NativeTensor& native) {
                   const std::size_t rank = native.shape.size();
                   return has_elements(native) && rank > 1 && native.shape[rank - 1] > 1 && native.shape[rank - 2] > 1;
                 },
                 [](NativeTensor& native) {
                   ask_elsewhere(native, [](Coord& at, const auto& shape) {
                     const std::size_t rank = shape.size();
                     const std::uint64_t flat = at[rank - 2] * shape[rank - 1] + at[rank - 1];
                     at[rank - 2] = flat % shape[rank - 2];
                     at[rank - 1] = flat / shape[rank - 2];
                   });
                 }},
    Misstatement{"halves", "exchanges the halves of the innermost axis",
                 [](const NativeTensor& native) {
                   return has_elements(native) && native.shape.back() > 1 && native.shape.back() % 2 == 0;
                 },
                 [](NativeTensor& native) {
                   ask_elsewhere(native, [](Coord& at, const auto& shape) {
                     at[shape.size() - 1] = (at[shape.size() - 1] + shape.back() / 2) % shape.back();
                   });
                 }},
    Misstatement{"default", "takes another value for what is not stored",
                 [](const NativeTensor& native) { return native.is_default; },
                 [](NativeTensor& native) {
                   native.pull = [right = native.pull](const Coord& at) {
                     Place place = right(at);
                     place.value += 1;
                     return place;
                   };
                 }},
};

Mutant make_mutant(const fixtures::GenerateOptions& fixture, const NativeTensor& native, const std::string& what,
                   std::string_view fault, std::function<void(NativeTensor&)> apply) {
  Mutant mutant;
  mutant.id = "reference." + what + "." + fixture.family + "." + fixture.preset + "." + native.name;
  mutant.kind = "reference";
  mutant.fault = "the reference " + std::string(fault) + ", where " + native.rule;
  mutant.fixture = fixture;
  mutant.perturbation.reference = [name = native.name, apply = std::move(apply)](reference::ModelOptions& options) {
    options.mapping.misstate = [name, apply](NativeTensor& each) {
      if (each.name == name) apply(each);
    };
  };
  mutant.tensors = {native.name};
  mutant.family = fixture.family;
  mutant.checks = {"value.exact"};
  return mutant;
}

// Two keys of one shape out of which the tensor comes, exchanged.
std::optional<std::pair<int, int>> exchangeable(const reference::Mapping& mapping, const NativeTensor& native) {
  const auto shape = [&](int key) { return mapping.keys()[static_cast<std::size_t>(key)].shape; };
  for (std::size_t i = 0; i + 1 < native.keys.size(); ++i) {
    for (std::size_t j = i + 1; j < native.keys.size(); ++j) {
      if (shape(native.keys[i]) == shape(native.keys[j])) return std::pair(native.keys[i], native.keys[j]);
    }
  }
  return std::nullopt;
}

void add_family(const fixtures::GenerateOptions& fixture, std::set<std::string>& known_rules,
                std::vector<Mutant>& mutants) {
  const fixtures::GeneratedCheckpoint made = fixtures::plan_checkpoint(fixture);
  if (!made.config) return;
  std::vector<reference::Key> keys;
  for (const fixtures::GeneratedTensor& tensor : made.tensors) {
    keys.push_back({tensor.tensor.key, tensor.tensor.shape});
  }
  std::optional<reference::Mapping> mapping;
  try {
    mapping = reference::Mapping::build(fixture.family, reference::Config(*made.config), std::move(keys));
  } catch (const reference::Failure&) {
    return;  // stored in codes, whose shapes are not those of the weights: other fixtures stand in
  }
  if (!mapping->unexpected().empty()) return;
  std::set<std::string> rules;
  std::size_t turn = mutants.size();
  for (const NativeTensor& native : mapping->native_tensors()) {
    // Towers pass through unchanged: nobody asks the mapping about them.
    if (native.name.find("tower") != std::string::npos || native.name.find("visual") != std::string::npos) continue;
    if (native.alias_of >= 0 || (!has_elements(native) && !native.is_default)) continue;
    if (!rules.insert(native.rule).second) continue;
    const bool is_new = known_rules.insert(native.rule).second;
    std::vector<const Misstatement*> fitting;
    for (const Misstatement& each : k_misstatements) {
      if (each.fits(native)) fitting.push_back(&each);
    }
    // The first family with a rule meets all that can be wrong with it, later ones something each.
    for (std::size_t i = 0; i < fitting.size(); ++i) {
      if (is_new || i == turn % fitting.size()) {
        mutants.push_back(
            make_mutant(fixture, native, std::string(fitting[i]->name), fitting[i]->fault, fitting[i]->apply));
      }
    }
    ++turn;
    if (const auto pair = exchangeable(*mapping, native)) {
      mutants.push_back(
          make_mutant(fixture, native, "exchanged_keys", "exchanges two stored tensors", [pair](NativeTensor& each) {
            each.pull = [right = each.pull, pair](const Coord& at) {
              Place place = right(at);
              place.key = place.key == pair->first ? pair->second : place.key == pair->second ? pair->first : place.key;
              return place;
            };
          }));
    }
  }
}

}  // namespace

std::vector<Mutant> reference_mutants() {
  std::vector<Mutant> mutants;
  std::set<std::string> known_rules;
  const std::vector<std::string> ids = reference::family_ids();
  for (const std::string& family : fixtures::families()) {
    if (std::find(ids.begin(), ids.end(), family) == ids.end()) continue;
    const std::vector<std::string> all = fixtures::presets(family);
    for (const std::string_view preset : {"tiny", "tiny_square", "tiny_bf16"}) {
      if (std::find(all.begin(), all.end(), preset) == all.end()) continue;
      fixtures::GenerateOptions fixture;
      fixture.family = family;
      fixture.preset = preset;
      fixture.has_optional = preset != "tiny_square";  // there the defaults stand in
      add_family(fixture, known_rules, mutants);
    }
  }
  return mutants;
}

}  // namespace weightproof::suites
