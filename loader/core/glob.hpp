// SPDX-License-Identifier: Apache-2.0
// The one glob of the project, over tensor keys: '*' is any run of characters (dots and slashes too), '?' is one
// character of UTF-8. There are no classes and no escapes. Thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weightproof {

/// The whole of `text` matches. Time O(pattern x text), no recursion.
bool matches_glob(std::string_view pattern, std::string_view text);
/// Any of `patterns` matches.
bool matches_any_glob(std::span<const std::string> patterns, std::string_view text);

}  // namespace weightproof
