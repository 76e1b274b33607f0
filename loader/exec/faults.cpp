// SPDX-License-Identifier: Apache-2.0
#include "loader/exec/faults.hpp"

#include <array>

namespace weightproof::exec {

std::string_view to_string(Fault fault) {
  constexpr std::array<std::string_view, 8> k_names = {
      "none", "skip_tile", "skip_row", "skip_byte", "write_to_copy", "reuse_early", "neighbour_range", "stale_record"};
  return k_names[static_cast<std::size_t>(fault)];
}

std::span<const Fault> all_faults() {
  static constexpr std::array<Fault, 7> k_all = {Fault::skip_tile,     Fault::skip_row,    Fault::skip_byte,
                                                 Fault::write_to_copy, Fault::reuse_early, Fault::neighbour_range,
                                                 Fault::stale_record};
  return k_all;
}

}  // namespace weightproof::exec
