// SPDX-License-Identifier: Apache-2.0
// Commands and paths as they are printed for somebody to type again.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weightproof::suites {

/// One word of a POSIX shell: as it is where nothing in it is special, else in single quotes. A shell takes it back
/// byte for byte.
std::string shell_word(std::string_view word);
/// Several, separated by blanks.
std::string shell_words(std::span<const std::string> words);

/// A path for people: nothing left out, so that it can be copied; characters that move a terminal are escaped.
std::string shown_path(std::string_view path);
/// A path in a command to type: as shell_word(), escaped as shown_path() where a terminal would be moved.
std::string typed_path(std::string_view path);

}  // namespace weightproof::suites
