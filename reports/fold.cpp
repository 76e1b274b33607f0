// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "reports/causes_internal.hpp"
#include "reports/report.hpp"
#include "reports/rules.hpp"
#include "reports/text_internal.hpp"

namespace weightproof::reports {
namespace {

// What is said first, and what is said then: one sentence does not run into the other. A sentence that begins with a
// name keeps it as it is.
std::string two_sentences(const std::string& first, const std::string& then) {
  if (first.empty()) {
    return then;
  }
  const bool has_end = first.find_last_of(".!?:") == first.size() - 1;
  const std::string word = then.substr(0, then.find_first_of(" ,:;"));
  const bool is_name = word.find_first_of("._/'`\"0123456789-") != std::string::npos;
  return first + (has_end ? " " : ". ") + (is_name ? then : capital(then));
}

bool is_note(const CheckRecord& check) { return check.status == Status::pass && !check.explanation.empty(); }

bool worth_a_finding(const CheckRecord& check) {
  return check.status == Status::fail || check.status == Status::error || check.status == Status::warn ||
         is_note(check);
}

std::string text_member(const Value& evidence, std::string_view name) {
  const Value* found = evidence.find(name);
  return found == nullptr ? std::string() : found->as_string();
}

std::vector<std::uint64_t> numbers(const Value* value) {
  std::vector<std::uint64_t> out;
  if (value != nullptr && value->if_array() != nullptr) {
    for (const Value& item : *value->if_array()) {
      out.push_back(item.as_uint64());
    }
  }
  return out;
}

std::optional<std::uint64_t> number(const Value* value) {
  return value != nullptr && value->is_integer() ? std::optional(value->as_uint64()) : std::nullopt;
}

// Members of a check's evidence that a finding shows in a form of its own; every other one becomes a line of evidence.
constexpr std::string_view k_known[] = {"property", "title", "coordinate", "axes",     "shape",   "count",
                                        "elements", "notes", "reproduce",  "examined", "explains"};

std::string as_line(std::string_view name, const Value& value) {
  std::string label(name);
  std::replace(label.begin(), label.end(), '_', ' ');
  return capital(label) + ": " + to_text(value, 300);
}

BitsValue plain(const Value& value) {
  BitsValue out;
  if (!value.is_null()) {
    out.text = to_text(value, 300);
  }
  return out;
}

Finding from_check(const CheckRecord& check) {
  Finding out;
  const Value& evidence = check.evidence;
  out.rule = check.id;
  out.status = check.status;
  out.property = text_member(evidence, "property");
  out.title = text_member(evidence, "title");
  out.keys = check.subjects;
  out.total = check.subjects.empty() ? 0 : check.total;
  // A nameless tensor names nothing; another subject stands for the record where there is one.
  const auto named =
      std::find_if(check.subjects.begin(), check.subjects.end(), [](const std::string& s) { return !s.empty(); });
  out.key = named == check.subjects.end() ? std::string() : *named;
  out.explanation = check.message;
  const std::string& more = check.status == Status::error ? check.reason : check.explanation;
  if (!more.empty() && more != out.explanation) {
    out.explanation = two_sentences(out.explanation, more);
  }
  out.coordinate = numbers(evidence.find("coordinate"));
  out.shape = numbers(evidence.find("shape"));
  if (const Value* axes = evidence.find("axes"); axes != nullptr && axes->if_array() != nullptr) {
    for (const Value& axis : *axes->if_array()) {
      out.axes.push_back(axis.as_string());
    }
  }
  out.count = number(evidence.find("count"));
  out.elements = number(evidence.find("elements"));
  out.expected = plain(check.expected);
  out.actual = plain(check.actual);
  if (const Value* notes = evidence.find("notes"); notes != nullptr && notes->if_array() != nullptr) {
    for (const Value& note : *notes->if_array()) {
      out.evidence.push_back({note.as_string(), {}});
    }
  }
  if (const auto* members = evidence.if_object()) {
    for (const auto& [name, value] : *members) {
      if (std::find(std::begin(k_known), std::end(k_known), name) == std::end(k_known) && !value.is_null()) {
        out.evidence.push_back({as_line(name, value), {}});
      }
    }
  }
  if (!check.hint.empty()) {
    out.evidence.push_back({check.hint, {}});
  }
  out.reproduce = text_member(evidence, "reproduce");
  return out;
}

void complete(Finding& finding) {
  const Rule* rule = find_rule(finding.rule);
  if (finding.title.empty() && finding.status == Status::pass) {
    // The rule's title names a fault; a note is none.
    finding.title = capital(finding.rule);
    std::replace_if(
        finding.title.begin(), finding.title.end(), [](char c) { return c == '.' || c == '_'; }, ' ');
  }
  if (finding.title.empty()) {
    finding.title = rule != nullptr ? std::string(rule->title) : finding.rule;
  }
  if (finding.keys.empty() && !finding.key.empty()) {
    finding.keys.push_back(finding.key);
  }
  if (finding.key.empty() && !finding.keys.empty()) {
    finding.key = finding.keys.front();
  }
  finding.total = std::max<std::uint64_t>(finding.total, finding.keys.size());
  if (finding.fingerprint.empty()) {
    finding.fingerprint = fingerprint_of(finding.rule, finding.key, finding.property);
  }
}

bool failed(const Finding& finding) { return finding.status == Status::fail || finding.status == Status::error; }

void add_once(std::vector<std::string>& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) {
    list.push_back(text);
  }
}

// Whether the suites stated the link themselves.
bool stated(const Finding& cause, const Finding& consequence) {
  return std::find(cause.also.begin(), cause.also.end(), consequence.rule) != cause.also.end();
}

// Subjects whose failures a check's own subjects explain: the weight under a scale. By check id.
std::map<std::string, std::vector<std::string>, std::less<>> explained_keys(const std::vector<CheckRecord>& checks) {
  std::map<std::string, std::vector<std::string>, std::less<>> out;
  for (const CheckRecord& check : checks) {
    const Value* keys = check.evidence.find("explains");
    if (keys == nullptr || keys->if_array() == nullptr) {
      continue;
    }
    for (const Value& key : *keys->if_array()) {
      out[check.id].push_back(key.as_string());
    }
  }
  return out;
}

void link(std::vector<Finding>& findings, const std::vector<CheckRecord>& checks) {
  const auto explained = explained_keys(checks);
  std::map<std::string, std::vector<std::size_t>, std::less<>> by_rule;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    if (failed(findings[i])) {
      by_rule[findings[i].rule].push_back(i);
    }
  }
  std::vector<std::pair<std::size_t, std::size_t>> links;
  for (const auto& [consequence_rule, consequences] : by_rule) {
    // Causes by rule first: with a hundred rules and a hundred thousand findings the pairs of findings would be too
    // many.
    std::map<std::string, std::vector<std::size_t>, std::less<>> causes_of_key;
    std::vector<std::size_t> general;
    for (const auto& [cause_rule, causes] : by_rule) {
      const Link kind = cause_rule == consequence_rule ? Link::none : link_between(cause_rule, consequence_rule);
      for (const std::size_t cause : causes) {
        const bool by_suite = cause_rule != consequence_rule && stated(findings[cause], findings[consequences.front()]);
        if (kind == Link::always) {
          general.push_back(cause);
        } else if (kind == Link::same_subject || by_suite) {
          for (const std::string& key : findings[cause].keys) {
            causes_of_key[key].push_back(cause);
          }
          // Of the record as a whole: which of several findings under one rule it was is not told.
          if (const auto more = explained.find(cause_rule); more != explained.end() && causes.size() == 1) {
            for (const std::string& key : more->second) {
              causes_of_key[key].push_back(cause);
            }
          }
        }
      }
    }
    for (const std::size_t consequence : consequences) {
      Finding& finding = findings[consequence];
      std::set<std::size_t> causes(general.begin(), general.end());
      std::uint64_t covered = 0;
      for (const std::string& key : finding.keys) {
        if (const auto it = causes_of_key.find(key); it != causes_of_key.end()) {
          causes.insert(it->second.begin(), it->second.end());
          ++covered;
        }
      }
      // A record with one subject that no cause names keeps standing on its own.
      const bool all =
          !general.empty() || (covered > 0 && covered == finding.keys.size() && finding.total == finding.keys.size());
      if (!all) {
        continue;
      }
      for (const std::size_t cause : causes) {
        links.emplace_back(cause, consequence);
      }
    }
  }
  for (const auto& [cause, consequence] : links) {
    // Two that name each other: the first keeps standing.
    const auto& back = findings[cause].explained_by;
    if (std::find(back.begin(), back.end(), findings[consequence].fingerprint) != back.end()) {
      continue;
    }
    add_once(findings[consequence].explained_by, findings[cause].fingerprint);
    add_once(findings[cause].also, findings[consequence].rule);
  }
  for (Finding& finding : findings) {
    std::sort(finding.explained_by.begin(), finding.explained_by.end());
    std::sort(finding.also.begin(), finding.also.end());
  }
}

void mark_changes(std::vector<Finding>& findings, const CompareInfo& compare) {
  std::map<std::string_view, std::string_view> change;
  for (const CompareEntry& entry : compare.still) {
    change[entry.fingerprint] = "still";
  }
  for (const CompareEntry& entry : compare.fresh) {
    change[entry.fingerprint] = "new";
  }
  for (Finding& finding : findings) {
    if (const auto it = change.find(finding.fingerprint); it != change.end()) {
      finding.change = it->second;
    }
  }
}

// The worst finding of each tensor decides its place in the map; what the table already says is only made worse.
void mark_tensors(TensorTable& table, const std::vector<Finding>& findings) {
  std::map<std::string_view, const Finding*> worst;
  for (const Finding& finding : findings) {
    if (finding.status == Status::pass) {
      continue;
    }
    for (const std::string& key : finding.keys) {
      const auto [it, fresh] = worst.emplace(key, &finding);
      if (!fresh && finding.status < it->second->status) {
        it->second = &finding;
      }
    }
  }
  if (worst.empty()) {
    return;
  }
  for (TensorRow& row : table.rows) {
    const std::string key = table.key(row);
    if (const auto it = worst.find(key); it != worst.end()) {
      row.verdict = std::min(row.verdict, it->second->status);
      if (it->second->change == "new") {
        row.change = 'n';
      } else if (it->second->change == "still" && row.change != 'n') {
        row.change = 's';
      }
    }
  }
}

auto gravity(const Finding& finding) {
  const std::uint64_t size = std::max(finding.count.value_or(0), finding.total);
  return std::tuple(static_cast<int>(finding.status), finding.change == "still" ? 1 : 0,
                    finding.explained_by.empty() ? 0 : 1, gravity_class(finding.rule), ~size,
                    std::string_view(finding.key), std::string_view(finding.rule), std::string_view(finding.property));
}

}  // namespace

void fold_findings(Report& report) {
  std::vector<Finding> findings = std::move(report.findings);
  for (Finding& finding : findings) {
    complete(finding);
  }
  std::set<std::tuple<std::string, std::string>> known;
  std::set<std::string> rules_present;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    rules_present.insert(findings[i].rule);
    for (const std::string& key : findings[i].keys) {
      known.emplace(findings[i].rule, key);
    }
  }
  for (const CheckRecord& check : report.checks) {
    if (!worth_a_finding(check)) {
      continue;
    }
    if (check.subjects.empty() && rules_present.contains(check.id)) {
      continue;
    }
    Finding finding = from_check(check);
    // Subjects that the suites made findings of themselves are not told twice.
    std::erase_if(finding.keys, [&](const std::string& key) { return known.contains({check.id, key}); });
    if (finding.keys.size() != check.subjects.size()) {
      if (finding.keys.empty()) {
        continue;
      }
      finding.total -= check.subjects.size() - finding.keys.size();
      finding.key = finding.keys.front();
    }
    complete(finding);
    if (finding.reproduce.empty() && failed(finding)) {
      finding.reproduce = report.run.command;
    }
    findings.push_back(std::move(finding));
  }
  if (report.compare) {
    mark_changes(findings, *report.compare);
  }
  link(findings, report.checks);
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return gravity(a) < gravity(b); });
  if (report.tensors) {
    mark_tensors(*report.tensors, findings);
  }
  report.findings = std::move(findings);
}

CauseCount count_causes(const Report& report) {
  CauseCount out;
  for (const Finding& finding : report.findings) {
    if (!failed(finding)) {
      continue;
    }
    ++out.failures;
    if (finding.explained_by.empty()) {
      ++out.causes;
      out.fresh += finding.change == "new" ? 1U : 0U;
      out.old += finding.change == "still" ? 1U : 0U;
    }
  }
  return out;
}

}  // namespace weightproof::reports
