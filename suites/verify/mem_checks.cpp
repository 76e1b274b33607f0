// SPDX-License-Identifier: Apache-2.0
// mem.*: what the machine did meanwhile.
#include <array>

#include "suites/support/text.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

std::string residency_text(const measure::Residency& residency) {
  std::string text(to_string(residency.cache_class()));
  if (residency.resident.value && residency.total > 0) {
    text += " (" + human_bytes(*residency.resident.value) + " of " + human_bytes(residency.total) + ")";
  } else if (!residency.resident.why.empty()) {
    text += " (" + residency.resident.why + ")";
  }
  return text;
}

CheckRecord residency(Context& context) {
  CheckBuilder builder("mem.residency");
  builder.examined(context.checkpoint.shards.size());
  if (!context.has_scan() || !context.residency_before()) {
    return builder.skip("no values were read");
  }
  return builder.note("page cache before: " + residency_text(*context.residency_before()) +
                      "; after: " + residency_text(context.residency()));
}

constexpr std::array k_checks = {VerifyCheck{"mem.residency", &residency}};

}  // namespace

std::span<const VerifyCheck> mem_checks() { return k_checks; }

}  // namespace weightproof::suites
