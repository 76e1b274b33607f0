// SPDX-License-Identifier: Apache-2.0
// Bases and adapters of the tests: a family's sample changed in places, and a catalog as a schema asks for it.
#pragma once

#include "adapters/lora.hpp"
#include "adapters/tests/push.hpp"

namespace weightproof::adapters::testing {

/// The family's sample config with other values in some of its members.
inline ConfigValue changed_sample(std::string_view family, ConfigValue::Object changes) {
  const ConfigValue sample = config_of(find_family(family)->sample);
  ConfigValue::Object members = std::move(changes);
  for (const auto& [name, value] : sample.members()) {
    const bool is_changed =
        std::any_of(members.begin(), members.end(), [&](const auto& member) { return member.first == name; });
    if (!is_changed) members.emplace_back(name, value);
  }
  return ConfigValue(std::move(members));
}

inline Schema base_schema(std::string_view family, const ConfigValue& config, Form form) {
  return find_family(family)->describe(config, form, ExpertStorage::grouped);
}

inline LoraBase base_of(std::string_view family, ConfigValue::Object changes = {}) {
  const ConfigValue config = changed_sample(family, std::move(changes));
  const Form form = find_family(family)->find_form(config, Catalog());
  return lora_base(base_schema(family, config, form), Catalog());
}

inline ConfigValue number(std::uint64_t value) { return ConfigValue(static_cast<std::int64_t>(value)); }

/// Targets everything: attention and MLP by name, experts by name and packed.
inline LoraConfig full_config(std::uint64_t rank = 2) {
  LoraConfig config;
  config.rank = rank;
  config.alpha = 4;
  config.target_modules = {"q_proj", "v_proj", "gate_proj", "up_proj", "down_proj", "w1", "w2", "w3"};
  config.target_parameters = {"experts.gate_up_proj", "experts.up_proj", "experts.down_proj"};
  return config;
}

/// Every stored tensor of a schema as a file would hold it.
inline Catalog catalog_from(const Schema& schema) {
  CatalogBuilder builder;
  builder.add_file("adapter_model.safetensors");
  std::uint64_t begin = 0;
  for (const LogicalTensor& tensor : schema.stored_tensors()) {
    StoredTensor row;
    row.key = tensor.key;
    row.shape = schema.shape_of(tensor);
    row.dtype = DType::bf16;
    row.bytes = *byte_count(row.shape, DType::bf16);
    row.begin = begin;
    row.is_described = true;
    begin += row.bytes;
    builder.add_copy(row);
  }
  return std::move(builder).finish();
}

/// The same rows with some of them changed, renamed (other key) or left out (empty key).
template <typename Change>
Catalog changed(const Catalog& catalog, const Change& change) {
  CatalogBuilder builder;
  builder.add_file("adapter_model.safetensors");
  for (const StoredTensor& row : catalog.tensors()) {
    std::string key(row.key);
    StoredTensor copy = row;
    change(key, copy);
    if (key.empty()) continue;
    copy.key = key;
    builder.add_copy(copy);
  }
  return std::move(builder).finish();
}

inline Shape shape_of(const Schema& schema, std::string_view key) {
  const StoredId id = schema.find_stored(key);
  EXPECT_NE(id, k_no_id) << key;
  return id == k_no_id ? Shape{} : schema.shape_of(schema.stored_tensors()[id]);
}

/// Aliases are written: a factor that serves twice is stored twice.
inline Values save_all(const Schema& schema, const Values& native) {
  Values stored = save(schema, native);
  for (const Binding& binding : schema.bindings()) {
    if (binding.kind != BindingKind::alias) continue;
    const LogicalTensor& tensor = schema.stored_tensors()[binding.stored];
    std::vector<double>& to = stored[std::string(tensor.key)];
    to.resize(element_count(schema.shape_of(tensor)).value());
    const std::vector<double>& from = native.at(std::string(schema.native_tensors()[binding.native].key));
    for_each_pair(schema, binding, [&](std::uint64_t s, std::uint64_t n) { to[s] = from.at(n); });
  }
  return stored;
}

}  // namespace weightproof::adapters::testing
