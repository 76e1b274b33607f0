// SPDX-License-Identifier: Apache-2.0
#include "loader/core/schema.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "loader/core/error.hpp"
#include "loader/core/key_table_internal.hpp"

namespace weightproof {
namespace {

constexpr std::size_t k_key_block_bytes = 256 * 1024;

template <typename Row>
auto keys_of(const std::vector<Row>& rows) {
  return [&rows](std::uint32_t position) { return rows[position].key; };
}

std::size_t hash_layout(const Layout& layout) {
  static const std::uint64_t seed = detail::hash_seed();
  std::uint64_t state = seed ^ layout.extents.rank();
  for (unsigned axis = 0; axis < layout.extents.rank(); ++axis) {
    state = (state ^ layout.extents[axis]) * detail::k_prime_a;
    state = (state ^ layout.strides[axis]) * detail::k_prime_b;
  }
  return static_cast<std::size_t>(detail::mix(state, detail::k_prime_a));
}

[[noreturn]] void misuse(std::string_view family, std::string_view key, const std::string& what) {
  ErrorFacts facts;
  facts.keys = {std::string(key)};
  throw Error(ErrorCode::internal, "family " + std::string(family) + ", tensor '" + std::string(key) + "': " + what,
              std::move(facts));
}

}  // namespace

void Schema::match_codings(const Catalog& catalog) {
  const auto has_companion = [&](const LogicalTensor& tensor) {
    for (const CodedPart& part : parts_of(tensor).subspan(1)) {
      if (!part.is_optional && catalog.find(part.key) != nullptr) return true;
    }
    return false;
  };
  bool has_any = false;
  for (const LogicalTensor& tensor : stored_) {
    has_any = has_any || (tensor.coding != k_no_id && has_companion(tensor));
  }
  for (LogicalTensor& tensor : stored_) {
    if (tensor.coding == k_no_id) continue;
    const StoredTensor* codes = catalog.find(parts_of(tensor).front().key);
    const bool is_itself = codes == nullptr      ? catalog.find(tensor.key) != nullptr
                           : codes->is_described ? is_ordinary_float(codes->dtype) && !has_companion(tensor)
                                                 : !has_any;
    if (is_itself) tensor.coding = k_no_id;
  }
}

std::string Schema::passed_native_name(std::string_view key) const {
  for (const Passthrough& rule : passthroughs_) {
    if (key.starts_with(rule.prefix)) return rule.native_prefix + std::string(key.substr(rule.prefix.size()));
  }
  return std::string(key);
}

StoredId Schema::find_stored(std::string_view key) const {
  static_assert(k_no_id == detail::k_not_found);
  return detail::find_key(stored_slots_, key, detail::key_hash(key), keys_of(stored_));
}

NativeId Schema::find_native(std::string_view key) const {
  return detail::find_key(native_slots_, key, detail::key_hash(key), keys_of(native_));
}

SchemaBuilder::SchemaBuilder(std::string family) { schema_.family_ = std::move(family); }

std::string_view SchemaBuilder::intern_key(std::string_view key) {
  if (schema_.key_blocks_.empty() || key_block_size_ - key_block_used_ < key.size()) {
    key_block_size_ = std::max(k_key_block_bytes, key.size());
    key_block_used_ = 0;
    schema_.key_blocks_.push_back(std::shared_ptr<char[]>(new char[key_block_size_]));
  }
  char* copy = schema_.key_blocks_.back().get() + key_block_used_;
  if (!key.empty()) std::memcpy(copy, key.data(), key.size());
  key_block_used_ += key.size();
  return {copy, key.size()};
}

LayoutId SchemaBuilder::intern_layout(const Layout& layout) {
  std::vector<Layout>& layouts = schema_.layouts_;
  if (last_layout_ < layouts.size() && layouts[last_layout_] == layout) return last_layout_;
  if (layout_slots_.size() < 2 * (layouts.size() + 1)) {
    layout_slots_.assign(std::bit_ceil(std::max<std::size_t>(4 * (layouts.size() + 1), 64)), 0);
    for (std::uint32_t id = 0; id < layouts.size(); ++id) {
      std::size_t at = hash_layout(layouts[id]) & (layout_slots_.size() - 1);
      while (layout_slots_[at] != 0) at = (at + 1) & (layout_slots_.size() - 1);
      layout_slots_[at] = id + 1;
    }
  }
  const std::size_t mask = layout_slots_.size() - 1;
  std::size_t at = hash_layout(layout) & mask;
  for (; layout_slots_[at] != 0; at = (at + 1) & mask) {
    const LayoutId id = layout_slots_[at] - 1;
    if (layouts[id] == layout) return last_layout_ = id;
  }
  layouts.push_back(layout);
  last_layout_ = static_cast<LayoutId>(layouts.size() - 1);
  layout_slots_[at] = last_layout_ + 1;
  return last_layout_;
}

RuleId SchemaBuilder::intern_rule(std::string_view rule) {
  const auto known = rule_ids_.find(rule);
  if (known != rule_ids_.end()) return known->second;
  const RuleId id = static_cast<RuleId>(schema_.rules_.size());
  schema_.rules_.emplace_back(rule);
  rule_ids_.emplace(std::string(rule), id);
  return id;
}

void SchemaBuilder::require_new(std::uint32_t known, std::size_t count, std::string_view key, const char* what) const {
  if (known != k_no_id) misuse(schema_.family_, key, std::string(what) + " is stated twice");
  if (count >= limits::tensors_max) misuse(schema_.family_, key, "more tensors than limits::tensors_max");
}

NativeId SchemaBuilder::add_native(std::string_view key, std::uint32_t hash, LayoutId shape, DTypeRule rule,
                                   std::uint32_t layer, DType fixed) {
  std::vector<NativeTensor>& rows = schema_.native_;
  rows.push_back(NativeTensor{key, shape, rule, fixed, layer, 0, k_no_id});
  detail::insert_key(schema_.native_slots_, hash, native_hashes_);
  return static_cast<NativeId>(rows.size() - 1);
}

StoredId SchemaBuilder::add_stored(std::string_view key, std::uint32_t hash, LayoutId shape, DTypeRule rule,
                                   std::uint32_t layer, DType fixed) {
  LogicalTensor row;
  row.key = key;
  row.shape = shape;
  row.dtype_rule = rule;
  row.dtype = fixed;
  row.layer = layer;
  schema_.stored_.push_back(row);
  detail::insert_key(schema_.stored_slots_, hash, stored_hashes_);
  return static_cast<StoredId>(schema_.stored_.size() - 1);
}

NativeId SchemaBuilder::native(std::string_view key, const Shape& shape, DTypeRule rule, std::uint32_t layer,
                               DType fixed) {
  const std::uint32_t hash = detail::key_hash(key);
  require_new(detail::find_key(schema_.native_slots_, key, hash, keys_of(schema_.native_)), schema_.native_.size(), key,
              "a native tensor");
  const LayoutId layout = intern_layout(View::whole(shape).layout());
  return add_native(intern_key(key), hash, layout, rule, layer, fixed);
}

StoredId SchemaBuilder::stored(std::string_view key, const Shape& shape, DTypeRule rule, std::uint32_t layer,
                               DType fixed) {
  const std::uint32_t hash = detail::key_hash(key);
  require_new(detail::find_key(schema_.stored_slots_, key, hash, keys_of(schema_.stored_)), schema_.stored_.size(), key,
              "a stored tensor");
  const LayoutId layout = intern_layout(View::whole(shape).layout());
  return add_stored(intern_key(key), hash, layout, rule, layer, fixed);
}

void SchemaBuilder::parallel(NativeId native, const ParallelRule& rule, std::uint32_t expert) {
  NativeTensor& tensor = schema_.native_[native];
  const Shape& shape = schema_.shape_of(tensor);
  std::uint64_t extent = 0;
  for (std::size_t i = 0; i < rule.component_count; ++i) extent += rule.components[i].units * rule.components[i].unit;
  const bool has_axis = rule.kind == ParallelKind::components || rule.kind == ParallelKind::chunks;
  if ((has_axis && rule.axis >= shape.rank()) ||
      (rule.kind == ParallelKind::components && extent != shape[rule.axis]) ||
      (rule.kind == ParallelKind::expert) != (expert != k_no_id)) {
    throw Error(ErrorCode::internal,
                "the parallel rule of '" + std::string(tensor.key) + "' does not fit shape " + to_string(shape));
  }
  std::vector<ParallelRule>& rules = schema_.parallel_rules_;
  const auto known = std::find(rules.begin(), rules.end(), rule);
  tensor.parallel = static_cast<std::uint32_t>(known - rules.begin());
  tensor.expert = expert;
  if (known == rules.end()) rules.push_back(rule);
}

void SchemaBuilder::optional(StoredId stored, std::string_view rule_when_absent, double value_when_absent) {
  if (stored >= schema_.stored_.size()) misuse(schema_.family_, "", "optional() of an unknown stored tensor");
  schema_.stored_[stored].is_optional = true;
  schema_.stored_[stored].absent_rule = intern_rule(rule_when_absent);
  schema_.stored_[stored].absent_value = value_when_absent;
}

void SchemaBuilder::code(StoredId stored, std::string_view scheme, std::span<const Part> parts,
                         std::uint64_t block_rows, std::uint64_t block_cols) {
  if (stored >= schema_.stored_.size()) misuse(schema_.family_, "", "code() of an unknown stored tensor");
  LogicalTensor& tensor = schema_.stored_[stored];
  if (tensor.coding != k_no_id || parts.empty()) misuse(schema_.family_, tensor.key, "coded twice, or without parts");
  Coding coding;
  const bool is_as_before = !schema_.codings_.empty() && schema_.rules_[schema_.codings_.back().scheme] == scheme;
  coding.scheme = is_as_before ? schema_.codings_.back().scheme : intern_rule(scheme);
  coding.first_part = static_cast<std::uint32_t>(schema_.parts_.size());
  coding.part_count = static_cast<std::uint32_t>(parts.size());
  coding.block_rows = block_rows;
  coding.block_cols = block_cols;
  for (const Part& part : parts) {
    CodedPart row;
    row.role = part.role;  // roles are texts of the program
    row.key = part.key == tensor.key ? tensor.key : intern_key(part.key);
    const bool has_tensor_shape = part.shape == schema_.layouts_[tensor.shape].extents;
    row.shape = has_tensor_shape ? tensor.shape : intern_layout(View::whole(part.shape).layout());
    row.dtype_rule = part.dtype_rule;
    row.dtype = part.dtype;
    row.is_optional = part.is_optional;
    schema_.parts_.push_back(row);
  }
  tensor.coding = static_cast<std::uint32_t>(schema_.codings_.size());
  schema_.codings_.push_back(coding);
}

View SchemaBuilder::whole(NativeId native) const {
  if (native >= schema_.native_.size()) misuse(schema_.family_, "", "whole() of an unknown native tensor");
  return View(0, schema_.layouts_[schema_.native_[native].shape]);
}

View SchemaBuilder::whole_stored(StoredId stored) const {
  if (stored >= schema_.stored_.size()) misuse(schema_.family_, "", "whole_stored() of an unknown stored tensor");
  return View(0, schema_.layouts_[schema_.stored_[stored].shape]);
}

void SchemaBuilder::add_binding(BindingKind kind, StoredId stored, const View& stored_view, NativeId native,
                                const View& native_view, double value, RuleId rule) {
  if (native >= schema_.native_.size()) misuse(schema_.family_, "", "a binding to an unknown native tensor");
  Binding binding;
  if (kind != BindingKind::constant) {
    if (stored >= schema_.stored_.size()) misuse(schema_.family_, "", "a binding of an unknown stored tensor");
    if (stored_view.extents() != native_view.extents()) {
      misuse(schema_.family_, schema_.stored_[stored].key,
             "its view " + to_string(stored_view) + " and the view " + to_string(native_view) + " of native '" +
                 std::string(schema_.native_[native].key) + "' have different extents");
    }
    binding.stored = stored;
    binding.stored_layout = intern_layout(stored_view.layout());
    binding.stored_offset = stored_view.offset();
  }
  binding.native = native;
  binding.native_layout = intern_layout(native_view.layout());
  binding.native_offset = native_view.offset();
  binding.value = value;
  binding.rule = rule;
  binding.kind = kind;
  schema_.bindings_.push_back(binding);
}

void SchemaBuilder::bind(StoredId stored, const View& stored_view, NativeId native, const View& native_view) {
  add_binding(BindingKind::primary, stored, stored_view, native, native_view, 0, k_no_id);
}

void SchemaBuilder::alias(StoredId stored, const View& stored_view, NativeId native, const View& native_view,
                          std::string_view rule) {
  add_binding(BindingKind::alias, stored, stored_view, native, native_view, 0, intern_rule(rule));
}

void SchemaBuilder::constant(NativeId native, const View& native_view, double value, std::string_view rule) {
  add_binding(BindingKind::constant, k_no_id, View(), native, native_view, value, intern_rule(rule));
}

void SchemaBuilder::identity(std::string_view key, const Shape& shape, DTypeRule rule, std::uint32_t layer) {
  rename(key, key, shape, rule, layer);
}

void SchemaBuilder::rename(std::string_view stored_key, std::string_view native_key, const Shape& shape, DTypeRule rule,
                           std::uint32_t layer) {
  // Most tensors of a model come this way: one layout, and one copy of a key that both sides share.
  const std::uint32_t stored_hash = detail::key_hash(stored_key);
  const bool is_shared = stored_key == native_key;
  const std::uint32_t native_hash = is_shared ? stored_hash : detail::key_hash(native_key);
  require_new(detail::find_key(schema_.stored_slots_, stored_key, stored_hash, keys_of(schema_.stored_)),
              schema_.stored_.size(), stored_key, "a stored tensor");
  require_new(detail::find_key(schema_.native_slots_, native_key, native_hash, keys_of(schema_.native_)),
              schema_.native_.size(), native_key, "a native tensor");
  const LayoutId layout = intern_layout(View::whole(shape).layout());
  const std::string_view stored_copy = intern_key(stored_key);
  const std::string_view native_copy = is_shared ? stored_copy : intern_key(native_key);
  Binding binding;
  binding.stored = add_stored(stored_copy, stored_hash, layout, rule, layer, DType::bf16);
  binding.native = add_native(native_copy, native_hash, layout, rule, layer, DType::bf16);
  binding.stored_layout = binding.native_layout = layout;
  schema_.bindings_.push_back(binding);
}

void SchemaBuilder::tie(std::string_view head_key, StoredId embedding, NativeId native_embedding,
                        std::string_view rule) {
  const View whole_embedding = whole_stored(embedding);
  const LogicalTensor like = schema_.stored_[embedding];
  const StoredId head = stored(head_key, whole_embedding.extents(), like.dtype_rule, k_no_layer, like.dtype);
  optional(head, rule);
  alias(head, whole_stored(head), native_embedding, whole(native_embedding), rule);
  schema_.ties_.push_back(Tie{native_embedding, embedding, std::string(head_key), intern_rule(rule)});
}

void SchemaBuilder::drop(std::string pattern, std::string reason) {
  schema_.drops_.push_back(Drop{std::move(pattern), std::move(reason)});
}

void SchemaBuilder::passthrough(std::string prefix, std::string reason, std::string native_prefix) {
  schema_.passthroughs_.push_back(Passthrough{std::move(prefix), std::move(reason), std::move(native_prefix)});
}

void SchemaBuilder::defaulted(std::string what) { schema_.defaulted_.push_back(std::move(what)); }

Schema SchemaBuilder::finish() && { return std::move(schema_); }

}  // namespace weightproof
