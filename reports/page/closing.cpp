// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "reports/json.hpp"
#include "reports/page/parts_internal.hpp"

// What was not checked and why, what it ran on, and the data for script and download.
namespace weightproof::reports::page {
namespace {

constexpr std::size_t k_ids = 12;
constexpr std::size_t k_reasons = 200;

std::string pair(std::string_view name, const std::string& html) {
  return html.empty() ? std::string() : "<dt>" + xml_text(cut_middle(name, 60)) + "</dt><dd>" + html + "</dd>";
}

std::string text(const std::string& value) { return xml_text(cut_middle(value, 200)); }

}  // namespace

std::string skips(Context& context) {
  const auto groups = skips_by_reason(context.report);
  if (groups.empty()) {
    return {};
  }
  std::string out = section_open("skips", "Skips", "never counted as passed") +
                    answer(Status::skip, plural(context.summary.skip, "check") + " had nothing to run on, for " +
                                             plural(groups.size(), "reason") + ".") +
                    "<div class=\"scroll\"><table class=\"t stack\">" +
                    table_head("#Checks@70|Reason|Ids|To run them") + "<tbody>";
  for (std::size_t g = 0; g < std::min(groups.size(), k_reasons); ++g) {
    const auto& [reason, checks] = groups[g];
    std::vector<std::string> ids;
    std::string hint;
    for (const CheckRecord* check : checks) {
      if (std::find(ids.begin(), ids.end(), check->id) == ids.end()) {
        ids.push_back(check->id);
      }
      hint = hint.empty() ? check->hint : hint;
    }
    std::string list;
    for (std::size_t i = 0; i < std::min(ids.size(), k_ids); ++i) {
      list += (i == 0 ? "" : ", ") + xml_text(cut_middle(ids[i], 60));
    }
    if (ids.size() > k_ids) {
      list += " and " + grouped(ids.size() - k_ids) + " more";
    }
    out += "<tr data-s=\"skip\">" + number_cell(checks.size(), "checks") +
           cell(xml_text(capital(cut_middle(reason, 300))), "reason") +
           cell("<span class=\"k\">" + list + "</span>", "ids") + cell(xml_text(cut_middle(hint, 300)), "to run them") +
           "</tr>";
  }
  if (groups.size() > k_reasons) {
    out += "<tr class=\"tot\"><td></td><td>" + plural(groups.size() - k_reasons, "more reason") +
           ", in report.json</td><td></td><td></td></tr>";
  }
  return out + "</tbody></table></div>" + section_close();
}

std::string environment(Context& context) {
  const Report& report = context.report;
  const RunInfo& run = report.run;
  std::string out =
      section_open("environment", "Environment", "what it ran on") + "<div class=\"cols\"><dl class=\"kv\">" +
      pair("tool", text(run.tool)) + pair("commit", text(run.commit)) + pair("started", text(run.start)) +
      pair("took", run.duration_s ? human_seconds(*run.duration_s) : std::string()) +
      pair("seed", run.seed ? "<span class=\"k\">" + std::to_string(*run.seed) + "</span>" : std::string()) +
      pair("host", text(run.host)) + pair("base report", text(run.base)) + "</dl>" +
      (report.environment.empty() ? "" : "<dl class=\"kv\">");
  for (const auto& [name, value] : report.environment) {
    std::string shown = name;
    std::replace(shown.begin(), shown.end(), '_', ' ');
    out += pair(shown, value.is_null() ? std::string("none found") : text(to_text(value, 200)));
  }
  out += std::string(report.environment.empty() ? "" : "</dl>") + "<dl class=\"kv\">" +
         pair("comparable part", "SHA-256 <span class=\"k\">" + comparable_digest(report).substr(0, 32) + "</span>...");
  const CheckpointInfo& c = report.checkpoint;
  std::string dtypes;
  for (const auto& [dtype, count] : c.dtypes) {
    dtypes += (dtypes.empty() ? "" : ", ") + text(dtype) + " " + grouped(count);
  }
  std::string architectures;
  for (const std::string& name : c.architectures) {
    architectures += (architectures.empty() ? "" : ", ") + text(name);
  }
  out += pair("format", text(c.format)) + pair("architectures", architectures) + pair("dtypes", dtypes) +
         pair("tied", c.tied ? (*c.tied ? "yes" : "no") : "unknown");
  for (const PolicyRecord& policy : report.policies) {
    if (policy.relaxation) {
      out += pair("relaxed", text(policy.source) + ": " + text(policy.name) + ", " + text(policy.value));
    }
  }
  out += "</dl></div>";
  if (!report.policies.empty()) {
    out +=
        "<details class=\"twin\"><summary>Policies in force where implementations disagree</summary><dl class=\"kv\">";
    for (const PolicyRecord& policy : report.policies) {
      out += pair(policy.name, text(policy.value) + " <span class=\"mu\">(" + text(policy.source) + ")</span>");
    }
    out += "</dl></details>";
  }
  if (!report.defaulted.empty()) {
    out +=
        "<details class=\"twin\"><summary>Taken by default, because the input does not say it</summary><dl "
        "class=\"kv\">";
    for (const DefaultedRecord& record : report.defaulted) {
      out += pair(record.name, text(record.value) + " <span class=\"mu\">(" + text(record.rule) + ")</span>");
    }
    out += "</dl></details>";
  }
  return out +
         "<p class=\"said\"><a id=\"raw\" href=\"report.json\" download=\"report.json\">Download report.json</a> (from "
         "this page with script, "
         "where it holds the whole document; else the file beside it)</p>" +
         section_close();
}

std::string data_block(const Context& context, bool whole) {
  Value data;
  if (whole) {
    data = to_value(context.report);
  } else {
    data["schema"] = k_report_schema;
    data["run"] =
        Value::object({{"command", context.report.run.command}, {"command_base", context.report.run.command_base}});
    Report brief;
    constexpr std::size_t k_findings = 2000;
    for (std::size_t i = 0; i < std::min(context.report.findings.size(), k_findings); ++i) {
      const Finding& f = context.report.findings[i];
      Finding kept;
      kept.rule = f.rule;
      kept.key = f.key;
      kept.keys = f.keys.size() > 8 ? std::vector<std::string>(f.keys.begin(), f.keys.begin() + 8) : f.keys;
      kept.title = f.title;
      kept.status = f.status;
      kept.fingerprint = f.fingerprint;
      brief.findings.push_back(std::move(kept));
    }
    if (context.step != Step::counts) {
      brief.tensors = context.report.tensors;
      if (brief.tensors && context.step == Step::grouped) {
        std::erase_if(brief.tensors->rows, [](const TensorRow& row) { return row.verdict == Status::pass; });
      }
    }
    const Value value = to_value(brief);
    for (const char* name : {"findings", "tensors"}) {
      if (const Value* part = value.find(name)) {
        data[name] = *part;
      }
    }
    if (data.find("findings") == nullptr) {
      data["findings"] = Value::Array{};
    }
  }
  std::string json = to_json(data);
  std::string out;
  out.reserve(json.size() + 64);
  // Nothing in it can end the element or start another, in HTML or XML.
  for (const char c : json) {
    switch (c) {
      case '<':
        out += "\\u003c";
        break;
      case '>':
        out += "\\u003e";
        break;
      case '&':
        out += "\\u0026";
        break;
      default:
        out += c;
    }
  }
  return "<script type=\"application/json\" id=\"data\">" + out + "</script>\n";
}

}  // namespace weightproof::reports::page
