// SPDX-License-Identifier: Apache-2.0
#include "reference/config.hpp"

#include "reference/failure.hpp"

namespace weightproof::reference {
namespace {

const Json* member(const Json* object, std::string_view name) { return object ? object->find(name) : nullptr; }

std::string string_of(const Json* value) { return value && value->text() ? *value->text() : std::string(); }

}  // namespace

Config::Config(std::string_view text) {
  if (text.empty()) return;
  try {
    root_ = parse_json(text);
  } catch (const Failure& failure) {
    throw Failure("CONFIG_INVALID", failure.what());
  }
  if (!root_.is_object()) throw Failure("CONFIG_INVALID", "the config is not an object");
}

const Json& Config::language() const {
  const Json* thinker = root_.find("thinker_config");
  for (const Json* part :
       {member(thinker, "text_config"), thinker, root_.find("text_config"), root_.find("llm_config")})
    if (part && part->is_object()) return *part;
  return root_;
}

const Json* Config::find(std::string_view name) const {
  for (const Json* part : {&language(), root_.find("thinker_config"), &root_}) {
    const Json* value = member(part, name);
    if (value && !value->is_null()) return value;
  }
  return nullptr;
}

std::optional<std::uint64_t> Config::natural(std::string_view name) const {
  const Json* value = find(name);
  if (value && value->natural()) return *value->natural();
  return std::nullopt;
}

std::uint64_t Config::need(std::string_view name) const {
  if (const auto value = natural(name)) return *value;
  throw Failure("CONFIG_INVALID", "the config lacks the number '" + std::string(name) + "'");
}

std::string Config::text(std::string_view name) const { return string_of(find(name)); }

bool Config::truth(std::string_view name) const {
  const Json* value = find(name);
  return value && value->truth() && *value->truth();
}

std::string Config::model_type() const { return string_of(root_.find("model_type")); }
std::string Config::language_type() const {
  return &language() == &root_ ? std::string() : string_of(language().find("model_type"));
}

std::vector<std::string> Config::architectures() const {
  std::vector<std::string> names;
  const Json* list = root_.find("architectures");
  if (list && list->array())
    for (const Json& name : *list->array())
      if (name.text()) names.push_back(*name.text());
  return names;
}

std::optional<bool> Config::tied() const {
  const Json* thinker = root_.find("thinker_config");
  for (const Json* part : {&root_, thinker, member(thinker, "text_config"), root_.find("text_config")}) {
    const Json* flag = member(part, "tie_word_embeddings");
    if (flag && flag->truth()) return *flag->truth();
  }
  return std::nullopt;
}

const Json* Config::quantization() const {
  const Json* value = root_.find("quantization_config");
  if (value == nullptr || !value->is_object()) value = language().find("quantization_config");
  return value && value->is_object() ? value : nullptr;
}

}  // namespace weightproof::reference
