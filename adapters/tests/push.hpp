// SPDX-License-Identifier: Apache-2.0
// Moves numbers along a schema's bindings, element by element: load (stored to native) and export (native to stored).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "adapters/tests/support.hpp"

namespace weightproof::adapters::testing {

using Values = std::map<std::string, std::vector<double>>;

/// Calls `action(stored element, native element)` for each pair of a binding.
template <typename Action>
void for_each_pair(const Schema& schema, const Binding& binding, Action&& action) {
  const View native = schema.native_view(binding);
  const View stored = binding.stored == k_no_id ? native : schema.stored_view(binding);
  const std::uint64_t count = native.element_count();
  for (std::uint64_t i = 0; i < count; ++i) {
    const Coordinate at = coordinate_of(native.extents(), i);
    action(stored.storage_index(at), native.storage_index(at));
  }
}

/// Natives start as `unwritten`. Stored tensors that are not in `stored` leave theirs so, or at their declared value.
inline Values load(const Schema& schema, const Values& stored, double unwritten = -12345) {
  Values native;
  for (const NativeTensor& tensor : schema.native_tensors()) {
    native[std::string(tensor.key)].assign(element_count(schema.shape_of(tensor)).value(), unwritten);
  }
  for (const Binding& binding : schema.bindings()) {
    std::vector<double>& to = native[std::string(schema.native_tensors()[binding.native].key)];
    if (binding.kind == BindingKind::constant) {
      for_each_pair(schema, binding, [&](std::uint64_t, std::uint64_t n) { to[n] = binding.value; });
      continue;
    }
    const LogicalTensor& tensor = schema.stored_tensors()[binding.stored];
    const auto from = stored.find(std::string(tensor.key));
    if (from == stored.end()) {
      if (binding.kind == BindingKind::primary && tensor.is_optional) {
        for_each_pair(schema, binding, [&](std::uint64_t, std::uint64_t n) { to[n] = tensor.absent_value; });
      }
      continue;
    }
    if (binding.kind == BindingKind::alias) continue;
    for_each_pair(schema, binding, [&](std::uint64_t s, std::uint64_t n) { to[n] = from->second.at(s); });
  }
  return native;
}

/// Aliases are left out.
inline Values save(const Schema& schema, const Values& native) {
  Values stored;
  for (const Binding& binding : schema.bindings()) {
    if (binding.kind != BindingKind::primary) continue;
    const LogicalTensor& tensor = schema.stored_tensors()[binding.stored];
    std::vector<double>& to = stored[std::string(tensor.key)];
    to.resize(element_count(schema.shape_of(tensor)).value());
    const std::vector<double>& from = native.at(std::string(schema.native_tensors()[binding.native].key));
    for_each_pair(schema, binding, [&](std::uint64_t s, std::uint64_t n) { to[s] = from.at(n); });
  }
  return stored;
}

/// Distinct numbers in every element of every stored tensor.
inline Values numbered(const Schema& schema) {
  Values stored;
  double next = 1;
  for (const LogicalTensor& tensor : schema.stored_tensors()) {
    if (is_alias(schema, tensor)) continue;
    std::vector<double>& values = stored[std::string(tensor.key)];
    values.resize(element_count(schema.shape_of(tensor)).value());
    for (double& value : values) value = next++;
  }
  return stored;
}

}  // namespace weightproof::adapters::testing
