// SPDX-License-Identifier: Apache-2.0
// verify: judge a checkpoint and write the report.
#include "suites/verify/verify.hpp"

#include "suites/cli/common.hpp"
#include "suites/cli/verbs.hpp"

namespace weightproof::suites::cli {

int run_verify(const Arguments& arguments, Console& console) {
  const std::string directory = arguments.text("--report");
  const VerifyOptions options = verify_options(arguments, console);
  reports::Report report = verify(arguments.positionals().front(), options);
  report.run.commit = arguments.text("--commit");
  console.end_progress();
  if (!directory.empty()) {
    write_report_files(report, directory, arguments.choices("--format"));
  }
  print_report(report, directory, console);
  return reports::exit_status(report);
}

}  // namespace weightproof::suites::cli
