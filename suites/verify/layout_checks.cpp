// SPDX-License-Identifier: Apache-2.0
// layout.*: where elements go. What a family's bindings say is proved on shapes; one file set has one layout.
#include <array>

#include "loader/plan/proof.hpp"
#include "suites/support/text.hpp"
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

constexpr std::array k_checks = {VerifyCheck{"layout.coverage", &coverage}, VerifyCheck{"layout.mixed", &mixed}};

}  // namespace

std::span<const VerifyCheck> layout_checks() { return k_checks; }

}  // namespace weightproof::suites
