// SPDX-License-Identifier: Apache-2.0
// adapter.*: low-rank adapters against their base, and merged results against what they were merged from.
#include <algorithm>
#include <array>
#include <set>

#include "suites/state/compare.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

constexpr const char* k_no_adapter = "no low-rank adapter is verified";
constexpr const char* k_config_file = "adapter_config.json";

// Why names are not judged against a base; empty where they are.
std::string no_match(const Context& context) {
  if (!context.adapter) {
    return k_no_adapter;
  }
  const AdapterState& state = *context.adapter;
  if (!state.no_config_reason.empty()) {
    return state.no_config_reason;
  }
  if (!state.errors.empty()) {
    return "undecided where adapter.config fails";
  }
  if (!context.faults.empty()) {
    return "undecided where " + context.fault_text();
  }
  if (!state.has_base) {
    return "no base model is given (--base)";
  }
  return state.no_base_reason;
}

std::string form_text(const AdapterState& state) {
  const adapters::LoraMatch& match = *state.match;
  std::string text = "rank " + grouped(state.config->rank) + ", " + counted(match.modules, "module", "modules");
  if (match.layout.experts.empty()) {
    return text;
  }
  if (match.layout.packing == adapters::LoraPacking::per_expert) {
    return text + ", experts one by one";
  }
  text += ", experts packed as " + std::string(to_string(match.layout.packing)) + " does: by ";
  if (match.is_stamped) {
    text += match.votes != 0 ? "the stamp and " : "the stamp";
  }
  return match.votes == 0 ? text : text + counted(match.votes, "shape", "shapes");
}

CheckRecord of_rank(CheckBuilder& builder, std::uint64_t stated, std::uint64_t found) {
  return builder.subject(k_config_file)
      .expected(stated)
      .actual(found)
      .hint("give the factors the config they were trained with")
      .fail("adapter_config.json states rank " + grouped(stated) + ", the factors have rank " + grouped(found));
}

CheckRecord config(Context& context) {
  CheckBuilder builder("adapter.config");
  if (!context.adapter) {
    return builder.skip(k_no_adapter);
  }
  const AdapterState& state = *context.adapter;
  if (!state.no_config_reason.empty()) {
    return builder.skip(state.no_config_reason);
  }
  if (!state.errors.empty()) {
    return failed_record("adapter.config", state.errors.front());
  }
  builder.examined(context.keys().size());
  if (state.found_rank) {
    return of_rank(builder, state.config->rank, *state.found_rank);
  }
  if (!state.match) {
    return builder.note(state.has_base ? state.no_base_reason
                                       : "read; without a base (--base) only factors are held against each other");
  }
  const adapters::LoraMatch& match = *state.match;
  if (match.found_rank) {
    return of_rank(builder, state.config->rank, *match.found_rank);
  }
  if (state.config->use_dora && !match.layout.has_magnitudes && match.matched != 0) {
    return builder.subject(k_config_file)
        .expected("lora_magnitude_vector")
        .actual("none")
        .fail("adapter_config.json states DoRA, but no magnitude is stored");
  }
  if (match.untargeted.empty() && match.unknown.empty()) {
    return builder.note(form_text(state));
  }
  for (const auto* keys : {&match.untargeted, &match.unknown}) {
    for (const std::string& key : *keys) {
      builder.subject(key);
    }
  }
  std::string message;
  if (!match.untargeted.empty()) {
    message = counted(match.untargeted.size(), "factor", "factors") +
              " that adapter_config.json does not ask for: " + listed(match.untargeted);
  }
  if (!match.unknown.empty()) {
    message += (message.empty() ? "" : "; ") + counted(match.unknown.size(), "tensor", "tensors") +
               " that is no factor and not among modules_to_save: " + listed(match.unknown);
  }
  return builder.hint("name the modules in target_modules, target_parameters or modules_to_save").fail(message);
}

std::string count_text(const adapters::LoraMatch& match) {
  return grouped(match.matched) + " of " + counted(match.modules, "module", "modules");
}

CheckRecord no_module(Context& context) {
  CheckBuilder builder("adapter.no_match");
  if (const std::string reason = no_match(context); !reason.empty()) {
    return builder.skip(reason);
  }
  const adapters::LoraMatch& match = *context.adapter->match;
  builder.examined(match.modules).evidence("matched", match.matched).evidence("total", match.modules);
  if (match.matched != 0) {
    return builder.note(count_text(match) + " of the adapter are in the base");
  }
  for (const std::string& key : match.unmatched) {
    builder.subject(key);
  }
  if (!match.absent.empty()) {
    builder.expected(match.absent.front());
  }
  if (!match.unmatched.empty()) {
    builder.actual(match.unmatched.front());
  }
  return builder.hint("rename the factors so that they begin as the base's tensors do, behind 'base_model.model.'")
      .fail(count_text(match) + " of the adapter are in the base" +
            (match.unmatched.empty() ? std::string(": it holds no factors") : ": " + listed(match.unmatched)));
}

CheckRecord partial_match(Context& context) {
  CheckBuilder builder("adapter.partial_match");
  if (const std::string reason = no_match(context); !reason.empty()) {
    return builder.skip(reason);
  }
  const adapters::LoraMatch& match = *context.adapter->match;
  builder.examined(match.modules).evidence("matched", match.matched).evidence("total", match.modules);
  if (match.matched == 0) {
    return builder.skip("no module matches at all (adapter.no_match)");
  }
  if (match.unmatched.empty() && match.absent.empty()) {
    return match.is_complete_asked
               ? builder.pass()
               : builder.note("which modules must have factors is stated by an expression and was not asked");
  }
  for (const auto* keys : {&match.unmatched, &match.absent}) {
    for (const std::string& key : *keys) {
      builder.subject(key);
    }
  }
  std::string message = count_text(match) + " of the adapter are in the base";
  if (!match.unmatched.empty()) {
    message += "; not in the base: " + listed(match.unmatched);
  }
  if (!match.absent.empty()) {
    message += "; asked for by adapter_config.json and without factors: " + listed(match.absent);
  }
  const auto list = [](const std::vector<std::string>& keys) {
    return reports::Value(keys.empty() ? std::string("none") : listed(keys, 12));
  };
  return builder.evidence("not_in_base", list(match.unmatched))
      .evidence("without_factors", list(match.absent))
      .hint("use the base that the adapter was trained on, or save all of its modules")
      .fail(message);
}

CheckRecord shape_without_base(const Context& context) {
  CheckBuilder builder("adapter.shape");
  const AdapterState& state = *context.adapter;
  builder.examined(state.modules);
  for (const UnfitFactor& factor : state.unfit) {
    builder.subject(factor.key);
  }
  if (state.unfit.empty()) {
    return builder.note(
        "factors fit each other and the rank; without a base (--base) they are held against nothing else");
  }
  const UnfitFactor& first = state.unfit.front();
  builder.expected(first.expected).actual(first.actual.empty() ? "absent" : first.actual);
  return builder.code(first.actual.empty() ? "MISSING_KEYS" : "SHAPE_MISMATCH")
      .fail(printable(first.key) + (first.actual.empty() ? " is absent, its other factor is stored"
                                                         : " is " + first.actual + ", not " + first.expected));
}

CheckRecord shape(Context& context) {
  CheckBuilder builder("adapter.shape");
  if (context.adapter && context.adapter->config && !context.adapter->has_base && context.faults.empty()) {
    return shape_without_base(context);
  }
  if (const std::string reason = no_match(context); !reason.empty()) {
    return builder.skip(reason);
  }
  const adapters::LoraMatch& match = *context.adapter->match;
  const Schema& schema = *context.schema;
  const plan::KeyCoverage& coverage = context.coverage();
  const auto is_absent = [&](std::string_view key) {
    return std::binary_search(match.absent.begin(), match.absent.end(), key);
  };
  builder.examined(coverage.present);
  std::string message;
  const auto add = [&](std::string_view key, std::string text) {
    builder.subject(key);
    if (message.empty()) {
      message = std::move(text);
    }
  };
  for (const plan::ShapeMismatch& mismatch : coverage.shape_mismatches) {
    const LogicalTensor& tensor = schema.stored_tensors()[mismatch.stored];
    const std::string expected = to_string(schema.shape_of(tensor));
    const std::string actual = to_string(mismatch.found);
    if (message.empty()) {
      builder.expected(expected).actual(actual).code("SHAPE_MISMATCH");
    }
    add(tensor.key, printable(tensor.key) + " is " + actual + ", not " + expected);
  }
  for (const StoredId id : coverage.missing) {
    const std::string_view key = schema.stored_tensors()[id].key;
    if (is_absent(key)) {
      continue;  // its module has no factors at all: adapter.partial_match
    }
    if (message.empty()) {
      builder.expected(std::string(key)).actual("absent").code("MISSING_KEYS");
    }
    add(key, printable(key) + " is absent, other factors of its module are stored");
  }
  for (const std::string& key : match.misnamed) {
    add(key, printable(key) + " is a name under which no library looks for a factor");
  }
  return builder.hint("save the adapter with the library that is to read it, as plain factors of one rank")
      .fail_if_subjects(message);
}

CheckRecord no_effect(Context& context) {
  CheckBuilder builder("adapter.no_effect");
  if (context.adapter) {
    return builder.skip("an adapter is no merged result: verify the merged checkpoint with --base");
  }
  if (context.base == nullptr) {
    return builder.skip("no base model is given (--base)");
  }
  if (context.is_keys_only()) {
    return builder.hint("leave out --keys-only").skip("asks the weight files, which --keys-only leaves alone");
  }
  if (!context.faults.empty() || !context.index_fault().empty()) {
    return builder.skip("undecided where " + context.fault_text());
  }
  StateOptions options;
  options.selects = [&context](std::string_view key) { return context.selects(key); };
  const DecodedState merged(context.checkpoint, options);
  const DecodedState base(*context.base, options);
  std::uint64_t compared = 0;
  std::string first;
  for (const StateTensor& tensor : merged.tensors()) {
    const StateTensor* other = base.find(tensor.key);
    if (other == nullptr) {
      continue;
    }
    ++compared;
    first = first.empty() ? tensor.key : first;
    if (compare_tensors(merged, tensor, base, *other, {}).equality == Equality::different) {
      return builder.examined(compared).note(printable(tensor.key) + " differs from the base");
    }
  }
  if (compared == 0) {
    return builder.skip("base and result have no tensor in common");
  }
  for (const StateTensor& tensor : merged.tensors()) {
    if (base.find(tensor.key) != nullptr && tensor.key.ends_with(".weight") && tensor.shape.rank() == 2) {
      builder.subject(tensor.key);
    }
  }
  if (!builder.has_subjects()) {
    builder.subject(first);
  }
  return builder.examined(compared)
      .expected("a difference")
      .actual("none")
      .hint("merge again with the scale alpha / r, and look whether the adapter's modules match the base")
      .fail("all " + counted(compared, "tensor", "tensors") + " are those of the base: nothing was merged");
}

constexpr std::array k_checks = {
    VerifyCheck{"adapter.config", &config},
    VerifyCheck{"adapter.no_match", &no_module},
    VerifyCheck{"adapter.partial_match", &partial_match},
    VerifyCheck{"adapter.shape", &shape},
    VerifyCheck{"adapter.no_effect", &no_effect},
};

}  // namespace

std::span<const VerifyCheck> adapter_checks() { return k_checks; }

}  // namespace weightproof::suites
