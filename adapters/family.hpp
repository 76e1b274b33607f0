// SPDX-License-Identifier: Apache-2.0
// A family: how a model's config and stored names become a schema. One file per family; the registry is an explicit
// table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/catalog.hpp"
#include "loader/core/config.hpp"
#include "loader/core/form.hpp"
#include "loader/core/schema.hpp"

/// `family` describes a checkpoint; the pieces family files are made of are in fields.hpp, names.hpp, describer.hpp and
/// blocks.hpp.
namespace weightproof::adapters {

/// Who decides whether head and embedding are one tensor.
enum class TiePolicy : std::uint8_t { both, tied_only, untied_only };

class KeyPatterns;

/// Plain data plus pure functions; no state. Thread-safe.
struct Family {
  std::string_view name;                            ///< "llama"
  std::string_view title;                           ///< one line for `adapters list`
  std::span<const std::string_view> model_types;    ///< config.json model_type values
  std::span<const std::string_view> architectures;  ///< config.json architectures values
  std::span<const std::string_view> required;       ///< config fields without which coverage cannot be asked
  std::string_view config_root = {};                ///< object that holds them ("text_config"), else the top level
  TiePolicy tie_policy = TiePolicy::both;
  /// The flag's value where the config has none. Nothing: published loaders disagree, the stored head decides.
  std::optional<bool> tied_by_default = false;
  /// A second look where model types or architectures are shared between families. Null: they decide alone.
  bool (*accepts)(const ConfigValue& config) = nullptr;
  /// Stored keys that show the family where there is no config; null where keys alone cannot tell.
  bool (*matches_keys)(const KeyPatterns& patterns) = nullptr;
  /// Names and physical layout as found. `config` is complete (see `required`). Throws Error(namespace_mixed,
  /// tied_flag_conflict, ...).
  Form (*find_form)(const ConfigValue& config, const Catalog& catalog) = nullptr;
  /// Pure. Throws Error(config_invalid) for a config that cannot describe a model, Error(limit_exceeded) for one that
  /// asks for more tensors than a checkpoint may have.
  Schema (*describe)(const ConfigValue& config, const Form& form, ExpertStorage storage) = nullptr;
  /// config.json of a made-up model of this kind, small enough to print: to show the mapping and to try it.
  std::string_view sample = {};
  /// False: only --family asks for it, detection never answers with it.
  bool is_detected = true;
  std::span<const std::string_view> aliases = {};  ///< other names under which --family finds it
};

std::span<const Family* const> all_families();
/// By name or alias ("hy_mt2"). Null when unknown.
const Family* find_family(std::string_view name);

struct Detection {
  const Family* family = nullptr;  ///< null: identity, coverage from config cannot be asked
  std::string evidence;            ///< "config.json model_type llama", "key patterns", "--family"
  std::string quantization;  ///< scheme recognised by config or companions' names, "" if none: "mlx_affine", "nf4", ...
  std::vector<std::string> missing_fields;  ///< required config fields that are absent: coverage from config is skipped
  std::vector<std::string> candidates;      ///< what else was considered, for messages
};

/// config may be null. `forced` is --family (empty: detect); an unknown name throws Error(usage) listing the nearest.
Detection detect(const ConfigValue* config, const Catalog& catalog, std::string_view forced = {});

/// A config read from the keys where there is none, and from the shapes where they are known.
struct InferredConfig {
  ConfigValue config;
  bool has_shapes = false;  ///< false: only names that follow from it mean something
};
/// Counts of layers and experts, biases and ties as the keys show them. Nothing where the family's keys do not say
/// enough (it has no `matches_keys`).
std::optional<InferredConfig> infer_config(const Family& family, const Catalog& catalog);

/// The tie flag at its controlling level: top-level, thinker_config, text_config. Nothing when absent at all of them.
/// A key that is there with a value that is no boolean throws Error(config_invalid).
struct TieFlag {
  std::optional<bool> value;
  std::string level;  ///< "tie_word_embeddings", "text_config.tie_word_embeddings", ...
};
TieFlag tie_flag(const ConfigValue& config);

/// The wrapper that a saved name still carries in front ("_orig_mod.", "module.", "base_model.model.", several of them
/// in a row, or `_orig_mod.` and `_checkpoint_wrapped_module.` inside). `prefix` is what to cut, `stripped` the name
/// without it. Empty prefix: none, and nothing is stripped.
struct WrapperPrefix {
  std::string prefix;
  std::string stripped;
};
WrapperPrefix find_wrapper_prefix(std::string_view key);

}  // namespace weightproof::adapters
