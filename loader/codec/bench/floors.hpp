// SPDX-License-Identifier: Apache-2.0
// Baselines of the kernel benchmarks: the same bytes in and out, no arithmetic. In their own file, compiled for the
// widest vectors that the machine has, so that the floor is a floor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weightproof::codec {

/// out[i] = in[i] as a 16-bit word.
void zero_extend(const std::uint8_t* in, std::size_t n, std::byte* out);
/// Two 16-bit words for each byte: its nibbles.
void spread_nibbles_floor(const std::uint8_t* in, std::size_t bytes, std::byte* out);

}  // namespace weightproof::codec
