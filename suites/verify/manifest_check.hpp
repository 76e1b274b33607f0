// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reports/report.hpp"
#include "suites/verify/context.hpp"

namespace weightproof::suites {

/// value.manifest: digests of all decoded tensors against those of VerifyOptions::manifest_file.
reports::CheckRecord manifest_record(Context& context);

}  // namespace weightproof::suites
