// SPDX-License-Identifier: Apache-2.0
// Names: in which namespace a checkpoint speaks, who holds head and embedding, and what the keys look like when their
// numbers are taken out. All of it is decided from the whole catalog, never from one key.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

#include "adapters/family.hpp"

namespace weightproof::adapters {

/// One published spelling of a family's names.
struct NameSpace {
  std::string_view prefix;  ///< of embedding, layers and final norm: "model."
  std::string_view head;    ///< full key of the output head
};

/// `model.`, bare, and the two ways in which composite models hold a text tower.
extern const std::span<const NameSpace> k_text_name_spaces;

/// The first parts of names that stand directly under a namespace's prefix.
extern const std::span<const std::string_view> k_decoder_parts;

/// The one of `name_spaces` whose prefix leads to `parts`; the first where no key does (an empty catalog). Throws
/// Error(namespace_mixed) where two do, with one key of each.
const NameSpace& find_name_space(const Catalog& catalog, std::span<const NameSpace> name_spaces,
                                 std::span<const std::string_view> parts = k_decoder_parts);

/// The entry that a form was found with. Throws Error(usage) for a prefix the family does not have.
const NameSpace& name_space_of(const Form& form, std::span<const NameSpace> name_spaces);

/// Whether head and embedding are one tensor, by flag, policy and default. Throws Error(tied_flag_conflict) where the
/// flag contradicts the policy.
bool is_tied(const Family& family, const ConfigValue& config, const Catalog& catalog, std::string_view head);

/// Namespace, tie and quantization: what most families need.
Form find_plain_form(const Family& family, const ConfigValue& config, const Catalog& catalog,
                     std::span<const NameSpace> name_spaces = k_text_name_spaces);

/// Text for Schema::defaulted() where the tie flag is absent, else empty.
std::string tie_default_text(const Family& family, const ConfigValue& config, bool is_tied);

/// Highest number after "<prefix>" plus one ("model.layers."); 0 where no key has one, numbers above 99,999 are not
/// looked at.
std::uint64_t count_numbered(const Catalog& catalog, std::string_view prefix);
/// "per_expert" or "stacked", from the keys under `layers_prefix`; `when_none` where there are no experts. Throws
/// Error(namespace_mixed) for both at once.
std::string find_expert_layout(const Catalog& catalog, std::string_view layers_prefix,
                               std::string_view when_none = "per_expert");
/// Whether the tensors of multi-token prediction are stored; from a config alone: whether it states some.
bool find_mtp(const Catalog& catalog, std::string_view prefix, std::uint64_t depths);
/// True where some key begins with `prefix`.
bool has_prefix(const Catalog& catalog, std::string_view prefix);
/// A key that begins with `prefix` and ends with `suffix`; empty where none does.
std::string_view find_key(const Catalog& catalog, std::string_view prefix, std::string_view suffix);

/// The keys of a catalog with every number between dots replaced by '#': few texts, whatever the size of the model.
class KeyPatterns {
 public:
  explicit KeyPatterns(const Catalog& catalog);

  /// Keys of the largest group "<prefix>layers.#.<rest>": is there one with this rest?
  bool has_layer_key(std::string_view rest) const { return layer_rests_.contains(std::string(rest)); }
  /// Any whole key, numbers as '#'.
  bool has_key(std::string_view pattern) const { return keys_.contains(std::string(pattern)); }
  const std::string& layer_prefix() const { return layer_prefix_; }  ///< "model.", "" ...
  std::uint64_t layer_count() const { return layer_count_; }         ///< highest layer number + 1
  std::uint64_t expert_count() const { return expert_count_; }       ///< highest number after "experts." + 1

 private:
  std::unordered_set<std::string> keys_;
  std::unordered_set<std::string> layer_rests_;
  std::string layer_prefix_;
  std::uint64_t layer_count_ = 0;
  std::uint64_t expert_count_ = 0;
};

}  // namespace weightproof::adapters
