// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "reports/compare.hpp"
#include "reports/json.hpp"

namespace weightproof::reports {
namespace {

// Records that say the same about different parts of the work are one record.
auto identity(const CheckRecord& check) {
  return std::tuple(check.id, check.status, check.case_name, check.message, check.explanation, check.reason, check.hint,
                    check.code, to_json(check.expected), to_json(check.actual), to_json(check.evidence));
}

std::vector<CheckRecord> merged_checks(std::vector<Report>& reports) {
  std::vector<CheckRecord> out;
  std::map<decltype(identity(CheckRecord{})), std::size_t> seen;
  for (Report& report : reports) {
    for (CheckRecord& check : report.checks) {
      const auto [it, fresh] = seen.emplace(identity(check), out.size());
      if (fresh) {
        out.push_back(std::move(check));
        continue;
      }
      CheckRecord& kept = out[it->second];
      if (check.subjects.empty() && kept.subjects.empty()) {
        kept.total += check.total;
        continue;
      }
      // Subjects are a union; what the caps hid is added up.
      std::vector<std::string> both;
      std::set_union(kept.subjects.begin(), kept.subjects.end(), check.subjects.begin(), check.subjects.end(),
                     std::back_inserter(both));
      const std::uint64_t twice = kept.subjects.size() + check.subjects.size() - both.size();
      kept.total += check.total > twice ? check.total - twice : 0;
      if (both.size() > CheckBuilder::k_default_cap) {
        both.resize(CheckBuilder::k_default_cap);
      }
      kept.subjects = std::move(both);
    }
  }
  return out;
}

// A check that ran in one part is not skipped for another part's reason.
void drop_idle_skips(std::vector<CheckRecord>& checks) {
  std::set<std::pair<std::string, std::string>> ran;
  for (const CheckRecord& check : checks) {
    if (check.status != Status::skip) {
      ran.emplace(check.id, check.case_name);
    }
  }
  std::erase_if(checks, [&](const CheckRecord& check) {
    return check.status == Status::skip && ran.contains({check.id, check.case_name});
  });
}

std::uint64_t peak_of(const MemoryInfo& memory) {
  std::uint64_t out = 0;
  for (const char* name : {"allocator_peak", "vm_hwm"}) {
    if (const MemoryFigure* figure = memory.find(name); figure != nullptr && figure->bytes) {
      out = std::max(out, *figure->bytes);
    }
  }
  return out;
}

void add_times(TimingInfo& to, const TimingInfo& from) {
  if (from.total_s) {
    to.total_s = to.total_s.value_or(0) + *from.total_s;
  }
  for (const TimingPhase& phase : from.phases) {
    TimingPhase* kept = to.find(phase.name);
    if (kept == nullptr) {
      to.phases.push_back(phase);
    } else if (phase.seconds) {
      kept->seconds = kept->seconds.value_or(0) + *phase.seconds;
      kept->why.clear();
      if (phase.bytes) {
        kept->bytes = kept->bytes.value_or(0) + *phase.bytes;
      }
    }
  }
  if (to.cache_before != from.cache_before) {
    to.cache_before = "mixed";
  }
  if (to.cache_after != from.cache_after) {
    to.cache_after = "mixed";
  }
  to.cases.insert(to.cases.end(), from.cases.begin(), from.cases.end());
}

std::vector<SupportRecord> merged_support(const std::vector<Report>& reports) {
  std::map<std::tuple<std::string, std::string, std::string, std::string>, SupportRecord> table;
  for (const Report& report : reports) {
    for (const SupportRecord& record : report.support) {
      const auto [it, fresh] =
          table.emplace(std::tuple(record.family, record.form, record.route, record.dtype), record);
      if (!fresh) {
        SupportRecord& kept = it->second;
        // Something that ran says more than something that did not; otherwise the worse counts.
        const bool replace =
            kept.status == Status::skip || (record.status != Status::skip && record.status < kept.status);
        kept.status = replace ? record.status : kept.status;
        kept.cases += record.cases;
        kept.note = kept.note.empty() ? record.note : kept.note;
      }
    }
  }
  std::vector<SupportRecord> out;
  for (auto& [key, record] : table) {
    out.push_back(std::move(record));
  }
  return out;
}

bool says_more(const Finding& finding) {
  return finding.where || finding.histogram || finding.order || !finding.votes.empty() || !finding.source.empty() ||
         !finding.actual.hex.empty() || !finding.location_file.empty();
}

template <typename Record, typename Key>
void append_new(std::vector<Record>& to, const std::vector<Record>& from, Key key) {
  for (const Record& record : from) {
    if (std::none_of(to.begin(), to.end(), [&](const Record& kept) { return key(kept) == key(record); })) {
      to.push_back(record);
    }
  }
}

}  // namespace

Report merge(std::vector<Report> reports) {
  if (reports.empty()) {
    Report empty;
    finish(empty);
    return empty;
  }
  Report out = reports.front();
  out.compare.reset();
  for (std::size_t i = 1; i < reports.size(); ++i) {
    const Report& next = reports[i];
    out.sample = out.sample || next.sample;
    out.strict = out.strict || next.strict;
    if (next.checkpoint.path != out.checkpoint.path && !next.checkpoint.path.empty()) {
      out.checkpoint.files += next.checkpoint.files;
      out.checkpoint.tensors += next.checkpoint.tensors;
      out.checkpoint.bytes += next.checkpoint.bytes;
      for (const auto& [dtype, count] : next.checkpoint.dtypes) {
        out.checkpoint.dtypes[dtype] += count;
      }
      out.checkpoint.family = out.checkpoint.family == next.checkpoint.family ? out.checkpoint.family : std::string();
      out.checkpoint.path = std::to_string(i + 1) + " checkpoints";
    }
    if (peak_of(next.memory) > peak_of(out.memory)) {
      out.memory = next.memory;
    }
    add_times(out.timing, next.timing);
    for (const auto& [name, value] : next.environment) {
      const auto [it, fresh] = out.environment.emplace(name, value);
      if (!fresh && !(it->second == value)) {
        it->second = "differs between the merged reports";
      }
    }
    append_new(out.policies, next.policies,
               [](const PolicyRecord& p) { return std::tuple(p.name, p.value, p.source); });
    append_new(out.defaulted, next.defaulted,
               [](const DefaultedRecord& d) { return std::tuple(d.name, d.value, d.rule); });
    append_new(out.plan.routes, next.plan.routes,
               [](const RouteRecord& r) { return std::tuple(r.tensors, r.route, r.reason); });
    append_new(out.plan.considered, next.plan.considered,
               [](const ConsideredRoute& r) { return std::tuple(r.tensors, r.route); });
    if (next.plan.bytes_read) {
      out.plan.bytes_read = out.plan.bytes_read.value_or(0) + *next.plan.bytes_read;
    }
    if (!out.plan.coverage) {
      out.plan.coverage = next.plan.coverage;
    }
    out.findings.insert(out.findings.end(), next.findings.begin(), next.findings.end());
    if (!out.tensors) {
      out.tensors = next.tensors;
    }
    if (next.selftest) {
      if (!out.selftest) {
        out.selftest.emplace();
      }
      out.selftest->mutants.insert(out.selftest->mutants.end(), next.selftest->mutants.begin(),
                                   next.selftest->mutants.end());
      out.selftest->good_inputs += next.selftest->good_inputs;
      out.selftest->false_alarms += next.selftest->false_alarms;
      out.selftest->alarms.insert(out.selftest->alarms.end(), next.selftest->alarms.begin(),
                                  next.selftest->alarms.end());
    }
    if (next.run.duration_s) {
      out.run.duration_s = out.run.duration_s.value_or(0) + *next.run.duration_s;
    }
    out.run.start = std::min(out.run.start, next.run.start);
  }
  out.support = merged_support(reports);
  out.checks = merged_checks(reports);
  drop_idle_skips(out.checks);
  // Findings that a check made are made again from the merged record; those that say more than a check can stay.
  std::map<std::string, Finding> unique;
  for (Finding& finding : out.findings) {
    if (says_more(finding)) {
      finding.explained_by.clear();
      finding.change.clear();
      unique.emplace(finding.fingerprint, std::move(finding));
    }
  }
  out.findings.clear();
  for (auto& [fingerprint, finding] : unique) {
    out.findings.push_back(std::move(finding));
  }
  finish(out);
  fold_findings(out);
  return out;
}

}  // namespace weightproof::reports
