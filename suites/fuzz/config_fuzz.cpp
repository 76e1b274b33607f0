// SPDX-License-Identifier: Apache-2.0
// Any text as config.json: read like the reference reads it, and no family trips over what it says.
#include "adapters/family.hpp"
#include "loader/core/config.hpp"
#include "loader/core/error.hpp"
#include "reference/failure.hpp"
#include "reference/json.hpp"
#include "suites/fuzz/fuzz.hpp"

namespace {

using weightproof::ConfigValue;

// Names in the tree, as a cheap fingerprint of its shape.
std::size_t count_members(const ConfigValue& value) {
  std::size_t count = value.members().size();
  for (const auto& [name, member] : value.members()) {
    count += count_members(member);
  }
  for (const ConfigValue& item : value.items()) {
    count += count_members(item);
  }
  return count;
}

std::size_t count_members(const weightproof::reference::Json& value) {
  std::size_t count = 0;
  if (const auto* members = value.object()) {
    count += members->size();
    for (const auto& [name, member] : *members) {
      count += count_members(member);
    }
  }
  if (const auto* items = value.array()) {
    for (const auto& item : *items) {
      count += count_members(item);
    }
  }
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using weightproof::suites::fuzz::disagree;
  if (size > 1 << 16) {
    return 0;
  }
  const std::string text(reinterpret_cast<const char*>(data), size);
  ConfigValue config;
  try {
    config = ConfigValue::parse(text, "config.json");
  } catch (const weightproof::Error&) {
    return 0;
  }
  try {
    if (count_members(weightproof::reference::parse_json(text)) != count_members(config)) {
      disagree("two trees");
    }
  } catch (const weightproof::reference::Failure&) {
    disagree("the loader accepts what the reference cannot parse");
  }
  const weightproof::Catalog no_names;
  try {
    const auto detection = weightproof::adapters::detect(&config, no_names);
    if (detection.family != nullptr && detection.missing_fields.empty()) {
      const auto* layers = config.find("num_hidden_layers");
      if (layers != nullptr && layers->as_integer().value_or(0) > 64) {
        return 0;  // describing is linear in the layers: keep the runs short
      }
      const auto form = detection.family->find_form(config, no_names);
      detection.family->describe(config, form, weightproof::ExpertStorage::grouped);
    }
  } catch (const weightproof::Error& error) {
    if (error.code() == weightproof::ErrorCode::internal) {
      disagree(std::string("a configuration leads to a defect: ") + error.what());
    }
  }
  return 0;
}
