// SPDX-License-Identifier: Apache-2.0
// selftest: the checks against every mutant and every sound input.
#include "suites/selftest/selftest.hpp"

#include <algorithm>

#include "suites/cli/common.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/support/shell.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {

int run_selftest(const Arguments& arguments, Console& console) {
  const std::string directory = arguments.text("--report");
  SelftestOptions options;
  options.kind = arguments.text("--kind");
  options.only = arguments.texts("--only");
  options.real_data = arguments.text("--data");
  options.threads = thread_count(arguments.count("--threads").value_or(0));
  options.command = arguments.command();
  options.progress = [&console](std::string_view what, std::uint64_t done, std::uint64_t total) {
    console.progress(what, done, total);
  };
  if (!options.kind.empty()) {
    std::vector<std::string_view> kinds;
    for (const MutantList& list : mutant_lists()) {
      kinds.push_back(list.kind);
    }
    if (std::find(kinds.begin(), kinds.end(), options.kind) == kinds.end()) {
      std::string known;
      for (const std::string_view kind : kinds) {
        known += (known.empty() ? "" : ", ") + std::string(kind);
      }
      ErrorFacts facts;
      facts.hint = "it can be one of " + known;
      throw Error(ErrorCode::usage, "no mutant is of kind '" + printable(options.kind) + "'", std::move(facts));
    }
  }
  if (!options.real_data.empty() && !std::filesystem::is_directory(options.real_data)) {
    ErrorFacts facts;
    facts.hint = "give the folder that holds them, or leave out --data";
    throw Error(ErrorCode::io_error, "there is no folder " + shown_path(options.real_data.string()), std::move(facts));
  }
  const reports::Report report = selftest(mutant_lists(), sound_inputs(), options);
  console.end_progress();
  if (!directory.empty()) {
    write_report_files(report, directory, arguments.choices("--format"));
  }
  if (console.is_json()) {
    print_report(report, directory, console);
  } else {
    const int status = reports::exit_status(report);
    console.line(console.styled(status == 0 ? Tone::pass : Tone::fail, status == 0 ? "PASS" : "FAIL") +
                 "  the checks against planted faults and sound inputs");
    if (status != 0 || !console.is_quiet()) {
      console.line();
      console.out(kill_table(report));
    }
  }
  return reports::exit_status(report);
}

}  // namespace weightproof::suites::cli
