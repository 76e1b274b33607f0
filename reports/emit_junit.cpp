// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include "reports/emit.hpp"
#include "reports/markup_internal.hpp"
#include "reports/text_internal.hpp"
#include "reports/verdict_internal.hpp"

namespace weightproof::reports {
namespace {

std::string details(const CheckRecord& check) {
  std::string out = check.explanation;
  const auto line = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) {
      out += (out.empty() ? "" : "\n") + std::string(name) + ": " + text;
    }
  };
  line("expected", check.expected.is_null() ? std::string() : to_text(check.expected));
  line("actual", check.actual.is_null() ? std::string() : to_text(check.actual));
  line("hint", check.hint);
  for (const std::string& subject : check.subjects) {
    line("subject", cut_middle(subject, 1024));
  }
  if (check.total > check.shown && !check.subjects.empty()) {
    line("subjects", grouped(check.total) + " in all, " + grouped(check.shown) + " shown");
  }
  return out;
}

std::string body(const CheckRecord& check) {
  const auto element = [&](std::string_view name, const std::string& message, std::string_view type) {
    return "      <" + std::string(name) + " message=\"" + xml_text(cut_text(message, 1000)) + "\" type=\"" +
           xml_text(type) + "\">" + xml_block(details(check)) + "</" + std::string(name) + ">\n";
  };
  switch (check.status) {
    case Status::fail:
      return element("failure", check_text(check), check.id);
    case Status::error:
      return element("error", check_text(check), check.code.empty() ? check.id : check.code);
    case Status::skip:
      return "      <skipped message=\"" + xml_text(cut_text(check.reason, 1000)) + "\"/>\n";
    case Status::warn:
      return "      <system-out>" + xml_block("warning: " + check_text(check) + "\n" + details(check)) +
             "</system-out>\n";
    case Status::pass:
      break;
  }
  return check.explanation.empty() ? std::string()
                                   : "      <system-out>" + xml_block("note: " + check.explanation) + "</system-out>\n";
}

}  // namespace

std::string emit_junit(const Report& report) {
  const Summary all = summarize(report.checks);
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  out += "<testsuites name=\"weightproof\" tests=\"" + std::to_string(all.total()) + "\" failures=\"" +
         std::to_string(all.fail) + "\" errors=\"" + std::to_string(all.error) + "\" skipped=\"" +
         std::to_string(all.skip) + "\">\n";
  std::set<std::pair<std::string, std::string>> used;
  for (std::size_t begin = 0; begin < report.checks.size();) {
    std::size_t end = begin;
    std::vector<CheckRecord> suite;
    while (end < report.checks.size() && report.checks[end].suite == report.checks[begin].suite) {
      suite.push_back(report.checks[end++]);
    }
    const Summary summary = summarize(suite);
    const std::string name = "weightproof." + suite.front().suite;
    out += "  <testsuite name=\"" + xml_text(name) + "\" tests=\"" + std::to_string(summary.total()) +
           "\" failures=\"" + std::to_string(summary.fail) + "\" errors=\"" + std::to_string(summary.error) +
           "\" skipped=\"" + std::to_string(summary.skip) + "\">\n";
    if (begin == 0) {
      out += "    <properties>\n";
      const auto property = [&](std::string_view key, const std::string& value) {
        if (!value.empty()) {
          out += "      <property name=\"" + std::string(key) + "\" value=\"" + xml_text(value) + "\"/>\n";
        }
      };
      property("checkpoint", report.checkpoint.path);
      property("family", report.checkpoint.family);
      property("command", report.run.command);
      property("seed", report.run.seed ? std::to_string(*report.run.seed) : std::string());
      property("commit", report.run.commit);
      out += "    </properties>\n";
    }
    for (const CheckRecord& check : suite) {
      std::string test = check.case_name.empty() ? check.id : check.id + " " + check.case_name;
      // Readers key on classname and name, so a pair is given once; a second record of a check carries its first
      // subject.
      if (!used.emplace(name, test).second) {
        if (!check.subjects.empty()) {
          test += " " + cut_middle(check.subjects.front(), 256);
        }
        std::string numbered = test;
        for (int n = 2; !used.emplace(name, numbered).second; ++n) {
          numbered = test + " #" + std::to_string(n);
        }
        test = numbered;
      }
      const std::string inner = body(check);
      out += "    <testcase classname=\"" + xml_text(name) + "\" name=\"" + xml_text(test) + "\"";
      out += inner.empty() ? "/>\n" : ">\n" + inner + "    </testcase>\n";
    }
    out += "  </testsuite>\n";
    begin = end;
  }
  return out + "</testsuites>\n";
}

}  // namespace weightproof::reports
