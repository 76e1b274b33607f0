// SPDX-License-Identifier: Apache-2.0
#include "reports/compare.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "reports/text_internal.hpp"
#include "reports/verdict_internal.hpp"

namespace weightproof::reports {
namespace {

bool bad(const Finding& finding) { return failed(finding) || finding.status == Status::warn; }

// How bad a rule is on a subject, and whether its list is complete.
struct Known {
  std::map<std::pair<std::string, std::string>, Status> subjects;  // (rule, key) -> worst status
  std::map<std::string, const Finding*, std::less<>> fingerprints;
};

Known known_of(const Report& report) {
  Known out;
  for (const Finding& finding : report.findings) {
    if (!bad(finding)) {
      continue;
    }
    out.fingerprints.emplace(finding.fingerprint, &finding);
    std::vector<std::string> keys = finding.keys;
    if (keys.empty()) {
      keys.emplace_back();
    }
    for (const std::string& key : keys) {
      const auto [it, fresh] = out.subjects.emplace(std::pair(finding.rule, key), finding.status);
      if (!fresh) {
        it->second = std::min(it->second, finding.status);
      }
    }
  }
  return out;
}

CompareEntry entry_of(const Finding& finding) {
  CompareEntry out;
  out.rule = finding.rule;
  out.key = finding.key;
  out.status = finding.status;
  out.fingerprint = finding.fingerprint;
  out.text = finding.key.empty() ? finding.title : cut_middle(finding.key, 120);
  if (finding.total > 1) {
    out.text += " and " + grouped(finding.total - 1) + " more";
  }
  return out;
}

// A head finding against the base: still there, new, or grown.
void judge(const Finding& finding, const Known& base, CompareInfo& out) {
  const auto status_on_base = [&](const std::string& key) -> std::optional<Status> {
    const auto it = base.subjects.find(std::pair(finding.rule, key));
    return it == base.subjects.end() ? std::nullopt : std::optional(it->second);
  };
  std::vector<std::string> keys = finding.keys;
  if (keys.empty()) {
    keys.emplace_back();
  }
  std::vector<std::string> fresh;
  bool any_known = false;
  bool worse = false;
  for (const std::string& key : keys) {
    if (const auto before = status_on_base(key)) {
      any_known = true;
      worse = worse || (failed(finding) && *before == Status::warn);
    } else {
      fresh.push_back(key);
    }
  }
  const auto twin = base.fingerprints.find(finding.fingerprint);
  const Finding* before = twin == base.fingerprints.end() ? nullptr : twin->second;
  if ((!any_known && before == nullptr) || worse) {
    out.fresh.push_back(entry_of(finding));
    return;
  }
  out.still.push_back(entry_of(finding));
  // Past the cap of the list only the number tells that more subjects fail now.
  const std::uint64_t hidden_before = before != nullptr && before->total > before->keys.size() ? before->total : 0;
  const bool capped = finding.total > finding.keys.size() || hidden_before > 0;
  const std::uint64_t more =
      capped ? (before != nullptr && finding.total > before->total ? finding.total - before->total : 0) : fresh.size();
  if (more > 0) {
    CompareEntry entry = entry_of(finding);
    entry.key = fresh.empty() ? finding.key : fresh.front();
    entry.fingerprint = fingerprint_of(finding.rule, entry.key, finding.property + " grown");
    entry.text =
        plural(more, "more subject") + (fresh.empty() ? std::string() : ", first " + cut_middle(fresh.front(), 100));
    out.fresh.push_back(std::move(entry));
  }
}

// How a check ended over all its records: absent where it is not in the report.
struct Ended {
  bool ran = false;
  std::string reason;  // why skipped
};

std::map<std::string, Ended, std::less<>> endings(const Report& report) {
  std::map<std::string, Ended, std::less<>> out;
  for (const CheckRecord& check : report.checks) {
    Ended& ended = out[check.id];
    ended.ran = ended.ran || check.status != Status::skip;
    if (check.status == Status::skip && ended.reason.empty()) {
      ended.reason = check.reason;
    }
  }
  return out;
}

void find_fixed(const Report& base, const Report& head, CompareInfo& out) {
  const Known now = known_of(head);
  const auto ends = endings(head);
  for (const Finding& finding : base.findings) {
    if (!bad(finding)) {
      continue;
    }
    const bool there = now.fingerprints.contains(finding.fingerprint) ||
                       std::any_of(finding.keys.begin(), finding.keys.end(), [&](const std::string& key) {
                         return now.subjects.contains(std::pair(finding.rule, key));
                       });
    if (there) {
      continue;
    }
    const auto it = ends.find(finding.rule);
    if (it != ends.end() && it->second.ran) {
      out.fixed.push_back(entry_of(finding));
    } else {
      CompareEntry entry = entry_of(finding);
      entry.text = std::string(finding.status == Status::warn ? "warned" : "failed") + " on base, not checked here: " +
                   (it == ends.end() ? std::string("not in this report") : it->second.reason);
      entry.status = Status::skip;
      out.changed_passing.push_back(std::move(entry));
    }
  }
}

void find_lost_checks(const Report& base, const Report& head, CompareInfo& out) {
  const auto before = endings(base);
  for (const auto& [id, ended] : endings(head)) {
    const auto it = before.find(id);
    if (it != before.end() && it->second.ran != ended.ran) {
      CompareEntry entry;
      entry.rule = id;
      entry.status = ended.ran ? Status::pass : Status::skip;
      entry.text = ended.ran ? id + " runs now" : id + " no longer runs: " + ended.reason;
      out.changed_passing.push_back(std::move(entry));
    }
  }
}

void counter(CompareInfo& out, std::string_view name, std::string_view words, std::optional<std::uint64_t> base,
             std::optional<std::uint64_t> head, double tolerance, bool lower_is_better = true) {
  if (!base || !head || *base == *head) {
    return;
  }
  CompareEntry entry;
  entry.rule = std::string(name);
  entry.base = *base;
  entry.head = *head;
  // Rounded figures that read alike would say nothing.
  const bool is_close = human_bytes(*base) == human_bytes(*head);
  entry.text = std::string(words) + " " + (is_close ? grouped(*base) + " B" : human_bytes(*base)) + " to " +
               (is_close ? grouped(*head) + " B" : human_bytes(*head));
  const bool over = lower_is_better && static_cast<double>(*head) > static_cast<double>(*base) * (1 + tolerance);
  if (over) {
    entry.status = Status::fail;
    entry.text += ", over the tolerance of " + percent(tolerance);
    entry.fingerprint = fingerprint_of(name, "", "counter");
    out.fresh.push_back(std::move(entry));
  } else {
    out.changed_passing.push_back(std::move(entry));
  }
}

void counters(const Report& base, const Report& head, double tolerance, CompareInfo& out) {
  counter(out, "plan.predicted_peak", "predicted peak", base.plan.predicted_peak, head.plan.predicted_peak, tolerance);
  counter(out, "plan.bytes_planned", "bytes planned", base.plan.bytes_planned, head.plan.bytes_planned, tolerance);
  counter(out, "plan.bytes_read", "bytes read", base.plan.bytes_read, head.plan.bytes_read, tolerance);
  const auto figure = [](const Report& report) {
    const MemoryFigure* found = report.memory.find("allocator_peak");
    return found == nullptr ? std::nullopt : found->bytes;
  };
  counter(out, "memory.allocator_peak", "allocator's peak", figure(base), figure(head), tolerance);
  counter(out, "checkpoint.bytes", "tensor data", base.checkpoint.bytes, head.checkpoint.bytes, tolerance, false);
  std::map<std::string, std::string> before;
  for (const RouteRecord& route : base.plan.routes) {
    before[route.tensors] = route.route;
  }
  for (const RouteRecord& route : head.plan.routes) {
    if (const auto it = before.find(route.tensors); it != before.end() && it->second != route.route) {
      CompareEntry entry;
      entry.rule = "plan.routes";
      entry.key = route.tensors;
      entry.base = it->second;
      entry.head = route.route;
      entry.text = plural(route.count, "tensor") + ": " + it->second + " to " + route.route;
      out.changed_passing.push_back(std::move(entry));
    }
  }
}

void times(const Report& base, const Report& head, CompareInfo& out) {
  for (const TimingPhase& phase : head.timing.phases) {
    const auto it = std::find_if(base.timing.phases.begin(), base.timing.phases.end(),
                                 [&](const TimingPhase& p) { return p.name == phase.name; });
    if (it == base.timing.phases.end() || !it->seconds || !phase.seconds || *it->seconds <= 0) {
      continue;
    }
    const double ratio = *phase.seconds / *it->seconds;
    // Less than a quarter, or under a tenth of a second, is what a shared machine does by itself.
    if (std::fabs(ratio - 1) > 0.25 && std::fabs(*phase.seconds - *it->seconds) > 0.1) {
      CompareEntry entry;
      entry.rule = "timing." + phase.name;
      entry.base = *it->seconds;
      entry.head = *phase.seconds;
      entry.gates = false;
      entry.text =
          phase.name + " " + human_seconds(*it->seconds) + " to " + human_seconds(*phase.seconds) + " (informs)";
      out.changed_passing.push_back(std::move(entry));
    }
  }
}

}  // namespace

CompareInfo compare(const Report& base, const Report& head, const CompareOptions& options) {
  CompareInfo out;
  out.base = options.base_label.empty() ? base.run.commit : options.base_label;
  out.head = options.head_label.empty() ? head.run.commit : options.head_label;
  const Known before = known_of(base);
  for (const Finding& finding : head.findings) {
    if (bad(finding)) {
      judge(finding, before, out);
    }
  }
  find_fixed(base, head, out);
  find_lost_checks(base, head, out);
  counters(base, head, options.counter_tolerance, out);
  times(base, head, out);
  return out;
}

void apply_compare(Report& head, const Report& base, const CompareOptions& options) {
  head.compare = compare(base, head, options);
  if (head.run.base.empty()) {
    head.run.base = head.compare->base;
  }
  for (Finding& finding : head.findings) {
    finding.change.clear();
  }
  if (head.tensors) {
    std::set<std::string> fixed;
    for (const Finding& finding : base.findings) {
      fixed.insert(finding.keys.begin(), finding.keys.end());
    }
    for (TensorRow& row : head.tensors->rows) {
      row.change = row.verdict == Status::pass && fixed.contains(head.tensors->key(row)) ? 'f' : '.';
    }
  }
  for (RouteRecord& route : head.plan.routes) {
    const auto it = std::find_if(base.plan.routes.begin(), base.plan.routes.end(),
                                 [&](const RouteRecord& r) { return r.tensors == route.tensors; });
    route.change = it == base.plan.routes.end() ? "new" : it->route == route.route ? "same" : "was " + it->route;
  }
  fold_findings(head);
}

int exit_status(const CompareInfo& comparison) { return failing(comparison.fresh) > 0 ? 1 : 0; }

}  // namespace weightproof::reports
