// SPDX-License-Identifier: Apache-2.0
// Parts of the header scanner that stand in files of their own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "loader/storage/header.hpp"

namespace weightproof::storage::detail {

/// Keys that share one finding: all of them counted, the first few named, so that a hostile header cannot make its
/// report larger than itself.
struct KeyList {
  static constexpr std::size_t k_keys_max = 64;
  std::vector<std::string> keys;
  std::uint64_t count = 0;
  std::uint64_t first_offset = 0;  ///< absolute byte offset of the first

  void add(std::string_view key, std::uint64_t offset) {
    if (count == 0) first_offset = offset;
    ++count;
    if (keys.size() < k_keys_max) keys.emplace_back(key);
  }
};

/// "'a'", "'a' and 'b'", "'a', 'b' and 7 more".
std::string names_text(const KeyList& list);

/// First name that stands twice, in text order, as an Error; nothing if all differ.
std::optional<Error> find_duplicate_name(const Header& header);

/// Rules 6 to 10 of the format, in offset order; the first violation.
std::optional<Error> validate_ranges(const Header& header);

/// Adds the note on unaligned data, if it applies.
void note_alignment(Header& header);

/// "tensor 'x'" with control characters made visible and long names shortened, for messages.
std::string shown_name(std::string_view name);

}  // namespace weightproof::storage::detail
