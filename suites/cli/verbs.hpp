// SPDX-License-Identifier: Apache-2.0
// The verbs, one file each, and what help says about them.
#pragma once

#include <span>
#include <string_view>

#include "suites/cli/console.hpp"
#include "suites/cli/options.hpp"

namespace weightproof::suites::cli {

/// Exit statuses, the same for every verb.
inline constexpr int k_exit_done = 0;
inline constexpr int k_exit_failed = 1;      ///< a check failed, or two sides differ
inline constexpr int k_exit_usage = 2;       ///< the command line is wrong
inline constexpr int k_exit_impossible = 3;  ///< unreadable or unsupported input, or the machine lacks something

struct VerbSpec {
  std::string_view name;
  std::string_view form;      ///< "CHECKPOINT", "FAMILY --out DIR"
  std::string_view summary;   ///< one line
  std::string_view details;   ///< paragraph for --help
  std::string_view examples;  ///< lines "command  # what it does"
  std::size_t positionals_min;
  std::size_t positionals_max;
  int (*run)(const Arguments& arguments, Console& console);
  /// Its arguments are paths of checkpoints.
  bool takes_checkpoints() const { return form.find("CHECKPOINT") != std::string_view::npos || form == "A B"; }
};

std::span<const VerbSpec> all_verbs();
const VerbSpec* find_verb(std::string_view name);

int run_inspect(const Arguments& arguments, Console& console);
int run_verify(const Arguments& arguments, Console& console);
int run_fixture(const Arguments& arguments, Console& console);
int run_explain(const Arguments& arguments, Console& console);
int run_doctor(const Arguments& arguments, Console& console);
int run_report(const Arguments& arguments, Console& console);
int run_adapters(const Arguments& arguments, Console& console);
int run_load(const Arguments& arguments, Console& console);
int run_plan(const Arguments& arguments, Console& console);
int run_export(const Arguments& arguments, Console& console);
int run_diff(const Arguments& arguments, Console& console);
int run_selftest(const Arguments& arguments, Console& console);
int run_manifest(const Arguments& arguments, Console& console);
int run_bench(const Arguments& arguments, Console& console);
int run_judge(const Arguments& arguments, Console& console);

/// The program: `words` without the program's name. Never throws.
int run(std::span<const std::string> words);

/// Text of `weightproof --help`, and of `weightproof VERB --help` (`full`) or `-h`.
std::string help_text();
std::string help_text(const VerbSpec& verb, bool full);

}  // namespace weightproof::suites::cli
