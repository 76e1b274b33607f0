// SPDX-License-Identifier: Apache-2.0
// report: render a report again from its report.json.
#include "reports/report.hpp"

#include "reports/emit.hpp"
#include "suites/cli/common.hpp"
#include "suites/cli/verbs.hpp"

namespace weightproof::suites::cli {

int run_report(const Arguments& arguments, Console& console) {
  const std::filesystem::path path = arguments.positionals().front();
  const std::string text = read_text_file(path, reports::k_json_max_bytes);
  reports::Report report;
  try {
    report = reports::read_json(text);
  } catch (const reports::DocumentError& error) {
    ErrorFacts facts;
    facts.file = path.filename().string();
    facts.hint = "give a report.json that --report wrote";
    throw Error(ErrorCode::config_invalid, path.string() + " is no report: " + error.what(), facts);
  }
  reports::finish(report);
  reports::fold_findings(report);
  const std::string directory = arguments.text("--out");
  if (!directory.empty()) {
    write_report_files(report, directory);
  }
  if (console.is_json()) {
    console.out(reports::emit_json(report));
    return k_exit_done;
  }
  reports::TextOptions options;
  options.color = console.has_color();
  options.width = static_cast<int>(console.width());
  options.quiet = console.is_quiet();
  options.report_dir = directory;
  console.out(reports::emit_text(report, options));
  return k_exit_done;
}

}  // namespace weightproof::suites::cli
