// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <tuple>

#include "reports/page/parts_internal.hpp"

// Why the verdict can be trusted: what this commit proves, and whether the checks can fail.
namespace weightproof::reports::page {
namespace {

constexpr std::size_t k_families = 200;

std::string matrix_cell(const SupportRecord* record, bool group_start) {
  std::string css = group_start ? "g" : "";
  if (record == nullptr) {
    return "<td" + (css.empty() ? std::string() : " class=\"g\"") +
           "><i class=\"m x\"></i><span class=\"sr\">not eligible</span></td>";
  }
  const bool bad = record->status == Status::fail || record->status == Status::error;
  css += bad ? (css.empty() ? "f" : " f") : "";
  const std::string word = record->status == Status::skip ? "not run" : std::string(to_string(record->status));
  return "<td" + (css.empty() ? std::string() : " class=\"" + css + "\"") + ">" + mark(record->status) +
         "<span class=\"sr\">" + word + "</span></td>";
}

}  // namespace

std::string support(Context& context) {
  const auto& records = context.report.support;
  if (records.empty()) {
    return {};
  }
  std::vector<std::string> routes;
  std::vector<std::string> dtypes;
  std::vector<std::pair<std::string, std::string>> families;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, const SupportRecord*> table;
  const auto add = [](auto& list, const auto& item) {
    if (std::find(list.begin(), list.end(), item) == list.end()) {
      list.push_back(item);
    }
  };
  for (const char* route : {"direct", "bounded", "materialized"}) {
    if (std::any_of(records.begin(), records.end(), [&](const SupportRecord& r) { return r.route == route; })) {
      routes.emplace_back(route);
    }
  }
  for (const char* dtype : {"stored", "bf16", "f32", "f16"}) {
    if (std::any_of(records.begin(), records.end(), [&](const SupportRecord& r) { return r.dtype == dtype; })) {
      dtypes.emplace_back(dtype);
    }
  }
  std::uint64_t proved = 0;
  std::uint64_t bad = 0;
  std::uint64_t not_run = 0;
  for (const SupportRecord& record : records) {
    add(routes, record.route);
    add(dtypes, record.dtype);
    add(families, std::pair(record.family, record.form));
    table[{record.family, record.form, record.route, record.dtype}] = &record;
    const bool fails = record.status == Status::fail || record.status == Status::error;
    proved += record.status == Status::pass || record.status == Status::warn ? 1U : 0U;
    bad += fails ? 1U : 0U;
    not_run += record.status == Status::skip ? 1U : 0U;
  }
  std::string sentence = grouped(proved) + " of " + plural(records.size(), "possible combination") + " are proved";
  sentence += bad > 0 ? "; " + grouped(bad) + (bad == 1 ? " fails" : " fail") : "";
  sentence += not_run > 0 ? "; " + grouped(not_run) + " not run" : "";
  std::string out = section_open("support", "Support", "this commit") +
                    answer(bad > 0 ? Status::fail : Status::pass, sentence + ".") +
                    "<p class=\"sub\">The marked row is this checkpoint; the others are fixtures run by the same "
                    "commit.</p><div class=\"scroll\" "
                    "tabindex=\"0\" role=\"region\" aria-label=\"Support matrix\"><table class=\"sup\"><caption "
                    "class=\"sr\">Families, forms, routes and "
                    "result dtypes</caption><thead><tr><th scope=\"col\" rowspan=\"2\">Family</th><th scope=\"col\" "
                    "rowspan=\"2\">Form</th>";
  for (const std::string& route : routes) {
    out += "<th scope=\"colgroup\" colspan=\"" + std::to_string(dtypes.size()) + "\" class=\"g\">" +
           xml_text(cut_middle(route, 24)) + "</th>";
  }
  out += "</tr><tr>";
  for (std::size_t r = 0; r < routes.size(); ++r) {
    for (std::size_t d = 0; d < dtypes.size(); ++d) {
      out += "<th scope=\"col\"" + std::string(d == 0 ? " class=\"g\"" : "") + ">" +
             xml_text(cut_middle(dtypes[d], 12)) + "</th>";
    }
  }
  out += "</tr></thead><tbody>";
  for (std::size_t f = 0; f < std::min(families.size(), k_families); ++f) {
    const auto& [family, form] = families[f];
    const CheckpointInfo& c = context.report.checkpoint;
    const bool here =
        family == c.family && (form == c.form || form == c.quantization || (c.quantization.empty() && form == "plain"));
    out += "<tr" + std::string(here ? " class=\"here\"" : "") + "><th scope=\"row\" class=\"k\">" +
           html_name(cut_middle(family, 40)) + (here ? "<span class=\"sr\"> (this checkpoint)</span>" : "") +
           "</th><th scope=\"row\">" + xml_text(cut_middle(form, 40)) + "</th>";
    for (const std::string& route : routes) {
      for (std::size_t d = 0; d < dtypes.size(); ++d) {
        const auto it = table.find({family, form, route, dtypes[d]});
        out += matrix_cell(it == table.end() ? nullptr : it->second, d == 0);
      }
    }
    out += "</tr>";
  }
  out += "</tbody></table></div><p class=\"key2\">" + state(Status::fail) + state(Status::pass, "proved") +
         state(Status::skip, "not run") + "<span class=\"st\"><i class=\"m x\"></i>not eligible</span></p>";
  return out + section_close();
}

std::string selftest(Context& context) {
  if (!context.report.selftest) {
    return {};
  }
  const SelftestInfo& info = *context.report.selftest;
  struct Tally {
    std::uint64_t tried = 0;
    std::uint64_t killed = 0;
    std::uint64_t named = 0;
    std::set<std::string> by;
  };
  std::map<std::string, Tally> faults;
  std::vector<std::string> order;
  Tally all;
  for (const MutantRecord& mutant : info.mutants) {
    if (!faults.contains(mutant.fault)) {
      order.push_back(mutant.fault);
    }
    for (Tally* tally : {&faults[mutant.fault], &all}) {
      ++tally->tried;
      tally->killed += mutant.killed ? 1U : 0U;
      tally->named += mutant.killed && mutant.named ? 1U : 0U;
      if (!mutant.caught_by.empty()) {
        tally->by.insert(mutant.caught_by);
      }
    }
  }
  const std::uint64_t survivors = all.tried - all.killed;
  const std::uint64_t misnamed = all.killed - all.named;
  const bool bad = survivors + misnamed + info.false_alarms > 0;
  std::string sentence = survivors == 0
                             ? "All " + plural(all.tried, "planted fault") + " were caught"
                             : grouped(survivors) + " of " + plural(all.tried, "planted fault") + " survived";
  sentence += misnamed == 0 ? ", each on the right tensor." : ", " + grouped(misnamed) + " on the wrong tensor.";
  sentence += " " + plural(info.false_alarms, "false alarm") + " on " + plural(info.good_inputs, "good input") + ".";
  std::string out = section_open("selftest", "Selftest", "can these checks fail?") +
                    answer(bad ? Status::fail : Status::pass, sentence) +
                    "<div class=\"scroll\"><table class=\"t stack\">" +
                    table_head("Planted fault|#Tried|#Killed|#Right tensor|By") + "<tbody>";
  for (const std::string& fault : order) {
    const Tally& tally = faults[fault];
    std::string by;
    for (const std::string& rule : tally.by) {
      by += (by.empty() ? "" : ", ") + xml_text(cut_middle(rule, 60));
    }
    out += "<tr data-s=\"" + std::string(tally.named == tally.tried ? "pass" : "fail") + "\"><th scope=\"row\">" +
           xml_text(cut_middle(fault, 120)) + "</th>" + number_cell(tally.tried, "tried") +
           number_cell(tally.killed, "killed") + number_cell(tally.named, "right tensor") +
           cell("<span class=\"k\">" + by + "</span>", "by") + "</tr>";
  }
  out += "<tr class=\"tot\"><th scope=\"row\">Sum</th>" + number_cell(all.tried, "tried") +
         number_cell(all.killed, "killed") + number_cell(all.named, "right tensor") + "<td>" +
         plural(survivors, "survivor") + ", " + plural(misnamed, "wrong name") + "</td></tr></tbody></table></div>";
  std::string worst;
  for (const MutantRecord& mutant : info.mutants) {
    if (!mutant.killed || !mutant.named) {
      worst += "<li>" + state(Status::fail, mutant.killed ? "wrong name" : "survived") + " <span class=\"k\">" +
               xml_text(cut_middle(mutant.id, 80)) + "</span> " + html_name(mutant.subject) + " " +
               xml_text(cut_middle(mutant.note, 160)) + "</li>";
    }
  }
  for (const std::string& alarm : info.alarms) {
    worst += "<li>" + state(Status::fail, "false alarm") + " " + xml_text(cut_middle(alarm, 200)) + "</li>";
  }
  if (!worst.empty()) {
    out += "<ul class=\"ev\">" + worst + "</ul>";
  }
  return out + section_close();
}

}  // namespace weightproof::reports::page
