// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "reports/emit.hpp"
#include "reports/json.hpp"
#include "reports/location_internal.hpp"
#include "reports/rules.hpp"
#include "reports/text_internal.hpp"
#include "reports/verdict_internal.hpp"

namespace weightproof::reports {
namespace {

constexpr std::size_t k_text_limit = 1000;

std::string_view level(Status status) {
  return status == Status::fail || status == Status::error ? "error" : status == Status::warn ? "warning" : "note";
}

Value text(std::string_view content) { return Value::object({{"text", spell_out(cut_text(content, k_text_limit))}}); }

Value rule_value(const Rule& rule) {
  const std::string_view first = rule.severity.substr(0, rule.severity.find(','));
  const Status status = first == "fail"    ? Status::fail
                        : first == "error" ? Status::error
                        : first == "warn"  ? Status::warn
                                           : Status::pass;
  return Value::object({{"id", rule.id},
                        {"name", rule.id},
                        {"shortDescription", text(rule.title)},
                        {"fullDescription", text(rule.description)},
                        {"help", text("weightproof explain " + std::string(rule.id))},
                        {"defaultConfiguration", Value::object({{"level", level(status)}})}});
}

Value result_value(const Report& report, const Finding& finding, std::int64_t rule_index) {
  std::string message = finding.title + (finding.key.empty() ? std::string() : ": " + cut_middle(finding.key, 256));
  if (finding.total > 1) {
    message += " and " + grouped(finding.total - 1) + " more";
  }
  message += ". " + finding.explanation;
  Value location;
  location["physicalLocation"]["artifactLocation"]["uri"] = location_uri(report, finding);
  location["physicalLocation"]["region"]["startLine"] = std::max<std::uint32_t>(finding.location_line, 1);
  if (!finding.key.empty()) {
    location["logicalLocations"].push_back(
        Value::object({{"fullyQualifiedName", spell_out(cut_middle(finding.key, 256))}, {"kind", "member"}}));
  }
  Value out;
  out["ruleId"] = finding.rule;
  if (rule_index >= 0) {
    out["ruleIndex"] = rule_index;
  }
  out["level"] = level(finding.status);
  out["message"] = text(message);
  out["locations"].push_back(std::move(location));
  out["partialFingerprints"]["weightproof/v1"] = finding.fingerprint;
  if (report.compare) {
    out["baselineState"] = finding.change == "still" ? "unchanged" : "new";
  }
  return out;
}

}  // namespace

std::string emit_sarif(const Report& report, std::size_t limit) {
  Value driver;
  driver["name"] = "weightproof";
  if (!report.run.tool.empty()) {
    driver["version"] = spell_out(cut_text(report.run.tool, 200));
  }
  std::map<std::string_view, std::int64_t> index;
  driver["rules"] = Value::Array{};
  for (const Rule& rule : rules()) {
    index.emplace(rule.id, static_cast<std::int64_t>(index.size()));
    driver["rules"].push_back(rule_value(rule));
  }
  Value results{Value::Array{}};
  std::size_t left = 0;
  for (const Finding& finding : report.findings) {
    if (results.if_array()->size() >= limit) {
      ++left;
      continue;
    }
    const auto it = index.find(finding.rule);
    results.push_back(result_value(report, finding, it == index.end() ? -1 : it->second));
  }
  Value invocation;
  invocation["executionSuccessful"] = summarize(report.checks).error == 0;
  if (left > 0) {
    Value note;
    note["level"] = "warning";
    note["message"] =
        text(grouped(left) + " results are left out for the limit of this format; report.json holds them.");
    invocation["toolExecutionNotifications"].push_back(std::move(note));
  }
  Value run;
  run["tool"]["driver"] = std::move(driver);
  run["results"] = std::move(results);
  run["invocations"].push_back(std::move(invocation));
  run["columnKind"] = "unicodeCodePoints";
  Value log;
  log["$schema"] = "https://json.schemastore.org/sarif-2.1.0.json";
  log["version"] = "2.1.0";
  log["runs"].push_back(std::move(run));
  return to_json(log, true) + "\n";
}

}  // namespace weightproof::reports
