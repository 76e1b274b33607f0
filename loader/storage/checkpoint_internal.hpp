// SPDX-License-Identifier: Apache-2.0
// Stages of read_checkpoint that stand in files of their own. Each adds its findings to Checkpoint::diagnostics.
#pragma once

#include "loader/storage/checkpoint.hpp"
#include "loader/storage/selection_internal.hpp"

namespace weightproof::storage::detail {

/// Opens and scans every selected file on `threads` threads; missing files, unreadable files and format faults are
/// reported in file order.
void read_headers(Checkpoint& checkpoint, const std::vector<bool>& is_safe, FileCalls& calls, unsigned threads);

/// Fills the catalog; reports what index and headers say against each other, and names that stand in two files.
void build_catalog(Checkpoint& checkpoint, FileCalls& calls);

/// Totals of the index against the headers; numbers in the file names.
void check_totals(Checkpoint& checkpoint);
void check_numbering(Checkpoint& checkpoint);

/// config.json, its companions, and the files they name.
void read_configs(Checkpoint& checkpoint, FileCalls& calls);

}  // namespace weightproof::storage::detail
