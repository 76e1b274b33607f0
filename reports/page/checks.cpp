// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "reports/page/parts_internal.hpp"

// Every check, by group; the groups are closed.
namespace weightproof::reports::page {
namespace {

constexpr std::size_t k_rows_of_a_group = 5000;

std::string counts(const Summary& summary) {
  std::string out;
  const auto add = [&](Status status, std::uint64_t number) {
    if (number > 0) {
      out += state(status, grouped(number) + " " + std::string(to_string(status)));
    }
  };
  add(Status::fail, summary.fail);
  add(Status::error, summary.error);
  add(Status::warn, summary.warn);
  add(Status::skip, summary.skip);
  add(Status::pass, summary.pass);
  return out;
}

// The finding that tells more about a record.
const Finding* finding_for(const Context& context, const CheckRecord& check) {
  if (check.status == Status::pass || check.status == Status::skip) {
    return nullptr;
  }
  for (const std::string& subject : check.subjects) {
    if (const Finding* finding = context.finding_of(subject); finding != nullptr && finding->rule == check.id) {
      return finding;
    }
  }
  return context.finding_with(fingerprint_of(
      check.id, check.subjects.empty() ? std::string_view() : std::string_view(check.subjects.front()), ""));
}

std::string row(const Context& context, const CheckRecord& check) {
  const bool quiet = check.status == Status::pass || check.status == Status::skip;
  // A record of one case among many says what it found; what the rule asks would be the same line over and over.
  const bool plain =
      check.status == Status::pass && !check.case_name.empty() && check.message.empty() && check.explanation.empty();
  std::string text = plain ? std::string() : xml_text(cut_middle(check_text(check), 400));
  if (const Finding* finding = finding_for(context, check)) {
    text = finding_link(*finding, text);
  }
  if (check.total > 0 && check.status == Status::pass) {
    text += (text.empty() ? "" : " ") + ("(" + grouped(check.total) + ")");
  }
  return "<tr data-s=\"" + std::string(to_string(check.status)) + "\"><td class=\"st " + letter(check.status) + "\">" +
         std::string(to_string(check.status)) + "</td><td class=\"k\">" + xml_text(cut_middle(check.id, 80)) +
         (check.case_name.empty() ? std::string()
                                  : "<br/><small>" + xml_text(cut_middle(check.case_name, 160)) + "</small>") +
         "</td><td" + (quiet ? " class=\"mu\"" : "") + ">" + text + "</td></tr>";
}

}  // namespace

std::string checks(Context& context) {
  const auto& all = context.report.checks;
  const Summary& summary = context.summary;
  const Status status = summary.fail > 0                          ? Status::fail
                        : summary.error > 0 || summary.ran() == 0 ? Status::error
                        : summary.warn > 0                        ? Status::warn
                                                                  : Status::pass;
  std::string sentence =
      summary.fail > 0     ? grouped(summary.fail) + " of " + plural(summary.ran(), "check") + " that ran failed"
      : summary.error > 0  ? plural(summary.error, "check") + " could not be carried out"
      : summary.ran() == 0 ? std::string("No check ran")
      : summary.warn > 0
          ? plural(summary.warn, "check") + " of " + grouped(summary.ran()) + " that ran warned, none failed"
          : "All " + plural(summary.ran(), "check") + " that ran passed";
  sentence += summary.skip > 0 ? "; " + grouped(summary.skip) + " had nothing to run on." : ".";
  std::string body;
  std::uint64_t folded = 0;
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = begin;
    while (end < all.size() && all[end].suite == all[begin].suite) {
      ++end;
    }
    const std::vector<CheckRecord> group(all.begin() + static_cast<std::ptrdiff_t>(begin),
                                         all.begin() + static_cast<std::ptrdiff_t>(end));
    const Summary counted = summarize(group);
    std::vector<const CheckRecord*> rows;
    std::uint64_t hidden_pass = 0;
    std::uint64_t hidden_skip = 0;
    for (const CheckRecord& check : group) {
      const bool fold_pass = check.status == Status::pass && context.step >= Step::folded;
      const bool fold_skip = check.status == Status::skip && context.step >= Step::grouped;
      if (fold_pass || fold_skip || context.step == Step::counts) {
        hidden_pass += check.status == Status::pass ? 1U : 0U;
        hidden_skip += check.status == Status::skip ? 1U : 0U;
        continue;
      }
      rows.push_back(&check);
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const CheckRecord* a, const CheckRecord* b) { return a->status < b->status; });
    body += "<details class=\"g\"><summary><b class=\"k\">" + xml_text(cut_middle(group.front().suite, 40)) +
            "</b><span class=\"cs\">" + counts(counted) + "</span></summary><div class=\"scroll" +
            std::string(rows.size() > 500 ? " cv" : "") + "\"><table class=\"t stack sort\">" +
            table_head("Status@78|Check@240|Result") + "<tbody>";
    for (std::size_t i = 0; i < std::min(rows.size(), k_rows_of_a_group); ++i) {
      body += row(context, *rows[i]);
    }
    if (rows.size() > k_rows_of_a_group) {
      const std::size_t left = rows.size() - k_rows_of_a_group;
      body += "<tr class=\"tot\"><td></td><td></td><td>" + grouped(left) +
              " more records of this group are in report.json</td></tr>";
      context.left_out.push_back(plural(left, "record") + " of group " + group.front().suite);
    }
    if (hidden_pass > 0) {
      body += "<tr class=\"tot\" data-s=\"pass\"><td class=\"st p\">pass</td><td></td><td>" + grouped(hidden_pass) +
              " pass</td></tr>";
    }
    if (hidden_skip > 0) {
      body += "<tr class=\"tot\" data-s=\"skip\"><td class=\"st s\">skip</td><td></td><td>" + grouped(hidden_skip) +
              " skip; the reasons are under Skips</td></tr>";
    }
    if (context.step == Step::counts && counted.fail + counted.error + counted.warn > 0) {
      body += "<tr class=\"tot\"><td></td><td></td><td>" + grouped(counted.fail + counted.error + counted.warn) +
              " failed, errored or warned; by rule under Findings</td></tr>";
    }
    body += "</tbody></table></div></details>";
    folded += hidden_pass + hidden_skip;
    begin = end;
  }
  if (folded > 0) {
    sentence += " " + grouped(folded) + " rows of passing or skipped checks are folded into counts.";
    context.left_out.push_back(plural(folded, "passing or skipped check") + " as counts");
  }
  return section_open("checks", "Checks", plural(all.size(), "record")) + answer(status, sentence) + body +
         section_close();
}

}  // namespace weightproof::reports::page
