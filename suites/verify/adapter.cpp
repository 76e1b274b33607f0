// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/adapter.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "suites/verify/context.hpp"

namespace weightproof::suites {
namespace {

const ConfigValue* companion(const storage::Checkpoint& checkpoint, const char* name) {
  const auto found = checkpoint.companions.find(name);
  return found == checkpoint.companions.end() ? nullptr : &found->second;
}

std::optional<adapters::LoraBase> modules_of(const storage::Checkpoint& base, const VerifyOptions& options,
                                             bool has_swapped_weights, AdapterState& state) {
  const ConfigValue* config = base.config ? &*base.config : nullptr;
  state.detection = adapters::detect(config, base.catalog, options.family);
  if (state.detection.family != nullptr && config != nullptr && state.detection.missing_fields.empty()) {
    try {
      const Form form = state.detection.family->find_form(*config, base.catalog);
      const Schema schema = state.detection.family->describe(*config, form, ExpertStorage::grouped);
      return adapters::lora_base(schema, base.catalog);
    } catch (const Error& error) {
      state.no_base_reason = "the base cannot be described: " + error.message();
      return std::nullopt;
    }
  }
  if (!base.catalog.is_described()) {
    state.no_base_reason = "the shapes of the base are not known: it has neither a config that tells nor weight files";
    return std::nullopt;
  }
  return adapters::lora_base(base.catalog, has_swapped_weights);
}

// Pairs of factors by themselves: A [R, in] and B [out, R], or a multiple of R where experts are packed.
void judge_pairs(const storage::Checkpoint& checkpoint, AdapterState& state) {
  struct Pair {
    const StoredTensor* a = nullptr;
    const StoredTensor* b = nullptr;
    bool is_embedding = false;
  };
  std::map<std::string_view, Pair> pairs;
  for (const StoredTensor& row : checkpoint.catalog.tensors()) {
    const adapters::LoraKey key = adapters::lora_key(row.key);
    if (key.module.empty() || !row.is_described || key.factor == "lora_magnitude_vector") {
      continue;
    }
    Pair& pair = pairs[key.module];
    pair.is_embedding = key.factor.starts_with("lora_embedding");
    const bool is_a = key.factor == "lora_A.weight" || key.factor == "lora_embedding_A";
    (is_a ? pair.a : pair.b) = &row;
  }
  state.modules = pairs.size();
  std::set<std::uint64_t> ranks;
  for (const auto& [module, pair] : pairs) {
    if (pair.a != nullptr && pair.b != nullptr && pair.a->shape.rank() == 2 && pair.b->shape.rank() == 2 &&
        pair.a->shape[0] == pair.b->shape[1]) {
      ranks.insert(pair.a->shape[0]);
    }
  }
  const std::uint64_t stated = state.config->rank;
  if (ranks.size() == 1 && *ranks.begin() != 0 && *ranks.begin() % stated != 0 && state.config->rank_pattern.empty()) {
    state.found_rank = *ranks.begin();
  }
  const std::uint64_t rank = state.found_rank.value_or(stated);
  const bool is_one_rank = state.config->rank_pattern.empty() && !state.config->has_scaled_expert_rank;
  for (const auto& [module, pair] : pairs) {
    const std::string name(module);
    const auto fits = [&](const StoredTensor& row, unsigned axis) {
      return row.shape.rank() == 2 && row.shape[axis] != 0 && (!is_one_rank || row.shape[axis] % rank == 0);
    };
    const std::string wanted = std::to_string(rank);
    if (pair.a == nullptr || pair.b == nullptr) {
      const std::string ending = pair.is_embedding ? (pair.a == nullptr ? ".lora_embedding_A" : ".lora_embedding_B")
                                                   : (pair.a == nullptr ? ".lora_A.weight" : ".lora_B.weight");
      state.unfit.push_back({name + ending, "a factor", ""});
    } else if (!fits(*pair.a, 0)) {
      state.unfit.push_back({std::string(pair.a->key), "[" + wanted + ", in]", to_string(pair.a->shape)});
    } else if (!fits(*pair.b, 1) || pair.b->shape[1] != pair.a->shape[0]) {
      state.unfit.push_back(
          {std::string(pair.b->key), "[out, " + std::to_string(pair.a->shape[0]) + "]", to_string(pair.b->shape)});
    }
  }
}

}  // namespace

bool is_adapter(const storage::Checkpoint& checkpoint) {
  if (checkpoint.kind == storage::CheckpointKind::adapter && checkpoint.is_selected) {
    return true;
  }
  if (checkpoint.kind != storage::CheckpointKind::single_file || !checkpoint.is_selected ||
      companion(checkpoint, "adapter_config.json") == nullptr) {
    return false;
  }
  const auto rows = checkpoint.catalog.tensors();
  return std::any_of(rows.begin(), rows.end(),
                     [](const StoredTensor& row) { return row.key.find(".lora_") != std::string_view::npos; });
}

AdapterState read_adapter(const storage::Checkpoint& checkpoint, const storage::Checkpoint* base,
                          const VerifyOptions& options) {
  AdapterState state;
  state.has_base = base != nullptr;
  const ConfigValue* config = companion(checkpoint, "adapter_config.json");
  if (config == nullptr) {
    state.no_config_reason = "adapter_config.json cannot be read (format.config)";
    return state;
  }
  try {
    state.config = adapters::read_lora_config(*config, companion(checkpoint, "automodel_peft_config.json"));
  } catch (const Error& error) {
    state.errors.push_back(error);
    return state;
  }
  if (base == nullptr) {
    judge_pairs(checkpoint, state);
    return state;
  }
  const auto modules = modules_of(*base, options, state.config->has_swapped_weights, state);
  if (!modules) {
    return state;
  }
  try {
    state.match = adapters::match_lora(*modules, *state.config, checkpoint.catalog);
    state.schema = std::make_shared<const Schema>(adapters::describe_lora(*modules, state.match->layout));
  } catch (const Error& error) {
    state.errors.push_back(error);
  }
  return state;
}

}  // namespace weightproof::suites
