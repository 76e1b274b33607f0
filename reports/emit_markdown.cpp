// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "reports/emit.hpp"
#include "reports/markup_internal.hpp"
#include "reports/text_internal.hpp"
#include "reports/verdict_internal.hpp"

namespace weightproof::reports {
namespace {

// What a step of the degradation still shows. Each step drops the least important of what the one before it held.
struct Step {
  bool checks;  // table of check groups
  bool notes;
  bool skips;
  std::size_t warnings;
  std::size_t in_full;  // failures with evidence
  std::size_t in_line;  // failures in one line each
  std::size_t keys;     // per failure
  std::string_view notice;
};
constexpr std::array<Step, 6> k_steps = {{
    {true, true, true, 10000, 10000, 10000, 64, ""},
    {true, false, true, 1000, 50, 10000, 16, "Notes are left out for length."},
    {true, false, true, 100, 20, 2000, 8, "Notes and details past the first 20 failures are left out for length."},
    {true, false, false, 20, 12, 300, 8,
     "Notes, skips and details past the first 12 failures are left out for length."},
    {false, false, false, 0, 3, 60, 3,
     "Cut for length: the first failures and counts by rule; the report holds the rest."},
    {false, false, false, 0, 1, 0, 1,
     "Cut for length: the gravest failure and counts by rule; the report holds the rest."},
}};

std::string_view sign(Status status) {
  switch (status) {
    case Status::fail:
      return "**fail**";
    case Status::error:
      return "**error**";
    case Status::warn:
      return "**warn**";
    case Status::skip:
      return "skip";
    case Status::pass:
      return "pass";
  }
  return "error";
}

// Every text on the way out is cut, so that one hostile name or message cannot fill a comment.
std::string prose(std::string_view text) { return markdown_text(cut_text(text, 1500)); }
std::string code(std::string_view name) { return markdown_code(cut_middle(name, 256)); }

void full(std::string& out, const Report& report, const Finding& finding, const Step& step) {
  if (out.size() > 1 && out.compare(out.size() - 2, 2, "\n\n") != 0) {
    out += "\n";
  }
  out += "#### " + prose(finding.title) + (report.compare && finding.change == "new" ? " (new)" : "") + "\n\n";
  out += markdown_code(finding.rule);
  for (std::size_t i = 0; i < std::min(finding.keys.size(), step.keys); ++i) {
    out += (i == 0 ? " on " : ", ") + code(finding.keys[i]);
  }
  const std::uint64_t shown = std::min(finding.keys.size(), step.keys);
  if (finding.total > shown && shown > 0) {
    out += " and " + grouped(finding.total - shown) + " more";
  }
  out += "\n\n" + prose(finding.explanation) + "\n\n";
  const auto row = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) {
      out += "- " + std::string(name) + " " + markdown_code(cut_text(text, 600)) + "\n";
    }
  };
  row("first at", coordinate_text(finding));
  row("expected", bits_line(finding.expected));
  row("actual", bits_line(finding.actual));
  if (const std::string share = share_text(finding); !share.empty()) {
    out += "- " + share + "\n";
  }
  for (const EvidenceLine& line : finding.evidence) {
    out += "- " + (line.certainty.empty() ? std::string() : capital(line.certainty) + ": ") + prose(line.text) + "\n";
  }
  if (!finding.reproduce.empty() && finding.reproduce != report.run.command) {
    out += "\n" + markdown_fence(cut_text(finding.reproduce, 2000), "sh");
  }
  out += "\n";
}

void line(std::string& out, const Finding& finding, const Step& step) {
  out += "- " + std::string(sign(finding.status)) + " " + markdown_code(finding.rule) + " " + prose(finding.title);
  for (std::size_t i = 0; i < std::min(finding.keys.size(), std::min<std::size_t>(step.keys, 3)); ++i) {
    out += (i == 0 ? ": " : ", ") + code(finding.keys[i]);
  }
  if (finding.total > 3) {
    out += " and " + grouped(finding.total - std::min<std::uint64_t>(3, finding.keys.size())) + " more";
  }
  if (!finding.explained_by.empty()) {
    out += " (explained by another failure)";
  }
  out += "\n";
}

void failures_by_rule(std::string& out, const Report& report) {
  std::map<std::string, std::vector<const Finding*>> by_rule;
  for (const Finding& finding : report.findings) {
    if (failed(finding)) {
      by_rule[finding.rule].push_back(&finding);
    }
  }
  out += "| rule | failures | first |\n|---|---:|---|\n";
  for (const auto& [rule, findings] : by_rule) {
    out += "| " + markdown_code(cut_middle(rule, 64)) + " | " + grouped(findings.size()) + " | " +
           code(findings.front()->key) + " |\n";
  }
  out += "\n";
}

void checks_table(std::string& out, const Report& report) {
  out +=
      "<details><summary>Checks</summary>\n\n| group | failed | error | warned | passed | skipped "
      "|\n|---|---:|---:|---:|---:|---:|\n";
  std::vector<std::pair<std::string, std::vector<CheckRecord>>> groups;
  for (const CheckRecord& check : report.checks) {
    if (groups.empty() || groups.back().first != check.suite) {
      groups.emplace_back(check.suite, std::vector<CheckRecord>{});
    }
    CheckRecord bare;
    bare.status = check.status;
    groups.back().second.push_back(bare);
  }
  for (const auto& [suite, checks] : groups) {
    const Summary s = summarize(checks);
    out += "| " + prose(suite) + " | " + grouped(s.fail) + " | " + grouped(s.error) + " | " + grouped(s.warn) + " | " +
           grouped(s.pass) + " | " + grouped(s.skip) + " |\n";
  }
  out += "\n</details>\n\n";
}

void compared(std::string& out, const CompareInfo& compare) {
  out += "Against base" + (compare.base.empty() ? std::string() : " " + code(compare.base)) + ": **" +
         compare_line(compare) + "**.\n\n";
}

std::string render(const Report& report, const MarkdownOptions& options, const Step& step) {
  const Summary summary = summarize(report.checks);
  std::string out = "<!-- " + options.marker + " -->\n";
  out += "## " + verdict_word(verdict_of(summary)) + " ";
  const auto worst = gravest(report);
  if (worst.empty()) {
    out += calm_sentence(report);
  }
  for (std::size_t i = 0; i < worst.size(); ++i) {
    out += (i == 0 ? "" : "; ") + prose(worst[i]->title) +
           (worst[i]->key.empty() ? std::string() : ": " + code(worst[i]->key));
  }
  out += "\n\n";
  if (report.sample) {
    out += "**Sample data**: the figures are invented.\n\n";
  }
  out += counts_line(summary) + ".";
  if (const std::string causes = causes_line(report); !causes.empty()) {
    out += " " + causes + ".";
  }
  out += "\n\n" + prose(checkpoint_line(report.checkpoint)) + "\n\n";
  if (!options.report_url.empty()) {
    std::string url = options.report_url;
    std::erase_if(url, [](char c) { return c == '>' || c == '<' || c == ' ' || c == '\n'; });
    out += "[Full report](<" + url + ">)\n\n";
  }
  if (report.compare) {
    compared(out, *report.compare);
  }
  std::size_t failures = 0;
  std::size_t left = 0;
  for (const Finding& finding : report.findings) {
    if (!failed(finding)) {
      continue;
    }
    if (failures < step.in_full && finding.explained_by.empty()) {
      full(out, report, finding, step);
    } else if (failures < step.in_full + step.in_line) {
      line(out, finding, step);
    } else {
      ++left;
    }
    ++failures;
  }
  if (left > 0) {
    out += "\n" + plural(left, "failure") + " not listed one by one.\n\n";
    failures_by_rule(out, report);
  }
  out += failures > 0 ? "\n" : "";
  std::size_t warnings = 0;
  for (const Finding& finding : report.findings) {
    if (finding.status == Status::warn && warnings++ < step.warnings) {
      line(out, finding, step);
    }
  }
  if (warnings > step.warnings) {
    out += "- and " + plural(warnings - step.warnings, "more warning") + "\n";
  }
  out += warnings > 0 ? "\n" : "";
  if (step.notes) {
    std::string notes;
    for (const Finding& finding : report.findings) {
      if (finding.status == Status::pass) {
        notes += "- " + markdown_code(finding.rule) + " " + prose(finding.explanation) + "\n";
      }
    }
    if (!notes.empty()) {
      out += "<details><summary>Notes</summary>\n\n" + notes + "\n</details>\n\n";
    }
  }
  if (step.checks) {
    checks_table(out, report);
  }
  if (step.skips && summary.skip > 0) {
    out += "<details><summary>" + plural(summary.skip, "check") + " had nothing to run on</summary>\n\n";
    for (const auto& [reason, checks] : skips_by_reason(report)) {
      out += "- " + prose(reason) + ": " +
             listed_ids(checks, 8, [](std::string_view id) { return markdown_code(cut_middle(id, 64)); }) + "\n";
    }
    out += "\n</details>\n\n";
  }
  if (!report.run.command.empty()) {
    out += markdown_fence(cut_text(report.run.command, 2000), "sh");
  }
  if (!step.notice.empty()) {
    out += "\n" + std::string(step.notice) + "\n";
  }
  return out;
}

}  // namespace

std::string emit_markdown(const Report& report, const MarkdownOptions& options) {
  std::string out;
  for (const Step& step : k_steps) {
    out = render(report, options, step);
    if (out.size() <= options.limit) {
      return out;
    }
  }
  // Below the last step only the limit itself is left: whole lines, and a closing notice.
  constexpr std::string_view notice = "\n\nCut at the limit of this place; the report holds the rest.\n";
  const std::size_t room = options.limit > notice.size() ? options.limit - notice.size() : 0;
  const std::size_t line_end = out.rfind('\n', room);
  out.resize(line_end == std::string::npos ? 0 : line_end);
  return out + std::string(notice.substr(0, options.limit));
}

}  // namespace weightproof::reports
