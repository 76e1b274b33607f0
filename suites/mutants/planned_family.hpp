// SPDX-License-Identifier: Apache-2.0
// Every made-up checkpoint of every family, and the catalog of one that is not
// written.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/family.hpp"
#include "fixtures/generate.hpp"
#include "loader/plan/coverage.hpp"

namespace weightproof::suites {

/// One made-up checkpoint: a preset of a family's fixtures in one stored form.
struct Variant {
  std::string fixture;  ///< name of the fixture family
  std::string preset;
  std::string form;                 ///< empty: the only one
  std::string config_changes = {};  ///< as in fixtures::GenerateOptions
  fixtures::GenerateOptions options() const;
  /// --family where detection never answers with it, else empty.
  std::string asked_family() const { return fixture == "dense_combined" ? fixture : std::string(); }
  std::string name() const;  ///< for a test's name
};
void PrintTo(const Variant& variant, std::ostream* out);

/// All presets whose names begin with `prefix`, in their own form, and the first of them in each form that no preset
/// asks for. Not those of `identity`, which is no family, nor of a scheme that is refused by name.
std::vector<Variant> variants_of(std::string_view prefix);
bool is_preset_of(std::string_view preset, std::string_view prefix);

/// A planned checkpoint as the loader sees it, without files.
struct PlannedFamily {
  fixtures::GeneratedCheckpoint made;
  ConfigValue config;
  Catalog catalog;
  const adapters::Family* family = nullptr;
  Form form;
  std::optional<Schema> schema;
  std::vector<plan::DecodedTensor> decoded;  ///< of coded tensors whose parts are there
};
PlannedFamily plan_family(const Variant& variant, bool has_extras = true, bool has_optional = true);

}  // namespace weightproof::suites
