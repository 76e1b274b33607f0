// SPDX-License-Identifier: Apache-2.0
// Two stored tensors that ought to be one: compared byte by byte.
#pragma once

#include <cstdint>
#include <string>

#include "loader/core/shape.hpp"
#include "reports/report.hpp"
#include "suites/verify/context.hpp"

namespace weightproof::suites {

struct PairComparison {
  std::string undecided;  ///< why nothing was compared; empty: it was
  bool is_equal = false;
  std::string difference;  ///< in words: another dtype, another shape, or the first element
  std::string expected;    ///< of the first difference
  std::string actual;
  Coordinate coordinate;
  std::uint64_t differing = 0;
  std::uint64_t elements = 0;
};

/// `expected` is the tensor that counts. Throws io_error, file_changed.
PairComparison compare_pair(const Context& context, const StoredTensor& expected, const StoredTensor& actual);

/// keys.duplicate_across_shards: with an index equal bytes are a warning.
reports::CheckRecord duplicate_record(Context& context);

}  // namespace weightproof::suites
