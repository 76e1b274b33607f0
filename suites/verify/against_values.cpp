// SPDX-License-Identifier: Apache-2.0
// What a conversion may not do to values, as --against BASE shows it: round otherwise than to nearest even, lose NaN,
// infinity or the sign of zero, or make infinity of a number.
#include <algorithm>
#include <array>

#include "suites/support/text.hpp"
#include "suites/verify/against_internal.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

CheckRecord rounding(Context& context) {
  if (auto record = no_base(context, "value.rounding")) {
    return *record;
  }
  const Against& against = against_of(context);
  CheckBuilder builder("value.rounding");
  builder.examined(against.difference.tensors.size());
  std::vector<std::string> named;
  std::string first;
  const auto blame = [&](const std::string& key, const std::string& how) {
    if (std::find(named.begin(), named.end(), key) != named.end()) {
      return;
    }
    named.push_back(key);
    builder.subject(key);
    first = first.empty() ? printable(key) + ": " + how : first;
  };
  for (const Explanation& explanation : against.explanations) {
    if (explanation.check == "value.rounding") {
      blame(explanation.key, summary_of(explanation));
    }
  }
  for (const TensorDifference& row : against.difference.tensors) {
    const bool is_even = !row.rounding || row.rounding->nearest_even == row.rounding->decisive;
    if (!is_even && !row.rounding->winner().empty()) {
      blame(row.key, "rounded " + std::string(row.rounding->winner()));
    }
  }
  return builder.hint("values are rounded to nearest even, once, from F32").fail_if_subjects(first);
}

template <ValueFates::Fate ValueFates::*Which>
CheckRecord of_fates(Context& context, const char* id, const char* what) {
  if (auto record = no_base(context, id)) {
    return *record;
  }
  const StateDifference& difference = against_of(context).difference;
  CheckBuilder builder(id);
  builder.examined(difference.tensors.size());
  std::string first;
  for (const TensorDifference& row : difference.tensors) {
    const ValueFates::Fate& fate = row.fates.*Which;
    // A tensor that differs by more than a conversion is the matter of value.manifest.
    if (fate.count == 0 || row.fates.is_elsewhere) {
      continue;
    }
    builder.subject(row.key);
    if (first.empty()) {
      const std::string where = to_string(coordinate_of(row.shape_b, fate.first));
      first = printable(row.key) + where + " " + what +
              (fate.count > 1 ? " (and " + grouped(fate.count - 1) + " more of its elements)" : std::string());
      builder.evidence("coordinate", where);
    }
  }
  return builder.fail_if_subjects(first);
}

CheckRecord nan_lost(Context& context) {
  return of_fates<&ValueFates::nan>(context, "value.nan_lost", "is another value than the NaN or infinity of the base");
}
CheckRecord signed_zero(Context& context) {
  return of_fates<&ValueFates::zero>(context, "value.signed_zero", "is a zero with another sign than in the base");
}
CheckRecord overflow(Context& context) {
  return of_fates<&ValueFates::overflow>(context, "value.overflow", "is infinite, and a number in the base");
}

constexpr std::array k_checks = {
    VerifyCheck{"value.rounding", &rounding},
    VerifyCheck{"value.nan_lost", &nan_lost},
    VerifyCheck{"value.signed_zero", &signed_zero},
    VerifyCheck{"value.overflow", &overflow},
};

}  // namespace

std::span<const VerifyCheck> against_value_checks() { return k_checks; }

}  // namespace weightproof::suites
