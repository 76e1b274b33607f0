// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// Small text helpers shared by the emitters. Everything here is locale-independent.
namespace weightproof::reports {

/// 1234567 -> "1,234,567".
std::string grouped(std::uint64_t number);
/// Shortest decimal that reads back as the same double; finite numbers only.
std::string shortest(double number);
/// Fixed number of digits behind the point.
std::string fixed(double number, int digits);
/// Bytes for people: "77.8 MiB", "512 B".
std::string human_bytes(std::uint64_t bytes);
/// Seconds for people: "2 min 3 s", "4.12 s", "35 ms".
std::string human_seconds(double seconds);
/// "1 tensor", "2 tensors".
std::string plural(std::uint64_t count, std::string_view one, std::string_view many = {});
/// Cut at a character, with the number of bytes left out, where longer than `limit` bytes.
std::string cut_text(std::string_view text, std::size_t limit);
/// Middle cut out, with the count, where longer than `limit` characters (invalid bytes count as one).
std::string cut_middle(std::string_view text, std::size_t limit);
/// End cut off, with "...", where longer than `limit` characters.
std::string cut_end(std::string_view text, std::size_t limit);
/// First letter in upper case (ASCII).
std::string capital(std::string_view text);

/// Reads one code point at `at` and moves past it. Invalid bytes give U+FFFD and advance by one byte.
char32_t next_code_point(std::string_view text, std::size_t& at);
/// Appends a code point as UTF-8; surrogates and values past U+10FFFF become U+FFFD.
void append_utf8(std::string& out, char32_t code_point);
/// The text with every invalid byte replaced by U+FFFD.
std::string valid_utf8(std::string_view text);
/// Whether a character must be spelled out where names are shown: controls, direction and zero-width characters.
bool is_hidden_character(char32_t code_point);
/// The text with hidden characters spelled "U+202E" in angle brackets of the caller's choice, invalid bytes as U+FFFD.
std::string spell_out(std::string_view text, std::string_view open = "<", std::string_view close = ">");

}  // namespace weightproof::reports
