// SPDX-License-Identifier: Apache-2.0
// The loads that checks execute, made once for a run.
#pragma once

#include <memory>
#include <string>

namespace weightproof::suites {

struct LoadRun;
struct LoadRunDeleter {
  void operator()(LoadRun* run) const;
};
using LoadRunPointer = std::unique_ptr<LoadRun, LoadRunDeleter>;

struct ExecutedRanks;
struct ExecutedRanksDeleter {
  void operator()(ExecutedRanks* ranks) const;
};
using ExecutedRanksPointer = std::unique_ptr<ExecutedRanks, ExecutedRanksDeleter>;

class Context;

/// One digest over names, dtypes, shapes and bytes of all native tensors of one load of everything, in the order of
/// their names. Throws what the load threw; Error(load_failed_partial) where nothing could be loaded.
std::string loaded_digest(Context& context);

}  // namespace weightproof::suites
