// SPDX-License-Identifier: Apache-2.0
// Codes beside the values that they may have been made of: is each of them the nearest that its scale allows?
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "suites/state/decoded_state.hpp"

namespace weightproof::suites {

struct CodesVote {
  std::uint64_t elements = 0;
  std::uint64_t nearest = 0;  ///< of all: what encoding the value under the stored scale gives, bit for bit, or NaN
  std::uint64_t told = 0;     ///< not zero, or the nearest is not: zeros alone are what many things give
  std::uint64_t told_nearest = 0;
  std::uint64_t first = 0;  ///< row-major index of the first that is not the nearest, where there is one
  float first_value = 0, first_found = 0, first_nearest = 0;
  std::string scheme;           ///< "mxfp4_packed"
  bool is_first_coded = false;  ///< the codes are those of the first side
  bool is_nearest() const { return nearest == elements; }
};

/// Nothing where the scheme has no nearest codes, and where a quarter of what tells is something else: these codes were
/// not made of these values by rounding. Both tensors have one shape. Nothing is held but windows. Errors: io_error,
/// file_changed.
std::optional<CodesVote> vote_on_codes(const DecodedState& coded, const StateTensor& codes, const DecodedState& plain,
                                       const StateTensor& values);

}  // namespace weightproof::suites
