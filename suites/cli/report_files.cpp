// SPDX-License-Identifier: Apache-2.0
#include "reports/emit.hpp"
#include "suites/cli/common.hpp"

namespace weightproof::suites::cli {

void write_report_files(const reports::Report& report, const std::filesystem::path& directory) {
  make_directory(directory);
  write_text_file(directory / "report.json", reports::emit_json(report));
}

}  // namespace weightproof::suites::cli
