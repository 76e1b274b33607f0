// SPDX-License-Identifier: Apache-2.0
// A small model of every family, as keys and shapes.
#pragma once

#include <string>
#include <vector>

#include "reference/mapping.hpp"

namespace weightproof::reference::testing {

struct SmallModel {
  std::string family, config;
  std::vector<Key> keys;
  std::string name_space;
};

/// "#" replaced by the layer, a second "#" by the expert.
inline std::string numbered(std::string pattern, std::uint64_t layer, std::uint64_t expert = 0) {
  for (std::uint64_t number : {layer, expert}) {
    const std::size_t at = pattern.find('#');
    if (at != std::string::npos) pattern.replace(at, 1, std::to_string(number));
  }
  return pattern;
}

/// Keys of one model; sizes are distinct so that a mixed-up axis cannot hide.
class Maker {
 public:
  std::vector<Key> keys;
  std::string prefix = "model.";
  std::uint64_t H = 6, I = 4, E = 3, V = 7, Nq = 4, Nk = 2, D = 5;

  void add(const std::string& name, const Shape& shape) { keys.push_back({name, shape}); }
  void top(const std::string& head = "lm_head.weight") {
    add(prefix + "embed_tokens.weight", {V, H});
    add(prefix + "norm.weight", {H});
    if (!head.empty()) add(head, {V, H});
  }
  void norms(std::uint64_t l) {
    add(numbered(prefix + "layers.#.input_layernorm.weight", l), {H});
    add(numbered(prefix + "layers.#.post_attention_layernorm.weight", l), {H});
  }
  void attention(std::uint64_t l, bool bias = false) {
    const std::string at = numbered(prefix + "layers.#.self_attn.", l);
    for (const auto& [name, rows] :
         {std::pair<const char*, std::uint64_t>{"q", Nq * D}, {"k", Nk * D}, {"v", Nk * D}}) {
      add(at + name + "_proj.weight", {rows, H});
      if (bias) add(at + name + "_proj.bias", {rows});
    }
    add(at + "o_proj.weight", {H, Nq * D});
  }
  void mlp(const std::string& module, std::uint64_t width) {
    add(module + ".gate_proj.weight", {width, H});
    add(module + ".up_proj.weight", {width, H});
    add(module + ".down_proj.weight", {H, width});
  }
  void experts(const std::string& module, bool gated = true, bool bias = false) {
    for (std::uint64_t e = 0; e < E; ++e) {
      const std::string at = module + "." + std::to_string(e);
      if (gated) add(at + ".gate_proj.weight", {I, H});
      add(at + ".up_proj.weight", {I, H});
      add(at + ".down_proj.weight", {H, I});
      if (!bias) continue;
      if (gated) add(at + ".gate_proj.bias", {I});
      add(at + ".up_proj.bias", {I});
      add(at + ".down_proj.bias", {H});
    }
  }
  void experts_w(const std::string& module) {
    for (std::uint64_t e = 0; e < E; ++e) {
      const std::string at = module + "." + std::to_string(e);
      add(at + ".w1.weight", {I, H});
      add(at + ".w2.weight", {H, I});
      add(at + ".w3.weight", {I, H});
    }
  }
};

std::vector<SmallModel> small_models();

}  // namespace weightproof::reference::testing
