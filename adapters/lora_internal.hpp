// SPDX-License-Identifier: Apache-2.0
// The steps of matching an adapter with its base: what the config asks for, whose factor a key is, which generation
// packed experts are of.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "adapters/lora.hpp"

namespace weightproof::adapters::detail {

/// Names of modules, each whole or by its last parts. Cost of a question: the parts of the name asked for, however long
/// the list is.
class ModuleNames {
 public:
  ModuleNames() = default;
  explicit ModuleNames(const std::vector<std::string>& names);
  /// The first of the list that names this module; SIZE_MAX where none does.
  std::size_t first(std::string_view module) const;
  bool names(std::string_view module) const { return first(module) != SIZE_MAX; }
  /// The same among those that hold `part` somewhere.
  std::size_t first(std::string_view module, std::string_view part) const;

 private:
  std::unordered_map<std::string_view, std::size_t> positions_;
};

class LoraTargets {
 public:
  /// The config outlives it.
  explicit LoraTargets(const LoraConfig& config);
  LoraTargets(const LoraTargets&) = delete;
  LoraTargets& operator=(const LoraTargets&) = delete;

  /// Under either of its names.
  bool asks(const LoraLinear& linear) const;
  /// One matrix of the experts, stored one by one: "gate_proj" and the file's name of it. `is_by_name`: a target that
  /// does not speak of experts does not count.
  bool asks_expert(const LoraExperts& experts, std::string_view native_name, std::string_view stored_name,
                   bool is_by_name) const;
  /// The packed input or output projections.
  bool asks_packed_input(const LoraExperts& experts) const;
  bool asks_packed_output(const LoraExperts& experts) const;
  /// The rank of a module that has these names.
  std::uint64_t rank(std::string_view stored, std::string_view native) const;
  std::uint64_t rank(const LoraExperts& experts) const;
  /// Whether the config states that this tensor is stored whole.
  bool saves(std::string_view key) const;

 private:
  bool asks_module(std::string_view module, std::uint32_t layer) const;
  bool asks_parameter(const LoraExperts& experts, std::string_view parameter) const;
  bool is_in_layers(std::uint32_t layer) const;
  const LoraConfig& config_;
  ModuleNames modules_;
  ModuleNames excluded_;
  ModuleNames parameters_;
  ModuleNames saved_;
  std::vector<std::string> ranked_names_;
  ModuleNames ranked_;
  std::vector<std::uint64_t> layers_;  // sorted
};

inline constexpr std::string_view k_lora_inner = ".base_layer";
inline constexpr std::array<std::string_view, 5> k_lora_factors = {"lora_A.weight", "lora_B.weight", "lora_embedding_A",
                                                                   "lora_embedding_B", "lora_magnitude_vector"};
inline bool is_magnitude(std::string_view factor) { return factor == k_lora_factors[4]; }
/// The factor beside the input; else the one beside the output.
inline bool is_factor_a(std::string_view factor) { return factor == k_lora_factors[0] || factor == k_lora_factors[2]; }

/// Where a key of a factor belongs.
struct LoraPlace {
  enum class Kind : std::uint8_t { none, linear, expert, packed } kind = Kind::none;
  enum class Matrix : std::uint8_t { gate, up, down } matrix = Matrix::gate;
  std::uint32_t index = 0;  ///< position in LoraBase::linears or ::experts
  std::uint64_t expert = 0;
  bool is_inner = false;   ///< packed: behind ".base_layer"
  bool is_native = false;  ///< spelled natively where the file's spelling is another
};

/// Modules of a base by either of their names. The base outlives it.
class LoraNames {
 public:
  explicit LoraNames(const LoraBase& base);
  LoraPlace find(std::string_view module) const;

 private:
  struct Entry {
    std::uint32_t index;
    bool is_native;
  };
  LoraPlace find_expert(std::string_view module) const;

  const LoraBase& base_;
  std::unordered_map<std::string_view, Entry> linears_;
  std::unordered_map<std::string_view, Entry> parents_;
};

/// For which generation the shapes of packed tensors speak.
struct LoraVotes {
  std::vector<std::string> old_keys;
  std::vector<std::string> new_keys;
  void add(const LoraExperts& experts, bool is_input, bool is_factor_a, const StoredTensor& row);
};

/// The generation by votes and stamp. Throws Error(adapter_layout_undecided).
LoraPacking decide_packing(const LoraVotes& votes, const std::optional<std::string>& stamp,
                           const std::string& some_key);

}  // namespace weightproof::adapters::detail
