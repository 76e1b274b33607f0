// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/load_run.hpp"

#include <algorithm>

#include "suites/state/decoded_state.hpp"
#include "suites/state/identity_schema.hpp"
#include "suites/state/native_state.hpp"
#include "suites/verify/load_runner.hpp"

namespace weightproof::suites {

void TensorFindings::add(std::string_view key, std::string where, std::string what) {
  if (keys_.emplace(key).second) {
    rows_.push_back({std::string(key), std::move(where), std::move(what)});
  }
}

std::string why_no_load(Context& context) {
  if (context.adapter && !context.schema) {
    return "no load is possible where adapter.* checks fail";
  }
  if (is_native_state(context.checkpoint)) {
    return context.no_schema_reason;  // the reference reads what checkpoints hold
  }
  // Without any family every tensor is itself; a family that cannot be followed is another matter.
  const bool is_identity = !context.schema && context.detection.family == nullptr;
  if (!is_identity && (!context.schema || !context.has_schema_shapes)) {
    return context.schema ? "there is no config.json to derive shapes from" : context.no_schema_reason;
  }
  if (!context.faults.empty() || !context.index_fault().empty()) {
    return "undecided where " + context.fault_text();
  }
  const auto& diagnostics = context.checkpoint.diagnostics;
  if (std::any_of(diagnostics.begin(), diagnostics.end(),
                  [](const Diagnostic& row) { return row.severity == Severity::fail; })) {
    return "no load is possible where checks of files and index fail";
  }
  const QuantizedState& state = context.quantization();
  const bool has_quant_finding = std::any_of(state.diagnostics.begin(), state.diagnostics.end(),
                                             [](const Diagnostic& row) { return row.severity == Severity::fail; });
  if (has_quant_finding || !state.undecodable.empty()) {
    return "no load is possible where quant.* checks fail";
  }
  if (is_identity) {
    const auto& tensors = state.found.tensors;
    const bool has_codes = std::any_of(tensors.begin(), tensors.end(), [](const codec::QuantizedTensor& tensor) {
      return tensor.scheme.id != "fp8_bare";
    });
    return context.keys().size() == 0 ? "there is no tensor"
           : has_codes                ? "quantized tensors, and " + context.no_schema_reason
                                      : std::string();
  }
  if (!context.coverage().is_complete()) {
    return "no load is possible where keys.* checks fail";
  }
  return context.family_errors.empty() ? std::string() : "no load is possible where the family refuses the names";
}

LoadInputs load_inputs(Context& context) {
  LoadInputs inputs;
  if (context.schema) {
    inputs.schema = std::shared_ptr<const Schema>(&*context.schema, [](const Schema*) {});
  } else {
    inputs.schema = identity_schema(context.keys());
  }
  const std::shared_ptr<const Catalog> catalog(&context.keys(), [](const Catalog*) {});
  plan::Request& request = inputs.request;
  request.decoded_dtype = decoded_dtype(context.checkpoint.config ? &*context.checkpoint.config : nullptr);
  request.keys.include = context.options.include;
  request.keys.exclude = context.options.exclude;
  request.keys.allow_missing = context.options.allow_missing;
  request.keys.allow_unexpected = context.options.selection.allow_unexpected;
  // Two at least: io.determinism compares them with one.
  request.threads = std::max(2U, context.options.threads);
  const QuantizedState& state = context.quantization();
  for (std::size_t i = 0; i < state.found.tensors.size(); ++i) {
    const StoredId id = inputs.schema->find_stored(state.found.tensors[i].key);
    if (id == k_no_id || !state.codecs[i] || !context.schema) {
      continue;
    }
    std::vector<plan::Row> rows;
    for (const codec::Component& component : state.found.tensors[i].components) {
      rows.push_back(static_cast<plan::Row>(catalog->index_of(component.key)));
    }
    request.decodes.push_back({id, state.codecs[i], std::move(rows)});
  }
  if (context.schema) {
    for (plan::DecodeSource& fold : declared_decodes(*context.schema, context.keys())) {
      request.decodes.push_back(std::move(fold));
    }
  }
  inputs.sources = {{context.checkpoint.display_path, catalog}};
  return inputs;
}

LoadInputs asked_inputs(Context& context) {
  LoadInputs inputs = load_inputs(context);
  inputs.request.dtype = context.options.dtype;
  inputs.request.route = context.options.route;
  return inputs;
}

const LoadRun& load_run_of(Context& context) {
  if (context.loads) {
    return *context.loads;
  }
  context.loads.reset(new LoadRun);
  LoadRun& run = *context.loads;
  run.skipped = why_no_load(context);
  if (!run.skipped.empty()) {
    return run;
  }
  try {
    LoadRunner(context, run).execute();
  } catch (const Error& error) {
    run.error = error;
  }
  return run;
}

void LoadRunDeleter::operator()(LoadRun* run) const { delete run; }

}  // namespace weightproof::suites
