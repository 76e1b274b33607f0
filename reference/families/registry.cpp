// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <map>

#include "reference/failure.hpp"
#include "reference/families/families_internal.hpp"

namespace weightproof::reference {
namespace {

using Maker = std::function<Family(const Config&, const MappingOptions&)>;

const std::map<std::string, Maker>& makers() {
  namespace f = families;
  static const std::map<std::string, Maker> all = [] {
    std::map<std::string, Maker> map;
    const auto plain = [&](const std::string& id, Family (*maker)()) {
      map[id] = [maker](const Config&, const MappingOptions&) { return maker(); };
    };
    for (const char* id : {"llama", "qwen2", "qwen3", "mistral", "smollm3", "gemma", "ernie4_5"})
      map[id] = [id](const Config&, const MappingOptions&) { return f::dense(id); };
    plain("identity", f::identity);
    plain("phi3", f::phi3);
    plain("mimo", f::mimo);
    plain("dense_combined", f::dense_combined);
    return map;
  }();
  return all;
}

}  // namespace

Family family_of(const std::string& id, const Config& config, const MappingOptions& options) {
  const auto found = makers().find(id);
  if (found == makers().end()) throw Failure("USAGE", "the reference knows no family '" + id + "'");
  return found->second(config, options);
}

std::vector<std::string> family_ids() {
  std::vector<std::string> ids;
  for (const auto& [id, maker] : makers()) ids.push_back(id);
  return ids;
}

}  // namespace weightproof::reference
