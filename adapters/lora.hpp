// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters (PEFT directories) of any family. Which modules may carry factors, and how large they are, follows
// from the base model's schema; which of the published forms a checkpoint has follows from its names, its shapes and
// its stamp, never from a guess. The result is a schema like every other: native tensors are the factors as a training
// process holds them, experts in groups.
//
//   dense      <module>.lora_A.weight [R, in], .lora_B.weight [out, R]: the same natively
//   experts    natively lora_gate_and_up_A [E, in, R], lora_gate_and_up_B [E, R, U], lora_down_A [E, I, R],
//              lora_down_B [E, R, in]; stored one by one, or packed in one of two generations
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/core/catalog.hpp"
#include "loader/core/config.hpp"
#include "loader/core/schema.hpp"

namespace weightproof::adapters {

/// adapter_config.json and automodel_peft_config.json, as far as names and shapes depend on them.
struct LoraConfig {
  static constexpr std::uint64_t k_rank_max = 65536;

  std::uint64_t rank = 0;
  double alpha = 0;
  bool use_dora = false;
  bool has_swapped_weights = false;  ///< fan_in_fan_out: the base stores [in, out]
  std::string bias = "none";
  std::string task_type;
  std::vector<std::string> target_modules;  ///< names, or their last parts
  std::string target_pattern;               ///< a text in the place of the list: "all-linear", an expression
  std::vector<std::string> target_parameters;
  std::vector<std::string> excluded_modules;
  std::vector<std::string> modules_to_save;
  std::vector<std::pair<std::string, std::uint64_t>> rank_pattern;
  std::vector<std::uint64_t> layers;         ///< layers_to_transform; empty: all
  bool has_other_conditions = false;         ///< what selects modules in ways that are not followed here
  std::optional<std::string> packing_stamp;  ///< paramwrapper_layout
  bool has_scaled_expert_rank = false;       ///< moe_rank_scaling: experts have a rank of their own

  /// Whether the config says which modules must be there: a list, without further conditions.
  bool tells_modules() const { return target_pattern.empty() && !has_other_conditions; }
};

/// `stamp` may be null. Fields that are not known are passed over. Throws Error(config_invalid) under the check
/// adapter.config for what is absent, of the wrong kind or out of range.
LoraConfig read_lora_config(const ConfigValue& config, const ConfigValue* stamp);

/// A linear module or embedding of the base.
struct LoraLinear {
  std::string stored;  ///< module as the base's files name it
  std::string native;
  std::uint64_t out = 0;
  std::uint64_t in = 0;
  std::uint32_t layer = k_no_layer;
  bool is_embedding = false;  ///< [entries, size]: out entries of size in
};

/// The routed experts of one layer of the base.
struct LoraExperts {
  std::string stored;              ///< module that holds them, "model.layers.0.block_sparse_moe.experts"
  std::string native;              ///< "model.layers.0.mlp.experts"
  std::string gate = "gate_proj";  ///< as the base's files name them
  std::string up = "up_proj";
  std::string down = "down_proj";
  std::uint64_t count = 0;  ///< E
  std::uint64_t input = 0;  ///< He
  std::uint64_t width = 0;  ///< I
  bool is_gated = true;
  std::uint32_t layer = k_no_layer;
  std::uint64_t rows() const { return is_gated ? 2 * width : width; }  ///< U
};

/// A tensor of the base that an adapter may hold whole.
struct LoraWhole {
  std::string stored;
  std::string native;
  Shape shape;
};

struct LoraBase {
  std::string family;
  std::vector<LoraLinear> linears;
  std::vector<LoraExperts> experts;
  std::vector<LoraWhole> wholes;
};

/// `schema` describes the base with grouped experts; `catalog` is the base's: what passes through the schema is read
/// from it.
LoraBase lora_base(const Schema& schema, const Catalog& catalog);
/// Of a base that no family describes: every matrix is a module.
LoraBase lora_base(const Catalog& catalog, bool has_swapped_weights);

/// How experts are stored.
enum class LoraPacking : std::uint8_t {
  per_expert,
  peft_0_18,   ///< packed, inputs and outputs changed over: up to PEFT 0.19.0
  peft_0_19_1  ///< packed, as they are: PEFT 0.19.1 and later
};
std::string_view to_string(LoraPacking packing);

/// One module with factors, in the spelling in which it is stored.
struct LoraLinearPart {
  std::uint32_t linear = 0;  ///< position in LoraBase::linears
  std::uint64_t rank = 0;
  bool is_spelled_natively = false;
};
struct LoraExpertsPart {
  std::uint32_t experts = 0;  ///< position in LoraBase::experts
  std::uint64_t rank = 0;
  bool is_spelled_natively = false;
  bool has_gate = false;  ///< of gated experts; packed: both gate and up
  bool has_up = false;
  bool has_down = false;
};
/// A tensor that is stored whole.
struct LoraWholePart {
  std::string stored;  ///< without the prefix
  std::string native;
  Shape shape;
};

/// Everything that a schema of an adapter follows from, beside the base.
struct LoraLayout {
  std::string prefix = "base_model.model.";
  LoraPacking packing = LoraPacking::per_expert;
  bool has_magnitudes = false;  ///< DoRA
  std::vector<LoraLinearPart> linears;
  std::vector<LoraExpertsPart> experts;
  std::vector<LoraWholePart> wholes;
};

/// The layout that a config asks for: every module that it targets, experts in `packing`. Precondition:
/// config.tells_modules().
LoraLayout lora_layout(const LoraBase& base, const LoraConfig& config, LoraPacking packing);

/// Pure. Throws Error(route_unavailable) for what has no native form (magnitudes of experts).
Schema describe_lora(const LoraBase& base, const LoraLayout& layout);

/// An adapter's names against its base.
struct LoraMatch {
  LoraLayout layout;                        ///< what matched
  std::size_t modules = 0;                  ///< in the adapter; a pair of packed tensors is one
  std::size_t matched = 0;                  ///< of these, in the base
  std::size_t votes = 0;                    ///< packed tensors whose shape tells the generation
  bool is_stamped = false;                  ///< the generation is stated
  bool is_complete_asked = true;            ///< false: the config does not tell which modules must be there
  std::vector<std::string> unmatched;       ///< keys of factors of modules that the base lacks
  std::vector<std::string> absent;          ///< keys of factors that the config asks for and no module has
  std::vector<std::string> untargeted;      ///< keys of factors that the config does not ask for
  std::vector<std::string> unknown;         ///< keys that are neither factors nor stated by the config
  std::vector<std::string> misnamed;        ///< keys of factors under a name that no library reads
  std::optional<std::uint64_t> found_rank;  ///< the rank that all factors have, where it is another than stated
};

/// Throws Error(adapter_layout_undecided) where stamp and shapes do not decide the generation or contradict each other,
/// Error(namespace_mixed) under adapter.config for two spellings or two forms at once.
LoraMatch match_lora(const LoraBase& base, const LoraConfig& config, const Catalog& adapter);

/// A key of a factor: the module's name, and what it holds.
struct LoraKey {
  std::string_view module;  ///< empty: no factor
  std::string_view factor;  ///< "lora_A.weight", "lora_B.weight", "lora_embedding_A", "lora_embedding_B",
                            ///< "lora_magnitude_vector"
};
LoraKey lora_key(std::string_view key);

}  // namespace weightproof::adapters
