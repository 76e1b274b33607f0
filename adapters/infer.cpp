// SPDX-License-Identifier: Apache-2.0
// What a Llama-like checkpoint without a config says of itself: how many layers and experts its names count, which
// biases and which head are there, and, where shapes are known, every width.
#include <string>

#include "adapters/fields.hpp"
#include "adapters/names.hpp"

namespace weightproof::adapters {
namespace {

class Inference {
 public:
  Inference(const Catalog& catalog, const KeyPatterns& patterns)
      : catalog_(catalog), prefix_(patterns.layer_prefix()), has_shapes_(catalog.is_described()) {}

  /// The shape under a key of the decoder, its layer the first that has it. Null where names are all.
  const Shape* shape(std::string_view rest) const {
    if (!has_shapes_) return nullptr;
    const std::string_view key = find_key(catalog_, prefix_, rest);
    const StoredTensor* tensor = key.empty() ? nullptr : catalog_.find(key);
    return tensor == nullptr ? nullptr : &tensor->shape;
  }

  /// An extent, or 1 where it is not known.
  std::int64_t extent(std::string_view rest, unsigned axis) const {
    const Shape* found = shape(rest);
    if (found == nullptr || axis >= found->rank() || (*found)[axis] > Fields::k_count_max) return 1;
    return static_cast<std::int64_t>((*found)[axis]);
  }

 private:
  const Catalog& catalog_;
  std::string prefix_;
  bool has_shapes_;
};

}  // namespace

std::optional<InferredConfig> infer_config(const Family& family, const Catalog& catalog) {
  if (family.matches_keys == nullptr || catalog.size() == 0) return std::nullopt;
  const KeyPatterns patterns(catalog);
  if (!family.matches_keys(patterns) || patterns.layer_count() > Fields::k_layers_max) return std::nullopt;
  const Inference from(catalog, patterns);
  ConfigValue::Object fields;
  const auto number = [&](std::string_view name, std::int64_t value) {
    fields.emplace_back(std::string(name), ConfigValue(value));
  };
  const auto flag = [&](std::string_view name, bool value) {
    fields.emplace_back(std::string(name), ConfigValue(value));
  };
  fields.emplace_back("model_type", ConfigValue(std::string(family.model_types.front())));
  number("hidden_size", from.extent("embed_tokens.weight", 1));
  number("vocab_size", from.extent("embed_tokens.weight", 0));
  number("num_hidden_layers", static_cast<std::int64_t>(patterns.layer_count()));
  // Heads cannot be told from widths without a norm per head: one head of the whole width has the same shapes.
  const std::int64_t queries = from.extent("self_attn.q_proj.weight", 0);
  const std::int64_t keys = from.extent("self_attn.k_proj.weight", 0);
  const Shape* norm = from.shape("self_attn.q_norm.weight");
  std::int64_t head = norm != nullptr && norm->rank() == 1 ? from.extent("self_attn.q_norm.weight", 0) : 1;
  if (head == 0 || queries % head != 0 || keys % head != 0) head = 1;
  number("head_dim", head);
  number("num_attention_heads", queries / head);
  number("num_key_value_heads", keys / head);
  number("intermediate_size", from.extent("mlp.gate_proj.weight", 0));
  flag("attention_bias", patterns.has_layer_key("self_attn.o_proj.bias"));
  const bool has_head =
      catalog.find("lm_head.weight") != nullptr || catalog.find("language_model.lm_head.weight") != nullptr;
  flag("tie_word_embeddings", !has_head && family.tie_policy == TiePolicy::both);
  if (patterns.expert_count() != 0) {
    number("num_experts", static_cast<std::int64_t>(patterns.expert_count()));
    number("moe_intermediate_size", from.extent("experts.0.down_proj.weight", 1));
    ConfigValue::Array dense;
    for (std::uint64_t l = 0; l < patterns.layer_count(); ++l) {
      const std::string key = patterns.layer_prefix() + "layers." + std::to_string(l) + ".mlp.gate_proj.weight";
      if (catalog.find(key) != nullptr) dense.emplace_back(static_cast<std::int64_t>(l));
    }
    fields.emplace_back("mlp_only_layers", ConfigValue(std::move(dense)));
  }
  return InferredConfig{ConfigValue(std::move(fields)), catalog.is_described()};
}

}  // namespace weightproof::adapters
