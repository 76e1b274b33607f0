// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reports/report.hpp"

namespace weightproof::reports {

/// Replaces every invalid UTF-8 byte of every text of the report by U+FFFD, as report.json shows it: what is rendered
/// from the records and from the document is then the same.
void make_text_valid(Report& report);

/// Puts memory figures in the order of k_memory_figures; others follow by name.
void sort_figures(std::vector<MemoryFigure>& figures);

}  // namespace weightproof::reports
