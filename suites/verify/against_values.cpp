// SPDX-License-Identifier: Apache-2.0
// What a conversion may not do to values, as --against BASE shows it: round otherwise than to nearest even, lose NaN,
// infinity or the sign of zero, or make infinity of a number.
#include <array>
#include <map>

#include "suites/support/text.hpp"
#include "suites/verify/against_internal.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

// Nothing that became of values is this checkpoint's doing where they are elsewhere, or where the base was made of
// them.
bool is_conversion(const TensorDifference& row) {
  const bool is_base_rounded = row.rounding && row.rounding->is_first_rounded && row.rounding->winner();
  return !row.fates.are_elsewhere(row.elements) && !is_base_rounded;
}

std::string how_rounded(const TensorDifference& row) {
  const ValueFates::Fate& flushed = row.fates.flushed;
  if (row.rounding && row.rounding->is_wrong() && !row.rounding->has_flushed()) {
    return "rounded " + std::string(to_string(*row.rounding->winner()));
  }
  if (flushed.count == 0) {
    return {};
  }
  return counted(flushed.count, "subnormal value", "subnormal values") + " flushed to zero, first at " +
         to_string(coordinate_of(row.shape_b, flushed.first));
}

CheckRecord rounding(Context& context) {
  if (auto record = no_base(context, "value.rounding")) {
    return *record;
  }
  const Against& against = against_of(context);
  CheckBuilder builder("value.rounding");
  builder.examined(against.difference.tensors.size());
  std::map<std::string_view, std::string> explained;
  for (const Explanation& explanation : against.explanations) {
    if (explanation.check == "value.rounding") {
      explained.emplace(explanation.key, summary_of(explanation));
    }
  }
  std::string first;
  std::string of_base;
  for (const TensorDifference& row : against.difference.tensors) {
    if (row.rounding && row.rounding->is_first_rounded && row.rounding->winner()) {
      of_base = of_base.empty() ? printable(row.key) + ": the base is what this holds, rounded " +
                                      std::string(to_string(*row.rounding->winner()))
                                : of_base;
    }
    if (!is_conversion(row)) {
      continue;
    }
    const auto known = explained.find(row.key);
    const std::string how = known != explained.end() ? known->second : how_rounded(row);
    if (!how.empty()) {
      builder.subject(row.key);
      first = first.empty() ? printable(row.key) + ": " + how : first;
    }
  }
  builder.hint("values are rounded to nearest even, once, from F32");
  return !builder.has_subjects() && !of_base.empty() ? builder.note(of_base) : builder.fail_if_subjects(first);
}

// The record about one fate; `first` is filled where it befell a tensor.
template <ValueFates::Fate ValueFates::*Which>
CheckBuilder of_fates(Context& context, const char* id, const char* what, std::string& first) {
  const StateDifference& difference = against_of(context).difference;
  CheckBuilder builder(id);
  builder.examined(difference.tensors.size());
  for (const TensorDifference& row : difference.tensors) {
    const ValueFates::Fate& fate = row.fates.*Which;
    // A tensor that differs by more than a conversion is the matter of value.manifest.
    if (fate.count == 0 || !is_conversion(row)) {
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
  return builder;
}

template <ValueFates::Fate ValueFates::*Which>
CheckRecord record_of_fates(Context& context, const char* id, const char* what) {
  if (auto record = no_base(context, id)) {
    return *record;
  }
  std::string first;
  CheckBuilder builder = of_fates<Which>(context, id, what, first);
  return builder.fail_if_subjects(first);
}

CheckRecord nan_lost(Context& context) {
  return record_of_fates<&ValueFates::nan>(context, "value.nan_lost",
                                           "is another value than the NaN or infinity of the base");
}
CheckRecord signed_zero(Context& context) {
  return record_of_fates<&ValueFates::zero>(context, "value.signed_zero",
                                            "is a zero with another sign than in the base");
}

// A cast that saturates keeps numbers numbers: no fault of this kind, and worth a word.
CheckRecord overflow(Context& context) {
  const char* id = "value.overflow";
  if (auto record = no_base(context, id)) {
    return *record;
  }
  std::string first;
  CheckBuilder builder = of_fates<&ValueFates::overflow>(context, id, "is infinite, and a number in the base", first);
  if (builder.has_subjects()) {
    return builder.hint("choose a dtype with more range, or list it in an expectation file where it is meant")
        .fail(first);
  }
  CheckBuilder saturated = of_fates<&ValueFates::saturated>(
      context, id, "is the largest number of its dtype, and beyond it in the base: a cast that saturates", first);
  return saturated.has_subjects() ? saturated.note(first) : builder.pass();
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
