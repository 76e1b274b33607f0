// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "reports/emit.hpp"
#include "reports/page/parts_internal.hpp"
#include "reports/sha256_internal.hpp"

// The page around the blocks, and how much of a large report it shows.
namespace weightproof::reports {
namespace page {
namespace {

constexpr std::size_t k_target = std::size_t{2} << 20;  // of a page with everything
constexpr std::size_t k_most = std::size_t{8} << 20;    // of any page
constexpr std::string_view k_first_script = "document.documentElement.classList.add('js')";

struct Section {
  std::string id;
  std::string name;
  std::string html;
  bool bad = false;
};

std::string_view footer_of(Step step) {
  switch (step) {
    case Step::whole:
      return "rendered whole: all findings, all checks, all tensors";
    case Step::folded:
      return "passing checks are folded into counts; report.json has every one";
    case Step::grouped:
      return "grouped: passing and skipped checks as counts, findings past 200 by rule; report.json has every one";
    case Step::counts:
      return "counts, three findings and findings by rule; the rest is only in report.json";
  }
  return {};
}

std::string title(const Context& context) {
  std::string out = verdict_word(context.verdict);
  out.back() = ':';
  out += " ";
  if (context.cards().empty()) {
    out += calm_sentence(context.report);
  } else {
    out += cut_middle(context.cards().front()->title, 100) + ", " +
           plural(count_causes(context.report).failures, "failure");
  }
  return xml_text(out) + (context.report.sample ? " (sample)" : "") + " - weightproof";
}

std::string favicon(Verdict verdict) {
  const std::string_view shape = verdict == Verdict::pass   ? "M8 2a6 6 0 1 0 0 12a6 6 0 1 0 0-12z"
                                 : verdict == Verdict::fail ? "M3 1l5 5 5-5 2 2-5 5 5 5-2 2-5-5-5 5-2-2 5-5-5-5z"
                                                            : "M8 0l8 8-8 8-8-8z";
  const std::string_view color = verdict == Verdict::pass ? "27693f" : verdict == Verdict::fail ? "b0221b" : "7b2a8c";
  return "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='" +
         std::string(shape) + "' fill='%23" + std::string(color) + "'/%3E%3C/svg%3E";
}

std::string head(const Context& context, const std::string& body_script) {
  return "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\"><head><meta "
         "charset=\"utf-8\"/><meta "
         "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src "
         "'sha256-" +
         base64(sha256(k_first_script)) + "' 'sha256-" + base64(sha256(body_script)) +
         "'; img-src data:; base-uri 'none'; form-action 'none'\"/><meta name=\"viewport\" "
         "content=\"width=device-width, initial-scale=1\"/><meta "
         "name=\"color-scheme\" content=\"light dark\"/><meta name=\"referrer\" content=\"no-referrer\"/><title>" +
         title(context) + "</title><link rel=\"icon\" href=\"" + favicon(context.verdict) + "\"/><style>\n" +
         std::string(style()) + "</style><script>" + std::string(k_first_script) + "</script></head>\n";
}

std::string bar(const Context& context, const std::vector<Section>& sections) {
  const Status status = context.verdict == Verdict::pass   ? Status::pass
                        : context.verdict == Verdict::fail ? Status::fail
                                                           : Status::error;
  std::string out = "<header class=\"bar\"><span class=\"who\">weightproof " +
                    state(status, capital(to_string(context.verdict))) + "</span><nav aria-label=\"Sections\"><ul>";
  for (const Section& section : sections) {
    out += "<li><a href=\"#" + section.id + "\">" + section.name +
           (section.bad ? "<i class=\"m f\"></i><span class=\"sr\"> has a failure</span>" : std::string()) +
           "</a></li>";
  }
  return out +
         "</ul></nav><div class=\"tools\"><div class=\"q jo\"><label class=\"sr\" for=\"q\">Filter checks, findings "
         "and tensors</label><input id=\"q\" "
         "type=\"search\" placeholder=\"Filter: layer 17, is:fail\" autocomplete=\"off\" spellcheck=\"false\"/><output "
         "id=\"qn\" for=\"q\" "
         "aria-live=\"polite\"></output></div><button type=\"button\" id=\"theme\" class=\"jo\">Theme: "
         "auto</button><button type=\"button\" "
         "popovertarget=\"help\" aria-label=\"Help and keyboard shortcuts\">?</button></div></header>\n";
}

std::string help() {
  struct Key {
    std::string_view keys;
    std::string_view text;
  };
  constexpr Key keys[] = {{"/", "filter; words are joined by and, is:fail picks a status"},
                          {"j k", "next, previous finding"},
                          {"c", "copy the reproduce command of the current finding"},
                          {"m", "go to the map; arrows, Home, End, PageUp, PageDown move, Enter opens a tensor"},
                          {"n p", "next, previous tensor that does not pass"},
                          {"e", "open or close all details"},
                          {"t", "theme: auto, light, dark"},
                          {"Esc", "close the tensor, clear the filter"},
                          {"?", "this list"}};
  std::string out =
      "<div id=\"help\" popover=\"auto\" role=\"dialog\" aria-labelledby=\"hh\"><h2 id=\"hh\">Keyboard</h2><dl>";
  for (const Key& key : keys) {
    out += "<dt>";
    for (std::size_t begin = 0; begin < key.keys.size();) {
      const std::size_t end = std::min(key.keys.find(' ', begin), key.keys.size());
      out += (begin == 0 ? "<kbd>" : " <kbd>") + std::string(key.keys.substr(begin, end - begin)) + "</kbd>";
      begin = end + 1;
    }
    out += "</dt><dd>" + std::string(key.text) + "</dd>";
  }
  return out +
         "</dl><p class=\"said\"><label><input type=\"checkbox\" id=\"keys\" checked=\"checked\"/> Single-key "
         "shortcuts on</label></p><p "
         "class=\"said\">Every link to a finding or a tensor is a fingerprint of rule, key and property; it stays the "
         "same from run to "
         "run.</p></div>\n";
}

constexpr std::string_view k_patterns =
    "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\" focusable=\"false\"><defs><pattern "
    "id=\"hf\" width=\"5\" "
    "height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><line x1=\"0\" y1=\"0\" x2=\"0\" "
    "y2=\"5\" "
    "class=\"hat\"/></pattern><pattern id=\"hm\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
    "patternTransform=\"rotate(45)\"><line "
    "x1=\"0\" y1=\"0\" x2=\"0\" y2=\"5\" class=\"hatm\"/></pattern></defs></svg>\n";

bool any_bad(const std::vector<Finding>& findings) { return std::any_of(findings.begin(), findings.end(), failed); }

std::string render(const Report& report, Step step) {
  Context context(report, step);
  const std::string first = hero(context);
  const auto tensor_bad = [&] {
    return report.tensors &&
           std::any_of(report.tensors->rows.begin(), report.tensors->rows.end(), [](const TensorRow& row) {
             return row.verdict == Status::fail || row.verdict == Status::error;
           });
  };
  std::vector<Section> sections = {
      {"findings", "Findings", findings(context), any_bad(report.findings)},
      {"map", "Map", map(context), tensor_bad()},
      {"checks", "Checks", checks(context), context.summary.fail + context.summary.error > 0},
      {"ledger", "Ledger", ledger(context),
       context.check_failed("io.ledger") || context.check_failed("layout.coverage")},
      {"memory", "Memory", memory(context), context.group_failed("mem")},
      {"routes", "Routes", routes(context), context.check_failed("io.route")},
      {"timings", "Timings", timings(context), false},
      {"support", "Support", support(context),
       std::any_of(report.support.begin(), report.support.end(),
                   [](const SupportRecord& r) { return r.status == Status::fail || r.status == Status::error; })},
      {"selftest", "Selftest", selftest(context),
       report.selftest && (report.selftest->false_alarms > 0 ||
                           std::any_of(report.selftest->mutants.begin(), report.selftest->mutants.end(),
                                       [](const MutantRecord& m) { return !m.killed || !m.named; }))},
      {"skips", "Skips", skips(context), false},
      {"environment", "Environment", environment(context), false}};
  std::erase_if(sections, [](const Section& section) { return section.html.empty(); });
  const std::string body_script = "\n//<![CDATA[\n" + std::string(script()) + "//]]>\n";
  std::string out = head(context, body_script) +
                    "<body>\n<a class=\"skip\" href=\"#findings\">Skip to the findings</a>" + std::string(k_patterns);
  if (report.sample) {
    out +=
        "<div class=\"sample\" role=\"note\"><b>SAMPLE DATA</b><span>The checkpoint, the machine and every figure are "
        "invented.</span></div>\n";
  }
  out += bar(context, sections) + help() + "<main>\n" + first;
  for (const Section& section : sections) {
    out += section.html;
  }
  out += "<footer><span>" + std::string(k_report_schema) + ", " + std::string(footer_of(step)) + "</span>";
  for (const std::string& note : context.left_out) {
    out += "<span>" + xml_text(note) + "</span>";
  }
  if (report.sample) {
    out += "<span>Sample data</span>";
  }
  out +=
      "</footer></main>\n<aside id=\"drawer\" hidden=\"hidden\" aria-labelledby=\"dk\"><div class=\"dh\"><span "
      "id=\"dst\"></span><h2 "
      "id=\"dk\"></h2><button type=\"button\" id=\"dp\" title=\"p\">Previous fault</button><button type=\"button\" "
      "id=\"dn\" title=\"n\">Next "
      "fault</button><button type=\"button\" id=\"dx\" title=\"Esc\">Close</button></div><div class=\"dg\" "
      "id=\"dgr\"></div></aside>\n<p id=\"say\" "
      "class=\"sr\" role=\"status\" aria-live=\"polite\"></p>\n";
  // The whole document where the page stays under its target with it, else what map and drawer need.
  const std::string tail = "<script>" + body_script + "</script></body></html>\n";
  if (step == Step::whole) {
    const std::string whole = data_block(context, true);
    if (out.size() + whole.size() + tail.size() <= k_target) {
      return out + whole + tail;
    }
  }
  return out + data_block(context, false) + tail;
}

Step step_of(const Report& report) {
  const std::size_t size = std::max(report.checks.size(), report.tensors ? report.tensors->rows.size() : 0);
  return size <= 5000 ? Step::whole : size <= 20000 ? Step::folded : size <= 100000 ? Step::grouped : Step::counts;
}

}  // namespace
}  // namespace page

std::string emit_html(const Report& report) {
  page::Step step = page::step_of(report);
  std::string out = page::render(report, step);
  while (out.size() > page::k_most && step != page::Step::counts) {
    step = static_cast<page::Step>(static_cast<int>(step) + 1);
    out = page::render(report, step);
  }
  return out;
}

}  // namespace weightproof::reports
