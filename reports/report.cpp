// SPDX-License-Identifier: Apache-2.0
#include "reports/report.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "reports/normalize_internal.hpp"

namespace weightproof::reports {
namespace {

constexpr std::array<std::string_view, 13> k_groups = {"format", "index", "keys",    "tied", "layout", "quant", "dtype",
                                                       "value",  "shard", "adapter", "mem",  "io",     "expect"};

template <typename Item>
Item* find_named(std::vector<Item>& items, std::string_view name) {
  const auto it = std::find_if(items.begin(), items.end(), [&](const Item& item) { return item.name == name; });
  return it == items.end() ? nullptr : &*it;
}

std::string_view first_subject(const CheckRecord& check) {
  return check.subjects.empty() ? std::string_view{} : std::string_view(check.subjects.front());
}

}  // namespace

std::int64_t CoverageInfo::unaccounted() const {
  return static_cast<std::int64_t>(stored_bytes - moved_bytes - decoded_bytes - dropped_bytes);
}

const MemoryFigure* MemoryInfo::find(std::string_view name) const {
  const auto it =
      std::find_if(figures.begin(), figures.end(), [&](const MemoryFigure& figure) { return figure.name == name; });
  return it == figures.end() ? nullptr : &*it;
}

void MemoryInfo::set(std::string_view name, std::uint64_t bytes, std::string_view method) {
  MemoryFigure figure{std::string(name), bytes, std::string(method), {}};
  if (MemoryFigure* found = find_named(figures, name)) {
    *found = std::move(figure);
  } else {
    figures.push_back(std::move(figure));
  }
}

void MemoryInfo::set_unavailable(std::string_view name, std::string_view why) {
  MemoryFigure figure{std::string(name), std::nullopt, {}, std::string(why)};
  if (MemoryFigure* found = find_named(figures, name)) {
    *found = std::move(figure);
  } else {
    figures.push_back(std::move(figure));
  }
}

TimingPhase* TimingInfo::find(std::string_view name) { return find_named(phases, name); }

std::string_view group_of(std::string_view check_id) { return check_id.substr(0, check_id.find('.')); }

int group_order(std::string_view group) {
  const auto it = std::find(k_groups.begin(), k_groups.end(), group);
  return static_cast<int>(it - k_groups.begin());
}

void finish(Report& report) {
  make_text_valid(report);
  for (CheckRecord& check : report.checks) {
    if (check.suite.empty()) {
      check.suite = std::string(group_of(check.id));
    }
    check.total = std::max<std::uint64_t>(check.total, check.subjects.size());
    if (check.subjects.size() > k_subjects_max) {
      check.subjects.resize(k_subjects_max);
    }
    check.shown = check.subjects.size();
  }
  std::stable_sort(report.checks.begin(), report.checks.end(), [](const CheckRecord& a, const CheckRecord& b) {
    return std::tuple(group_order(a.suite), std::string_view(a.suite), std::string_view(a.id), a.status,
                      std::string_view(a.case_name), first_subject(a), std::string_view(a.message)) <
           std::tuple(group_order(b.suite), std::string_view(b.suite), std::string_view(b.id), b.status,
                      std::string_view(b.case_name), first_subject(b), std::string_view(b.message));
  });
  for (const std::string_view name : k_memory_figures) {
    if (report.memory.find(name) == nullptr) {
      report.memory.set_unavailable(name, "not measured in this run");
    }
  }
  sort_figures(report.memory.figures);
  for (const std::string_view name : k_timing_phases) {
    if (report.timing.find(name) == nullptr) {
      report.timing.phases.push_back({std::string(name), std::nullopt, std::nullopt, "not part of this run"});
    }
  }
}

Summary summarize(const std::vector<CheckRecord>& checks) {
  Summary summary;
  for (const CheckRecord& check : checks) {
    switch (check.status) {
      case Status::pass:
        ++summary.pass;
        break;
      case Status::fail:
        ++summary.fail;
        break;
      case Status::warn:
        ++summary.warn;
        break;
      case Status::skip:
        ++summary.skip;
        break;
      case Status::error:
        ++summary.error;
        break;
    }
  }
  return summary;
}

Verdict verdict_of(const Summary& summary) {
  if (summary.fail > 0) {
    return Verdict::fail;
  }
  if (summary.error > 0 || summary.ran() == 0) {
    return Verdict::error;
  }
  return Verdict::pass;
}

int exit_status(const Report& report) {
  const Summary summary = summarize(report.checks);
  switch (verdict_of(summary)) {
    case Verdict::fail:
      return 1;
    case Verdict::error:
      return report.strict && summary.warn > 0 ? 1 : 3;
    case Verdict::pass:
      return report.strict && summary.warn > 0 ? 1 : 0;
  }
  return 3;
}

}  // namespace weightproof::reports
