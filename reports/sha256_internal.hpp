// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace weightproof::reports {

using Sha256 = std::array<std::uint8_t, 32>;

/// SHA-256 (FIPS 180-4) of a byte string.
Sha256 sha256(std::string_view bytes);
/// Lower-case hex of the first `digits` nibbles.
std::string hex(const Sha256& digest, std::size_t digits = 64);
/// Standard base64 with padding, as Content-Security-Policy wants it.
std::string base64(const Sha256& digest);

}  // namespace weightproof::reports
