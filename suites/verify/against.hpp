// SPDX-License-Identifier: Apache-2.0
// The comparison with a second checkpoint, made once for a run.
#pragma once

#include <memory>

#include "reports/report.hpp"

namespace weightproof::suites {

class Context;
struct Against;
struct AgainstDeleter {
  void operator()(Against* against) const;
};
using AgainstPointer = std::unique_ptr<Against, AgainstDeleter>;

/// value.manifest with --against in the place of --manifest.
reports::CheckRecord against_record(Context& context);

}  // namespace weightproof::suites
