// SPDX-License-Identifier: Apache-2.0
// Any text as an index: no crash, and what is accepted is one JSON object that the reference reads alike.
#include <algorithm>
#include <map>

#include "loader/storage/index_internal.hpp"
#include "reference/failure.hpp"
#include "reference/json.hpp"
#include "suites/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using weightproof::suites::fuzz::disagree;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto parsed = weightproof::storage::detail::parse_index(text, "index.json");
  const bool has_failure =
      std::any_of(parsed.diagnostics.begin(), parsed.diagnostics.end(),
                  [](const auto& diagnostic) { return diagnostic.severity == weightproof::Severity::fail; });
  if (parsed.is_usable == false && !has_failure) {
    disagree("an index was refused without a reason");
  }
  for (const auto& [key, shard] : parsed.index.weight_map) {
    if (shard >= parsed.shards.size()) {
      disagree("a tensor points past the files");
    }
    if (!has_failure && !weightproof::storage::detail::unsafe_path_reason(parsed.shards[shard]).empty()) {
      disagree("an unsafe name was accepted");
    }
  }
  if (has_failure) {
    return 0;
  }
  try {
    const weightproof::reference::Json tree = weightproof::reference::parse_json(text);
    const auto* map = tree.find("weight_map");
    if (map == nullptr || map->object() == nullptr || map->object()->size() != parsed.index.weight_map.size()) {
      disagree("the reference reads another weight_map");
    }
    for (std::size_t i = 0; i < map->object()->size(); ++i) {
      const auto& [key, value] = (*map->object())[i];
      if (key != parsed.index.weight_map[i].first || value.text() == nullptr ||
          *value.text() != parsed.shards[parsed.index.weight_map[i].second]) {
        disagree("entry " + std::to_string(i) + " differs");
      }
    }
  } catch (const weightproof::reference::Failure&) {
    disagree("the loader accepts an index that the reference cannot parse");
  }
  return 0;
}
