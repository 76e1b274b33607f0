// SPDX-License-Identifier: Apache-2.0
// The verify engine: one checkpoint in, one report out.
#pragma once

#include <filesystem>

#include "reports/report.hpp"
#include "suites/verify/context.hpp"

namespace weightproof::suites {

/// Runs every check once and assembles the report, finished and folded. Throws only where there is nothing to judge: a
/// path that does not exist or cannot be read, an unknown --family, an expectation file that cannot be read.
reports::Report verify(const std::filesystem::path& path, const VerifyOptions& options);

/// What was verified, for the report and for `inspect`.
reports::CheckpointInfo checkpoint_info(const Context& context);

}  // namespace weightproof::suites
