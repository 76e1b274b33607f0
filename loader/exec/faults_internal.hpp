// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "loader/exec/faults.hpp"
#include "loader/exec/nest_internal.hpp"

namespace weightproof::exec {

/// A fault of one piece: made before the piece is written, applied to what was written after.
class PieceFault {
 public:
  PieceFault() = default;
  PieceFault(Fault fault, const Nest& part, std::byte* base, unsigned element_bytes, std::uint64_t row_elements);
  void apply() const;
  Fault kind() const { return fault_; }

 private:
  std::vector<std::byte> packed_now() const;

  Fault fault_ = Fault::none;
  Nest out_;
  std::byte* base_ = nullptr;
  unsigned element_bytes_ = 1;
  std::uint64_t row_elements_ = 1;
  std::vector<std::byte> before_;
};

}  // namespace weightproof::exec
