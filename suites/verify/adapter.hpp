// SPDX-License-Identifier: Apache-2.0
// A low-rank adapter that is verified: its config, its base, and how its names fit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/family.hpp"
#include "adapters/lora.hpp"
#include "loader/core/error.hpp"
#include "loader/storage/checkpoint.hpp"

namespace weightproof::suites {

struct VerifyOptions;

/// Two factors of one module that do not fit each other or the stated rank, seen without the base.
struct UnfitFactor {
  std::string key;
  std::string expected;
  std::string actual;  ///< empty: absent
};

struct AdapterState {
  std::optional<adapters::LoraConfig> config;
  std::string no_config_reason;  ///< where adapter_config.json is not there or no JSON
  std::vector<Error> errors;     ///< of the configs, then of the form

  // With a base.
  bool has_base = false;
  adapters::Detection detection;  ///< of the base
  std::string no_base_reason;     ///< why its modules are not known
  std::optional<adapters::LoraMatch> match;
  std::shared_ptr<const Schema> schema;  ///< of the adapter

  // Without one.
  std::uint64_t modules = 0;
  std::vector<UnfitFactor> unfit;
  std::optional<std::uint64_t> found_rank;
};

/// Whether the checkpoint is an adapter: a PEFT directory, or an adapter's file with its config beside it.
bool is_adapter(const storage::Checkpoint& checkpoint);

/// Reads the config and matches the names; `base` is null where none was given.
AdapterState read_adapter(const storage::Checkpoint& checkpoint, const storage::Checkpoint* base,
                          const VerifyOptions& options);

}  // namespace weightproof::suites
