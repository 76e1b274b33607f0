// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "adapters/families/families.hpp"
#include "adapters/fields.hpp"
#include "adapters/names.hpp"
#include "adapters/quantization.hpp"
#include "loader/core/error.hpp"

namespace weightproof::adapters {
namespace {

bool holds(std::span<const std::string_view> list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

/// Edits (insert, delete, replace) that make one name of the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

[[noreturn]] void unknown_family(std::string_view name) {
  constexpr std::size_t k_shown = 3;
  std::vector<std::pair<std::size_t, std::string_view>> nearest;
  const std::string_view shown = name.substr(0, 64);
  for (const Family* family : all_families()) nearest.emplace_back(distance(shown, family->name), family->name);
  std::sort(nearest.begin(), nearest.end());
  ErrorFacts facts;
  facts.actual = std::string(shown);
  for (std::size_t i = 0; i < std::min(k_shown, nearest.size()); ++i) {
    if (i != 0) facts.expected += ", ";
    facts.expected += nearest[i].second;
  }
  facts.hint = "nearest: " + facts.expected + "; `weightproof adapters list` names them all";
  throw Error(ErrorCode::usage, "no model family is named '" + std::string(shown) + "'", std::move(facts));
}

void find_by_config(const ConfigValue& config, Detection& detection) {
  const auto text = [&](std::string_view path) -> std::string_view {
    const ConfigValue* value = config.find(path);
    return value == nullptr ? std::string_view() : value->as_string().value_or(std::string_view());
  };
  const std::string_view model_type = text("model_type");
  std::vector<std::string_view> architectures;
  if (const ConfigValue* list = config.find("architectures")) {
    for (const ConfigValue& item : list->items()) {
      if (const auto name = item.as_string()) architectures.push_back(*name);
    }
  }
  std::vector<const Family*> by_type;
  std::vector<const Family*> by_both;
  std::vector<const Family*> by_architecture;
  std::string_view architecture;
  for (const Family* family : all_families()) {
    if (!family->is_detected) continue;
    const bool has_type = !model_type.empty() && holds(family->model_types, model_type);
    std::string_view named;
    for (const std::string_view candidate : architectures) {
      if (holds(family->architectures, candidate)) named = candidate;
    }
    if (!has_type && named.empty()) continue;
    detection.candidates.emplace_back(family->name);
    if (family->accepts != nullptr && !family->accepts(config)) continue;
    if (has_type && !named.empty()) by_both.push_back(family);
    if (has_type) by_type.push_back(family);
    if (!named.empty()) {
      by_architecture.push_back(family);
      architecture = named;
    }
  }
  const std::string of_type = "config.json model_type " + std::string(model_type);
  if (by_both.size() == 1) {
    detection.family = by_both.front();
    detection.evidence = of_type;
  } else if (by_type.size() == 1) {
    detection.family = by_type.front();
    detection.evidence = of_type;
  } else if (by_type.empty() && by_architecture.size() == 1) {
    detection.family = by_architecture.front();
    detection.evidence = "config.json architectures " + std::string(architecture);
  }
  if (detection.family == nullptr) {
    detection.evidence = model_type.empty() ? std::string("config.json names no model_type")
                                            : of_type + ", which no family here describes";
  }
}

void find_by_keys(const Catalog& catalog, Detection& detection) {
  if (catalog.size() == 0) return;
  const KeyPatterns patterns(catalog);
  const Family* found = nullptr;
  std::size_t matches = 0;
  for (const Family* family : all_families()) {
    if (!family->is_detected || family->matches_keys == nullptr || !family->matches_keys(patterns)) continue;
    detection.candidates.emplace_back(family->name);
    found = family;
    ++matches;
  }
  if (matches == 1) {
    detection.family = found;
    detection.evidence = "key patterns";
  } else if (detection.evidence.empty()) {
    detection.evidence = matches == 0 ? "no config.json, and the keys show no family"
                                      : "no config.json, and the keys fit several families";
  }
}

}  // namespace

Detection detect(const ConfigValue* config, const Catalog& catalog, std::string_view forced) {
  Detection detection;
  if (!forced.empty()) {
    detection.family = find_family(forced);
    if (detection.family == nullptr) unknown_family(forced);
    detection.evidence = "--family";
  } else if (config != nullptr) {
    find_by_config(*config, detection);
  }
  const bool says_nothing = config == nullptr || !config->has("model_type");
  if (detection.family == nullptr && says_nothing) find_by_keys(catalog, detection);
  detection.quantization = recognise_quantization(config, catalog);
  if (detection.family == nullptr) return detection;

  const std::string root =
      detection.family->config_root.empty() ? std::string() : std::string(detection.family->config_root) + ".";
  if (config == nullptr) {
    for (const std::string_view name : detection.family->required)
      detection.missing_fields.push_back(root + std::string(name));
    return detection;
  }
  const Fields fields(*config, detection.family->config_root);
  for (const std::string_view name : detection.family->required) {
    if (!fields.has(name)) detection.missing_fields.push_back(root + std::string(name));
  }
  return detection;
}

}  // namespace weightproof::adapters
