// SPDX-License-Identifier: Apache-2.0
// Where a verb writes its result: asked before the work, so that nobody waits for a load that has nowhere to go.
#pragma once

#include <filesystem>
#include <string_view>

namespace weightproof::suites::cli {

/// What may stand under the target's name.
enum class Standing {
  nothing,   ///< but an empty directory
  anything,  ///< it is replaced
  file       ///< a file is, a directory is not
};

/// `option` is the one that named the target. `has_replace`: the verb has --replace. Errors: target_exists, io_error
/// where there is no directory to write it into.
void require_target(const std::filesystem::path& target, std::string_view option, Standing standing, bool has_replace);

}  // namespace weightproof::suites::cli
