// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace weightproof::storage::detail {

/// What is found out about a text before it is parsed. May be taken in pieces, each while it is still in the cache.
struct TextCensus {
  std::size_t open_braces = 0;  ///< '{' anywhere: an upper bound of objects
  bool has_delete = false;      ///< byte 0x7F anywhere
  bool is_ascii = true;

  void add(std::string_view piece);
};

/// Position of the first byte that is not part of well-formed UTF-8 (shortest form, no surrogates, at most U+10FFFF);
/// npos if none.
std::size_t find_invalid_utf8(std::string_view text);

}  // namespace weightproof::storage::detail
