// SPDX-License-Identifier: Apache-2.0
// There and back: load, export, and compare with what was read, without a second copy on disk or in memory. The export
// is the real one; what it writes is compared with the source's files as it comes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "loader/core/error.hpp"
#include "suites/verify/context.hpp"
#include "suites/verify/load_run.hpp"

namespace weightproof::suites {

struct RoundTrip {
  std::string skipped;
  std::optional<Error> error;
  std::uint64_t bytes = 0;  ///< compared
  std::uint64_t tensors = 0;
  std::uint64_t windows = 0;  ///< loads there and back
  bool has_files = false;     ///< whole files were compared, headers and index included
  std::string why_no_files;
  TensorFindings tensors_found;  ///< keys of tensors that came back otherwise
  TensorFindings files_found;    ///< files that came back otherwise outside of tensors
};

/// `is_enforced`: the budget was asked for, so that plans are held to their shares of it.
RoundTrip make_round_trip(Context& context, std::uint64_t budget_bytes, bool is_enforced);

}  // namespace weightproof::suites
