// SPDX-License-Identifier: Apache-2.0
// Small text services of the command line: sizes, counts, names that may hold anything, and the nearest known word.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weightproof::suites {

/// "64MiB", "5GB", "1.5 GiB", "4096", "0": bytes. Binary units KiB..TiB, decimal units KB..TB, B or none; case matters
/// not. Nothing for anything else, for a fraction of a byte and for what does not fit 64 bits.
std::optional<std::uint64_t> parse_bytes(std::string_view text);
/// Non-negative decimal number, nothing else.
std::optional<std::uint64_t> parse_count(std::string_view text);

/// Finite and not negative: "0.5", "1e-5".
std::optional<double> parse_number(std::string_view text);

/// "13.4 GiB", "512 B": for people.
std::string human_bytes(std::uint64_t bytes);
/// "13,761,264,768".
std::string grouped(std::uint64_t number);
/// "1 tensor", "2 tensors".
std::string counted(std::uint64_t number, std::string_view one, std::string_view many);

/// A name from a file as a terminal may show it: control, direction and zero-width characters and bytes that are no
/// UTF-8 become \u{XXXX}; past `limit` bytes the middle is cut with the number of bytes left out.
std::string printable(std::string_view name, std::size_t limit = 256);

/// Edit distance with transpositions counted once.
std::size_t edit_distance(std::string_view a, std::string_view b);
/// The candidate nearest to `word`; empty where none is near enough to be meant.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace weightproof::suites
