// SPDX-License-Identifier: Apache-2.0
// What only a second checkpoint shows: --against BASE. Names, dtypes and values of this one, decoded, beside those of
// the base.
#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "loader/core/glob.hpp"
#include "suites/explanations/numeric_operators.hpp"
#include "suites/explanations/states.hpp"
#include "suites/state/compare.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/against_internal.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {

void AgainstDeleter::operator()(Against* against) const { delete against; }

namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

constexpr const char* k_no_base = "no other checkpoint to compare with (--against)";

// Narrower: a value of the first may be none of the second.
bool is_narrower(DType from, DType to) {
  if (from == to || !is_ordinary_float(from) || !is_ordinary_float(to)) {
    return false;
  }
  const auto holds = [](DType wide, DType narrow) {
    return wide == DType::f64 || (wide == DType::f32 && narrow != DType::f64);
  };
  return !holds(to, from);
}

// Mistakes of layout, of the order of codes and of conversions have checks of their own; whatever else differs is told
// by value.manifest.
constexpr std::array<std::string_view, 7> k_explained = {
    "layout.qkv",          "layout.gate_up_order", "layout.transpose",  "layout.gate_up_interleave",
    "layout.expert_order", "layout.rope",          "quant.nibble_order"};

std::string rule_of(const Explanation& explanation) {
  const bool is_known = std::find(k_explained.begin(), k_explained.end(), explanation.check) != k_explained.end();
  const bool is_conversion = explanation.check == "value.rounding" || explanation.check == "value.nan_lost";
  return is_known || is_conversion ? explanation.check : std::string("value.manifest");
}

// Why a name of the base need not be here; empty where it has to be.
std::string why_left_out(const Context& context, const std::string& key) {
  if (!context.schema) {
    return {};
  }
  for (const Drop& drop : context.schema->drops()) {
    if (matches_glob(drop.pattern, key)) {
      return drop.reason;
    }
  }
  for (const Tie& tie : context.schema->ties()) {
    if (tie.stored_alias == key) {
      return "tied";
    }
  }
  return {};
}

CheckRecord names(Context& context) {
  if (auto record = no_base(context, "keys.export")) {
    return *record;
  }
  const StateDifference& difference = against_of(context).difference;
  CheckBuilder builder("keys.export");
  builder.examined(difference.tensors.size() + difference.only_in_a.size() + difference.only_in_b.size());
  std::vector<std::string> lost;
  std::size_t left_out = 0;
  for (const std::string& key : difference.only_in_a) {
    if (why_left_out(context, key).empty()) {
      lost.push_back(key);
      builder.subject(key);
    } else {
      ++left_out;
    }
  }
  std::vector<std::string> added;
  for (const std::string& key : difference.only_in_b) {
    const bool is_head = !why_left_out(context, key).empty();
    if (!is_head) {
      added.push_back(key);
      builder.subject(key);
    }
  }
  std::string text;
  if (!lost.empty()) {
    text = counted(lost.size(), "tensor", "tensors") + " of the base missing: " + listed(lost);
  }
  if (!added.empty()) {
    text += (text.empty() ? "" : "; ") + counted(added.size(), "tensor is", "tensors are") +
            " not in the base: " + listed(added);
  }
  if (text.empty() && left_out != 0) {
    return builder.note(counted(left_out, "tensor", "tensors") + " of the base left out on purpose");
  }
  return builder.fail_if_subjects(text);
}

template <typename Accept>
CheckBuilder of_pairs(Context& context, const char* id, const Accept& accept, std::string& first) {
  const StateDifference& difference = against_of(context).difference;
  CheckBuilder builder(id);
  builder.examined(difference.tensors.size());
  for (const TensorDifference& row : difference.tensors) {
    if (!accept(row)) {
      continue;
    }
    builder.subject(row.key);
    if (first.empty()) {
      first = printable(row.key) + " is " + row.dtype_b + ", in the base " + row.dtype_a;
      builder.expected(row.dtype_a).actual(row.dtype_b);
    }
  }
  return builder;
}

DType dtype_named(const std::string& name) { return dtype_from_name(name).value_or(DType::u8); }

CheckRecord narrowed(Context& context) {
  if (auto record = no_base(context, "dtype.narrowed")) {
    return *record;
  }
  std::string first;
  return of_pairs(
             context, "dtype.narrowed",
             [](const TensorDifference& row) {
               return is_narrower(dtype_named(row.dtype_a), dtype_named(row.dtype_b));
             },
             first)
      .fail_if_subjects(first);
}

CheckRecord widened(Context& context) {
  if (auto record = no_base(context, "dtype.widened")) {
    return *record;
  }
  std::string first;
  CheckBuilder builder = of_pairs(
      context, "dtype.widened",
      [](const TensorDifference& row) {
        const DType from = dtype_named(row.dtype_a);
        const DType to = dtype_named(row.dtype_b);
        return from != to && is_ordinary_float(from) && is_ordinary_float(to) && !is_narrower(from, to);
      },
      first);
  return builder.has_subjects() ? builder.note(first) : builder.pass();
}

CheckRecord integer_cast(Context& context) {
  if (auto record = no_base(context, "dtype.integer_cast")) {
    return *record;
  }
  std::string first;
  return of_pairs(
             context, "dtype.integer_cast",
             [](const TensorDifference& row) {
               return row.dtype_a != row.dtype_b &&
                      !(is_ordinary_float(dtype_named(row.dtype_a)) && is_ordinary_float(dtype_named(row.dtype_b)));
             },
             first)
      .fail_if_subjects(first);
}

// What the explanations of differing tensors say of one kind of mistake.
template <std::size_t Which>
CheckRecord explained(Context& context) {
  const std::string id(k_explained[Which]);
  if (auto record = no_base(context, id.c_str())) {
    return *record;
  }
  const Against& against = against_of(context);
  CheckBuilder builder(id);
  builder.examined(against.difference.tensors.size());
  std::string first;
  for (const Explanation& explanation : against.explanations) {
    if (explanation.check == id) {
      builder.subject(explanation.key);
      first = first.empty() ? printable(explanation.key) + ": " + summary_of(explanation) : first;
    }
  }
  return builder.fail_if_subjects(first);
}

// Every tensor that the comparison found so, also beyond those that are explained.
CheckRecord nibble_order(Context& context) {
  if (auto record = no_base(context, "quant.nibble_order")) {
    return *record;
  }
  const Against& against = against_of(context);
  CheckBuilder builder("quant.nibble_order");
  if (against.ordered == 0) {
    return builder.skip("no tensor, here or in the base, has several codes in a byte");
  }
  builder.examined(against.ordered);
  std::string first;
  for (const TensorDifference& row : against.difference.tensors) {
    if (row.order.empty()) {
      continue;
    }
    builder.subject(row.key);
    first = first.empty() ? printable(row.key) + ": " + row.explanation : first;
  }
  return builder.hint("pack the codes again as the format's definition orders them").fail_if_subjects(first);
}

constexpr std::array k_checks = {
    VerifyCheck{"keys.export", &names},
    VerifyCheck{"layout.qkv", &explained<0>},
    VerifyCheck{"layout.gate_up_order", &explained<1>},
    VerifyCheck{"layout.transpose", &explained<2>},
    VerifyCheck{"layout.gate_up_interleave", &explained<3>},
    VerifyCheck{"layout.expert_order", &explained<4>},
    VerifyCheck{"layout.rope", &explained<5>},
    VerifyCheck{"quant.nibble_order", &nibble_order},
    VerifyCheck{"dtype.narrowed", &narrowed},
    VerifyCheck{"dtype.widened", &widened},
    VerifyCheck{"dtype.integer_cast", &integer_cast},
};

void compare_with_base(Context& context, Against& against) {
  storage::SelectionOptions selection;
  selection.allow_unexpected = true;
  const storage::Checkpoint base =
      storage::open_checkpoint(context.options.against, selection, context.options.threads);
  StateOptions options;
  options.selects = [&context](std::string_view key) { return context.selects(key); };
  options.called = "the base";
  DecodedState theirs(base, options);
  options.called = "the checkpoint";
  DecodedState ours(context.checkpoint, options);
  fold_as_asked(context, base, theirs, ours, against);
  for (const StateTensor& tensor : ours.tensors()) {
    const StateTensor* other = theirs.find(tensor.key);
    against.ordered += has_order(tensor.codec) || (other != nullptr && has_order(other->codec)) ? 1U : 0U;
  }
  against.difference =
      compare_states(theirs, ours, {}, context.options.threads, [&context](std::uint64_t done, std::uint64_t total) {
        if (context.options.progress) {
          context.options.progress("comparing with the base", done, total);
        }
      });
  find_folds(context, base, options, theirs, ours, against);
  find_stated_codes(context, theirs, ours, against);
  against.explanations = explain_difference(theirs, ours, nullptr, against.difference);
  std::erase_if(against.explanations,
                [&against](const Explanation& explanation) { return against.as_stated.contains(explanation.key); });
  for (const Explanation& explanation : against.explanations) {
    // Under the check that is about this mistake; without one it is a difference of values.
    reports::Finding finding = finding_of(explanation, rule_of(explanation));
    finding.title = finding.title.empty() ? "Differs from the base" : finding.title;
    finding.reproduce = context.options.command;
    add_finding(context.findings, std::move(finding));
  }
}

}  // namespace

const Against& against_of(Context& context) {
  if (context.against) {
    return *context.against;
  }
  context.against.reset(new Against);
  Against& against = *context.against;
  if (!context.faults.empty() || !context.index_fault().empty()) {
    against.undecided = "undecided where " + context.fault_text();
    return against;
  }
  if (against.undecided = why_undecodable(context.quantization()); !against.undecided.empty()) {
    return against;
  }
  try {
    compare_with_base(context, against);
  } catch (Error& error) {
    error.note("while comparing with " + printable(std::filesystem::path(context.options.against).filename().string()) +
               ", given by --against");
    against.failure = error;
    against.undecided = "the base cannot be compared with (value.manifest)";
  }
  return against;
}
// Skip where there is nothing to compare with.
std::optional<CheckRecord> no_base(Context& context, const char* id) {
  if (context.options.against.empty()) {
    return CheckBuilder(id).hint("give --against BASE").skip(k_no_base);
  }
  const Against& against = against_of(context);
  if (against.failure && std::string_view(id) == "value.manifest") {
    CheckRecord record = error_record(id, *against.failure);
    record.evidence["title"] = "The base cannot be compared with";
    return record;
  }
  if (!against.undecided.empty()) {
    return CheckBuilder(id).skip(against.undecided);
  }
  return std::nullopt;
}

namespace {

// What was lost as it was declared or asked for.
std::string note_of(const Against& against) {
  std::string out;
  if (!against.as_stated.empty()) {
    out = counted(against.as_stated.size(), "tensor is", "tensors are") +
          " requantized, nearest, as config.json states: bit for bit what " + against.formula + " makes of the base";
  }
  if (against.folded > 0) {
    out += (out.empty() ? "" : "; ") + counted(against.folded, "tensor", "tensors") +
           " of experts' scales multiplied into the experts on both sides, as asked";
  }
  return out;
}

}  // namespace

// Values: what a manifest of the base would say, with the first difference of each tensor.
reports::CheckRecord against_record(Context& context) {
  const char* id = "value.manifest";
  if (auto record = no_base(context, id)) {
    return *record;
  }
  CheckBuilder builder(id);
  const Against& against = against_of(context);
  builder.examined(against.difference.tensors.size());
  std::string first;
  bool has_folded = false;
  for (const TensorDifference& row : against.difference.tensors) {
    if (row.equality != Equality::different || against.as_stated.contains(row.key)) {
      continue;
    }
    has_folded = has_folded || row.folded == Side::second;
    builder.subject(row.key);
    if (!first.empty()) {
      continue;
    }
    first = printable(row.key);
    if (row.first && row.shape_a == row.shape_b) {
      const std::string where = to_string(coordinate_of(row.shape_b, *row.first));
      first += where;
      builder.evidence("coordinate", where).expected(row.first_a).actual(row.first_b);
    }
    first += " differs from the base";
    if (!row.explanation.empty()) {
      builder.explanation(printable(row.key) + ": " + row.explanation);
    }
  }
  if (!builder.has_subjects()) {
    const std::string note = note_of(against);
    return note.empty() ? builder.pass() : builder.note(note);
  }
  return builder
      .hint(has_folded ? "--gemma-fold multiplies the scales of experts in on both sides"
                       : "`weightproof diff` says more")
      .fail(first);
}

std::span<const VerifyCheck> against_checks() { return k_checks; }

}  // namespace weightproof::suites
