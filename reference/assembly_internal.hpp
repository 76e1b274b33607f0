// SPDX-License-Identifier: Apache-2.0
// Puts one native tensor together from the keys that name it. Every rule is written twice: native coordinate to stored
// coordinate (pull) and stored to native (home); a test walks all elements of small models and finds them inverse.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reference/mapping.hpp"

namespace weightproof::reference {

struct Part {
  Rule rule;
  std::uint64_t expert;  // Of expert rules.
  int key;
};

class Assembly {
 public:
  Assembly(Mapping& mapping, const Config& config, bool has_shapes)
      : mapping_(mapping), config_(config), has_shapes_(has_shapes) {}

  /// Fills mapping.natives_[native] and the fates of the keys. Throws Failure.
  void assemble(int native, const std::vector<Part>& parts);

 private:
  Mapping& mapping_;
  const Config& config_;
  bool has_shapes_;

  const Shape& shape(int key) const { return mapping_.keys_[static_cast<std::size_t>(key)].shape; }
  const std::string& name(int key) const { return mapping_.keys_[static_cast<std::size_t>(key)].name; }
  NativeTensor& tensor(int native) { return mapping_.natives_[static_cast<std::size_t>(native)]; }
  void set_home(int key, std::function<Home(const Coord&)> home);

  // Keys of one rule; expert rules: in expert order, complete from 0.
  std::vector<int> of(const std::vector<Part>& parts, Rule rule) const;
  std::vector<int> experts(const std::vector<Part>& parts, Rule rule) const;
  int only(const std::vector<Part>& parts, Rule rule) const;
  void need_shape(int key, const Shape& expected) const;
  void need_rank(int key, std::size_t rank) const;

  void same(int native, int key, bool is_f32);
  void squeeze(int native, int key);
  void expert_gate_up(int native, const std::vector<int>& gate, const std::vector<int>& up);
  void expert_swapped(int native, const std::vector<int>& keys);  // up_only, down
  void bias_gate_up(int native, const std::vector<int>& gate, const std::vector<int>& up);
  void bias_plain(int native, const std::vector<int>& keys);
  void stacked_swap(int native, int key, int factor);
  void stacked_gate_up(int native, int gate, int up);
  void rows(int native, int key, Rule rule);
  void groups(int native, int q, int k, int v);
  void alternate(int native, int gate, int up);
};

}  // namespace weightproof::reference
