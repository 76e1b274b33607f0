// SPDX-License-Identifier: Apache-2.0
// The loads that checks execute, made once for a run.
#pragma once

#include <memory>

namespace weightproof::suites {

struct LoadRun;
struct LoadRunDeleter {
  void operator()(LoadRun* run) const;
};
using LoadRunPointer = std::unique_ptr<LoadRun, LoadRunDeleter>;

}  // namespace weightproof::suites
