// SPDX-License-Identifier: Apache-2.0
#include "suites/mutants/schema_draft.hpp"

#include <algorithm>

namespace weightproof::suites {

SchemaDraft::SchemaDraft(const Schema& schema)
    : family(schema.family()),
      drops(schema.drops().begin(), schema.drops().end()),
      passthroughs(schema.passthroughs().begin(), schema.passthroughs().end()),
      defaulted(schema.defaulted().begin(), schema.defaulted().end()) {
  for (const NativeTensor& tensor : schema.native_tensors()) {
    natives.push_back(
        {std::string(tensor.key), schema.shape_of(tensor), tensor.dtype_rule, tensor.dtype, tensor.layer, false,
                       schema.parallel_rule(tensor), tensor.expert});
  }
  const auto text = [&schema](RuleId id) { return id == k_no_id ? std::string() : schema.rule(id); };
  for (const LogicalTensor& tensor : schema.stored_tensors()) {
    Stored row;
    row.key = tensor.key;
    row.shape = schema.shape_of(tensor);
    row.rule = tensor.dtype_rule;
    row.dtype = tensor.dtype;
    row.layer = tensor.layer;
    row.is_optional = tensor.is_optional;
    row.absent_rule = text(tensor.absent_rule);
    row.absent_value = tensor.absent_value;
    if (tensor.coding != k_no_id) {
      const Coding& coding = schema.codings()[tensor.coding];
      row.scheme = text(coding.scheme);
      row.block_rows = coding.block_rows;
      row.block_cols = coding.block_cols;
    }
    for (const CodedPart& part : schema.parts_of(tensor)) {
      row.parts.push_back({std::string(part.role), std::string(part.key), schema.shape_of(part), part.dtype,
                           part.dtype_rule, part.is_optional});
    }
    stored.push_back(std::move(row));
  }
  for (const Tie& tie : schema.ties()) {
    ties.push_back({tie.stored_alias, tie.stored_source, tie.source, text(tie.rule)});
    const StoredId alias = schema.find_stored(tie.stored_alias);
    if (alias != k_no_id) {
      stored[alias].is_tied = true;
    }
  }
  for (const Binding& binding : schema.bindings()) {
    const bool is_constant = binding.kind == BindingKind::constant;
    bindings.push_back({binding.kind, binding.stored, binding.native,
                        is_constant ? View() : schema.stored_view(binding), schema.native_view(binding), binding.value,
                        text(binding.rule)});
  }
}

Schema SchemaDraft::build() const {
  SchemaBuilder builder(family);
  std::vector<NativeId> native_ids(natives.size(), k_no_id);
  std::vector<StoredId> stored_ids(stored.size(), k_no_id);
  for (std::size_t i = 0; i < natives.size(); ++i) {
    const Native& row = natives[i];
    if (!row.is_gone) {
      native_ids[i] = builder.native(row.key, row.shape, row.rule, row.layer, row.dtype);
      builder.parallel(native_ids[i], row.parallel, row.expert);
    }
  }
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const Stored& row = stored[i];
    if (row.is_gone || row.is_tied) {
      continue;
    }
    stored_ids[i] = builder.stored(row.key, row.shape, row.rule, row.layer, row.dtype);
    if (row.is_optional) {
      builder.optional(stored_ids[i], row.absent_rule, row.absent_value);
    }
    std::vector<SchemaBuilder::Part> parts;
    for (const Part& part : row.parts) {
      parts.push_back({part.role, part.key, part.shape, part.dtype, part.rule, part.is_optional});
    }
    if (!row.scheme.empty()) {
      builder.code(stored_ids[i], row.scheme, parts, row.block_rows, row.block_cols);
    }
  }
  for (const Bound& bound : bindings) {
    const NativeId native = native_ids[bound.native];
    if (native == k_no_id) {
      continue;
    }
    if (bound.kind == BindingKind::constant) {
      builder.constant(native, bound.native_view, bound.value, bound.rule);
      continue;
    }
    const StoredId from = stored_ids[bound.stored];
    if (from == k_no_id) {
      continue;
    }
    if (bound.kind == BindingKind::primary) {
      builder.bind(from, bound.stored_view, native, bound.native_view);
    } else {
      builder.alias(from, bound.stored_view, native, bound.native_view, bound.rule);
    }
  }
  for (const Tied& tie : ties) {
    if (native_ids[tie.native] != k_no_id && stored_ids[tie.stored] != k_no_id) {
      builder.tie(tie.alias, stored_ids[tie.stored], native_ids[tie.native], tie.rule);
    }
  }
  for (const Drop& drop : drops) {
    builder.drop(drop.pattern, drop.reason);
  }
  for (const Passthrough& passthrough : passthroughs) {
    builder.passthrough(passthrough.prefix, passthrough.reason, passthrough.native_prefix);
  }
  for (const std::string& what : defaulted) {
    builder.defaulted(what);
  }
  return std::move(builder).finish();
}

SchemaDraft::Bound* SchemaDraft::binding_of_native(std::string_view key) {
  Bound* found = nullptr;
  for (Bound& bound : bindings) {
    if (bound.kind != BindingKind::primary || natives[bound.native].key != key) {
      continue;
    }
    if (found != nullptr) {
      return nullptr;
    }
    found = &bound;
  }
  return found;
}

SchemaDraft::Bound* SchemaDraft::binding_of_stored(std::string_view key) {
  const auto found = std::find_if(bindings.begin(), bindings.end(), [&](const Bound& bound) {
    return bound.kind == BindingKind::primary && stored[bound.stored].key == key;
  });
  return found == bindings.end() ? nullptr : &*found;
}

}  // namespace weightproof::suites
