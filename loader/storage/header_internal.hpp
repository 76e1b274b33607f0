// SPDX-License-Identifier: Apache-2.0
// Parts of the header scanner that stand in files of their own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "loader/storage/header.hpp"
#include "loader/storage/utf8_internal.hpp"

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

/// scan_header with the census of `text` taken before.
Header scan_text(std::string_view text, const TextCensus& census, std::uint64_t file_bytes, std::string file,
                 std::shared_ptr<const void> text_owner);

/// First name that stands twice, in text order, as an Error; nothing if all differ. `hashes`: of the name of each
/// tensor (there may be more of them).
std::optional<Error> find_duplicate_name(const Header& header, std::span<const std::uint32_t> hashes);

/// Rules 6 to 10 of the format, in offset order; the first violation. `is_sorted`: header order is offset order. Adds
/// the note on unaligned data where no rule is violated.
std::optional<Error> validate_ranges(Header& header, bool is_sorted);

/// "'x'" with control characters made visible and long names shortened, for messages.
std::string shown_name(std::string_view name);

}  // namespace weightproof::storage::detail
