// SPDX-License-Identifier: Apache-2.0
// What one load of everything yields, as one number: two mutants that load alike are one.
#include <map>

#include "loader/exec/digest.hpp"
#include "loader/exec/engine.hpp"
#include "suites/verify/load_run.hpp"
#include "suites/verify/loads.hpp"

namespace weightproof::suites {

std::string loaded_digest(Context& context) {
  if (const std::string reason = why_no_load(context); !reason.empty()) {
    throw Error(ErrorCode::load_failed_partial, reason);
  }
  const LoadInputs inputs = load_inputs(context);
  const plan::Plan plan = plan::make_plan(inputs.schema, inputs.sources, {}, inputs.request);
  const storage::Checkpoint* checkpoint = &context.checkpoint;
  const exec::SourceFiles files = exec::SourceFiles::of(std::span(&checkpoint, 1));
  const exec::LoadAttempt attempt = exec::load(plan, files);
  attempt.require_complete();
  std::map<std::string_view, std::size_t> by_name;
  for (std::size_t i = 0; i < plan.tensors().size(); ++i) {
    by_name.emplace(plan.tensors()[i].key, i);
  }
  exec::DigestStream digest;
  for (const auto& [name, i] : by_name) {
    const plan::PlannedTensor& tensor = plan.tensors()[i];
    const std::string head =
        std::string(name) + ' ' + std::string(name_of(tensor.dtype)) + ' ' + to_string(plan.shape_of(tensor)) + '\n';
    digest.update(std::as_bytes(std::span(head)));
    digest.update(attempt.bytes(i));
  }
  return to_string(digest.finish());
}

}  // namespace weightproof::suites
