// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/total_size.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "suites/support/text.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;

constexpr std::size_t k_kinds_max = 12;
constexpr std::size_t k_shown_totals = 4;

// "model.layers.12.mlp.bias" -> "model.layers.#.mlp.bias": equal tensors of all layers change their dtype together.
std::string kind_of(std::string_view key) {
  std::string out;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const bool is_digit = key[i] >= '0' && key[i] <= '9';
    if (!is_digit) {
      out += key[i];
    } else if (out.empty() || out.back() != '#') {
      out += '#';
    }
  }
  return out;
}

std::vector<std::uint64_t> weight_widths(const ConfigValue& config) {
  for (const char* field : {"torch_dtype", "dtype", "text_config.torch_dtype", "text_config.dtype"}) {
    const ConfigValue* value = config.find(field);
    if (value == nullptr || !value->as_string()) {
      continue;
    }
    if (const auto dtype = dtype_from_config_name(*value->as_string())) {
      return {bits_of(*dtype) / 8};
    }
  }
  return {2, 4};
}

}  // namespace

reports::CheckRecord total_size_from_config(Context& context) {
  CheckBuilder builder("index.total_size");
  if (!context.checkpoint.config) {
    return builder.skip("no header is read under --keys-only, and there is no config.json");
  }
  if (!context.schema) {
    return builder.skip("no header is read under --keys-only, and " + context.no_schema_reason);
  }
  const Schema& schema = *context.schema;
  std::map<std::string_view, const CodedPart*> parts;
  for (const LogicalTensor& tensor : schema.stored_tensors()) {
    for (const CodedPart& part : schema.parts_of(tensor)) {
      parts.emplace(part.key, &part);
    }
  }
  // A scheme that the family does not state is told by names alone: shapes of its tensors are not known.
  if (!context.detection.quantization.empty() && parts.empty()) {
    return builder.skip("no header is read under --keys-only, and the widths of " + context.detection.quantization +
                        " tensors do not follow from the config");
  }
  const plan::KeyCoverage& coverage = context.coverage();
  const std::size_t foreign = coverage.unexpected.size() + coverage.unexpected_allowed.size();
  std::size_t other = foreign;
  std::set<plan::Row> apart;
  for (const auto* matched : {&coverage.dropped, &coverage.passed_through}) {
    for (const plan::MatchedRows& rule : *matched) {
      other += rule.rows.size();
      apart.insert(rule.rows.begin(), rule.rows.end());
    }
  }
  apart.insert(coverage.unexpected.begin(), coverage.unexpected.end());
  apart.insert(coverage.unexpected_allowed.begin(), coverage.unexpected_allowed.end());

  // Elements by what decides their width.
  std::uint64_t fixed_bytes = 0;
  std::uint64_t weight_elements = 0;
  std::map<std::string, std::uint64_t> state_elements;  // F32 or the weights' width
  std::uint64_t tensors = 0;
  for (plan::Row i = 0; i < context.keys().size(); ++i) {
    const StoredTensor& row = context.keys().tensors()[i];
    if (apart.count(i) != 0) {
      continue;
    }
    const auto part = parts.find(row.key);
    const StoredId id = schema.find_stored(row.key);
    const bool is_coded = part != parts.end();
    if (!is_coded && id == k_no_id) {
      return builder.skip("no header is read under --keys-only, and the width of " + printable(row.key) +
                          " does not follow from the config");
    }
    ++tensors;
    if (is_coded) {
      const std::uint64_t elements = element_count(schema.shape_of(*part->second)).value_or(0);
      if (part->second->dtype_rule == DTypeRule::weight) {
        state_elements["scales"] += elements;
      } else {
        fixed_bytes += elements * bits_of(part->second->dtype) / 8;
      }
      continue;
    }
    const LogicalTensor& tensor = schema.stored_tensors()[id];
    const std::uint64_t elements = element_count(schema.shape_of(tensor)).value_or(0);
    if (tensor.dtype_rule == DTypeRule::fixed) {
      fixed_bytes += elements * bits_of(tensor.dtype) / 8;
    } else if (tensor.dtype_rule == DTypeRule::f32_state) {
      state_elements[kind_of(row.key)] += elements;
    } else {
      weight_elements += elements;
    }
  }
  if (state_elements.size() > k_kinds_max) {
    return builder.skip("no header is read under --keys-only, and too many tensors may be either F32 or narrower");
  }
  std::set<std::uint64_t> totals;
  for (const std::uint64_t width : weight_widths(*context.checkpoint.config)) {
    std::set<std::uint64_t> sums = {fixed_bytes + weight_elements * width};
    for (const auto& [kind, elements] : state_elements) {
      std::set<std::uint64_t> next;
      for (const std::uint64_t sum : sums) {
        next.insert(sum + elements * width);
        next.insert(sum + elements * 4);
      }
      sums = std::move(next);
    }
    totals.insert(sums.begin(), sums.end());
  }

  const std::uint64_t stated = *context.checkpoint.index->total_size;
  builder.examined(tensors).evidence("possible_totals", totals.size());
  if (other == 0 && totals.count(stated) != 0) {
    return builder.note("total_size " + grouped(stated) + " follows from config.json and the " +
                        counted(tensors, "listed tensor", "listed tensors"));
  }
  const auto distance = [stated](std::uint64_t total) { return total > stated ? total - stated : stated - total; };
  const std::uint64_t nearest = *std::min_element(
      totals.begin(), totals.end(), [&](std::uint64_t a, std::uint64_t b) { return distance(a) < distance(b); });
  if (other > 0) {
    return builder.skip("no header is read under --keys-only, and " +
                        counted(other, "tensor has a shape", "tensors have shapes") +
                        " that config.json does not tell; without them total_size is " + grouped(distance(nearest)) +
                        " bytes " + (nearest > stated ? "less" : "more") + " than the config asks for");
  }
  builder.subject(context.checkpoint.index->file).actual(stated);
  if (totals.size() == 1) {
    builder.expected(nearest);
  } else {
    std::vector<std::uint64_t> shown(totals.begin(), totals.end());
    shown.resize(std::min(shown.size(), k_shown_totals));
    builder.expected(reports::Value::array_of(shown));
  }
  builder.evidence("nearest_total", nearest).evidence("difference", distance(nearest));
  return builder.hint("write the index again from the files")
      .warn("total_size is " + grouped(stated) + "; config.json and the listed tensors make it " + grouped(nearest) +
            ", " + grouped(distance(nearest)) + " bytes " + (nearest > stated ? "more" : "less"));
}

}  // namespace weightproof::suites
