// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace weightproof::storage::detail {

/// What one pass over a text finds out before it is parsed.
struct TextCensus {
  std::size_t first_invalid = std::string_view::npos;  ///< byte where the text stops being UTF-8; npos: it is
  std::size_t open_braces = 0;                         ///< '{' anywhere: an upper bound of objects
  bool has_delete = false;                             ///< byte 0x7F anywhere
};

TextCensus take_census(std::string_view text);

/// Position of the first byte that is not part of well-formed UTF-8 (shortest form, no surrogates, at most U+10FFFF);
/// npos if none.
std::size_t find_invalid_utf8(std::string_view text);

}  // namespace weightproof::storage::detail
