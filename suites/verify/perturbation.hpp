// SPDX-License-Identifier: Apache-2.0
// What a mutant does wrong on purpose inside `verify`, so that the checks which should see it can be shown to see it.
// Each member stands at one seam of the engine and is empty where nothing goes wrong there.
#pragma once

#include <functional>
#include <memory>

#include "loader/codec/codec.hpp"
#include "loader/codec/detect.hpp"
#include "loader/core/schema.hpp"
#include "loader/storage/file.hpp"

namespace weightproof::exec {
struct LoadOptions;
}
namespace weightproof::plan {
class Plan;
struct RankPlacement;
}  // namespace weightproof::plan
namespace weightproof::save {
struct ExportOptions;
}
namespace weightproof::reference {
struct ModelOptions;
}

namespace weightproof::suites {

struct ReferenceSide;

struct Perturbation {
  /// The loader's bindings, after the family described them.
  std::function<Schema(const Schema&)> schema;
  /// What the loader decodes one tensor with. May answer with what it was given.
  std::function<std::shared_ptr<const codec::Codec>(const codec::QuantizedTensor&,
                                                    const std::shared_ptr<const codec::Codec>&)>
      codec;
  /// What a rank of a topology is told to hold.
  std::function<void(const Schema&, plan::RankPlacement&)> placement;
  /// Options of the loads that checks execute; the plan outlives them.
  std::function<void(const plan::Plan&, exec::LoadOptions&)> first_load;
  std::function<void(const plan::Plan&, exec::LoadOptions&)> second_load;
  /// Options of the loads on other routes that are compared with the first.
  std::function<void(const plan::Plan&, exec::LoadOptions&)> route_load;
  /// Options of the loads by which native state becomes stored tensors again, and of the export that writes them.
  std::function<void(const plan::Plan&, exec::LoadOptions&)> back_load;
  std::function<void(save::ExportOptions&)> way_back;
  /// File calls of these loads: stands between the loader and the given calls, which outlive it.
  std::function<std::unique_ptr<storage::FileCalls>(storage::FileCalls&)> load_calls;
  /// The reference's own statement.
  std::function<void(reference::ModelOptions&)> reference;
  /// What the reference finds in config and names.
  std::function<void(ReferenceSide&)> reference_side;
};

}  // namespace weightproof::suites
