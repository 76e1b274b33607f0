// SPDX-License-Identifier: Apache-2.0
// format.*: what the header scanner found, file by file. A header is read until its first fault, so a rule that comes
// later than the fault is undecided for that file.
#include <algorithm>
#include <array>

#include "suites/support/text.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

// Order in which a header's rules are applied. A fault of one phase leaves its own and later phases undecided.
enum Phase : int { k_length, k_text, k_parse, k_ranges, k_extent, k_whole };

constexpr std::array<std::pair<std::string_view, Phase>, 16> k_phases = {{
    {"format.header_length", k_length},
    {"format.utf8", k_text},
    {"format.json", k_parse},
    {"format.duplicate_key", k_parse},
    {"format.metadata", k_parse},
    {"format.name", k_parse},
    {"format.dtype", k_parse},
    {"format.limits", k_parse},
    {"format.leading_whitespace", k_parse},
    {"format.extra_field", k_parse},
    {"format.size", k_ranges},
    {"format.overflow", k_ranges},
    {"format.offsets", k_ranges},
    {"format.truncated", k_extent},
    {"format.trailing", k_extent},
    {"format.alignment", k_whole},
}};

Phase phase_of(std::string_view id) {
  const auto* const row =
      std::find_if(k_phases.begin(), k_phases.end(), [id](const auto& entry) { return entry.first == id; });
  return row == k_phases.end() ? k_length : row->second;
}

reports::CheckRecord judge(Context& context, std::string_view id) {
  const Phase phase = phase_of(id);
  std::vector<std::string> undecided;
  std::string first_cause;
  for (const FileFault& fault : context.faults) {
    const bool has_header = fault.check.rfind("format.", 0) == 0;
    if (fault.check == id || (has_header && phase < phase_of(fault.check))) {
      continue;  // the fault itself, or a rule that was kept before the fault was met
    }
    if (undecided.empty()) {
      first_cause = fault.check;
    }
    undecided.push_back(fault.file);
  }
  const std::uint64_t files = context.checkpoint.shards.size();
  std::string reason;
  if (!undecided.empty()) {
    reason = "undecided for " + listed(undecided) + ", where " + first_cause + " came first";
    if (undecided.size() < files) {
      reason += "; " + counted(files - undecided.size(), "other file", "other files") + " examined, nothing found";
    }
  } else if (files == 0) {
    reason = context.index_fault().empty() ? "there is no weight file" : context.fault_text();
  }
  return record_of_diagnostics(context, id, files - undecided.size(), reason);
}

reports::CheckRecord judge_config(Context& context) {
  const std::uint64_t documents = (context.checkpoint.config ? 1U : 0U) + context.checkpoint.companions.size();
  return record_of_diagnostics(context, "format.config", documents, documents == 0 ? "there is no config.json" : "");
}

// One function per id, made from the id: a row of the registry is a plain function pointer.
template <std::size_t Row>
reports::CheckRecord judge_row(Context& context) {
  return judge(context, k_phases[Row].first);
}

constexpr std::array k_checks = {
    VerifyCheck{"format.header_length", &judge_row<0>},
    VerifyCheck{"format.utf8", &judge_row<1>},
    VerifyCheck{"format.json", &judge_row<2>},
    VerifyCheck{"format.duplicate_key", &judge_row<3>},
    VerifyCheck{"format.metadata", &judge_row<4>},
    VerifyCheck{"format.name", &judge_row<5>},
    VerifyCheck{"format.dtype", &judge_row<6>},
    VerifyCheck{"format.limits", &judge_row<7>},
    VerifyCheck{"format.leading_whitespace", &judge_row<8>},
    VerifyCheck{"format.extra_field", &judge_row<9>},
    VerifyCheck{"format.size", &judge_row<10>},
    VerifyCheck{"format.overflow", &judge_row<11>},
    VerifyCheck{"format.offsets", &judge_row<12>},
    VerifyCheck{"format.truncated", &judge_row<13>},
    VerifyCheck{"format.trailing", &judge_row<14>},
    VerifyCheck{"format.alignment", &judge_row<15>},
    VerifyCheck{"format.config", &judge_config},
};

constexpr bool rows_match() {
  for (std::size_t i = 0; i < k_phases.size(); ++i) {
    if (k_phases[i].first != k_checks[i].id) {
      return false;
    }
  }
  return true;
}
static_assert(rows_match());

}  // namespace

std::span<const VerifyCheck> format_checks() { return k_checks; }

}  // namespace weightproof::suites
