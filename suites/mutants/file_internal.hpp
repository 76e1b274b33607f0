// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fixtures/corrupt.hpp"
#include "suites/mutants/mutant.hpp"

namespace weightproof::suites {

/// run_mutant() for a fault of files: the check that the fixtures name must end as they say, and name a subject of
/// theirs.
Fate run_file_mutant(const Mutant& mutant, FixtureShelf& shelf, unsigned threads);

}  // namespace weightproof::suites
