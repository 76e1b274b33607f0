// SPDX-License-Identifier: Apache-2.0
// Several loads in one process whose steps interleave as a seed says: at every file call one of them is drawn to go on.
#pragma once

#include <cstdint>
#include <functional>

#include "loader/storage/file.hpp"

namespace weightproof::suites {

/// Runs body(0) to body(count - 1), each on a thread of its own, one at a time. The order hangs on the seed alone.
/// Rethrows the first exception, by number, when all have ended.
void take_turns(std::uint32_t count, std::uint64_t seed,
                const std::function<void(std::uint32_t number, storage::FileCalls& calls)>& body);

}  // namespace weightproof::suites
