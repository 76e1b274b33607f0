// SPDX-License-Identifier: Apache-2.0
// A model family as data. A schema lists native tensors, logical stored tensors and the bindings between views of them;
// drops, defaults, aliases and constants belong to it too. Everything a loader does is derived from it, nothing is
// written per model.
//
//   Binding { view of a stored logical tensor }  <-- codec -->  { view of a native tensor }
//
// Rows are plain data over interned keys and layouts: a million tensors must plan in well under a second.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/core/catalog.hpp"
#include "loader/core/dtype.hpp"
#include "loader/core/placement.hpp"
#include "loader/core/view.hpp"

namespace weightproof {

using StoredId = std::uint32_t;
using NativeId = std::uint32_t;
using LayoutId = std::uint32_t;
using RuleId = std::uint32_t;  ///< text of a rule: why a key is dropped, defaulted, tied
inline constexpr std::uint32_t k_no_id = UINT32_MAX;
inline constexpr std::uint32_t k_no_layer = UINT32_MAX;

/// What the dtype of a tensor follows.
enum class DTypeRule : std::uint8_t {
  weight,     ///< the checkpoint's floating dtype
  f32_state,  ///< F32 natively and in exports; found as F32 or narrower
  fixed,      ///< exactly `dtype`
  any         ///< as found (integer tables, buffers)
};

/// One stored tensor of a logical tensor that is stored in codes.
struct CodedPart {
  std::string_view role;  ///< as loader/codec names it: "weight", "scale", "unused", ...
  std::string_view key;
  LayoutId shape = 0;                       ///< as stored
  DTypeRule dtype_rule = DTypeRule::fixed;  ///< `weight`: any ordinary float, `dtype` is the usual one
  DType dtype = DType::u8;
  bool is_optional = false;  ///< decoding needs none of it
};

/// How a logical tensor is stored where it is not stored as itself: what a family's config alone lets one expect. Where
/// the files are there, what they hold decides (loader/codec).
struct Coding {
  RuleId scheme = k_no_id;  ///< text: a scheme id of loader/codec
  std::uint32_t first_part = 0;
  std::uint32_t part_count = 0;
  std::uint64_t block_rows = 0;  ///< elements that share a scale, 0 where the scheme says it
  std::uint64_t block_cols = 0;
};

struct LogicalTensor {  ///< a stored tensor in its codec's natural shape
  std::string_view key;
  LayoutId shape = 0;  ///< Schema::layout(shape).extents
  DTypeRule dtype_rule = DTypeRule::weight;
  DType dtype = DType::bf16;  ///< for DTypeRule::fixed
  bool is_optional = false;   ///< may be absent; then `absent_rule` says what happens
  RuleId absent_rule = k_no_id;
  double absent_value = 0;           ///< what its native elements are then (not for aliases)
  std::uint32_t layer = k_no_layer;  ///< decoder layer, for pictures and for proofs shared by equal layers
  std::uint32_t coding = k_no_id;    ///< Schema::codings(); k_no_id: stored under `key` as itself
};

struct NativeTensor {
  std::string_view key;
  LayoutId shape = 0;
  DTypeRule dtype_rule = DTypeRule::weight;
  DType dtype = DType::bf16;
  std::uint32_t layer = k_no_layer;
  std::uint32_t parallel = 0;      ///< Schema::parallel_rule(): how a layout of ranks cuts it
  std::uint32_t expert = k_no_id;  ///< ParallelKind::expert: its number
};

enum class BindingKind : std::uint8_t {
  primary,  ///< fills native elements; the proof counts these
  alias,    ///< must be equal on load; written or omitted on export by `rule`
  constant  ///< native elements that no stored tensor fills (padding, defaults): `value_bits` of the native dtype
};

struct Binding {
  StoredId stored = k_no_id;  ///< k_no_id for a constant
  NativeId native = k_no_id;
  LayoutId stored_layout = 0;
  LayoutId native_layout = 0;
  std::uint64_t stored_offset = 0;  ///< elements
  std::uint64_t native_offset = 0;
  double value = 0;       ///< constant only
  RuleId rule = k_no_id;  ///< alias and constant: why
  BindingKind kind = BindingKind::primary;
};

/// Stored keys matched by a glob ('*' any run without end, '?' one character) that are read by nobody, with the reason.
struct Drop {
  std::string pattern;
  std::string reason;
};

/// A prefix whose tensors pass through unchanged (vision towers): presence is identity, completeness cannot be asked.
struct Passthrough {
  std::string prefix;
  std::string reason;
  std::string native_prefix;  ///< what native names have in the place of `prefix`
};

/// Two native tensors that are one storage.
struct Tie {
  NativeId source = k_no_id;  ///< keeps the storage: the embedding
  StoredId stored_source = k_no_id;
  std::string stored_alias;  ///< the stored key that may repeat it: the head
  RuleId rule = k_no_id;
};

class Schema {
 public:
  std::string_view family() const { return family_; }
  std::span<const NativeTensor> native_tensors() const { return native_; }
  std::span<const LogicalTensor> stored_tensors() const { return stored_; }
  std::span<const Binding> bindings() const { return bindings_; }
  std::span<const Coding> codings() const { return codings_; }
  /// The stored tensors of a coded tensor, the codes first; empty for one that is stored as itself.
  std::span<const CodedPart> parts_of(const LogicalTensor& tensor) const {
    if (tensor.coding == k_no_id) return {};
    const Coding& coding = codings_[tensor.coding];
    return std::span<const CodedPart>(parts_).subspan(coding.first_part, coding.part_count);
  }
  const Shape& shape_of(const CodedPart& part) const { return layouts_[part.shape].extents; }
  std::span<const Drop> drops() const { return drops_; }
  std::span<const Passthrough> passthroughs() const { return passthroughs_; }
  std::span<const Tie> ties() const { return ties_; }
  /// What was taken rather than read ("tie_word_embeddings: true by the family's default").
  std::span<const std::string> defaulted() const { return defaulted_; }

  const Layout& layout(LayoutId id) const { return layouts_[id]; }
  std::span<const Layout> layouts() const { return layouts_; }
  const Shape& shape_of(const LogicalTensor& tensor) const { return layouts_[tensor.shape].extents; }
  const Shape& shape_of(const NativeTensor& tensor) const { return layouts_[tensor.shape].extents; }
  View stored_view(const Binding& binding) const { return {binding.stored_offset, layouts_[binding.stored_layout]}; }
  View native_view(const Binding& binding) const { return {binding.native_offset, layouts_[binding.native_layout]}; }
  const std::string& rule(RuleId id) const { return rules_[id]; }
  const ParallelRule& parallel_rule(const NativeTensor& tensor) const { return parallel_rules_[tensor.parallel]; }

  /// Codings as they are in a checkpoint, where the config alone said more: a tensor that is stored as itself loses its
  /// coding. With shapes known that is one stored in an ordinary float without its scales; from names alone, all of
  /// them where no scale is stored at all (a single lost scale stays a loss).
  void match_codings(const Catalog& catalog);

  /// Native name of a stored tensor that passes through: the first rule whose prefix it has says it. The key itself
  /// where there is none.
  std::string passed_native_name(std::string_view key) const;

  StoredId find_stored(std::string_view key) const;  ///< k_no_id when absent. O(1)
  NativeId find_native(std::string_view key) const;

 private:
  friend class SchemaBuilder;
  std::string family_;
  std::vector<NativeTensor> native_;
  std::vector<LogicalTensor> stored_;
  std::vector<Binding> bindings_;
  std::vector<Coding> codings_;
  std::vector<CodedPart> parts_;
  std::vector<Drop> drops_;
  std::vector<Passthrough> passthroughs_;
  std::vector<Tie> ties_;
  std::vector<std::string> defaulted_;
  std::vector<Layout> layouts_;
  std::vector<std::string> rules_;
  std::vector<ParallelRule> parallel_rules_ = std::vector<ParallelRule>(1);
  std::vector<std::shared_ptr<char[]>> key_blocks_;  // shared by copies of the schema
  std::vector<std::uint32_t> stored_slots_;          // open addressing, see key_table_internal.hpp
  std::vector<std::uint32_t> native_slots_;
};

/// How a family file states itself. All methods throw Error(internal) on a misuse (same key twice, views of different
/// extents).
class SchemaBuilder {
 public:
  explicit SchemaBuilder(std::string family);

  NativeId native(std::string_view key, const Shape& shape, DTypeRule rule = DTypeRule::weight,
                  std::uint32_t layer = k_no_layer, DType fixed = DType::bf16);
  StoredId stored(std::string_view key, const Shape& shape, DTypeRule rule = DTypeRule::weight,
                  std::uint32_t layer = k_no_layer, DType fixed = DType::bf16);
  /// How a layout of ranks cuts the tensor; without it every rank holds it whole. Components sum to the axis.
  void parallel(NativeId native, const ParallelRule& rule, std::uint32_t expert = k_no_id);
  /// The native tensor stated last.
  NativeId last_native() const { return static_cast<NativeId>(schema_.native_.size() - 1); }

  /// Marks a stored tensor as one that may be absent: its native elements then have `value_when_absent`.
  void optional(StoredId stored, std::string_view rule_when_absent, double value_when_absent = 0);

  struct Part {
    std::string_view role;
    std::string_view key;
    Shape shape;
    DType dtype = DType::u8;
    DTypeRule dtype_rule = DTypeRule::fixed;
    bool is_optional = false;
  };
  /// States how a stored tensor is coded. Once per tensor; `parts` has the codes first.
  void code(StoredId stored, std::string_view scheme, std::span<const Part> parts, std::uint64_t block_rows = 0,
            std::uint64_t block_cols = 0);

  View whole(NativeId native) const;
  View whole_stored(StoredId stored) const;

  /// Primary binding. Both views have equal extents.
  void bind(StoredId stored, const View& stored_view, NativeId native, const View& native_view);
  /// Whole stored tensor into a native view of the same extents.
  void bind(StoredId stored, NativeId native, const View& native_view) {
    bind(stored, whole_stored(stored), native, native_view);
  }
  void alias(StoredId stored, const View& stored_view, NativeId native, const View& native_view, std::string_view rule);
  void constant(NativeId native, const View& native_view, double value, std::string_view rule);
  /// Same name and shape on both sides.
  void identity(std::string_view key, const Shape& shape, DTypeRule rule = DTypeRule::weight,
                std::uint32_t layer = k_no_layer);
  /// Same shape, other name.
  void rename(std::string_view stored_key, std::string_view native_key, const Shape& shape,
              DTypeRule rule = DTypeRule::weight, std::uint32_t layer = k_no_layer);
  /// The stored head repeats the embedding: an alias that may be absent.
  void tie(std::string_view head_key, StoredId embedding, NativeId native_embedding, std::string_view rule);
  void drop(std::string pattern, std::string reason);
  void passthrough(std::string prefix, std::string reason) { passthrough(prefix, std::move(reason), prefix); }
  void passthrough(std::string prefix, std::string reason, std::string native_prefix);
  void defaulted(std::string what);

  Schema finish() &&;

 private:
  std::string_view intern_key(std::string_view key);
  LayoutId intern_layout(const Layout& layout);
  RuleId intern_rule(std::string_view rule);
  void require_new(std::uint32_t known, std::size_t count, std::string_view key, const char* what) const;
  NativeId add_native(std::string_view key, std::uint32_t hash, LayoutId shape, DTypeRule rule, std::uint32_t layer,
                      DType fixed);
  StoredId add_stored(std::string_view key, std::uint32_t hash, LayoutId shape, DTypeRule rule, std::uint32_t layer,
                      DType fixed);
  void add_binding(BindingKind kind, StoredId stored, const View& stored_view, NativeId native, const View& native_view,
                   double value, RuleId rule);

  Schema schema_;
  std::size_t key_block_used_ = 0;
  std::size_t key_block_size_ = 0;
  std::vector<std::uint32_t> layout_slots_;  // open addressing, id + 1
  LayoutId last_layout_ = 0;
  std::map<std::string, RuleId, std::less<>> rule_ids_;
  std::vector<std::uint32_t> stored_hashes_;  // of the keys, by id
  std::vector<std::uint32_t> native_hashes_;
};

}  // namespace weightproof
