// SPDX-License-Identifier: Apache-2.0
// verify: judge a checkpoint and write the report.
#include "suites/verify/verify.hpp"

#include "reports/emit.hpp"
#include "suites/cli/common.hpp"
#include "suites/cli/verbs.hpp"

namespace weightproof::suites::cli {

int run_verify(const Arguments& arguments, Console& console) {
  const VerifyOptions options = verify_options(arguments, console);
  const std::string directory = arguments.text("--report");
  if (!directory.empty()) {
    make_directory(directory);  // before the work, not after it
  }
  const reports::Report report = verify(arguments.positionals().front(), options);
  console.end_progress();
  if (!directory.empty()) {
    write_report_files(report, directory);
  }
  if (console.is_json()) {
    console.out(reports::emit_json(report));
  } else {
    reports::TextOptions text;
    text.color = console.has_color();
    text.width = static_cast<int>(console.width());
    text.quiet = console.is_quiet();
    text.report_dir = directory;
    console.out(reports::emit_text(report, text));
  }
  return reports::exit_status(report);
}

}  // namespace weightproof::suites::cli
