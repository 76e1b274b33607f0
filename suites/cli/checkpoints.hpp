// SPDX-License-Identifier: Apache-2.0
// Opening a sound checkpoint, its family and its decoded state, as plan, export, diff and manifest do it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "adapters/family.hpp"
#include "loader/plan/placement.hpp"
#include "suites/cli/console.hpp"
#include "suites/cli/options.hpp"
#include "suites/state/decoded_state.hpp"
#include "suites/support/json_writer.hpp"

namespace weightproof::suites::cli {

/// A checkpoint without failing diagnostics, and what its family makes of it. Not movable: the parts refer to each
/// other.
struct OpenedCheckpoint {
  OpenedCheckpoint(const std::string& path, const Arguments& arguments);
  OpenedCheckpoint(const OpenedCheckpoint&) = delete;
  OpenedCheckpoint& operator=(const OpenedCheckpoint&) = delete;

  storage::Checkpoint checkpoint;
  adapters::Detection detection;
  std::optional<Form> form;
  std::shared_ptr<const Schema> schema;  ///< null without a family
  std::string no_schema_reason;

  /// The decoded state under --dtype, --include and --exclude. `called`: in texts about two of them.
  std::unique_ptr<DecodedState> decode(const Arguments& arguments, const std::string& called = "the checkpoint") const;
};

/// Errors: subset_empty, with the reason, where --include and --exclude leave none of all tensors.
void require_subset(const DecodedState& state, const Arguments& arguments);

/// The member "checkpoint" of a document.
void write_checkpoint(JsonWriter& json, const OpenedCheckpoint& opened);

plan::TargetDType target_dtype(const Arguments& arguments);
/// --route; nothing for auto.
std::optional<plan::Route> asked_route(const Arguments& arguments);
/// How routed experts lie in memory, and why: as stated, or as dispatcher, backend and number of ranks build them.
plan::ExpertStorageVerdict asked_storage(const Arguments& arguments);
unsigned asked_threads(const Arguments& arguments);

}  // namespace weightproof::suites::cli
