// SPDX-License-Identifier: Apache-2.0
#include "adapters/names.hpp"

#include <array>
#include <map>
#include <vector>

#include "adapters/quantization.hpp"
#include "loader/core/error.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array k_text_name_spaces_storage = {
    NameSpace{"model.", "lm_head.weight"},
    NameSpace{"", "lm_head.weight"},
    NameSpace{"model.language_model.", "lm_head.weight"},
    NameSpace{"language_model.model.", "language_model.lm_head.weight"},
};
constexpr std::array<std::string_view, 3> k_decoder_parts_storage = {"layers.", "embed_tokens.", "norm."};

constexpr std::array<std::string_view, 4> k_outer_wrappers = {"_orig_mod.", "_checkpoint_wrapped_module.",
                                                              "_fsdp_wrapped_module.", "module."};

bool is_digits(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
  }
  return true;
}

std::uint64_t to_number(std::string_view digits) {
  std::uint64_t number = 0;
  for (const char c : digits) {
    if (number > (UINT64_MAX >> 8)) return UINT64_MAX >> 4;
    number = number * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return number;
}

}  // namespace

const std::span<const NameSpace> k_text_name_spaces{k_text_name_spaces_storage};
const std::span<const std::string_view> k_decoder_parts{k_decoder_parts_storage};

const NameSpace& find_name_space(const Catalog& catalog, std::span<const NameSpace> name_spaces,
                                 std::span<const std::string_view> parts) {
  std::vector<std::uint64_t> votes(name_spaces.size(), 0);
  std::vector<std::string_view> examples(name_spaces.size());
  for (const StoredTensor& tensor : catalog.tensors()) {
    for (std::size_t i = 0; i < name_spaces.size(); ++i) {
      if (!tensor.key.starts_with(name_spaces[i].prefix)) continue;
      const std::string_view rest = tensor.key.substr(name_spaces[i].prefix.size());
      for (const std::string_view part : parts) {
        if (!rest.starts_with(part)) continue;
        if (votes[i]++ == 0) examples[i] = tensor.key;
        break;
      }
    }
  }
  std::size_t winner = SIZE_MAX;
  for (std::size_t i = 0; i < name_spaces.size(); ++i) {
    if (votes[i] == 0) continue;
    if (winner == SIZE_MAX) {
      winner = i;
      continue;
    }
    ErrorFacts facts;
    facts.keys = {std::string(examples[winner]), std::string(examples[i])};
    facts.expected = "one namespace in all names";
    facts.actual = std::to_string(votes[winner]) + " keys under '" + std::string(name_spaces[winner].prefix) +
                   "' and " + std::to_string(votes[i]) + " under '" + std::string(name_spaces[i].prefix) + "'";
    facts.hint = "two exports were mixed: keep the files of one of them";
    throw Error(ErrorCode::namespace_mixed, "the checkpoint's names use two namespaces at once", std::move(facts));
  }
  return name_spaces[winner == SIZE_MAX ? 0 : winner];
}

const NameSpace& name_space_of(const Form& form, std::span<const NameSpace> name_spaces) {
  for (const NameSpace& candidate : name_spaces) {
    if (candidate.prefix == form.name_space) return candidate;
  }
  ErrorFacts facts;
  facts.actual = form.name_space;
  for (const NameSpace& candidate : name_spaces) {
    if (!facts.expected.empty()) facts.expected += ", ";
    facts.expected += "'" + std::string(candidate.prefix) + "'";
  }
  throw Error(ErrorCode::usage, "the family has no namespace '" + form.name_space + "'", std::move(facts));
}

TieFlag tie_flag(const ConfigValue& config) {
  constexpr std::array<std::string_view, 3> levels = {"tie_word_embeddings", "thinker_config.tie_word_embeddings",
                                                      "text_config.tie_word_embeddings"};
  for (const std::string_view level : levels) {
    const ConfigValue* value = config.find(level);
    if (value == nullptr || value->is_null()) continue;
    TieFlag flag;
    flag.value = value->as_bool();
    flag.level = std::string(level);
    if (!flag.value) {
      ErrorFacts facts;
      facts.file = "config.json";
      facts.expected = "true or false";
      facts.actual = value->dump();
      throw Error(ErrorCode::config_invalid, "config field " + flag.level + " cannot be used", std::move(facts));
    }
    return flag;
  }
  return {};
}

bool is_tied(const Family& family, const ConfigValue& config, const Catalog& catalog, std::string_view head) {
  const TieFlag flag = tie_flag(config);
  const bool has_head = catalog.find(head) != nullptr;
  if (!flag.value) {
    if (family.tie_policy == TiePolicy::tied_only) return true;
    if (family.tie_policy == TiePolicy::untied_only) return false;
    if (family.tied_by_default) return *family.tied_by_default;
    return catalog.size() != 0 && !has_head;
  }
  const bool conflict = (family.tie_policy == TiePolicy::tied_only && !*flag.value) ||
                        (family.tie_policy == TiePolicy::untied_only && *flag.value);
  if (conflict) {
    ErrorFacts facts;
    facts.file = "config.json";
    facts.keys = {std::string(head)};
    facts.expected = std::string(family.name) + (*flag.value ? " has a head of its own" : " ties head and embedding");
    facts.actual = flag.level + ": " + (*flag.value ? "true" : "false");
    facts.hint = "correct the flag, or name the family with --family";
    throw Error(ErrorCode::tied_flag_conflict, "the tie flag contradicts the model family", std::move(facts));
  }
  return *flag.value;
}

Form find_plain_form(const Family& family, const ConfigValue& config, const Catalog& catalog,
                     std::span<const NameSpace> name_spaces) {
  const NameSpace& name_space = find_name_space(catalog, name_spaces);
  Form form;
  form.name_space = std::string(name_space.prefix);
  form.quantization = recognise_quantization(&config, catalog);
  // A config may have outlived the codes: what is stored decides, the difference is for the checks to tell.
  if (catalog.size() != 0 && form.quantization.starts_with("fp8_") &&
      recognise_quantization(nullptr, catalog).empty()) {
    form.quantization.clear();
  }
  form.is_tied = is_tied(family, config, catalog, name_space.head);
  form.has_stored_head = catalog.size() == 0 ? !form.is_tied : catalog.find(name_space.head) != nullptr;
  return form;
}

std::string tie_default_text(const Family& family, const ConfigValue& config, bool is_tied) {
  if (tie_flag(config).value) return {};
  std::string text = std::string("tie_word_embeddings: ") + (is_tied ? "true" : "false");
  if (family.tie_policy != TiePolicy::both) return text + " by the family's policy";
  return text + (family.tied_by_default ? " by the family's default" : " by the presence of the stored head");
}

std::uint64_t count_numbered(const Catalog& catalog, std::string_view prefix) {
  std::uint64_t count = 0;
  for (const StoredTensor& tensor : catalog.tensors()) {
    if (!tensor.key.starts_with(prefix)) continue;
    const std::string_view rest = tensor.key.substr(prefix.size());
    const std::string_view digits = rest.substr(0, rest.find('.'));
    if (digits.size() <= 5 && digits.size() < rest.size() && is_digits(digits)) {
      count = std::max(count, to_number(digits) + 1);
    }
  }
  return count;
}

std::string find_expert_layout(const Catalog& catalog, std::string_view layers_prefix, std::string_view when_none) {
  std::string_view single;
  std::string_view stacked;
  constexpr std::string_view part = ".experts.";
  for (const StoredTensor& tensor : catalog.tensors()) {
    if (!tensor.key.starts_with(layers_prefix)) continue;
    const std::size_t at = tensor.key.find(part);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = tensor.key.substr(at + part.size());
    if (is_digits(rest.substr(0, rest.find('.')))) {
      single = tensor.key;
    } else if (rest.starts_with("gate_up_proj") || rest.starts_with("down_proj")) {
      stacked = tensor.key;
    }
  }
  if (!single.empty() && !stacked.empty()) {
    ErrorFacts facts;
    facts.keys = {std::string(single), std::string(stacked)};
    facts.expected = "experts stored one by one, or stacked";
    facts.actual = "both";
    facts.check = "layout.mixed";
    facts.hint = "two exports were mixed: keep the files of one of them";
    throw Error(ErrorCode::namespace_mixed, "experts are stored in two layouts at once", std::move(facts));
  }
  if (!single.empty()) return "per_expert";
  return stacked.empty() ? std::string(when_none) : "stacked";
}

bool find_mtp(const Catalog& catalog, std::string_view prefix, std::uint64_t depths) {
  return catalog.size() == 0 ? depths != 0 : has_prefix(catalog, prefix);
}

bool has_prefix(const Catalog& catalog, std::string_view prefix) {
  for (const StoredTensor& tensor : catalog.tensors()) {
    if (tensor.key.starts_with(prefix)) return true;
  }
  return false;
}

std::string_view find_key(const Catalog& catalog, std::string_view prefix, std::string_view suffix) {
  for (const StoredTensor& tensor : catalog.tensors()) {
    if (tensor.key.starts_with(prefix) && tensor.key.ends_with(suffix)) return tensor.key;
  }
  return {};
}

namespace {

// Whether "._" stands anywhere: without a way out, so that it runs over whole vectors.
bool has_inner_wrapper(std::string_view key) {
  bool is_found = false;
  for (std::size_t i = 1; i < key.size(); ++i) is_found |= (key[i - 1] == '.') & (key[i] == '_');
  return is_found;
}

}  // namespace

WrapperPrefix find_wrapper_prefix(std::string_view key) {
  WrapperPrefix result;
  constexpr std::string_view adapter_wrapper = "base_model.model.";
  // Nearly every key has none, and there may be a million.
  const bool may_have = key.starts_with('_') || key.starts_with("module.") || key.starts_with(adapter_wrapper);
  if (!may_have && !has_inner_wrapper(key)) return result;
  std::string_view rest = key;
  bool is_cut = true;
  while (is_cut) {
    is_cut = false;
    for (const std::string_view wrapper : k_outer_wrappers) {
      if (rest.starts_with(wrapper) && rest.size() > wrapper.size()) {
        result.prefix += wrapper;
        rest.remove_prefix(wrapper.size());
        is_cut = true;
      }
    }
    if (rest.starts_with(adapter_wrapper) && rest.size() > adapter_wrapper.size()) {
      result.prefix += adapter_wrapper;
      rest.remove_prefix(adapter_wrapper.size());
      is_cut = true;
    }
  }
  result.stripped = std::string(rest);
  // Wrappers around inner modules: whole dotted segments only.
  for (const std::string_view wrapper : {k_outer_wrappers[0], k_outer_wrappers[1], k_outer_wrappers[2]}) {
    const std::string inner = "." + std::string(wrapper);
    for (std::size_t at = result.stripped.find(inner); at != std::string::npos; at = result.stripped.find(inner, at)) {
      result.stripped.erase(at + 1, wrapper.size());
      if (result.prefix.empty()) result.prefix = std::string(wrapper);
    }
  }
  return result;
}

KeyPatterns::KeyPatterns(const Catalog& catalog) {
  struct Group {
    std::uint64_t keys = 0;
    std::uint64_t layer_count = 0;
    std::uint64_t expert_count = 0;
    std::unordered_set<std::string> rests;
  };
  std::map<std::string, Group, std::less<>> groups;
  std::string pattern;
  for (const StoredTensor& tensor : catalog.tensors()) {
    pattern.clear();
    std::string_view rest = tensor.key;
    std::string_view before;
    std::size_t layer_at = std::string::npos;
    std::uint64_t layer = 0;
    std::uint64_t experts = 0;
    while (true) {
      const std::size_t dot = rest.find('.');
      const std::string_view segment = rest.substr(0, dot);
      if (is_digits(segment)) {
        if (before == "layers" && layer_at == std::string::npos) {
          layer = to_number(segment);
          layer_at = pattern.size() - std::string_view("layers.").size();
        }
        if (before == "experts") experts = to_number(segment) + 1;
        pattern += '#';
      } else {
        pattern += segment;
      }
      before = segment;
      if (dot == std::string_view::npos) break;
      pattern += '.';
      rest.remove_prefix(dot + 1);
    }
    if (layer_at != std::string::npos) {
      const std::string_view prefix = std::string_view(pattern).substr(0, layer_at);
      auto group = groups.find(prefix);
      if (group == groups.end()) group = groups.emplace(std::string(prefix), Group()).first;
      ++group->second.keys;
      group->second.layer_count = std::max(group->second.layer_count, layer + 1);
      group->second.expert_count = std::max(group->second.expert_count, experts);
      constexpr std::size_t skip = std::string_view("layers.#.").size();
      if (pattern.size() > layer_at + skip) group->second.rests.insert(pattern.substr(layer_at + skip));
    }
    keys_.insert(pattern);
  }
  const Group* largest = nullptr;
  for (auto& [prefix, group] : groups) {
    if (largest != nullptr && group.keys <= largest->keys) continue;
    largest = &group;
    layer_prefix_ = prefix;
  }
  if (largest != nullptr) {
    layer_rests_ = largest->rests;
    layer_count_ = largest->layer_count;
    expert_count_ = largest->expert_count;
  }
}

}  // namespace weightproof::adapters
