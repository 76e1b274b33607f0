// SPDX-License-Identifier: Apache-2.0
// What loads take: the allocator's figures against the plan's, the kernel's against the bound.
#include <algorithm>

#include "suites/support/text.hpp"
#include "suites/verify/instrumented.hpp"
#include "suites/verify/load_runner.hpp"

namespace weightproof::suites {
namespace {

/// What the allocator and the kernel may take beside what is counted.
constexpr std::uint64_t k_peak_slack_bytes = 8U << 20U;

}  // namespace

exec::LoadAttempt LoadRunner::first_load(const Seen& seen) {
  exec::LoadOptions options;
  options.sentinel = k_first_fill;
  options.has_ledger = true;
  if (wrong_.first_load) {
    wrong_.first_load(seen.plan, options);
  }
  const measure::ProcessMemory before = measure::read_process_memory();
  run_.peak_before_reset = std::max(run_.peak_before_reset, before.peak_rss.value.value_or(0));
  const std::string reset_fault = measure::reset_peak_rss();
  exec::LoadAttempt attempt = load(seen.plan, options);
  if (k_is_instrumented) {
    run_.peak_unavailable = "memory of the sanitizer is in every figure of this build";
  } else if (!reset_fault.empty()) {
    run_.peak_unavailable = "the peak of the resident set cannot be set back: " + reset_fault;
  } else {
    judge_peak(seen, attempt, before);
  }
  return attempt;
}

void LoadRunner::judge_peak(const Seen& seen, const exec::LoadAttempt& attempt, const measure::ProcessMemory& before) {
  const measure::ProcessMemory after = measure::read_process_memory();
  if (!before.rss.value || !after.peak_rss.value) {
    run_.peak_unavailable = before.rss.value ? after.peak_rss.why : before.rss.why;
    return;
  }
  run_.peak_method = after.peak_rss.method;
  const std::uint64_t growth =
      *after.peak_rss.value > *before.rss.value ? *after.peak_rss.value - *before.rss.value : 0;
  const std::uint64_t ledger = attempt.memory().of(exec::MemoryKind::host, exec::Purpose::ledger).peak;
  const std::uint64_t bound = seen.plan.memory().peak_bytes() + ledger + k_peak_slack_bytes;
  const bool is_over = growth > bound;
  if (is_over) {
    run_.peak.add(
        largest_of(seen.plan), {},
        ": loading it and what is loaded with it took " + human_bytes(growth) + ", bound " + human_bytes(bound));
  }
  if (growth >= run_.peak_growth && (is_over || run_.peak.empty())) {
    run_.peak_growth = growth;
    run_.peak_bound = bound;
  }
}

void LoadRunner::judge_memory(const Seen& seen, const exec::LoadAttempt& attempt) {
  const exec::Usage& used = attempt.memory().of(exec::MemoryKind::host);
  const std::uint64_t bound = seen.plan.memory().peak_bytes();
  if (used.peak != bound || (bound > run_.predicted_peak && run_.predicted.empty())) {
    run_.predicted_peak = bound;
    run_.counted_peak = used.peak;
    run_.final_bytes = seen.plan.memory().final_bytes;
  }
  if (used.peak != bound) {
    run_.predicted.add(
        largest_of(seen.plan), {},
        ": the allocator counted a peak of " + grouped(used.peak) + " bytes, predicted were " + grouped(bound));
  }
  std::uint64_t live = 0;
  for (const exec::Purpose purpose : {exec::Purpose::staging, exec::Purpose::companion, exec::Purpose::whole}) {
    live += attempt.memory().of(exec::MemoryKind::host, purpose).live;
  }
  if (live != 0) {
    run_.live_temporaries += live;
    run_.temporaries.add(largest_of(seen.plan), {}, ": " + grouped(live) + " bytes of temporaries outlived the load");
  }
}

}  // namespace weightproof::suites
