// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reports/report.hpp"
#include "suites/verify/context.hpp"

namespace weightproof::suites {

/// index.total_size where no header is at hand: the stated total must be one of the totals that the config allows. Each
/// kind of tensor whose dtype cannot be seen may be in either of its widths.
reports::CheckRecord total_size_from_config(Context& context);

}  // namespace weightproof::suites
