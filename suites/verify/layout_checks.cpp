// SPDX-License-Identifier: Apache-2.0
// layout.*: where elements go. What a family's bindings say is proved on shapes; one file set has one layout.
#include <algorithm>
#include <array>

#include "loader/plan/proof.hpp"
#include "reference/failure.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/mapping_parity.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

CheckRecord coverage(Context& context) {
  CheckBuilder builder("layout.coverage");
  if (!context.schema) {
    return builder.skip(context.no_schema_reason);
  }
  if (!context.has_schema_shapes) {
    return builder.skip("there is no config.json to derive shapes from");
  }
  const Schema& schema = *context.schema;
  const plan::Proof proof = plan::prove_schema(schema);
  builder.examined(proof.native_proved + proof.stored_proved).evidence("proofs", proof.proofs_done);
  if (proof.is_exact()) {
    return builder.pass();
  }
  for (const plan::ProofFault& fault : proof.faults) {
    builder.subject(fault.key);
  }
  const Error first = plan::error_of(schema, proof.faults.front());
  builder.code(std::string(to_string(first.code())));
  if (!first.facts().coordinate.empty()) {
    builder.evidence("coordinate", reports::Value::array_of(first.facts().coordinate));
  }
  return builder.hint("a family description does not fit this configuration: report it with config.json")
      .fail(first.message());
}

// Beyond this many elements the corners of every view are compared instead of all.
constexpr std::uint64_t k_parity_elements_max = 1U << 20U;

// Why the reference has no mapping to compare with; empty where it has.
std::string no_mapping(Context& context) {
  if (context.adapter) {
    return "factors are compared with the reference, element by element, in value.exact";
  }
  if (!context.schema) {
    return context.no_schema_reason;
  }
  if (!context.has_schema_shapes) {
    return "there is no config.json to derive shapes from";
  }
  if (!context.quantization().undecodable.empty()) {
    return "mappings are those of decoded weights, and these cannot be decoded: " + context.quantization().undecodable;
  }
  if (!context.incomplete_keys_reason().empty()) {
    return context.incomplete_keys_reason();
  }
  if (!context.family_errors.empty()) {
    return "the family refuses the names";
  }
  if (!context.coverage().is_complete() || !context.coverage().missing_allowed.empty() || context.has_subset()) {
    return "mappings are compared where every tensor is there and known (keys.*)";
  }
  return context.reference_side().config_failure.empty() ? context.reference_side().names_failure
                                                         : context.reference_side().config_failure;
}

CheckRecord mapping(Context& context) {
  CheckBuilder builder("layout.mapping");
  if (const std::string reason = no_mapping(context); !reason.empty()) {
    return builder.skip(reason);
  }
  const ReferenceSide& theirs = context.reference_side();
  if (!disagreement(context, theirs).empty()) {
    return builder.skip("the reference reads another family or form (keys.family)");
  }
  const Schema& schema = *context.schema;
  const bool is_small = native_element_count(schema) <= k_parity_elements_max;
  try {
    const auto decoded = decoded_tensors(context.quantization(), schema, context.keys());
    reference::ModelOptions options;
    options.mapping.fold_expert_scale = context.options.folds_expert_scales;
    if (context.options.perturbation.reference) {
      context.options.perturbation.reference(options);
    }
    const reference::Mapping statement = reference::Mapping::build(
        theirs.family, theirs.config.config, logical_keys(schema, context.keys(), decoded), options.mapping);
    const MappingParity parity = compare_mappings(schema, context.keys(), context.coverage(), statement,
                                                  is_small ? ParityDepth::every_element : ParityDepth::view_corners);
    builder.examined(parity.elements + parity.passed_through);
    builder.evidence("native_tensors", parity.native_tensors);
    builder.evidence("depth", is_small ? "every element" : "corners of every view");
    if (parity.is_equal()) {
      return builder.pass();
    }
    for (const MappingDifference& difference : parity.differences) {
      builder.subject(difference.key);
    }
    return builder.hint("a family description is wrong, here or in the reference: report it with config.json")
        .fail(printable(parity.differences.front().key) + ": " + printable(parity.differences.front().message, 400) +
              (parity.differences.size() > 1 ? " (and " + grouped(parity.differences.size() - 1) + " more of the kind)"
                                             : std::string()));
  } catch (const reference::Failure& failure) {
    return builder.error(std::string("the reference cannot follow: ") + failure.what());
  }
}

CheckRecord mixed(Context& context) {
  CheckBuilder builder("layout.mixed");
  const Error* error = context.family_error(ErrorCode::namespace_mixed);
  if (error != nullptr && error->check() == "layout.mixed") {
    return failed_record("layout.mixed", *error);
  }
  if (!context.schema) {
    return builder.skip(context.no_schema_reason);
  }
  return builder.examined(context.keys().size()).pass();
}

// Tensors whose rows are the vocabulary: their families say so where they say how ranks divide them.
CheckRecord vocabulary(Context& context) {
  CheckBuilder builder("layout.vocab_pad");
  if (!context.schema) {
    return builder.skip(context.no_schema_reason);
  }
  if (!context.has_schema_shapes) {
    return builder.skip("there is no config.json to derive shapes from");
  }
  if (context.adapter) {
    return builder.skip("a low-rank adapter has no vocabulary of its own");
  }
  const Schema& schema = *context.schema;
  const plan::KeyCoverage& coverage = context.coverage();
  std::vector<bool> has_words(schema.stored_tensors().size(), false);
  for (const Binding& binding : schema.bindings()) {
    if (binding.stored != k_no_id &&
        schema.parallel_rule(schema.native_tensors()[binding.native]).kind == ParallelKind::chunks) {
      has_words[binding.stored] = coverage.row_of[binding.stored] != plan::k_no_row;
    }
  }
  const auto examined = static_cast<std::uint64_t>(std::count(has_words.begin(), has_words.end(), true));
  if (examined == 0) {
    return builder.skip(context.incomplete_keys_reason().empty() ? "no tensor of the vocabulary is stored"
                                                                 : context.incomplete_keys_reason());
  }
  builder.examined(examined);
  std::string message;
  for (const plan::ShapeMismatch& mismatch : coverage.shape_mismatches) {
    const LogicalTensor& tensor = schema.stored_tensors()[mismatch.stored];
    const Shape& wanted = schema.shape_of(tensor);
    if (!has_words[mismatch.stored] || mismatch.found.rank() != wanted.rank() || mismatch.found[0] == wanted[0]) {
      continue;
    }
    builder.subject(tensor.key);
    if (!message.empty()) {
      continue;
    }
    const std::uint64_t rows = mismatch.found[0];
    const std::uint64_t words = wanted[0];
    builder.expected(words).actual(rows);
    message =
        printable(tensor.key) + " has " + counted(rows, "row", "rows") + ", vocab_size is " + grouped(words) + ": ";
    message += rows > words ? "rows " + grouped(words) + " to " + grouped(rows - 1) + " are padding"
                            : "words " + grouped(rows) + " to " + grouped(words - 1) + " have none";
  }
  return builder.hint("export exactly vocab_size rows, or correct vocab_size").fail_if_subjects(message);
}

constexpr std::array k_checks = {VerifyCheck{"layout.vocab_pad", &vocabulary},
                                 VerifyCheck{"layout.coverage", &coverage}, VerifyCheck{"layout.mapping", &mapping},
                                 VerifyCheck{"layout.mixed", &mixed}};

}  // namespace

std::span<const VerifyCheck> layout_checks() { return k_checks; }

}  // namespace weightproof::suites
