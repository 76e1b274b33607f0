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

namespace {

constexpr std::array<std::string_view, 5> k_documents = {"report.json", "report.html", "report.md", "junit.xml",
                                                         "report.sarif"};
constexpr std::string_view k_error_file = "error.json";

// Renderings that this run does not ask for have names that others may use as well: they go where a report lies beside
// them.
void remove_earlier_report(const std::filesystem::path& directory) {
  std::vector<std::string_view> names(k_documents.begin(), k_documents.end());
  if (std::filesystem::exists(directory / "report.json")) {
    for (const Format& format : k_formats) {
      names.push_back(format.file);
    }
  }
  names.push_back(k_error_file);
  for (const std::string_view name : names) {
    std::error_code error;
    std::filesystem::remove(directory / name, error);
    if (error) {
      ErrorFacts facts;
      facts.file = name;
      facts.hint = "choose a directory that can be written";
      throw Error(ErrorCode::io_error,
                  "cannot take away what an earlier run left in " + directory.string() + ": " + error.message(), facts);
    }
  }
}

}  // namespace

void prepare_report(const Arguments& arguments) {
  const std::string directory = arguments.text("--report");
  const std::vector<std::string> formats = arguments.choices("--format");
  if (!formats.empty() && directory.empty()) {
    ErrorFacts facts;
    facts.hint = "give --report DIR too, where " + std::string(file_of_format(formats.front())) + " then lies";
    throw Error(ErrorCode::usage, "--format wants a directory to write to", facts);
  }
  if (!directory.empty()) {
    make_directory(directory);
    remove_earlier_report(directory);
  }
}

void leave_error_report(const Error& error, const Arguments& arguments) noexcept {
  try {
    const std::filesystem::path directory = arguments.text("--report");
    // A report that is there is of this run: only what came after it went wrong.
    if (!directory.empty() && std::filesystem::is_directory(directory) &&
        !std::filesystem::exists(directory / "report.json")) {
      write_text_file(directory / k_error_file, error_document(error) + "\n");
    }
  } catch (...) {  // the error itself is told all the same
  }
}

void write_report_files(const reports::Report& report, const std::filesystem::path& directory,
                        const std::vector<std::string>& formats) {
  make_directory(directory);
  const auto write = [&directory](std::size_t document, const std::string& text) {
    write_text_file(directory / k_documents[document], text);
  };
  write(0, reports::emit_json(report));
  write(1, reports::emit_html(report));
  write(2, reports::emit_markdown(report));
  write(3, reports::emit_junit(report));
  write(4, reports::emit_sarif(report));
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
