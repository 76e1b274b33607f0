// SPDX-License-Identifier: Apache-2.0
#include "suites/mutants/mapping_operators.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "suites/mutants/mapping_internal.hpp"

namespace weightproof::suites {
namespace mapping {

bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [text](std::string_view end) { return text.ends_with(end); });
}

// A part of a binding: the same box of both views.
Bound narrowed(Bound bound, unsigned axis, std::uint64_t start, std::uint64_t length) {
  bound.stored_view = bound.stored_view.narrow(axis, start, length);
  bound.native_view = bound.native_view.narrow(axis, start, length);
  return bound;
}

namespace {

// What is left of a binding outside the box [0, extent) of every axis.
void add_rest(Bound bound, const Extents& box, std::vector<Bound>& out) {
  for (unsigned axis = 0; axis < box.rank(); ++axis) {
    const std::uint64_t whole = bound.native_view.extents()[axis];
    if (box[axis] < whole) {
      out.push_back(narrowed(bound, axis, box[axis], whole - box[axis]));
    }
    bound = narrowed(bound, axis, 0, box[axis]);
  }
}

}  // namespace

// Two bindings trade the destinations of what both have in common at their beginning.
bool exchange(SchemaDraft& draft, const Bound* first, const Bound* second, Names& blamed) {
  if (first == nullptr || second == nullptr || first == second ||
      first->native_view.rank() != second->native_view.rank()) {
    return false;
  }
  Bound a = *first;
  Bound b = *second;
  Extents box = a.native_view.extents();
  for (unsigned axis = 0; axis < box.rank(); ++axis) {
    box[axis] = std::min(box[axis], b.native_view.extents()[axis]);
  }
  const auto later = static_cast<std::size_t>(std::max(first, second) - draft.bindings.data());
  const auto earlier = static_cast<std::size_t>(std::min(first, second) - draft.bindings.data());
  draft.bindings.erase(draft.bindings.begin() + static_cast<std::ptrdiff_t>(later));
  draft.bindings.erase(draft.bindings.begin() + static_cast<std::ptrdiff_t>(earlier));
  add_rest(a, box, draft.bindings);
  add_rest(b, box, draft.bindings);
  for (unsigned axis = 0; axis < box.rank(); ++axis) {
    a = narrowed(a, axis, 0, box[axis]);
    b = narrowed(b, axis, 0, box[axis]);
  }
  std::swap(a.native, b.native);
  std::swap(a.native_view, b.native_view);
  for (const Bound& bound : {a, b}) {
    blamed.push_back(draft.native_of(bound).key);
    blamed.push_back(draft.stored_of(bound).key);
    draft.bindings.push_back(bound);
  }
  return true;
}

}  // namespace mapping

namespace {

using mapping::Bound;
using mapping::exchange;
using mapping::Names;
using mapping::narrowed;

// ---- attention ----

Bound* projection(SchemaDraft& draft, std::string_view name) {
  const std::string weight = std::string(name) + ".weight";
  for (Bound& bound : draft.bindings) {
    if (bound.kind == BindingKind::primary && draft.stored_of(bound).key.ends_with("." + weight)) {
      return &bound;
    }
  }
  for (Bound& bound : draft.bindings) {
    if (bound.kind == BindingKind::primary && draft.native_of(bound).key.ends_with("." + weight)) {
      return &bound;
    }
  }
  return nullptr;
}

// q, k and v of one tensor taken apart, where a family keeps them fused and moves them whole.
void split_fused(SchemaDraft& draft) {
  Bound* fused = projection(draft, "self_attn.qkv_proj");
  const Bound* out = projection(draft, "self_attn.o_proj");
  if (fused == nullptr || out == nullptr || fused->native_view.rank() != 2) {
    return;
  }
  const std::uint64_t rows = fused->native_view.extents()[0];
  const std::uint64_t queries = out->native_view.extents()[1];
  if (rows <= queries || (rows - queries) % 2 != 0 ||
      fused->native_view != View::whole(draft.native_of(*fused).shape)) {
    return;
  }
  const Bound whole = *fused;
  const std::uint64_t keys = (rows - queries) / 2;
  *fused = narrowed(whole, 0, 0, queries);
  draft.bindings.push_back(narrowed(whole, 0, queries, keys));
  draft.bindings.push_back(narrowed(whole, 0, queries + keys, keys));
}

// One of the three, 0 to 2.
const Bound* query_key_value(SchemaDraft& draft, unsigned which) {
  constexpr std::array<std::string_view, 3> names = {"q_proj", "k_proj", "v_proj"};
  if (const Bound* found = projection(draft, names[which])) {
    return found;
  }
  std::vector<const Bound*> rows;
  for (const Bound& bound : draft.bindings) {
    if (bound.kind == BindingKind::primary && draft.stored_of(bound).key.ends_with(".0.self_attn.qkv_proj.weight")) {
      rows.push_back(&bound);
    }
  }
  return rows.size() == 3 ? rows[which] : nullptr;
}

bool swap_query_key(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  split_fused(draft);
  return exchange(draft, query_key_value(draft, 0), query_key_value(draft, 1), blamed);
}
bool swap_key_value(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  split_fused(draft);
  return exchange(draft, query_key_value(draft, 1), query_key_value(draft, 2), blamed);
}

std::uint64_t number_of(const ConfigValue& config, std::string_view name) {
  for (const std::string_view part : {"", "text_config.", "thinker_config.text_config."}) {
    const ConfigValue* value = config.find(std::string(part) + std::string(name));
    if (value != nullptr && value->as_integer()) {
      return static_cast<std::uint64_t>(*value->as_integer());
    }
  }
  return 0;
}

// Query heads in the order of their place inside a group, instead of group by group.
bool group_heads_wrongly(SchemaDraft& draft, const ConfigValue& config, Names& blamed) {
  split_fused(draft);
  const Bound* query = query_key_value(draft, 0);
  const Bound* key = query_key_value(draft, 1);
  std::uint64_t head = number_of(config, "head_dim");
  const std::uint64_t heads = number_of(config, "num_attention_heads");
  if (head == 0 && heads != 0) {
    head = number_of(config, "hidden_size") / heads;
  }
  if (query == nullptr || key == nullptr || head == 0 || heads == 0 || query->native_view.rank() != 2) {
    return false;
  }
  const std::uint64_t rows = query->native_view.extents()[0];
  const std::uint64_t per_head = rows == 2 * heads * head ? 2 * head : head;
  const std::uint64_t groups = key->native_view.extents()[0] / head;
  if (groups == 0 || rows % (groups * per_head) != 0) {
    return false;
  }
  const std::uint64_t in_group = rows / per_head / groups;
  Bound& bound = draft.bindings[static_cast<std::size_t>(query - draft.bindings.data())];
  bound.stored_view = bound.stored_view.unflatten(0, {groups, in_group, per_head}).permute({1, 0, 2, 3});
  bound.native_view = bound.native_view.unflatten(0, {in_group, groups, per_head});
  blamed.push_back(draft.native_of(bound).key);
  blamed.push_back(draft.stored_of(bound).key);
  return true;
}

// ---- plain modules ----

// The gate projection of a dense or shared MLP with the up projection beside it.
bool swap_mlp_gate_up(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  for (const Bound& bound : draft.bindings) {
    if (bound.kind != BindingKind::primary) {
      continue;
    }
    const std::string& key = draft.stored_of(bound).key;
    if (key.find(".experts.") != std::string::npos || bound.native_view.rank() != 2) {
      continue;
    }
    for (const auto& [gate, up] : {std::pair<std::string_view, std::string_view>{"gate_proj.weight", "up_proj.weight"},
                                   {"w1.weight", "w3.weight"}}) {
      if (!key.ends_with(gate)) {
        continue;
      }
      const Bound* other = draft.binding_of_stored(key.substr(0, key.size() - gate.size()) + std::string(up));
      if (other != nullptr && other->native_view.extents() == bound.native_view.extents()) {
        return exchange(draft, &bound, other, blamed);
      }
    }
    if (key.ends_with(".gate_up_proj.weight") && bound.native_view.extents()[0] % 2 == 0) {
      const std::uint64_t half = bound.native_view.extents()[0] / 2;
      const Bound whole = bound;
      draft.bindings[static_cast<std::size_t>(&bound - draft.bindings.data())] = narrowed(whole, 0, 0, half);
      draft.bindings.push_back(narrowed(whole, 0, half, half));
      const Bound* first = draft.binding_of_stored(key);
      return exchange(draft, first, &draft.bindings.back(), blamed);
    }
  }
  return false;
}

bool is_whole(const SchemaDraft& draft, const Bound& bound) {
  return bound.kind == BindingKind::primary && bound.native_view == View::whole(draft.native_of(bound).shape) &&
         bound.stored_view == View::whole(draft.stored_of(bound).shape);
}

// A matrix of a layer that is moved as it is.
Bound* plain_matrix(SchemaDraft& draft) {
  const auto found = std::find_if(draft.bindings.begin(), draft.bindings.end(), [&](const Bound& bound) {
    return is_whole(draft, bound) && bound.native_view.rank() == 2 && bound.native_view.extents()[0] > 1 &&
           bound.native_view.extents()[1] > 1 && draft.native_of(bound).layer != k_no_layer &&
           draft.native_of(bound).rule == DTypeRule::weight;
  });
  return found == draft.bindings.end() ? nullptr : &*found;
}

bool transpose_matrix(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  Bound* bound = plain_matrix(draft);
  if (bound == nullptr) {
    return false;
  }
  bound->stored_view = bound->stored_view.transpose(0, 1);
  bound->native_view = View::whole(bound->stored_view.extents());
  blamed.push_back(draft.native_of(*bound).key);
  blamed.push_back(draft.stored_of(*bound).key);
  return true;
}

bool drop_last_row(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  Bound* bound = plain_matrix(draft);
  if (bound == nullptr) {
    return false;
  }
  *bound = narrowed(*bound, 0, 0, bound->native_view.extents()[0] - 1);
  blamed.push_back(draft.native_of(*bound).key);
  blamed.push_back(draft.stored_of(*bound).key);
  return true;
}

bool drop_last_layer(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  std::uint32_t last = 0;
  for (const SchemaDraft::Native& row : draft.natives) {
    last = row.layer == k_no_layer ? last : std::max(last, row.layer);
  }
  for (SchemaDraft::Native& row : draft.natives) {
    row.is_gone = row.layer == last;
    if (row.is_gone) {
      blamed.push_back(row.key);
    }
  }
  for (SchemaDraft::Stored& row : draft.stored) {
    row.is_gone = row.layer == last;
    if (row.is_gone) {
      blamed.push_back(row.key);
    }
  }
  return !blamed.empty();
}

bool swap_norms(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  const Bound* first = nullptr;
  for (const Bound& bound : draft.bindings) {
    const bool is_norm = is_whole(draft, bound) && bound.native_view.rank() == 1 &&
                         draft.native_of(bound).layer != k_no_layer &&
                         draft.native_of(bound).key.find("norm") != std::string::npos;
    if (!is_norm) {
      continue;
    }
    if (first != nullptr && draft.native_of(bound).shape == draft.native_of(*first).shape) {
      return exchange(draft, first, &bound, blamed);
    }
    first = &bound;
  }
  return false;
}

constexpr std::string_view k_model = "model.";

bool double_native_prefix(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  for (SchemaDraft::Native& row : draft.natives) {
    if (row.key.starts_with(k_model)) {
      blamed.push_back(row.key);
      row.key.insert(0, k_model);
      blamed.push_back(row.key);
    }
  }
  return !blamed.empty();
}

bool lose_native_prefix(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  for (SchemaDraft::Native& row : draft.natives) {
    if (row.key.starts_with(k_model)) {
      blamed.push_back(row.key);
      row.key.erase(0, k_model.size());
      blamed.push_back(row.key);
    }
  }
  return !blamed.empty();
}

// The first part of the stored names of the layers: "model.", "backbone.", "thinker." ...
std::string stored_prefix(const SchemaDraft& draft) {
  for (const SchemaDraft::Stored& row : draft.stored) {
    const std::size_t at = row.key.find("layers.");
    if (row.layer != k_no_layer && at != std::string::npos) {
      return row.key.substr(0, at);
    }
  }
  return {};
}

template <typename Change>
bool rename_stored(SchemaDraft& draft, const Change& change, Names& blamed) {
  const std::string prefix = stored_prefix(draft);
  for (SchemaDraft::Stored& row : draft.stored) {
    if (row.is_tied || row.layer == k_no_layer || !row.key.starts_with(prefix)) {
      continue;
    }
    blamed.push_back(row.key);
    change(row.key, prefix);
    blamed.push_back(row.key);
    for (SchemaDraft::Part& part : row.parts) {
      blamed.push_back(part.key);
      change(part.key, prefix);
    }
  }
  return !blamed.empty();
}

bool double_stored_prefix(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  return rename_stored(
      draft, [](std::string& key, const std::string& prefix) { key.insert(0, prefix.empty() ? "model." : prefix); },
      blamed);
}

bool lose_stored_prefix(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  if (stored_prefix(draft).empty()) {
    return false;
  }
  return rename_stored(
      draft, [](std::string& key, const std::string& prefix) { key.erase(0, prefix.size()); }, blamed);
}

// Biases whose weights are split or merged keep the name and the shape of the file.
bool keep_bias_whole(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  std::map<StoredId, NativeId> whole;
  std::set<NativeId> gone;
  for (const Bound& bound : draft.bindings) {
    if (bound.kind == BindingKind::primary && draft.stored_of(bound).key.ends_with(".bias") &&
        !is_whole(draft, bound)) {
      whole.emplace(bound.stored, k_no_id);
      gone.insert(bound.native);
    }
  }
  if (whole.empty()) {
    return false;
  }
  std::erase_if(draft.bindings, [&](const Bound& bound) {
    return bound.kind == BindingKind::primary && whole.count(bound.stored) != 0;
  });
  for (const NativeId native : gone) {
    draft.natives[native].is_gone = true;
    blamed.push_back(draft.natives[native].key);
  }
  for (const auto& [stored, unused] : whole) {
    const SchemaDraft::Stored& row = draft.stored[stored];
    draft.natives.push_back({row.key, row.shape, row.rule, row.dtype, row.layer, false});
    draft.bindings.push_back({BindingKind::primary,
                              stored,
                              static_cast<NativeId>(draft.natives.size() - 1),
                              View::whole(row.shape),
                              View::whole(row.shape),
                              0,
                              {}});
    blamed.push_back(row.key);
  }
  return true;
}

bool narrow_state(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  for (SchemaDraft::Native& row : draft.natives) {
    if (row.rule == DTypeRule::f32_state) {
      row.rule = DTypeRule::fixed;
      row.dtype = DType::bf16;
      blamed.push_back(row.key);
    }
  }
  return !blamed.empty();
}

bool lose_tie(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  for (const SchemaDraft::Tied& tie : draft.ties) {
    blamed.push_back(tie.alias);
    blamed.emplace_back("lm_head.weight");
  }
  draft.ties.clear();
  return !blamed.empty();
}

// What a destination was is written to a tensor of its own, and native storage stays as it was.
bool copy_for_view(SchemaDraft& draft, const ConfigValue&, Names& blamed) {
  auto target = std::find_if(draft.natives.begin(), draft.natives.end(),
                             [](const SchemaDraft::Native& row) { return row.key.ends_with("down_projs"); });
  if (target == draft.natives.end()) {
    const Bound* matrix = plain_matrix(draft);
    if (matrix == nullptr) {
      return false;
    }
    target = draft.natives.begin() + matrix->native;
  }
  const auto native = static_cast<NativeId>(target - draft.natives.begin());
  SchemaDraft::Native copy = *target;
  blamed.push_back(copy.key);
  copy.key += ".copy";
  blamed.push_back(copy.key);
  draft.natives.push_back(copy);
  for (Bound& bound : draft.bindings) {
    if (bound.native == native) {
      bound.native = static_cast<NativeId>(draft.natives.size() - 1);
    }
  }
  return true;
}

constexpr std::array k_operators = {
    MappingOperator{"swap_gate_up", "gate and up of the routed experts change places", &mapping::swap_expert_gate_up},
    MappingOperator{"swap_mlp_gate_up", "gate and up of a dense or shared MLP change places", &swap_mlp_gate_up},
    MappingOperator{"interleave", "gate and up alternate where they follow one another, or the other way round",
                    &mapping::interleave},
    MappingOperator{"transpose_gate_up", "gate and up of the experts are transposed once too often or too rarely",
                    &mapping::transpose_gate_up},
    MappingOperator{"transpose_down", "down of the experts is transposed once too often or too rarely",
                    &mapping::transpose_down},
    MappingOperator{"transpose", "a matrix of a layer is transposed", &transpose_matrix},
    MappingOperator{"text_order", "experts stand in the order of their numbers as text",
                    &mapping::experts_in_text_order},
    MappingOperator{"off_by_one", "every expert is in the place of the next", &mapping::expert_off_by_one},
    MappingOperator{"swap_qk", "rows of query and key projection change places", &swap_query_key},
    MappingOperator{"swap_kv", "key and value projection change places", &swap_key_value},
    MappingOperator{"kv_grouping", "query heads stand across the groups of key heads", &group_heads_wrongly},
    MappingOperator{"drop_layer", "the last layer is left out", &drop_last_layer},
    MappingOperator{"drop_expert", "the last expert is left out", &mapping::drop_last_expert},
    MappingOperator{"drop_row", "the last row of a matrix is left out", &drop_last_row},
    MappingOperator{"swap_norms", "two norms of a layer change places", &swap_norms},
    MappingOperator{"double_prefix", "native names begin with their prefix twice", &double_native_prefix},
    MappingOperator{"lost_prefix", "native names lose their prefix", &lose_native_prefix},
    MappingOperator{"double_stored_prefix", "stored names are looked for with their prefix twice",
                    &double_stored_prefix},
    MappingOperator{"lost_stored_prefix", "stored names are looked for without their prefix", &lose_stored_prefix},
    MappingOperator{"shared_for_expert", "the shared expert is taken for the first routed one",
                    &mapping::shared_expert_for_first},
    MappingOperator{"bias_not_split", "biases of split or merged weights keep the shape of the file", &keep_bias_whole},
    MappingOperator{"state_narrowed", "state that must be F32 is kept in BF16", &narrow_state},
    MappingOperator{"tie_lost", "the tied head is forgotten", &lose_tie},
    MappingOperator{"view_becomes_copy", "a load writes to a copy of its destination", &copy_for_view},
};

}  // namespace

std::span<const MappingOperator> mapping_operators() { return k_operators; }

const MappingOperator* find_mapping_operator(std::string_view name) {
  const auto found = std::find_if(k_operators.begin(), k_operators.end(),
                                  [name](const MappingOperator& row) { return row.name == name; });
  return found == k_operators.end() ? nullptr : &*found;
}

namespace {

// Where every native element comes from, by name: one word for tensor and element.
using Places = std::map<std::string, std::vector<std::uint64_t>, std::less<>>;

std::uint64_t word_of(std::string_view name, std::uint64_t element) {
  return std::hash<std::string_view>{}(name)*0x9E3779B97F4A7C15ULL + element;
}

Places places_of(const Schema& schema) {
  Places places;
  for (const NativeTensor& tensor : schema.native_tensors()) {
    auto& row = places[std::string(tensor.key)];
    row.resize(static_cast<std::size_t>(element_count(schema.shape_of(tensor)).value_or(0)));
  }
  for (const Binding& binding : schema.bindings()) {
    if (binding.kind == BindingKind::alias) {
      continue;
    }
    auto& row = places.find(schema.native_tensors()[binding.native].key)->second;
    const bool is_constant = binding.kind == BindingKind::constant;
    const View native = schema.native_view(binding);
    const View stored = is_constant ? native : schema.stored_view(binding);
    const std::string from = is_constant ? "constant " + std::to_string(binding.value)
                                         : std::string(schema.stored_tensors()[binding.stored].key);
    for (std::uint64_t i = 0; i < native.element_count(); ++i) {
      const Coordinate at = coordinate_of(native.extents(), i);
      row.at(static_cast<std::size_t>(native.storage_index(at))) =
          word_of(from, is_constant ? 0 : stored.storage_index(at));
    }
  }
  for (const NativeTensor& tensor : schema.native_tensors()) {
    auto& row = places.find(tensor.key)->second;
    row.push_back(word_of(to_string(schema.shape_of(tensor)), static_cast<std::uint64_t>(tensor.dtype_rule)));
    row.push_back(tensor.dtype_rule == DTypeRule::fixed ? static_cast<std::uint64_t>(tensor.dtype) : 0);
  }
  for (const Tie& tie : schema.ties()) {
    places["tie " + tie.stored_alias] = {word_of(schema.native_tensors()[tie.source].key, 0)};
  }
  return places;
}

}  // namespace

bool moves_the_same(const Schema& a, const Schema& b) {
  const auto stored_names = [](const Schema& schema) {
    std::set<std::string_view> names;
    for (const LogicalTensor& tensor : schema.stored_tensors()) {
      names.insert(tensor.key);
    }
    return names;
  };
  return stored_names(a) == stored_names(b) && places_of(a) == places_of(b);
}

}  // namespace weightproof::suites
