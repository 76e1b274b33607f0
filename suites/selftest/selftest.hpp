// SPDX-License-Identifier: Apache-2.0
// The harness against itself: every mutant must be killed by a check that names the right tensor, and no sound input
// may raise an alarm.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/report.hpp"
#include "suites/mutants/mutant.hpp"

namespace weightproof::suites {

struct SelftestOptions {
  std::string kind;                 ///< mutants of this kind alone; empty: all
  std::vector<std::string> only;    ///< globs over ids of mutants and names of inputs; empty: all
  std::filesystem::path real_data;  ///< folder of real checkpoints that are known to be sound; empty: none here
  unsigned threads = 1;  ///< of each verification; mutants run one after the other, since some are about memory
  std::string command;   ///< for the report
  std::function<void(std::string_view, std::uint64_t, std::uint64_t)> progress;
};

/// A sound input: nothing may fail in it. What its content deserves a warning for is listed with it.
struct SoundInput {
  std::string name;
  std::filesystem::path path;  ///< below the folder of real data; empty: a fixture
  fixtures::GenerateOptions fixture;
  bool is_keys_only = false;
  std::vector<std::string> deserved;  ///< ids of checks that rightly warn, or cannot be carried out
};
/// Every family, preset and stored form of the fixtures, then the real files that are known to be sound.
std::vector<SoundInput> sound_inputs();

/// Runs the lists and the inputs; the report holds the kill table, one record for each kind of mutant and one for the
/// alarms. Finished and folded. Throws what fixtures::generate throws.
reports::Report selftest(std::span<const MutantList> lists, std::span<const SoundInput> inputs,
                         const SelftestOptions& options);

/// The kill table as text: a line for each kind, then every survivor and alarm.
std::string kill_table(const reports::Report& report);

}  // namespace weightproof::suites
