// SPDX-License-Identifier: Apache-2.0
#include "reports/emit.hpp"
#include "suites/cli/common.hpp"

namespace weightproof::suites::cli {

void write_report_files(const reports::Report& report, const std::filesystem::path& directory) {
  make_directory(directory);
  write_text_file(directory / "report.json", reports::emit_json(report));
  write_text_file(directory / "report.html", reports::emit_html(report));
  write_text_file(directory / "report.md", reports::emit_markdown(report));
  write_text_file(directory / "junit.xml", reports::emit_junit(report));
  write_text_file(directory / "report.sarif", reports::emit_sarif(report));
}

}  // namespace weightproof::suites::cli
