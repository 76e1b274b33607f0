// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "reports/page/parts_internal.hpp"

// The first screen: the verdict as a sentence that names the faults, counts, facts, command, and what changed against
// base.
namespace weightproof::reports::page {
namespace {

constexpr std::size_t k_listed = 4;

// A title inside a sentence: its first letter in lower case, unless it is an abbreviation.
std::string inside(std::string_view title) {
  std::string out(title);
  if (out.size() > 1 && out[0] >= 'A' && out[0] <= 'Z' && out[1] >= 'a' && out[1] <= 'z' &&
      out.compare(0, 3, "Inf") != 0 && out.compare(0, 3, "NaN") != 0) {
    out[0] = static_cast<char>(out[0] - 'A' + 'a');
  }
  return out;
}

std::string sentence(const Context& context) {
  if (context.cards().empty()) {
    return xml_text(calm_sentence(context.report));
  }
  std::string out;
  for (std::size_t i = 0; i < context.cards().size(); ++i) {
    const Finding& finding = *context.cards()[i];
    const std::string title = cut_middle(finding.title, 120);
    out += i == 0 ? xml_text(title) : "; " + xml_text(inside(title));
    const auto same = [&](const Finding* other) { return other->key == finding.key; };
    if (!finding.key.empty() &&
        std::any_of(context.cards().begin(), context.cards().begin() + static_cast<std::ptrdiff_t>(i), same)) {
      out += " (same tensor)";
    } else if (!finding.key.empty()) {
      out += ": " + html_name(cut_middle(finding.key, 120));
    }
    if (finding.total > 1) {
      out += " and " + grouped(finding.total - 1) + " more";
    }
  }
  return out + ".";
}

std::string count(Status status, std::uint64_t number, std::string_view word) {
  if (number == 0 && status != Status::pass) {
    return {};
  }
  return std::string("<a href=\"#checks\" data-q=\"is:") + std::string(to_string(status)) + "\"><span class=\"st " +
         letter(status) + "\">" + mark(status) + "<b>" + grouped(number) + "</b> " + std::string(word) + "</span></a>";
}

std::string facts(const Report& report) {
  const CheckpointInfo& c = report.checkpoint;
  std::string out = "<p class=\"facts\"><b>" + html_name(c.path) + "</b>";
  if (!c.family.empty()) {
    out += ", family " + html_name(cut_middle(c.family, 60));
  }
  if (!c.quantization.empty()) {
    out += ", " + html_name(cut_middle(c.quantization, 60));
  }
  if (c.tensors > 0 || c.files > 0) {
    out += ", " + human_bytes(c.bytes) + " in " + plural(c.files, "file") + ". <b>" +
           plural(c.tensors, "stored tensor") + "</b>";
  }
  if (report.run.duration_s) {
    out += ", verified in " + human_seconds(*report.run.duration_s);
  }
  return out + ".</p>";
}

// Entries that have a finding of their own first, then the others; those that others explain are counted.
std::string entries(const Context& context, const std::vector<CompareEntry>& list, bool warnings_too) {
  std::string out = "<ul>";
  std::size_t shown = 0;
  std::size_t explained = 0;
  std::size_t warned = 0;
  std::size_t left = 0;
  for (const CompareEntry& entry : list) {
    if (!warnings_too && entry.status == Status::warn) {
      ++warned;
      continue;
    }
    const Finding* finding = context.finding_with(entry.fingerprint);
    if (finding != nullptr && !finding->explained_by.empty()) {
      ++explained;
      continue;
    }
    if (shown == k_listed) {
      ++left;
      continue;
    }
    ++shown;
    const std::string rule = xml_text(cut_middle(entry.rule, 60));
    const std::string text = xml_text(cut_middle(entry.text, 120));
    // The text of a counter names it.
    const bool counter = !entry.base.is_null() || !entry.head.is_null();
    out += "<li>" +
           (finding != nullptr ? finding_link(*finding, rule) + " "
            : counter          ? std::string()
                               : rule + ", ") +
           text + "</li>";
  }
  if (explained > 0) {
    out += "<li class=\"mu\">and " + grouped(explained) + " explained by these</li>";
  }
  if (left > 0) {
    out += "<li class=\"mu\">and " + grouped(left) + " more</li>";
  }
  if (warned > 0) {
    out += "<li class=\"mu\">and " + plural(warned, "warning") + "</li>";
  }
  return out + "</ul>";
}

std::string change_row(const Context& context, std::string_view css, std::uint64_t number, std::string_view word,
                       const std::vector<CompareEntry>& list, bool warnings_too) {
  return "<div class=\"chg\"><dt" +
         (css.empty() || number == 0 ? std::string() : " class=\"" + std::string(css) + "\"") + "><b>" +
         grouped(number) + "</b>" + std::string(word) + "</dt><dd>" + entries(context, list, warnings_too) +
         "</dd></div>";
}

std::string base(const Context& context) {
  std::string out = "<aside class=\"base\" aria-labelledby=\"hb\"><h2 id=\"hb\">Against base</h2>";
  if (!context.report.compare) {
    return out +
           "<p class=\"calm mu\">No base report was given. <span class=\"k\">weightproof report compare BASE "
           "HEAD</span> shows what is new, "
           "fixed and still failing.</p></aside>";
  }
  const CompareInfo& c = *context.report.compare;
  out +=
      "<dl>" + change_row(context, "f", failing(c.fresh), "new", c.fresh, false) +
      change_row(context, "p", c.fixed.size(), "fixed", c.fixed, true) +
      change_row(context, "", failing(c.still), failing(c.still) == 1 ? "still fails" : "still fail", c.still, false) +
      change_row(context, "", c.changed_passing.size(), "changed, pass", c.changed_passing, true) + "</dl></aside>";
  return out;
}

}  // namespace

std::string hero(Context& context) {
  const Report& report = context.report;
  const Status status = context.verdict == Verdict::pass   ? Status::pass
                        : context.verdict == Verdict::fail ? Status::fail
                                                           : Status::error;
  std::string out = "<div class=\"hero\" id=\"verdict\"><div><p class=\"eye\">" +
                    xml_text(report.run.title.empty() ? "verify" : cut_middle(report.run.title, 120));
  if (!report.run.commit.empty()) {
    out +=
        ", <span class=\"nw\">head <span class=\"k\">" + xml_text(cut_middle(report.run.commit, 40)) + "</span></span>";
  }
  if (report.compare && !report.compare->base.empty()) {
    out += " <span class=\"nw\">against base <span class=\"k\">" + xml_text(cut_middle(report.compare->base, 40)) +
           "</span></span>";
  }
  out += "</p>\n<h1>" + mark(status) + "<span class=\"vd " + std::string(1, letter(status)) + "\">" +
         verdict_word(context.verdict) + "</span> " + sentence(context) + "</h1>\n<p class=\"counts\">" +
         count(Status::fail, context.summary.fail, "failed") +
         count(Status::error, context.summary.error, context.summary.error == 1 ? "error" : "errors") +
         count(Status::warn, context.summary.warn, "warned") + count(Status::skip, context.summary.skip, "skipped") +
         count(Status::pass, context.summary.pass, "passed");
  if (const std::string causes = causes_line(report); !causes.empty()) {
    out += "<span class=\"mu\">" + causes + "</span>";
  }
  out += "</p>\n" + facts(report);
  if (!report.run.command.empty()) {
    out += command(report.run.command);
  }
  return out + "</div>\n" + base(context) + "</div>\n";
}

}  // namespace weightproof::reports::page
