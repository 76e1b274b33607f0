// SPDX-License-Identifier: Apache-2.0
#include "reference/mapping.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "reference/assembly_internal.hpp"

namespace weightproof::reference {
namespace {

// The k-th '#' or '{}' of the pattern becomes the k-th capture, '*' the one that follows.
std::string fill(const std::string& pattern, const std::vector<std::string>& captures) {
  std::string out;
  std::size_t next = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool is_slot = pattern[i] == '#' || pattern[i] == '*' || pattern.compare(i, 2, "{}") == 0;
    if (!is_slot) {
      out += pattern[i];
      continue;
    }
    if (pattern[i] == '{') ++i;
    out += captures.at(next++);
  }
  return out;
}

bool is_expert_rule(Rule rule) {
  switch (rule) {
    case Rule::expert_gate:
    case Rule::expert_up:
    case Rule::expert_up_only:
    case Rule::expert_down:
    case Rule::bias_gate:
    case Rule::bias_up:
    case Rule::bias_only:
      return true;
    default:
      return false;
  }
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && std::string_view(text).substr(text.size() - end.size()) == end;
}

// Keys that are never weights: recomputed buffers and module state.
bool is_never_weight(const std::string& key) {
  for (const char* end : {"_extra_state", "inv_freq", ".root_size", ".embed_scale"})
    if (ends_with(key, end)) return true;
  return false;
}

bool is_beyond_count(const std::string& key, std::uint64_t layer_count) {
  std::vector<std::string> captures;
  for (const char* pattern : {"model.layers.#.*", "backbone.layers.#.*", "model.language_model.layers.#.*"})
    if (matches(pattern, key, &captures)) return captures[0].size() > 9 || std::stoull(captures[0]) >= layer_count;
  return false;
}

}  // namespace

Mapping Mapping::build(const std::string& id, const Config& config, std::vector<Key> keys,
                       const MappingOptions& options) {
  std::sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) { return a.name < b.name; });
  Mapping mapping;
  mapping.family_ = id;
  mapping.keys_ = std::move(keys);
  mapping.fates_.resize(mapping.keys_.size());
  const Family family = family_of(id, config, options);

  std::vector<std::string> names;
  for (const Key& key : mapping.keys_) {
    names.push_back(key.name);
    if (key.shape.size() > 8) throw Failure("SHAPE_MISMATCH", "'" + key.name + "' has more than 8 axes");
  }
  const Spelling spelling = family.takes_any_key ? Spelling{} : spelling_of(family, names);
  mapping.name_space_ = spelling.name;

  // Which native tensor each key belongs to.
  std::map<std::string, std::vector<Part>> groups;
  const auto layer_count = family.layer_count ? family.layer_count : config.natural("num_hidden_layers");
  for (std::size_t k = 0; k < names.size(); ++k) {
    Fate& fate = mapping.fates_[k];
    const std::string key = respell(spelling, names[k]);
    const auto drop = [&](const std::string& reason) {
      fate.use = Use::dropped;
      fate.reason = reason;
    };
    if (is_never_weight(key)) {
      drop("recomputed or module state");
      continue;
    }
    if (family.drops_layers_beyond_count && layer_count && is_beyond_count(key, *layer_count)) {
      drop("layer number beyond num_hidden_layers");
      continue;
    }
    bool is_known = false;
    for (const std::string& pattern : family.dropped)
      if (!is_known && matches(pattern, key)) {
        drop("family drops " + pattern);
        is_known = true;
      }
    if (is_known) continue;
    // One key may feed several native tensors (a fused projection): every line with the stored pattern of the first
    // match.
    const std::string* pattern = nullptr;
    for (const Line& line : family.lines) {
      std::vector<std::string> captures;
      if (pattern ? *pattern != line.stored : !matches(line.stored, key, &captures)) continue;
      if (pattern) matches(line.stored, key, &captures);
      pattern = &line.stored;
      const std::string native = line.native.empty() ? key : fill(line.native, captures);
      if (!groups[native].empty() && groups[native].back().key == static_cast<int>(k))
        continue;  // The same line twice.
      std::uint64_t expert = 0;
      if (is_expert_rule(line.rule)) {
        if (captures.back().size() > 9)
          throw Failure("SHAPE_MISMATCH", "expert number in '" + names[k] + "' is too large");
        expert = std::stoull(captures.back());
      }
      groups[native].push_back({line.rule, expert, static_cast<int>(k)});
      fate.reason = line.stored;
    }
    if (!pattern && family.takes_any_key) {
      groups[key].push_back({Rule::same, 0, static_cast<int>(k)});
      fate.reason = "own name";
    }
  }

  // Tied or not: the family's policy, else the flag, else whether a head is stored.
  const auto flag = config.tied();
  const bool has_head = groups.count(family.head) != 0;
  std::string embedding = family.embedding;
  for (const char* candidate : {"model.language_model.embed_tokens.weight", "language_model.embed_tokens.weight",
                                "model.embed_tokens.weight", "embed_tokens.weight"})
    if (!groups.count(embedding)) embedding = candidate;
  const bool has_embedding = groups.count(embedding) != 0;
  bool is_tied = flag.value_or(false);
  if (family.tie == Tie::tied_only || family.tie == Tie::untied_only) {
    is_tied = family.tie == Tie::tied_only;
    if (flag && *flag != is_tied)
      throw Failure("TIED_FLAG_CONFLICT", std::string("the config says tie_word_embeddings ") +
                                              (*flag ? "true" : "false") + ", family '" + id + "' is always " +
                                              (is_tied ? "tied" : "untied"));
  } else if (!flag && !family.takes_any_key) {
    is_tied = !has_head;
    mapping.defaulted_.push_back(std::string("tie_word_embeddings absent: ") +
                                 (has_head ? "untied, a head is stored" : "tied, no head is stored"));
  }
  int head_key = -1;
  bool has_alias = false;
  if (is_tied && (has_embedding || !family.takes_any_key)) {
    if (!has_embedding) throw Failure("TIED_SOURCE_MISSING", "tied, but no embedding is stored");
    if (has_head) head_key = groups[family.head][0].key;
    const bool same_shape = head_key < 0 || mapping.keys_[static_cast<std::size_t>(head_key)].shape ==
                                                mapping.keys_[static_cast<std::size_t>(groups[embedding][0].key)].shape;
    has_alias = same_shape;  // A head of another shape is a tensor of its own.
    if (has_alias) groups.erase(family.head);
  } else if (!has_head && !family.takes_any_key) {
    throw Failure("MISSING_KEYS", "'" + family.head + "' is absent and the model is not tied");
  }

  // Number the native tensors in the order of their names.
  std::set<std::string> native_names;
  for (const auto& [name, parts] : groups) native_names.insert(name);
  if (has_alias) native_names.insert(family.head);
  std::map<std::string, std::pair<const Default*, std::string>> defaults;
  for (const Default& rule : family.defaults)
    for (const auto& [name, parts] : groups) {
      std::vector<std::string> captures;
      if (!matches(rule.beside, name, &captures)) continue;
      const std::string native = fill(rule.native, captures);
      if (rule.is_required && !native_names.count(native))
        throw Failure("MISSING_KEYS", "nothing stored becomes '" + native + "', which belongs beside '" + name + "'");
      if (native_names.insert(native).second) defaults[native] = {&rule, name};
    }
  for (const std::string& name : native_names) {
    NativeTensor native;
    native.name = name;
    mapping.natives_.push_back(std::move(native));
  }

  const bool has_shapes = !options.names_only;
  Assembly assembly(mapping, config, has_shapes);
  for (const auto& [name, parts] : groups) assembly.assemble(mapping.native_id(name), parts);

  for (const auto& [name, source] : defaults) {
    const auto& [rule, beside] = source;
    NativeTensor& native = mapping.natives_[static_cast<std::size_t>(mapping.native_id(name))];
    native.is_default = true;
    native.is_f32 = rule->is_f32;
    native.rule = "absent, every element is " + std::to_string(rule->value);
    if (has_shapes) {
      native.shape = rule->shape;
      if (native.shape.empty())
        native.shape = {mapping.natives_[static_cast<std::size_t>(mapping.native_id(beside))].shape[0]};
    }
    native.pull = [value = rule->value](const Coord&) {
      Place place;
      place.kind = Kind::constant;
      place.value = value;
      return place;
    };
    mapping.defaulted_.push_back(name + ": " + native.rule);
  }
  if (options.misstate)
    for (NativeTensor& native : mapping.natives_) options.misstate(native);
  if (has_alias) {
    const int primary = mapping.native_id(embedding), alias = mapping.native_id(family.head);
    NativeTensor& head = mapping.natives_[static_cast<std::size_t>(alias)];
    const std::string name = head.name;
    head = mapping.natives_[static_cast<std::size_t>(primary)];
    head.name = name;
    head.alias_of = primary;
    head.rule = "tied to " + embedding;
    if (head_key >= 0) {
      Fate& fate = mapping.fates_[static_cast<std::size_t>(head_key)];
      fate.use = Use::alias;
      fate.native = primary;
      fate.reason = "tied: a second copy of " + embedding;
      fate.home = [primary](const Coord& c) { return Home{primary, c}; };
    }
  }
  return mapping;
}

int Mapping::native_id(std::string_view name) const {
  const auto at = std::lower_bound(natives_.begin(), natives_.end(), name,
                                   [](const NativeTensor& native, std::string_view n) { return native.name < n; });
  return at != natives_.end() && at->name == name ? static_cast<int>(at - natives_.begin()) : -1;
}

int Mapping::key_id(std::string_view name) const {
  const auto at = std::lower_bound(keys_.begin(), keys_.end(), name,
                                   [](const Key& key, std::string_view n) { return key.name < n; });
  return at != keys_.end() && at->name == name ? static_cast<int>(at - keys_.begin()) : -1;
}

std::vector<std::string> Mapping::unexpected() const {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < keys_.size(); ++k)
    if (fates_[k].use == Use::unexpected) names.push_back(keys_[k].name);
  return names;
}

}  // namespace weightproof::reference
