// SPDX-License-Identifier: Apache-2.0
// Deliberate faults of an execution, so that the checks which should see them can be shown to see them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace weightproof::exec {

enum class Fault : std::uint8_t {
  none,
  skip_tile,        ///< one piece of a move is not written
  skip_row,         ///< one run of a piece is not written
  skip_byte,        ///< the last byte of a piece is not written
  write_to_copy,    ///< a piece goes into memory that nobody keeps
  reuse_early,      ///< a buffer is overwritten before what it holds was written
  neighbour_range,  ///< a piece takes the bytes that lie one element further on
  stale_record,     ///< a piece is recorded as written and is not
  copy_twice        ///< a piece that goes through a buffer is copied out of it twice: the values stay right
};
std::string_view to_string(Fault fault);
/// Those that change what is loaded.
std::span<const Fault> all_faults();

struct Faults {
  Fault fault = Fault::none;
  std::uint32_t tensor = 0;  ///< position in Plan::tensors()
  std::uint64_t piece = 0;   ///< which of its pieces, in the order in which they are written
};

}  // namespace weightproof::exec
