// SPDX-License-Identifier: Apache-2.0
// What the tests of this room share: catalogs from key lists and index files, expected keys, totals, and the tiling
// proof of a whole schema.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/family.hpp"
#include "loader/core/error.hpp"
#include "loader/core/tiling.hpp"

namespace weightproof::adapters::testing {

inline Catalog catalog_of(const std::vector<std::string>& keys) {
  CatalogBuilder builder;
  builder.add_file("model.safetensors");
  for (const std::string& key : keys) {
    StoredTensor tensor;
    tensor.key = key;
    builder.add_copy(tensor);
  }
  return std::move(builder).finish();
}

inline ConfigValue config_of(std::string_view json) { return ConfigValue::parse(json, "config.json"); }

inline std::filesystem::path shared_dir() {
  const char* dir = std::getenv("WEIGHTPROOF_SHARED_DIR");
  return dir == nullptr ? std::filesystem::path() : std::filesystem::path(dir);
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Metadata of a real model: keys and total_size of its index, and its config where it has one.
struct RealModel {
  Catalog catalog;
  std::optional<ConfigValue> config;
  std::uint64_t total_size = 0;
};

/// Nothing where the data is not here.
inline std::optional<RealModel> real_model(const std::string& name) {
  const std::filesystem::path folder = shared_dir() / "data" / name;
  if (shared_dir().empty() || !std::filesystem::exists(folder / "model.safetensors.index.json")) return std::nullopt;
  RealModel model;
  const ConfigValue index = ConfigValue::parse(read_text(folder / "model.safetensors.index.json"), "index");
  CatalogBuilder builder;
  builder.add_file("model.safetensors");
  for (const auto& [key, file] : index.find("weight_map")->members()) {
    StoredTensor tensor;
    tensor.key = key;
    builder.add_copy(tensor);
  }
  model.catalog = std::move(builder).finish();
  if (const ConfigValue* total = index.find("metadata.total_size")) {
    model.total_size = static_cast<std::uint64_t>(total->as_integer().value_or(0));
  }
  if (std::filesystem::exists(folder / "config.json")) {
    model.config = ConfigValue::parse(read_text(folder / "config.json"), "config.json");
  }
  return model;
}

/// '*' any run, '?' one character.
inline bool matches(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() == '*') {
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (matches(pattern.substr(1), text.substr(i))) return true;
    }
    return false;
  }
  return !text.empty() && (pattern.front() == '?' || pattern.front() == text.front()) &&
         matches(pattern.substr(1), text.substr(1));
}

struct Coverage {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::map<std::string, std::size_t> dropped;  ///< per pattern
  std::map<std::string, std::size_t> passed;   ///< per prefix
};

inline Coverage cover(const Schema& schema, const Catalog& catalog) {
  Coverage coverage;
  std::set<std::string_view> parts;
  for (const LogicalTensor& tensor : schema.stored_tensors()) {
    for (const CodedPart& part : schema.parts_of(tensor)) {
      parts.insert(part.key);
      if (!part.is_optional && catalog.find(part.key) == nullptr) coverage.missing.emplace_back(part.key);
    }
    if (tensor.coding != k_no_id || tensor.is_optional) continue;
    if (catalog.find(tensor.key) == nullptr) coverage.missing.emplace_back(tensor.key);
  }
  for (const StoredTensor& tensor : catalog.tensors()) {
    const StoredId id = schema.find_stored(tensor.key);
    if (parts.count(tensor.key) != 0 || (id != k_no_id && schema.stored_tensors()[id].coding == k_no_id)) continue;
    bool is_known = false;
    for (const Passthrough& passthrough : schema.passthroughs()) {
      if (!tensor.key.starts_with(passthrough.prefix)) continue;
      ++coverage.passed[passthrough.prefix];
      is_known = true;
      break;
    }
    for (const Drop& drop : schema.drops()) {
      if (is_known || !matches(drop.pattern, tensor.key)) continue;
      ++coverage.dropped[drop.pattern];
      is_known = true;
    }
    if (!is_known) coverage.unexpected.emplace_back(tensor.key);
  }
  return coverage;
}

struct StoredTotals {
  std::size_t tensors = 0;  ///< stored, with the parts of coded ones
  std::uint64_t bytes = 0;
  std::uint64_t parameters = 0;  ///< elements of logical tensors
};

/// The head of a tied model is an alias, no tensor of its own.
inline bool is_alias(const Schema& schema, const LogicalTensor& tensor) {
  for (const Tie& tie : schema.ties()) {
    if (tie.stored_alias == tensor.key) return true;
  }
  return false;
}

/// The stored side where floating tensors follow `weight` and FP32 state is F32; tensors that may be absent are there.
inline StoredTotals stored_totals(const Schema& schema, DType weight = DType::bf16) {
  StoredTotals totals;
  const auto add = [&](const Shape& shape, DTypeRule rule, DType dtype) {
    ++totals.tensors;
    totals.bytes += byte_count(shape, rule == DTypeRule::f32_state ? DType::f32 : dtype).value();
  };
  for (const LogicalTensor& tensor : schema.stored_tensors()) {
    if (is_alias(schema, tensor)) continue;
    totals.parameters += element_count(schema.shape_of(tensor)).value();
    if (tensor.coding == k_no_id) {
      add(schema.shape_of(tensor), tensor.dtype_rule, tensor.dtype_rule == DTypeRule::fixed ? tensor.dtype : weight);
    }
    for (const CodedPart& part : schema.parts_of(tensor)) add(schema.shape_of(part), DTypeRule::fixed, part.dtype);
  }
  return totals;
}

inline std::uint64_t stored_bytes(const Schema& schema, DType weight = DType::bf16) {
  return stored_totals(schema, weight).bytes;
}

inline std::uint64_t native_elements(const Schema& schema) {
  std::uint64_t total = 0;
  for (const NativeTensor& tensor : schema.native_tensors()) total += element_count(schema.shape_of(tensor)).value();
  return total;
}

inline void expect_tiled(const Schema& schema, std::string_view side, std::string_view key, const Shape& shape,
                         const std::vector<View>& views) {
  if (views.size() == 1 && views[0] == View::whole(shape)) return;
  const TilingVerdict verdict = prove_tiling(shape, views, TilingOptions{0});
  EXPECT_EQ(verdict.tiling, Tiling::exact)
      << schema.family() << " " << side << " " << key << ": " << to_string(verdict.tiling) << " at "
      << to_string(verdict.coordinate) << " " << verdict.reason;
}

/// A constant that stands in where an optional stored tensor is absent: it has the place of that tensor's primary.
inline bool is_default(const Schema& schema, const Binding& constant) {
  if (constant.kind != BindingKind::constant) return false;
  for (const Binding& other : schema.bindings()) {
    if (other.kind == BindingKind::primary && other.native == constant.native &&
        other.native_offset == constant.native_offset && other.native_layout == constant.native_layout &&
        schema.stored_tensors()[other.stored].is_optional) {
      return true;
    }
  }
  return false;
}

/// Every native tensor is covered once by primaries and constants; every stored tensor is read once by primaries.
inline void expect_exact(const Schema& schema) {
  std::vector<std::vector<View>> native(schema.native_tensors().size());
  std::vector<std::vector<View>> stored(schema.stored_tensors().size());
  std::set<StoredId> aliases;
  for (const Binding& binding : schema.bindings()) {
    if (binding.kind == BindingKind::alias) {
      aliases.insert(binding.stored);
      continue;
    }
    if (is_default(schema, binding)) continue;
    native[binding.native].push_back(schema.native_view(binding));
    if (binding.kind == BindingKind::primary) stored[binding.stored].push_back(schema.stored_view(binding));
  }
  for (std::size_t i = 0; i < native.size(); ++i) {
    const NativeTensor& tensor = schema.native_tensors()[i];
    expect_tiled(schema, "native", tensor.key, schema.shape_of(tensor), native[i]);
  }
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const LogicalTensor& tensor = schema.stored_tensors()[i];
    if (aliases.count(static_cast<StoredId>(i)) != 0) continue;
    expect_tiled(schema, "stored", tensor.key, schema.shape_of(tensor), stored[i]);
  }
}

/// The code with which `action` fails, or nothing.
template <typename Action>
std::optional<Error> error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

inline Schema describe(const ConfigValue& config, const Catalog& catalog, std::string_view forced = {},
                       ExpertStorage storage = ExpertStorage::grouped) {
  const Detection detection = detect(&config, catalog, forced);
  EXPECT_NE(detection.family, nullptr) << detection.evidence;
  if (detection.family == nullptr) return SchemaBuilder("none").finish();
  return detection.family->describe(config, detection.family->find_form(config, catalog), storage);
}

}  // namespace weightproof::adapters::testing
