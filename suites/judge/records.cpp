// SPDX-License-Identifier: Apache-2.0
// From a comparison to check records and findings.
#include <algorithm>

#include "suites/judge/compare.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::judge {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

CheckBuilder builder_of(const char* id, const std::string& case_name, const std::string& reproduce) {
  CheckBuilder builder(id);
  builder.case_name(case_name).evidence("property", case_name).evidence("reproduce", reproduce);
  return builder;
}

CheckRecord names_record(CheckBuilder builder, const std::vector<std::string>& names, const char* what,
                         std::uint64_t examined) {
  for (const std::string& name : names) {
    builder.subject(name);
  }
  builder.examined(examined);
  return builder.fail_if_subjects(names.empty() ? std::string()
                                                : counted(names.size(), "tensor", "tensors") + " " + what + ", first " +
                                                      printable(names.front()));
}

CheckRecord mismatch_record(CheckBuilder builder, const std::vector<Comparison::Mismatch>& rows, const char* what,
                            std::uint64_t examined) {
  for (const Comparison::Mismatch& row : rows) {
    builder.subject(row.name);
  }
  builder.examined(examined);
  if (rows.empty()) {
    return builder.pass();
  }
  const Comparison::Mismatch& first = rows.front();
  builder.expected(first.expected).actual(first.actual);
  return builder.fail(printable(first.name) + " has " + what + " " + first.actual + ", asked for was " +
                      first.expected + (first.remark.empty() ? "" : ": " + first.remark));
}

CheckRecord values_record(CheckBuilder builder, const std::vector<ValueDifference>& rows, std::uint64_t examined) {
  builder.examined(examined);
  if (rows.empty()) {
    return builder.pass();
  }
  for (const ValueDifference& row : rows) {
    builder.subject(row.name);
  }
  const ValueDifference& first = rows.front();
  if (first.explanation) {
    builder.explanation(summary_of(*first.explanation));
  }
  builder.expected(first.expected).actual(first.actual);
  builder.evidence("coordinate", reports::Value::array_of(first.coordinate))
      .evidence("shape", reports::Value::array_of(first.shape))
      .evidence("count", first.differing)
      .evidence("elements", first.elements)
      .evidence("dtype", first.dtype)
      .evidence("source", first.source);
  std::string at;
  for (const std::uint64_t index : first.coordinate) {
    at += (at.empty() ? "" : ", ") + std::to_string(index);
  }
  return builder.fail(printable(first.name) + "[" + at + "] is " + first.actual + ", the reference says " +
                      first.expected + "; " + grouped(first.differing) + " of " +
                      counted(first.elements, "element differs", "elements differ"));
}

/// A finding for each kind of mistake that was recognised, and one for all other tensors, which is about the first.
void add_findings(const std::vector<ValueDifference>& values, const std::string& case_name,
                  const std::string& reproduce, std::vector<reports::Finding>& findings) {
  std::vector<std::pair<std::string, reports::Finding>> by_kind;
  std::vector<std::string> unexplained;
  for (const ValueDifference& row : values) {
    if (!row.explanation) {
      unexplained.push_back(row.name);
      continue;
    }
    const std::string kind = row.explanation->kind;
    const auto known =
        std::find_if(by_kind.begin(), by_kind.end(), [&](const auto& entry) { return entry.first == kind; });
    if (known != by_kind.end()) {
      known->second.keys.push_back(row.name);
      continue;
    }
    reports::Finding finding = finding_of(*row.explanation, "value.exact");
    finding.property = case_name;
    finding.reproduce = reproduce;
    by_kind.emplace_back(kind, std::move(finding));
  }
  for (auto& [kind, finding] : by_kind) {
    if (kind.empty()) {
      finding.keys.insert(finding.keys.end(), unexplained.begin(), unexplained.end());
    }
    finding.total = finding.keys.size();
    const std::string first = finding.total > 1 ? "of " + printable(finding.key) + ", the first of " +
                                                      counted(finding.total, "tensor", "tensors") + ": "
                                                : std::string();
    finding.explanation = case_name + ": " + first + finding.explanation;
    findings.push_back(std::move(finding));
  }
}

}  // namespace

CaseRecords records_of(const Comparison& comparison, const std::string& case_name, const std::string& reproduce) {
  const auto builder = [&](const char* id) { return builder_of(id, case_name, reproduce); };
  CaseRecords all;
  std::vector<CheckRecord>& out = all.checks;
  const std::uint64_t tensors = comparison.tensors;
  out.push_back(names_record(builder("keys.missing"), comparison.missing, "missing", tensors));
  out.push_back(names_record(builder("keys.unexpected"), comparison.unexpected, "nobody asked for", tensors));
  if (!comparison.missing_heads.empty()) {
    out.push_back(names_record(builder("tied.head_missing"), comparison.missing_heads,
                               "missing: a head that is not tied", tensors));
  }
  out.push_back(mismatch_record(builder("keys.shape"), comparison.shapes, "shape", tensors));
  // One record for the dtypes of a sound answer; a fault is named by its kind.
  const std::size_t before = out.size();
  const auto add_fault = [&](const char* id, const std::vector<Comparison::Mismatch>& rows) {
    if (!rows.empty()) {
      out.push_back(mismatch_record(builder(id), rows, "dtype", tensors));
    }
  };
  add_fault("dtype.f32_state", comparison.narrowed_f32);
  add_fault("dtype.narrowed", comparison.narrowed);
  add_fault("dtype.integer_cast", comparison.integers);
  add_fault("dtype.declared", comparison.dtypes);
  if (out.size() == before) {
    out.push_back(builder("dtype.declared").examined(tensors).pass());
  }
  if (!comparison.tied.empty()) {
    out.push_back(values_record(builder("tied.mismatch"), comparison.tied, comparison.bytes));
  }
  out.push_back(values_record(builder("value.exact"), comparison.values, comparison.bytes));
  for (CheckRecord& record : out) {
    if (record.status == reports::Status::fail) {
      record.message = case_name + ": " + record.message;  // the same fault shows in many cases
    }
  }
  add_findings(comparison.values, case_name, reproduce, all.findings);
  return all;
}

}  // namespace weightproof::suites::judge
