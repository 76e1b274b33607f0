// SPDX-License-Identifier: Apache-2.0
// quant.* as far as headers tell.
#include <array>
#include <unordered_set>

#include "adapters/quantization.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

bool is_scaled_float(DType dtype) {
  return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2 || dtype == DType::f8_e4m3fnuz || dtype == DType::f8_e5m2fnuz;
}

// F8 without a scale is a value nobody can be sure of: some loaders cast it, some look for a scale, some refuse.
CheckRecord unscaled(Context& context) {
  CheckBuilder builder("quant.unscaled");
  const auto rows = context.keys().tensors();
  std::unordered_set<std::string> scaled;
  std::uint64_t candidates = 0;
  for (const StoredTensor& row : rows) {
    candidates += row.is_described && is_scaled_float(row.dtype) ? 1U : 0U;
    const adapters::Companion companion = adapters::companion_of(row.key);
    if (!companion.role.empty()) {
      scaled.insert(companion.weight);
    }
  }
  builder.examined(candidates);
  const bool has_config = context.checkpoint.config && adapters::quantization_config(*context.checkpoint.config) != nullptr;
  if (!has_config) {
    for (const StoredTensor& row : rows) {
      if (row.is_described && is_scaled_float(row.dtype) && context.selects(row.key) && scaled.count(std::string(row.key)) == 0) {
        builder.subject(row.key);
      }
    }
  }
  if (builder.has_subjects()) {
    return builder.hint("say in config.json how they are scaled, or store them in a format that needs no scale")
        .warn(counted(builder.subject_count(), "F8 tensor has", "F8 tensors have") + " neither a scale nor a quantization_config");
  }
  if (!context.faults.empty()) {
    return builder.skip("undecided where " + context.fault_text());
  }
  if (!context.detection.quantization.empty()) {
    return builder.note("stored as " + printable(context.detection.quantization));
  }
  return builder.pass();
}

constexpr std::array k_checks = {VerifyCheck{"quant.unscaled", &unscaled}};

}  // namespace

std::span<const VerifyCheck> quant_checks() { return k_checks; }

}  // namespace weightproof::suites
