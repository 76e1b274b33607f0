// SPDX-License-Identifier: Apache-2.0
// A config's fields as a family asks for them: under its root object first, then at the top level. Numbers are capped,
// so that extents made of two of them fit 64 bits; a product of three is checked where the shape is made.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/config.hpp"

namespace weightproof::adapters {

class Fields {
 public:
  static constexpr std::uint64_t k_count_max = 1u << 28;  ///< hidden sizes, vocabularies, heads, experts
  static constexpr std::uint64_t k_layers_max = 4096;

  /// `root`: dotted name of the object that holds the fields; of "a.b" also "b" alone is taken.
  explicit Fields(const ConfigValue& config, std::string_view root = {});

  /// Null where absent or JSON null.
  const ConfigValue* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// A number from 0 to k_count_max. Throws Error(config_invalid) when absent, negative, fractional or larger.
  std::uint64_t count(std::string_view name) const;
  std::uint64_t count(std::string_view name, std::uint64_t when_absent) const;
  /// A number that may be negative (-1: no limit).
  std::int64_t signed_count(std::string_view name, std::int64_t when_absent) const;
  /// num_hidden_layers, at most k_layers_max. Throws Error(limit_exceeded) beyond.
  std::uint64_t layers(std::string_view name = "num_hidden_layers") const;
  bool flag(std::string_view name, bool when_absent = false) const;
  /// Empty when absent.
  std::string_view text(std::string_view name) const;
  /// A list of numbers, or of numbers in one text separated by commas. Empty when absent.
  std::vector<std::uint64_t> counts(std::string_view name) const;
  /// Empty when absent.
  std::vector<std::string_view> texts(std::string_view name) const;

 private:
  const ConfigValue* config_;
  const ConfigValue* root_;
};

/// True where `list` holds `value`.
bool contains(const std::vector<std::uint64_t>& list, std::uint64_t value);

}  // namespace weightproof::adapters
