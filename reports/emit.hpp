// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "reports/report.hpp"

/// Emitters: pure functions from a report (after finish() and fold_findings()) to bytes. None reads a clock, an
/// environment variable or a file, so equal reports give equal bytes. All may be called from any thread.
namespace weightproof::reports {

/// `report.json`: members sorted by name, two spaces of indentation when `pretty`, a newline at the end.
std::string emit_json(const Report& report, bool pretty = true);

struct TextOptions {
  bool color = false;
  int width = 100;              ///< columns; at least 40 are used
  bool quiet = false;           ///< verdict and failures alone
  std::string report_dir = {};  ///< where the report lies, told at the end; empty: nowhere
};
/// Terminal text: verdict first, causes with their tensors, warnings, what was skipped and why, what to do next.
std::string emit_text(const Report& report, const TextOptions& options = {});

/// Limits of the places a Markdown text goes to, in bytes of UTF-8 (never more characters than bytes).
inline constexpr std::size_t k_comment_limit = 65535;
inline constexpr std::size_t k_summary_limit = std::size_t{1} << 20;

struct MarkdownOptions {
  std::size_t limit = k_comment_limit;
  std::string marker = "weightproof-report";  ///< hidden in a comment so that a bot can update its own comment in place
  std::string report_url = {};                ///< where the page lies, or empty
};
/// `report.md`: a pull request comment or a step summary. Over the limit it degrades in steps and says so: passes and
/// notes go first, then skips, then warnings; a failure keeps its rule, count and first keys.
std::string emit_markdown(const Report& report, const MarkdownOptions& options = {});

/// JUnit XML: classname `weightproof.<suite>`, name the check id with its case, unique as a pair.
std::string emit_junit(const Report& report);

/// `report.html`: one file without external references, complete without script; made from what report.json holds
/// alone. Large reports are shown in steps (everything, passes folded, findings by rule, counts), and the page says
/// what it left out.
std::string emit_html(const Report& report);

/// Results of a SARIF log that code scanning shows, and the size it takes (compressed).
inline constexpr std::size_t k_sarif_results = 5000;
/// `report.sarif`: SARIF 2.1.0, gravest first; past the limit a notification says how many are left out. URIs are
/// relative.
std::string emit_sarif(const Report& report, std::size_t limit = k_sarif_results);

/// Annotations of one step that are shown per severity.
inline constexpr std::size_t k_annotations_per_severity = 10;
/// GitHub workflow commands, one a line: errors, warnings, notices, at most ten each, then one line that counts the
/// rest.
std::string emit_github(const Report& report, std::size_t per_severity = k_annotations_per_severity);

/// GitLab code quality report (JSON array).
std::string emit_gitlab(const Report& report);

/// OpenMetrics text: verdict, checks by status, causes, memory figures, bytes and phase times.
std::string emit_openmetrics(const Report& report);

/// A badge "weightproof | 96 passed" as SVG without external references.
std::string emit_badge(const Report& report);

/// One line a check, tab-separated, nothing cut: status, id, suite, case, total, subjects (space-separated JSON
/// strings), message.
std::string emit_tsv(const Report& report);

}  // namespace weightproof::reports
