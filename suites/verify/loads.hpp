// SPDX-License-Identifier: Apache-2.0
// The loads that checks execute, made once for a run.
#pragma once

#include <memory>

namespace weightproof::suites {

struct ExecutedLoads;
struct ExecutedLoadsDeleter {
  void operator()(ExecutedLoads* loads) const;
};
using ExecutedLoadsPointer = std::unique_ptr<ExecutedLoads, ExecutedLoadsDeleter>;

}  // namespace weightproof::suites
