// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reports/report.hpp"

namespace weightproof::reports {

/// The file a finding is about, relative, unescaped: the description in the adapter where it is known, else the file
/// the finding names, else the checkpoint by the last part of its path.
std::string location_path(const Report& report, const Finding& finding);
/// The same as a relative URI reference (percent-encoded).
std::string location_uri(const Report& report, const Finding& finding);

}  // namespace weightproof::reports
