// SPDX-License-Identifier: Apache-2.0
#include "loader/exec/faults.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "loader/exec/copy_internal.hpp"
#include "loader/exec/faults_internal.hpp"

namespace weightproof::exec {

std::string_view to_string(Fault fault) {
  constexpr std::array<std::string_view, 9> k_names = {
      "none",        "skip_tile",       "skip_row",     "skip_byte", "write_to_copy",
      "reuse_early", "neighbour_range", "stale_record", "copy_twice"};
  return k_names[static_cast<std::size_t>(fault)];
}

std::span<const Fault> all_faults() {
  static constexpr std::array<Fault, 7> k_all = {Fault::skip_tile,     Fault::skip_row,    Fault::skip_byte,
                                                 Fault::write_to_copy, Fault::reuse_early, Fault::neighbour_range,
                                                 Fault::stale_record};
  return k_all;
}

PieceFault::PieceFault(Fault fault, const Nest& part, std::byte* base, unsigned element_bytes,
                       std::uint64_t row_elements)
    : fault_(fault), base_(base), element_bytes_(element_bytes), row_elements_(row_elements) {
  if (fault == Fault::none || part.element_count() == 0) {
    fault_ = Fault::none;
    return;
  }
  Nest packed;
  out_ = pack_by_target(part, packed);
  before_ = packed_now();
}

std::vector<std::byte> PieceFault::packed_now() const {
  Nest gather = out_;
  std::swap(gather.source, gather.target);
  for (unsigned i = 0; i < gather.rank; ++i) std::swap(gather.axes[i].source, gather.axes[i].target);
  std::vector<std::byte> bytes(out_.element_count() * element_bytes_);
  copy_nest(gather, base_, bytes.data(), element_bytes_);
  return bytes;
}

void PieceFault::apply() const {
  if (fault_ == Fault::none || fault_ == Fault::copy_twice) return;  // of which store() makes the second copy
  std::vector<std::byte> bytes = packed_now();
  const std::size_t size = bytes.size();
  switch (fault_) {
    case Fault::none:
    case Fault::copy_twice:
      return;
    case Fault::skip_tile:
    case Fault::write_to_copy:
    case Fault::stale_record:
      bytes = before_;
      break;
    case Fault::skip_row: {
      const std::uint64_t run = out_.rank == 0 ? 1 : out_.axes[out_.rank - 1].extent;
      const std::size_t row = std::min<std::size_t>(size, std::min(run, row_elements_) * element_bytes_);
      std::copy_n(before_.begin(), row, bytes.begin());
      break;
    }
    case Fault::skip_byte:
      bytes.back() = before_.back();
      break;
    case Fault::reuse_early:
      std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(size / 2), bytes.end(), std::byte{0xa5});
      break;
    case Fault::neighbour_range:
      std::memmove(bytes.data(), bytes.data() + element_bytes_, size - element_bytes_);
      break;
  }
  copy_nest(out_, bytes.data(), base_, element_bytes_);
}

}  // namespace weightproof::exec
