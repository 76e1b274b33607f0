// SPDX-License-Identifier: Apache-2.0
#include "loader/codec/detect.hpp"

#include <algorithm>

#include "loader/codec/detect_internal.hpp"
#include "loader/codec/grid_internal.hpp"

namespace weightproof::codec {
namespace {

std::string module_of(std::string_view logical) {
  return std::string(logical.ends_with(".weight") ? logical.substr(0, logical.size() - 7) : logical);
}

Component component_of(Role role, const StoredTensor& tensor) {
  return {role, std::string(tensor.key), tensor.dtype, tensor.shape};
}

[[noreturn]] void mismatch(const Family& family, const std::string& what, const std::string& stated,
                           const std::string& found) {
  throw Error(ErrorCode::quant_config_mismatch, family.key + ": " + what,
              {.keys = {std::string(family.weight->key)}, .expected = stated, .actual = found});
}

bool is_f8(DType dtype) {
  return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2 || dtype == DType::f8_e4m3fnuz ||
         dtype == DType::f8_e5m2fnuz;
}

std::uint64_t extent_from_end(const Shape& shape, unsigned n) {
  return shape.rank() > n ? shape[shape.rank() - 1 - n] : 1;
}

/// Block edge along one axis from the number of blocks, without a config: 128, else the one power of two that gives it.
std::uint64_t inferred_edge(std::uint64_t extent, std::uint64_t blocks) {
  if (blocks == extent) return 1;
  if (ceil_div(extent, 128) == blocks) return 128;
  std::uint64_t found = 0;
  for (std::uint64_t edge = 8; edge <= 1024; edge *= 2)
    if (ceil_div(extent, edge) == blocks) {
      if (found != 0) return 0;
      found = edge;
    }
  if (found == 0 && blocks == 1) return extent;
  return found;
}

Scheme fp8_scheme(const Family& family, const StatedQuantization& stated, const StatedGroup* group) {
  const StoredTensor& weight = *family.weight;
  const StoredTensor* scale = family.companion(Role::scale);
  if (scale == nullptr) {
    if (stated.method.empty()) return {.id = "fp8_bare"};
    throw Error(ErrorCode::scale_missing, std::string(weight.key) + " is F8 but its scale is missing",
                {.keys = {std::string(weight.key)},
                 .expected = "a scale tensor beside it, in any shard",
                 .actual = "none",
                 .hint = "without it the values are wrong by the scale; export the checkpoint again"});
  }
  const std::uint64_t count = element_count(scale->shape).value_or(0);
  const std::uint64_t rows = extent_from_end(weight.shape, 1);
  const std::uint64_t cols = extent_from_end(weight.shape, 0);
  const bool is_stacked = weight.shape.rank() == 3;
  if (count == 1) return {.id = "fp8_tensor"};
  if (is_stacked && count == weight.shape[0] && scale->shape[0] == weight.shape[0]) return {.id = "fp8_tensor"};
  const bool is_power = scale->dtype == DType::u8 || scale->dtype == DType::f8_e8m0;
  if (group != nullptr && group->block_rows != 0 && group->block_cols != 0)
    return {.id = "fp8_block", .block_rows = group->block_rows, .block_cols = group->block_cols};
  if (is_power && ceil_div(cols, 32) == extent_from_end(scale->shape, 0) && rows == extent_from_end(scale->shape, 1))
    return {.id = "mxfp8", .group_size = 32};
  if (!is_stacked && scale->shape[0] == rows && count == rows) return {.id = "fp8_channel"};
  if (is_stacked && count == weight.shape[0] * rows) return {.id = "fp8_channel"};
  if (scale->shape.rank() == 1 && count == 2) return {.id = "fp8_tensor"};
  const std::uint64_t block_rows = inferred_edge(rows, extent_from_end(scale->shape, 1));
  const std::uint64_t block_cols = inferred_edge(cols, extent_from_end(scale->shape, 0));
  if (scale->shape.rank() < 2 || block_rows == 0 || block_cols == 0)
    throw Error(ErrorCode::scale_shape,
                std::string(scale->key) + " does not say how it covers " + std::string(weight.key),
                {.keys = {std::string(weight.key), std::string(scale->key)},
                 .expected = "one scale per tensor, row or block of " + to_string(weight.shape),
                 .actual = to_string(scale->shape),
                 .hint = "state weight_block_size in quantization_config"});
  return {.id = "fp8_block", .block_rows = block_rows, .block_cols = block_cols};
}

Scheme packed_scheme(const Family& family, const StatedQuantization& stated, const StatedGroup* group) {
  const StoredTensor& weight = *family.weight;
  const StoredTensor* scale = family.companion(Role::scale);
  if (scale == nullptr)
    throw Error(
        ErrorCode::scale_missing, std::string(weight.key) + " is packed but its scale is missing",
        {.keys = {std::string(weight.key)}, .expected = module_of(family.key) + ".weight_scale", .actual = "absent"});
  if (weight.dtype == DType::u8) return {.id = scale->dtype == DType::f8_e4m3 ? "nvfp4_ct" : "mxfp4_packed"};
  if (weight.dtype != DType::i32)
    mismatch(family, "packed weight of an unknown dtype", "I32 or U8", std::string(name_of(weight.dtype)));
  Scheme scheme{.id = "ct_pack"};
  scheme.bits = group == nullptr || group->bits == 0 ? 4 : group->bits;
  if (scheme.bits > 8) mismatch(family, "packed integers", "1 to 8 bits", std::to_string(scheme.bits) + " bits");
  scheme.is_symmetric = family.companion(Role::zero_point) == nullptr;
  if (group != nullptr && group->is_symmetric && !scheme.is_symmetric)
    mismatch(family, "the config says symmetric, the file has zero points", "symmetric", "weight_zero_point");
  const std::uint64_t groups = extent_from_end(scale->shape, 0);
  scheme.group_size = group == nullptr ? 0 : group->group_size;
  const std::uint64_t words = extent_from_end(weight.shape, 0);
  if (32 % scheme.bits != 0) {
    // Both packings of odd widths exist; the number of words decides once the true width is known from groups x group
    // size.
    const std::uint64_t cols =
        scheme.group_size != 0 && groups > 1 ? groups * scheme.group_size : words * 32 / scheme.bits;
    scheme.has_old_packing = words != ceil_div(cols * scheme.bits, 32) && words == ceil_div(cols, 32 / scheme.bits);
  }
  if (groups > 1 && scheme.group_size == 0) {
    const std::uint64_t cols = words * (32 / scheme.bits);
    if (cols % groups != 0)
      mismatch(family, "group size is not stated and does not follow from the shapes", "group_size",
               std::to_string(groups) + " groups");
    scheme.group_size = cols / groups;
  }
  (void)stated;
  return scheme;
}

Scheme qweight_scheme(const Family& family, const StatedQuantization& stated, const StatedGroup* group) {
  const StoredTensor& weight = *family.weight;
  const StoredTensor* scale = family.companion(Role::scale);
  if (scale == nullptr)
    throw Error(ErrorCode::scale_missing, std::string(weight.key) + " has no scales",
                {.keys = {std::string(weight.key)}, .expected = module_of(family.key) + ".scales", .actual = "absent"});
  const std::uint64_t outs = extent_from_end(scale->shape, 0);
  const std::uint64_t groups = extent_from_end(scale->shape, 1);
  const bool is_awq_shape = extent_from_end(weight.shape, 0) * 8 == outs && extent_from_end(weight.shape, 0) != outs;
  const bool is_gptq_shape = extent_from_end(weight.shape, 0) == outs;
  if (stated.method == "awq" && !is_awq_shape)
    mismatch(family, "the config says AWQ", "qweight of " + std::to_string(outs / 8) + " columns",
             to_string(weight.shape));
  if (stated.method == "gptq" && !is_gptq_shape)
    mismatch(family, "the config says GPTQ", "qweight of " + std::to_string(outs) + " columns",
             to_string(weight.shape));
  if (!is_awq_shape && !is_gptq_shape)
    mismatch(family, "neither AWQ nor GPTQ by its shapes", to_string(scale->shape), to_string(weight.shape));
  Scheme scheme{.id = is_awq_shape ? "awq" : "gptq"};
  scheme.bits = group == nullptr || group->bits == 0 ? 4 : group->bits;
  scheme.is_symmetric = group != nullptr && group->is_symmetric;
  if (scheme.bits > 8) mismatch(family, "integer codes", "2, 3, 4 or 8 bits", std::to_string(scheme.bits) + " bits");
  const std::uint64_t ins =
      is_awq_shape ? extent_from_end(weight.shape, 1) : extent_from_end(weight.shape, 1) / scheme.bits * 32;
  if (const StoredTensor* zeros = family.companion(Role::zero_point); zeros != nullptr && is_gptq_shape && outs != 0) {
    const std::uint64_t found = extent_from_end(zeros->shape, 0) * 32 / outs;
    if (found != scheme.bits)
      mismatch(family, "bits of the config and of qzeros differ", std::to_string(scheme.bits), std::to_string(found));
  }
  scheme.group_size = group == nullptr ? 0 : group->group_size;
  if (scheme.group_size == 0 && groups > 1) scheme.group_size = ceil_div(ins, groups);
  if (is_gptq_shape) scheme.version = stated.format == "gptq_v2" ? 2 : 1;
  return scheme;
}

Scheme plain_scheme(const Family& family, const StatedQuantization& stated, const StatedGroup* group) {
  const StoredTensor& weight = *family.weight;
  const StoredTensor* scale = family.companion(Role::scale);
  if (is_f8(weight.dtype)) return fp8_scheme(family, stated, group);
  if (weight.dtype == DType::f4) return {.id = "f4"};
  if (family.companion(Role::quant_state) != nullptr || family.companion(Role::quant_map) != nullptr)
    return {.id = "bnb4"};
  if (scale != nullptr && scale->key.ends_with(".SCB")) return {.id = "bnb8"};
  if (scale == nullptr)
    throw Error(ErrorCode::scale_missing, std::string(weight.key) + " has companions but no scale",
                {.keys = {std::string(weight.key)}, .expected = "a scale tensor", .actual = "none"});
  if (weight.dtype == DType::i8) {
    const bool is_fp4 = (scale->dtype == DType::f8_e8m0 || scale->dtype == DType::u8) &&
                        extent_from_end(scale->shape, 0) * 16 == extent_from_end(weight.shape, 0);
    return {.id = is_fp4 ? "mxfp4_packed" : "int8", .bits = is_fp4 ? 0u : 8u};
  }
  if (weight.dtype == DType::u8) {
    if (scale->dtype == DType::f8_e4m3) return {.id = "nvfp4_modelopt"};
    if (scale->dtype == DType::u8 && scale->shape.rank() == 1)
      throw Error(ErrorCode::quant_unsupported, std::string(scale->key) + " is stored swizzled for a kernel",
                  {.keys = {std::string(weight.key), std::string(scale->key)},
                   .expected = "a scale per row and group",
                   .actual = to_string(scale->shape),
                   .hint = "export the checkpoint with linear scales"});
    if (scale->dtype == DType::u8 || scale->dtype == DType::f8_e8m0) return {.id = "mxfp4_packed"};
    Scheme scheme{.id = "modelopt_w4", .bits = 4};
    const std::uint64_t groups = extent_from_end(scale->shape, 0);
    scheme.group_size = group != nullptr && group->group_size != 0 ? group->group_size
                        : groups > 1                               ? ceil_div(extent_from_end(weight.shape, 0), groups)
                                                                   : 0;
    return scheme;
  }
  mismatch(family, "stored dtype has no scheme", "F8, F4, I8, U8 or I32", std::string(name_of(weight.dtype)));
}

Scheme scheme_of(const Family& family, const StatedQuantization& stated) {
  const StatedGroup* group = group_for(stated, module_of(family.key));
  switch (family.spelling) {
    case Family::Spelling::blocks:
      return {.id = "mxfp4_blocks"};
    case Family::Spelling::packed:
      return packed_scheme(family, stated, group);
    case Family::Spelling::qweight:
      return qweight_scheme(family, stated, group);
    case Family::Spelling::torchao:
      if (family.weight->dtype == DType::i8) return {.id = "torchao_int8", .bits = 8};
      if (is_f8(family.weight->dtype)) return fp8_scheme(family, stated, group);
      throw Error(ErrorCode::quant_unsupported,
                  std::string(family.weight->key) + " is a torchao layout that cannot be decoded",
                  {.keys = {std::string(family.weight->key)},
                   .expected = "float8 or int8 data",
                   .actual = std::string(name_of(family.weight->dtype))});
    case Family::Spelling::plain:
      break;
  }
  return plain_scheme(family, stated, group);
}

/// Scheme as far as names and config tell, without dtypes.
Scheme scheme_by_name(const Family& family, const StatedQuantization& stated) {
  switch (family.spelling) {
    case Family::Spelling::blocks:
      return {.id = "mxfp4_blocks"};
    case Family::Spelling::packed:
      return {.id = family.companion(Role::global_scale) != nullptr ? "nvfp4_ct" : "ct_pack"};
    case Family::Spelling::qweight:
      return {.id = stated.method == "awq" ? "awq" : "gptq"};
    case Family::Spelling::torchao:
      return {.id = "torchao_int8"};
    case Family::Spelling::plain:
      break;
  }
  if (family.companion(Role::quant_map) != nullptr) return {.id = "bnb4"};
  if (const StoredTensor* scale = family.companion(Role::scale); scale != nullptr && scale->key.ends_with(".SCB"))
    return {.id = "bnb8"};
  const StatedGroup* group = group_for(stated, module_of(family.key));
  if (group != nullptr && group->block_rows != 0)
    return {.id = "fp8_block", .block_rows = group->block_rows, .block_cols = group->block_cols};
  return {.id = "fp8_tensor"};
}

void add_components(const Family& family, QuantizedTensor& tensor) {
  tensor.components.push_back(component_of(Role::weight, *family.weight));
  for (const auto& [role, stored] : family.companions) tensor.components.push_back(component_of(role, *stored));
  std::stable_sort(tensor.components.begin(), tensor.components.end(),
                   [](const Component& a, const Component& b) { return a.role < b.role; });
}

void report_config(const StatedQuantization& stated, const Grouping& grouping, const Catalog& catalog,
                   Quantization& result) {
  if (stated.refusal) {
    Diagnostic d = diagnostic_of(*stated.refusal);
    for (const auto& [key, family] : grouping.families) d.facts.keys.push_back(key);
    result.diagnostics.push_back(std::move(d));
  }
  if (!grouping.refused.empty() && !stated.refusal) {
    Error error(ErrorCode::quant_unsupported, grouping.refused_scheme + " cannot be decoded",
                {.actual = grouping.refused_scheme});
    Diagnostic d = diagnostic_of(error);
    for (const StoredTensor* tensor : grouping.refused) d.facts.keys.emplace_back(tensor->key);
    result.diagnostics.push_back(std::move(d));
  }
  if (!stated.method.empty() && !stated.refusal && grouping.families.empty() && grouping.refused.empty() &&
      catalog.size() != 0) {
    Error error(ErrorCode::quant_config_mismatch, "the config says " + stated.method + " but no tensor is quantized",
                {.file = stated.source.ends_with(".json") ? stated.source : "config.json",
                 .expected = "quantized weights with their companions",
                 .actual = "plain tensors only",
                 .hint = "remove the quantization config from a decoded export"});
    result.diagnostics.push_back(diagnostic_of(error));
  }
  if (stated.method.empty() && !grouping.families.empty()) {
    std::vector<std::string> keys;
    for (const auto& [key, family] : grouping.families)
      if (!family.companions.empty()) keys.push_back(key);
    if (!keys.empty()) {
      Diagnostic d{
          .check = "quant.config_mismatch",
          .severity = Severity::note,
          .message = "tensors look quantized although no config says so: classified by names, dtypes and shapes",
          .facts = {},
          .code = {}};
      d.facts.keys = std::move(keys);
      result.diagnostics.push_back(std::move(d));
    }
  }
}

}  // namespace

const QuantizedTensor* Quantization::find(std::string_view key) const {
  const auto it = std::lower_bound(tensors.begin(), tensors.end(), key,
                                   [](const QuantizedTensor& t, std::string_view k) { return t.key < k; });
  return it != tensors.end() && it->key == key ? &*it : nullptr;
}

Quantization detect_quantization(const ConfigValue* config, const std::map<std::string, ConfigValue>& companions,
                                 const Catalog& catalog) {
  Quantization result;
  const StatedQuantization stated = read_stated(config, companions);
  const Grouping grouping = group_by_name(catalog);
  result.method = stated.method;
  result.source = !stated.source.empty() ? stated.source : grouping.families.empty() ? "" : "tensors";
  report_config(stated, grouping, catalog, result);

  bool has_companions = false;
  for (const auto& [key, family] : grouping.families) has_companions |= !family.companions.empty();
  std::vector<std::string> bare;
  for (const auto& [key, family] : grouping.families) {
    result.consumed.emplace_back(family.weight->key);
    for (const auto& [role, stored] : family.companions) result.consumed.emplace_back(stored->key);
    if (stated.refusal) continue;
    QuantizedTensor tensor{.key = key, .scheme = {}, .components = {}};
    try {
      if (family.scales.size() > 1) {
        std::vector<std::string> names;
        for (const StoredTensor* scale : family.scales) names.emplace_back(scale->key);
        throw Error(ErrorCode::scale_names_conflict, key + " has two scales",
                    {.keys = names, .expected = "one spelling", .actual = names[0] + " and " + names[1]});
      }
      if (!family.weight->is_described) {
        tensor.scheme = scheme_by_name(family, stated);
      } else {
        StatedQuantization effective = stated;
        if (has_companions && effective.method.empty()) effective.method = "tensors";
        tensor.scheme = scheme_of(family, effective);
      }
      add_components(family, tensor);
      if (tensor.scheme.id == "fp8_bare") bare.push_back(key);
      result.tensors.push_back(std::move(tensor));
    } catch (const Error& error) {
      result.diagnostics.push_back(diagnostic_of(error));
    }
  }
  if (!bare.empty()) {
    Diagnostic d{.check = "quant.unscaled",
                 .severity = Severity::warn,
                 .message = "F8 tensors with neither a config nor scales: read as plain values",
                 .facts = {},
                 .code = {}};
    d.facts.keys = bare;
    result.diagnostics.push_back(std::move(d));
  }
  for (const StoredTensor* orphan : grouping.orphans) {
    Error error(
        ErrorCode::scale_orphan, std::string(orphan->key) + " scales nothing: its weight is absent or not quantized",
        {.keys = {std::string(orphan->key)}, .expected = "a quantized weight of the same name", .actual = "none"});
    result.diagnostics.push_back(diagnostic_of(error));
  }
  for (const StoredTensor* tensor : grouping.refused) result.refused.emplace_back(tensor->key);
  std::sort(result.refused.begin(), result.refused.end());
  std::sort(result.consumed.begin(), result.consumed.end());
  return result;
}

}  // namespace weightproof::codec
