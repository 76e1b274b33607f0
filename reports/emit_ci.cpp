// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "reports/causes_internal.hpp"
#include "reports/emit.hpp"
#include "reports/json.hpp"
#include "reports/location_internal.hpp"
#include "reports/text_internal.hpp"
#include "reports/verdict_internal.hpp"

// Annotations for two CI systems.
namespace weightproof::reports {
namespace {

// A line of a workflow command: a line end or a percent sign would begin another; in a property so would a colon or a
// comma.
std::string escaped(std::string_view text, bool property) {
  std::string out;
  for (const char c : spell_out(text)) {
    switch (c) {
      case '%':
        out += "%25";
        break;
      case '\r':
        out += "%0D";
        break;
      case '\n':
        out += "%0A";
        break;
      case ':':
        out += property ? "%3A" : ":";
        break;
      case ',':
        out += property ? "%2C" : ",";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string sentence(const Finding& finding) {
  std::string out = finding.title;
  if (!finding.key.empty()) {
    out += ": " + cut_middle(finding.key, 256);
  }
  if (finding.total > 1) {
    out += " and " + grouped(finding.total - 1) + " more";
  }
  return out + ". " + cut_text(finding.explanation, 600);
}

}  // namespace

std::string emit_github(const Report& report, std::size_t per_severity) {
  constexpr std::array<std::string_view, 3> commands = {"error", "warning", "notice"};
  std::array<std::size_t, 3> shown{};
  std::array<std::size_t, 3> left{};
  std::string out;
  for (const Finding& finding : report.findings) {
    const std::size_t kind = failed(finding) ? 0 : finding.status == Status::warn ? 1 : 2;
    // A consequence has its cause above it.
    if (!finding.explained_by.empty()) {
      continue;
    }
    // The last place of a severity is kept for the line that counts the rest.
    if (shown[kind] + 1 >= std::max<std::size_t>(per_severity, 1)) {
      ++left[kind];
      continue;
    }
    ++shown[kind];
    out += "::" + std::string(commands[kind]) + " file=" + escaped(location_path(report, finding), true) +
           ",line=" + std::to_string(std::max<std::uint32_t>(finding.location_line, 1)) +
           ",title=" + escaped(finding.rule + " " + cut_text(finding.title, 120), true) +
           "::" + escaped(sentence(finding), false) + "\n";
  }
  for (std::size_t kind = 0; kind < commands.size(); ++kind) {
    if (left[kind] > 0) {
      out += "::" + std::string(commands[kind]) + " title=weightproof::" + plural(left[kind], "more finding") +
             " of this severity in the report\n";
    }
  }
  return out;
}

std::string emit_gitlab(const Report& report) {
  Value out{Value::Array{}};
  for (const Finding& finding : report.findings) {
    std::string_view severity = "info";
    if (finding.status == Status::fail) {
      severity = gravity_class(finding.rule) == 0 ? "blocker" : "critical";
    } else if (finding.status == Status::error) {
      severity = "major";
    } else if (finding.status == Status::warn) {
      severity = "minor";
    }
    Value item;
    item["description"] = spell_out(sentence(finding));
    item["check_name"] = finding.rule;
    item["fingerprint"] = finding.fingerprint;
    item["severity"] = severity;
    item["location"]["path"] = spell_out(location_path(report, finding));
    item["location"]["lines"]["begin"] = std::max<std::uint32_t>(finding.location_line, 1);
    out.push_back(std::move(item));
  }
  return to_json(out, true) + "\n";
}

}  // namespace weightproof::reports
