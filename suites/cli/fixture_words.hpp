// SPDX-License-Identifier: Apache-2.0
// What fixture says of the fixtures that there are, and of the one that it made.
#pragma once

#include <filesystem>
#include <string>

#include "fixtures/corrupt.hpp"
#include "fixtures/generate.hpp"
#include "suites/cli/console.hpp"
#include "suites/cli/options.hpp"

namespace weightproof::suites::cli {

int list_fixtures(Console& console);

/// The command that makes the checkpoint without its fault, at `directory`.
std::string twin_command(const fixtures::GenerateOptions& options, const Arguments& arguments,
                         const std::string& directory);
/// Where the whole twin of a checkpoint at `directory` goes, in commands that are printed.
std::string twin_directory(const std::filesystem::path& directory);

/// Why the fault cannot be planted in what was asked for, and what it can be planted in. Checkpoints are made below
/// `scratch` to find out. Always throws Error(usage).
[[noreturn]] void refuse_fault(const fixtures::CorruptionOperator& fault, const fixtures::GenerateOptions& options,
                               const Arguments& arguments, const std::string& reason,
                               const std::filesystem::path& scratch);

}  // namespace weightproof::suites::cli
