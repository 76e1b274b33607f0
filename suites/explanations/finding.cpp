// SPDX-License-Identifier: Apache-2.0
#include "suites/explanations/explanation.hpp"

#include <algorithm>

#include "suites/support/text.hpp"

namespace weightproof::suites {

reports::Finding finding_of(const Explanation& explanation, std::string_view rule) {
  reports::Finding out;
  out.rule = rule;
  out.key = explanation.key;
  out.keys = {explanation.key};
  out.total = 1;
  out.property = explanation.kind;
  out.title = explanation.title;
  out.explanation = explanation.text;
  if (!explanation.is_recognised()) {
    out.explanation = counted(explanation.differing, "element differs", "elements differ") +
                      "; no single rule turns one side into the other.";
  }
  if (explanation.first) {
    out.coordinate.assign(explanation.first->begin(), explanation.first->end());
    out.shape.assign(explanation.shape.begin(), explanation.shape.end());
    constexpr const char* names[] = {"matrix", "row", "column"};
    const unsigned rank = explanation.first->rank();
    if (rank == 2 || rank == 3) {
      out.axes.assign(names + (3 - rank), names + 3);
    }
  }
  out.source = explanation.source;
  out.expected = explanation.expected;
  out.actual = explanation.actual;
  if (explanation.elements > 0) {
    out.count = explanation.differing;
    out.elements = explanation.elements;
  }
  out.histogram = explanation.histogram;
  out.where = explanation.where;
  out.order = explanation.order;
  out.votes = explanation.votes;
  if (explanation.is_recognised()) {
    out.evidence.push_back({explanation.title, std::string(to_string(explanation.certainty))});
  }
  out.evidence.insert(out.evidence.end(), explanation.evidence.begin(), explanation.evidence.end());
  return out;
}

void add_finding(std::vector<reports::Finding>& findings, reports::Finding finding) {
  const bool is_of_an_export = finding.property == "requantized" || finding.property == "scale_folded";
  const auto same = std::find_if(findings.begin(), findings.end(), [&finding](const reports::Finding& other) {
    return other.rule == finding.rule && other.property == finding.property && other.title == finding.title &&
           other.explanation == finding.explanation;
  });
  if (!is_of_an_export || same == findings.end()) {
    findings.push_back(std::move(finding));
    return;
  }
  same->keys.insert(same->keys.end(), finding.keys.begin(), finding.keys.end());
  same->total += finding.total;
  same->count = same->count.value_or(0) + finding.count.value_or(0);
  same->elements = same->elements.value_or(0) + finding.elements.value_or(0);
}

std::string summary_of(const Explanation& explanation) {
  if (!explanation.is_recognised()) {
    return {};
  }
  return explanation.title + " (" + std::string(to_string(explanation.certainty)) + "): " + explanation.text;
}

}  // namespace weightproof::suites
