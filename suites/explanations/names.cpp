// SPDX-License-Identifier: Apache-2.0
#include "suites/explanations/names.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace weightproof::suites {
namespace {

constexpr std::string_view k_expert_word = "experts";

std::vector<std::string_view> parts_of(std::string_view key) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t end = key.find('.');
    out.push_back(key.substr(0, end));
    if (end == std::string_view::npos) {
      return out;
    }
    key.remove_prefix(end + 1);
  }
}

bool is_number(std::string_view part) {
  return !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string_view::npos;
}

template <std::size_t N>
bool has_one_of(std::string_view key, const std::array<std::string_view, N>& words) {
  return std::any_of(words.begin(), words.end(),
                     [key](std::string_view word) { return key.find(word) != std::string_view::npos; });
}

}  // namespace

bool is_gate_up(std::string_view key) {
  return has_one_of(key, std::array<std::string_view, 4>{"gate_up", "gate_and_up", "w13", "gate_proj_up_proj"});
}
bool is_fused_qkv(std::string_view key) {
  return has_one_of(key, std::array<std::string_view, 3>{"qkv", "query_key_value", "c_attn"});
}
bool is_rotary(std::string_view key) {
  return has_one_of(key, std::array<std::string_view, 6>{"q_proj", "k_proj", ".wq.", ".wk.", "q_b_proj", "qkv"});
}
bool is_norm(std::string_view key) { return has_one_of(key, std::array<std::string_view, 2>{"norm", "ln_"}); }
bool has_experts(std::string_view key) { return key.find(k_expert_word) != std::string_view::npos; }

std::optional<std::uint64_t> layer_of(std::string_view key) {
  for (const std::string_view part : parts_of(key)) {
    if (is_number(part)) {
      return std::stoull(std::string(part));
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> expert_of(std::string_view key) {
  const auto parts = parts_of(key);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    if (parts[i].ends_with(k_expert_word) && is_number(parts[i + 1])) {
      return std::stoull(std::string(parts[i + 1]));
    }
  }
  return std::nullopt;
}

std::string module_of(std::string_view key) {
  std::string out;
  bool has_layer = false;
  std::string_view before;
  for (const std::string_view part : parts_of(key)) {
    out += out.empty() ? "" : ".";
    if (is_number(part) && before.ends_with(k_expert_word)) {
      out += "{e}";
    } else if (is_number(part) && !has_layer) {
      out += "{}";
      has_layer = true;
    } else {
      out += part;
    }
    before = part;
  }
  return out;
}

std::string_view short_name_of(std::string_view key) {
  const auto parts = parts_of(key);
  for (std::size_t i = parts.size(); i-- > 0;) {
    if (parts[i] != "weight" && parts[i] != "bias" && !is_number(parts[i])) {
      return parts[i];
    }
  }
  return key;
}

std::uint64_t nearness(std::string_view a, std::string_view b) {
  const auto [head_a, head_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto [tail_a, tail_b] = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend());
  const auto shared = static_cast<std::uint64_t>((head_a - a.begin()) + (tail_a - a.rbegin()));
  return (layer_of(a) == layer_of(b) ? 1U << 20U : 0U) + (expert_of(a) == expert_of(b) ? 1U << 16U : 0U) +
         std::min<std::uint64_t>(shared, 0xFFFF);
}

}  // namespace weightproof::suites
