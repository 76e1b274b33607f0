// SPDX-License-Identifier: Apache-2.0
// value.*: screens over the stored values. One pass over the weights serves them all.
#include <array>
#include <cstdio>

#include "suites/support/text.hpp"
#include "suites/verify/manifest_check.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;
using reports::Value;

const StoredTensor& row_of(Context& context, const NotableTensor& notable) {
  return context.checkpoint.catalog.tensors()[notable.tensor];
}

// A pass or a note needs every value to have been seen.
CheckRecord closed(Context& context, CheckBuilder& builder, const std::string& note) {
  const ScanResult& scan = context.scan();
  if (!scan.errors.empty()) {
    return builder.skip("not all values could be read: " + scan.errors.front().message());
  }
  if (!context.faults.empty()) {
    return builder.skip("undecided where " + context.fault_text() + "; " +
                        counted(scan.tensors, "other tensor", "other tensors") + " examined, nothing found");
  }
  return note.empty() ? builder.pass() : builder.note(note);
}

std::string place(const StoredTensor& row, std::uint64_t index) {
  return printable(row.key) + coordinate_text(row.shape, index);
}

void first_evidence(CheckBuilder& builder, const StoredTensor& row, std::uint64_t index, std::uint64_t count) {
  builder.evidence("key", row.key)
      .evidence("coordinate", Value::array_of(coordinate_of(row.shape, index).span()))
      .evidence("count", count);
  builder.evidence("elements", element_count(row.shape).value_or(0));
}

CheckRecord nonfinite(Context& context) {
  CheckBuilder builder("value.nonfinite");
  const ScanResult& scan = context.scan();
  builder.examined(scan.tensors);
  std::uint64_t nan_count = 0;
  std::uint64_t inf_count = 0;
  const NotableTensor* first_nan = nullptr;
  const NotableTensor* first_inf = nullptr;
  for (const NotableTensor& notable : scan.notable) {
    nan_count += notable.facts.nan_count;
    inf_count += notable.facts.inf_count;
    if (notable.facts.nan_count > 0 && first_nan == nullptr) {
      first_nan = &notable;
    }
    if (notable.facts.inf_count > 0 && first_inf == nullptr) {
      first_inf = &notable;
    }
  }
  if (first_nan == nullptr && first_inf == nullptr) {
    return closed(context, builder, {});
  }
  const bool has_nan = first_nan != nullptr;
  Value counts;
  for (const NotableTensor& notable : scan.notable) {
    const std::uint64_t count = has_nan ? notable.facts.nan_count : notable.facts.inf_count;
    if (count > 0) {
      builder.subject(row_of(context, notable).key);
    }
  }
  const NotableTensor& first = has_nan ? *first_nan : *first_inf;
  const StoredTensor& row = row_of(context, first);
  const std::uint64_t index = has_nan ? first.facts.first_nan : first.facts.first_inf;
  const std::uint64_t total = has_nan ? nan_count : inf_count;
  first_evidence(builder, row, index, has_nan ? first.facts.nan_count : first.facts.inf_count);
  builder.evidence("total_count", total);
  const std::string what = has_nan ? "NaN" : "Inf";
  const std::string message = counted(total, what + " value", what + " values") + " in " +
                              counted(builder.subject_count(), "tensor", "tensors") + ", first at " + place(row, index);
  if (has_nan && first_inf != nullptr) {
    builder.explanation(counted(inf_count, "Inf value", "Inf values") + " beside them, first at " +
                        place(row_of(context, *first_inf), first_inf->facts.first_inf));
  }
  builder.hint(has_nan ? "the tensor was damaged before or while it was saved: fetch it again or export it again"
                       : "a conversion to a narrower range makes Inf: compare with the source");
  return has_nan ? builder.fail(message) : builder.warn(message);
}

CheckRecord all_zero(Context& context) {
  CheckBuilder builder("value.all_zero");
  const ScanResult& scan = context.scan();
  builder.examined(scan.tensors);
  std::vector<std::string> lesser;
  for (const NotableTensor& notable : scan.notable) {
    const StoredTensor& row = row_of(context, notable);
    if (!notable.facts.is_zero ||
        (kind_of(row.dtype) != DTypeKind::floating && kind_of(row.dtype) != DTypeKind::complex)) {
      continue;
    }
    if (row.shape.rank() >= 2) {
      builder.subject(row.key);
    } else {
      lesser.emplace_back(row.key);
    }
  }
  const std::string note = lesser.empty()
                               ? std::string()
                               : counted(lesser.size(), "vector or scalar holds", "vectors or scalars hold") +
                                     " nothing but zeros: " + listed(lesser);
  if (!builder.has_subjects()) {
    for (const std::string& key : lesser) {
      builder.subject(key);
    }
    return closed(context, builder, note);
  }
  return builder.explanation(note)
      .hint(
          "an export that never wrote the tensor leaves zeros; if the model means it, list it in the expectation file")
      .warn(counted(builder.subject_count(), "tensor holds", "tensors hold") + " nothing but zeros");
}

CheckRecord constant(Context& context) {
  CheckBuilder builder("value.constant");
  const ScanResult& scan = context.scan();
  builder.examined(scan.tensors);
  std::vector<std::string> keys;
  for (const NotableTensor& notable : scan.notable) {
    if (notable.facts.is_constant && notable.facts.elements > 1 && !notable.facts.is_zero) {
      keys.emplace_back(row_of(context, notable).key);
      builder.subject(keys.back());
    }
  }
  return closed(context, builder,
                keys.empty()
                    ? std::string()
                    : counted(keys.size(), "tensor repeats", "tensors repeat") + " one value: " + listed(keys));
}

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

CheckRecord outlier(Context& context) {
  CheckBuilder builder("value.outlier");
  const ScanResult& scan = context.scan();
  builder.examined(scan.tensors);
  const NotableTensor* first = nullptr;
  for (const NotableTensor& notable : scan.notable) {
    if (notable.outlier) {
      builder.subject(row_of(context, notable).key);
      first = first == nullptr ? &notable : first;
    }
  }
  if (first == nullptr) {
    return closed(context, builder, {});
  }
  const StoredTensor& row = row_of(context, *first);
  first_evidence(builder, row, first->outlier->index, first->outlier->alone);
  builder.evidence("magnitude", first->outlier->value).evidence("next_largest", first->outlier->next);
  return builder.explanation("one flipped exponent bit looks like this")
      .hint("compare with the source or with recorded digests")
      .warn(place(row, first->outlier->index) + " has magnitude " + short_number(first->outlier->value) +
            ", the tensor's next largest is " + short_number(first->outlier->next) +
            (builder.subject_count() > 1 ? " (and " + grouped(builder.subject_count() - 1) + " more tensors)"
                                         : std::string()));
}

CheckRecord bool_byte(Context& context) {
  CheckBuilder builder("value.bool_byte");
  const ScanResult& scan = context.scan();
  std::uint64_t examined = 0;
  for (const StoredTensor& row : context.checkpoint.catalog.tensors()) {
    examined += row.is_described && row.dtype == DType::bool8 ? 1U : 0U;
  }
  builder.examined(examined);
  const NotableTensor* first = nullptr;
  for (const NotableTensor& notable : scan.notable) {
    if (notable.facts.odd_bool_count > 0) {
      builder.subject(row_of(context, notable).key);
      first = first == nullptr ? &notable : first;
    }
  }
  if (first == nullptr) {
    return closed(context, builder, {});
  }
  const StoredTensor& row = row_of(context, *first);
  first_evidence(builder, row, first->facts.first_odd_bool, first->facts.odd_bool_count);
  return builder.hint("readers disagree about such bytes: store 0 or 1")
      .warn(counted(first->facts.odd_bool_count, "BOOL byte", "BOOL bytes") + " of " + printable(row.key) +
            " neither 0 nor 1, first at " + coordinate_text(row.shape, first->facts.first_odd_bool));
}

CheckRecord float_mode(Context& context) {
  CheckBuilder builder("value.float_mode");
  const bool is_sound = keeps_subnormals() && !(context.has_scan() && context.scan().has_float_mode_fault);
  builder.examined(1);
  if (is_sound) {
    return builder.pass();
  }
  return builder.hint("a library linked into the process, or a launcher, has switched them on (-ffast-math does)")
      .fail("flush-to-zero or denormals-are-zero is on in this process: subnormal values would be lost");
}

CheckRecord manifest(Context& context) { return manifest_record(context); }

constexpr std::array k_checks = {
    VerifyCheck{"value.manifest", &manifest},     VerifyCheck{"value.nonfinite", &nonfinite},
    VerifyCheck{"value.all_zero", &all_zero},     VerifyCheck{"value.constant", &constant},
    VerifyCheck{"value.outlier", &outlier},       VerifyCheck{"value.bool_byte", &bool_byte},
    VerifyCheck{"value.float_mode", &float_mode},
};

}  // namespace

std::span<const VerifyCheck> value_checks() { return k_checks; }

}  // namespace weightproof::suites
