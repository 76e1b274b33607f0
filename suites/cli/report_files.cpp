// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "reports/emit.hpp"
#include "suites/cli/common.hpp"

namespace weightproof::suites::cli {
namespace {

std::string github(const reports::Report& report) { return reports::emit_github(report); }
std::string summary(const reports::Report& report) {
  reports::MarkdownOptions options;
  options.limit = reports::k_summary_limit;
  return reports::emit_markdown(report, options);
}

struct Format {
  std::string_view name;
  std::string_view file;
  std::string (*emit)(const reports::Report& report);
};
constexpr std::array k_formats = {
    Format{"github", "annotations.txt", &github},
    Format{"gitlab", "gl-code-quality-report.json", &reports::emit_gitlab},
    Format{"openmetrics", "metrics.txt", &reports::emit_openmetrics},
    Format{"badge", "badge.svg", &reports::emit_badge},
    Format{"tsv", "checks.tsv", &reports::emit_tsv},
    Format{"summary", "summary.md", &summary},
};

const Format& format_named(std::string_view name) {
  return *std::find_if(k_formats.begin(), k_formats.end(), [name](const Format& row) { return row.name == name; });
}

}  // namespace

std::string rendered(const reports::Report& report, std::string_view format) {
  return format_named(format).emit(report);
}
std::string_view file_of_format(std::string_view format) { return format_named(format).file; }

std::string prepare_report(const Arguments& arguments) {
  std::string directory = arguments.text("--report");
  const std::vector<std::string> formats = arguments.choices("--format");
  if (!formats.empty() && directory.empty()) {
    ErrorFacts facts;
    facts.hint = "give --report DIR too, where " + std::string(file_of_format(formats.front())) + " then lies";
    throw Error(ErrorCode::usage, "--format wants a directory to write to", facts);
  }
  if (!directory.empty()) {
    make_directory(directory);
  }
  return directory;
}

void write_report_files(const reports::Report& report, const std::filesystem::path& directory,
                        const std::vector<std::string>& formats) {
  make_directory(directory);
  write_text_file(directory / "report.json", reports::emit_json(report));
  write_text_file(directory / "report.html", reports::emit_html(report));
  write_text_file(directory / "report.md", reports::emit_markdown(report));
  write_text_file(directory / "junit.xml", reports::emit_junit(report));
  write_text_file(directory / "report.sarif", reports::emit_sarif(report));
  for (const std::string& format : formats) {
    write_text_file(directory / file_of_format(format), rendered(report, format));
  }
}

void print_report(const reports::Report& report, const std::string& directory, Console& console) {
  if (console.is_json()) {
    console.out(reports::emit_json(report));
    return;
  }
  reports::TextOptions text;
  text.color = console.has_color();
  text.width = static_cast<int>(console.width());
  text.quiet = console.is_quiet();
  text.report_dir = directory;
  console.out(reports::emit_text(report, text));
}

}  // namespace weightproof::suites::cli
