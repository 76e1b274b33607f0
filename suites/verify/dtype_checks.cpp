// SPDX-License-Identifier: Apache-2.0
// dtype.*: what is stored against what is declared.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "suites/support/text.hpp"
#include "suites/verify/load_run.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

struct DeclaredDType {
  std::string field;
  std::string text;
};

std::optional<DeclaredDType> declared_dtype(const ConfigValue& config) {
  for (const char* field : {"torch_dtype", "dtype", "text_config.torch_dtype", "text_config.dtype"}) {
    const ConfigValue* value = config.find(field);
    if (value != nullptr && value->as_string()) {
      return DeclaredDType{field, std::string(*value->as_string())};
    }
  }
  return std::nullopt;
}

CheckRecord declared(Context& context) {
  CheckBuilder builder("dtype.declared");
  if (!context.checkpoint.config) {
    return builder.skip("there is no config.json");
  }
  const auto found = declared_dtype(*context.checkpoint.config);
  if (!found) {
    return builder.skip("config.json declares no dtype");
  }
  const auto dtype = dtype_from_config_name(found->text);
  if (!dtype) {
    return builder.note("config.json declares " + found->field + " " + printable(found->text) +
                        ", which names no dtype");
  }
  std::map<std::string, std::uint64_t> others;
  std::vector<std::string_view> deviating;
  std::uint64_t examined = 0;
  for (const StoredTensor& row : context.keys().tensors()) {
    if (!row.is_described || !is_ordinary_float(row.dtype) || !context.selects(row.key)) {
      continue;
    }
    ++examined;
    if (row.dtype != *dtype) {
      deviating.push_back(row.key);
      ++others[std::string(name_of(row.dtype))];
    }
  }
  builder.examined(examined).expected(name_of(*dtype));
  if (!others.empty()) {
    if (deviating.size() == examined) {
      builder.subject(found->field);  // all tensors agree against config.json: the field is the odd one
    } else {
      for (const std::string_view key : deviating) {
        builder.subject(key);
      }
    }
    std::string text;
    for (const auto& [name, count] : others) {
      text += (text.empty() ? "" : ", ") + counted(count, "tensor", "tensors") + " of " + name;
    }
    return builder.note("config.json declares " + found->text + "; stored beside it: " + text);
  }
  return context.faults.empty() ? builder.pass() : builder.skip("undecided where " + context.fault_text());
}

CheckRecord f32_state(Context& context) {
  CheckBuilder builder("dtype.f32_state");
  if (!context.schema) {
    return builder.skip(context.no_schema_reason);
  }
  const auto tensors = context.schema->stored_tensors();
  const plan::KeyCoverage& coverage = context.coverage();
  std::uint64_t examined = 0;
  for (StoredId id = 0; id < tensors.size(); ++id) {
    const plan::Row at = coverage.row_of[id];
    if (tensors[id].dtype_rule != DTypeRule::f32_state || at == plan::k_no_row) {
      continue;
    }
    const StoredTensor& row = context.keys().tensors()[at];
    if (!row.is_described) {
      continue;
    }
    ++examined;
    if (bits_of(row.dtype) < 32) {
      builder.subject(row.key);
    }
  }
  builder.examined(examined);
  if (builder.has_subjects()) {
    return builder.note(counted(builder.subject_count(), "tensor that the model keeps in F32 is",
                                "tensors that the model keeps in F32 are") +
                        " stored narrower");
  }
  return context.faults.empty() ? builder.pass() : builder.skip("undecided where " + context.fault_text());
}

// Stored dtypes that a tensor cannot have, and whatever a plan refuses to convert.
CheckRecord unsupported(Context& context) {
  CheckBuilder builder("dtype.unsupported");
  if (!context.schema) {
    return builder.skip(context.no_schema_reason);
  }
  const QuantizedState& state = context.quantization();
  if (!state.undecodable.empty()) {
    return builder.skip("no values can be decoded: " + state.undecodable);
  }
  // Codes that lack what decodes them are the matter of quant.*.
  std::set<std::string, std::less<>> blamed;
  for (const Diagnostic& row : state.diagnostics) {
    if (row.severity == Severity::fail) {
      blamed.insert(row.facts.keys.begin(), row.facts.keys.end());
    }
  }
  for (const LogicalTensor& tensor : context.schema->stored_tensors()) {
    const auto parts = context.schema->parts_of(tensor);
    if (std::any_of(parts.begin(), parts.end(), [&](const CodedPart& part) { return blamed.count(part.key) != 0; })) {
      blamed.emplace(tensor.key);
    }
  }
  const plan::KeyCoverage& coverage = context.coverage();
  builder.examined(coverage.present);
  std::string message;
  for (const Diagnostic& row : plan::coverage_diagnostics(*context.schema, context.keys(), coverage)) {
    if (row.code != to_string(ErrorCode::dtype_unsupported) || blamed.count(row.facts.keys.front()) != 0) {
      continue;
    }
    builder.subject(row.facts.keys.front());
    if (message.empty()) {
      message = printable(row.message, 400);
      builder.code(row.code).expected(row.facts.expected).actual(row.facts.actual);
    }
  }
  if (builder.has_subjects()) {
    if (builder.subject_count() > 1) {
      message += " (and " + grouped(builder.subject_count() - 1) + " more of the kind)";
    }
    return builder.hint("integers and packed codes are no weights: store the values, or their scales beside them")
        .fail(message);
  }
  const LoadRun& run = load_run_of(context);
  if (run.error && run.error->check() == "dtype.unsupported") {
    return failed_record("dtype.unsupported", *run.error);
  }
  return context.faults.empty() ? builder.pass() : builder.skip("undecided where " + context.fault_text());
}

constexpr std::array k_checks = {VerifyCheck{"dtype.unsupported", &unsupported},
                                 VerifyCheck{"dtype.declared", &declared}, VerifyCheck{"dtype.f32_state", &f32_state}};

}  // namespace

std::span<const VerifyCheck> dtype_checks() { return k_checks; }

}  // namespace weightproof::suites
