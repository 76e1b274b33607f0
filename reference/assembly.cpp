// SPDX-License-Identifier: Apache-2.0
#include "reference/assembly_internal.hpp"

#include <algorithm>

namespace weightproof::reference {
namespace {

Coord coord(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) { return {{a, b, c}}; }

Place stored(int key, const Coord& at) {
  Place place;
  place.key = key;
  place.at = at;
  return place;
}

// The same key for another expert: its last run of digits replaced.
std::string with_expert(const std::string& key, std::uint64_t expert) {
  const std::size_t last = key.find_last_of("0123456789"), before = key.find_last_not_of("0123456789", last);
  return key.substr(0, before + 1) + std::to_string(expert) + key.substr(last + 1);
}

Coord with_row(Coord at, std::uint64_t row) {
  at[0] = row;
  return at;
}

// Rules that may share a native tensor: halves of a pair, members of a triple.
bool belong_together(Rule a, Rule b) {
  const auto both_in = [&](std::initializer_list<Rule> set) {
    return std::find(set.begin(), set.end(), a) != set.end() && std::find(set.begin(), set.end(), b) != set.end();
  };
  return a == b || both_in({Rule::expert_gate, Rule::expert_up}) || both_in({Rule::bias_gate, Rule::bias_up}) ||
         both_in({Rule::stacked_gate, Rule::stacked_up}) || both_in({Rule::stacked_down, Rule::fold_scale}) ||
         both_in({Rule::group_q, Rule::group_k, Rule::group_v}) || both_in({Rule::alternate_gate, Rule::alternate_up});
}

std::uint64_t row_length(const Shape& shape) { return count_of(Shape(shape.begin() + 1, shape.end())); }

}  // namespace

void Assembly::set_home(int key, std::function<Home(const Coord&)> home) {
  Fate& fate = mapping_.fates_[static_cast<std::size_t>(key)];
  fate.use = Use::weight;
  fate.home = std::move(home);
}

std::vector<int> Assembly::of(const std::vector<Part>& parts, Rule rule) const {
  std::vector<int> keys;
  for (const Part& part : parts)
    if (part.rule == rule) keys.push_back(part.key);
  return keys;
}

int Assembly::only(const std::vector<Part>& parts, Rule rule) const {
  const std::vector<int> keys = of(parts, rule);
  if (keys.empty())
    throw Failure("MISSING_KEYS",
                  "one of the keys that form a native tensor with '" + name(parts[0].key) + "' is absent");
  if (keys.size() > 1)
    throw Failure("DUPLICATE_DESTINATION", "'" + name(keys[0]) + "' and '" + name(keys[1]) + "' have one native place");
  return keys[0];
}

std::vector<int> Assembly::experts(const std::vector<Part>& parts, Rule rule) const {
  std::map<std::uint64_t, int> by_number;
  std::uint64_t count = 0;
  for (const Part& part : parts) {
    count = std::max(count, part.expert + 1);
    if (part.rule == rule && !by_number.emplace(part.expert, part.key).second)
      throw Failure("DUPLICATE_DESTINATION",
                    "two keys are expert " + std::to_string(part.expert) + ", one is '" + name(part.key) + "'");
  }
  for (const char* field : {"num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"})
    if (const auto declared = config_.natural(field)) count = std::max(count, *declared);
  if (by_number.empty())
    throw Failure("MISSING_KEYS", "no expert has the projection that belongs beside '" + name(parts[0].key) + "'");
  std::vector<int> keys;
  for (std::uint64_t expert = 0; expert < count; ++expert) {
    const auto found = by_number.find(expert);
    if (found == by_number.end())
      throw Failure("MISSING_KEYS",
                    "expert key '" + with_expert(name(by_number.begin()->second), expert) + "' is absent");
    keys.push_back(found->second);
  }
  if (has_shapes_)
    for (int key : keys) need_shape(key, shape(keys[0]));
  return keys;
}

void Assembly::need_shape(int key, const Shape& expected) const {
  if (shape(key) != expected)
    throw Failure("SHAPE_MISMATCH",
                  "'" + name(key) + "' has shape " + text_of(shape(key)) + ", expected " + text_of(expected));
}

void Assembly::need_rank(int key, std::size_t rank) const {
  if (shape(key).size() != rank)
    throw Failure("SHAPE_MISMATCH", "'" + name(key) + "' has shape " + text_of(shape(key)) + ", expected " +
                                        std::to_string(rank) + " axes");
}

void Assembly::assemble(int native, const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    tensor(native).keys.push_back(part.key);
    mapping_.fates_[static_cast<std::size_t>(part.key)].use = Use::weight;
  }
  for (const Part& part : parts)
    if (!belong_together(part.rule, parts[0].rule))
      throw Failure("EXPERTS_MIXED",
                    "'" + name(parts[0].key) + "' and '" + name(part.key) + "' store one native tensor in two layouts");
  switch (parts[0].rule) {
    case Rule::same:
      return same(native, only(parts, Rule::same), false);
    case Rule::same_f32:
      return same(native, only(parts, Rule::same_f32), true);
    case Rule::same_kept:
      same(native, only(parts, Rule::same_kept), false);
      tensor(native).keeps_f32 = true;
      return;
    case Rule::squeeze_f32:
      return squeeze(native, only(parts, Rule::squeeze_f32));
    case Rule::expert_gate:
    case Rule::expert_up:
      return expert_gate_up(native, experts(parts, Rule::expert_gate), experts(parts, Rule::expert_up));
    case Rule::expert_up_only:
      return expert_swapped(native, experts(parts, Rule::expert_up_only));
    case Rule::expert_down:
      return expert_swapped(native, experts(parts, Rule::expert_down));
    case Rule::bias_gate:
    case Rule::bias_up:
      return bias_gate_up(native, experts(parts, Rule::bias_gate), experts(parts, Rule::bias_up));
    case Rule::bias_only:
      return bias_plain(native, experts(parts, Rule::bias_only));
    case Rule::stacked_swap:
      return stacked_swap(native, only(parts, Rule::stacked_swap), -1);
    case Rule::stacked_down:
    case Rule::fold_scale: {
      const std::vector<int> factor = of(parts, Rule::fold_scale);
      return stacked_swap(native, only(parts, Rule::stacked_down), factor.empty() ? -1 : factor[0]);
    }
    case Rule::stacked_gate:
    case Rule::stacked_up:
      return stacked_gate_up(native, only(parts, Rule::stacked_gate), only(parts, Rule::stacked_up));
    case Rule::rows_q:
    case Rule::rows_k:
    case Rule::rows_v:
      return rows(native, only(parts, parts[0].rule), parts[0].rule);
    case Rule::group_q:
    case Rule::group_k:
    case Rule::group_v:
      return groups(native, only(parts, Rule::group_q), only(parts, Rule::group_k), only(parts, Rule::group_v));
    case Rule::alternate_gate:
    case Rule::alternate_up:
      return alternate(native, only(parts, Rule::alternate_gate), only(parts, Rule::alternate_up));
  }
}

void Assembly::same(int native, int key, bool is_f32) {
  NativeTensor& n = tensor(native);
  n.rule = "same element";
  n.is_f32 = is_f32;
  n.shape = shape(key);
  n.run = count_of(n.shape);
  n.pull = [=](const Coord& c) { return stored(key, c); };
  set_home(key, [=](const Coord& c) { return Home{native, c}; });
}

void Assembly::squeeze(int native, int key) {
  NativeTensor& n = tensor(native);
  n.rule = "N[e] = S[0][e]";
  n.is_f32 = true;
  if (!has_shapes_) return;
  need_rank(key, 2);
  need_shape(key, {1, shape(key)[1]});
  n.shape = {shape(key)[1]};
  n.run = count_of(n.shape);
  n.pull = [=](const Coord& c) { return stored(key, coord(0, c[0])); };
  set_home(key, [=](const Coord& c) { return Home{native, coord(c[1])}; });
}

void Assembly::expert_gate_up(int native, const std::vector<int>& gate, const std::vector<int>& up) {
  NativeTensor& n = tensor(native);
  n.rule = "N[e][h][i] = gate_e[i][h], N[e][h][I+i] = up_e[i][h]";
  if (!has_shapes_) return;
  need_rank(gate[0], 2);
  need_shape(up[0], shape(gate[0]));
  const std::uint64_t I = shape(gate[0])[0], H = shape(gate[0])[1];
  n.shape = {gate.size(), H, 2 * I};
  n.run = I;
  n.step = H;
  n.pull = [=](const Coord& c) {
    const std::uint64_t e = c[0], h = c[1], j = c[2];
    return j < I ? stored(gate[e], coord(j, h)) : stored(up[e], coord(j - I, h));
  };
  for (std::size_t e = 0; e < gate.size(); ++e) {
    set_home(gate[e], [=](const Coord& c) { return Home{native, coord(e, c[1], c[0])}; });
    set_home(up[e], [=](const Coord& c) { return Home{native, coord(e, c[1], I + c[0])}; });
  }
}

void Assembly::expert_swapped(int native, const std::vector<int>& keys) {
  NativeTensor& n = tensor(native);
  n.rule = "N[e][b][a] = S_e[a][b]";
  if (!has_shapes_) return;
  need_rank(keys[0], 2);
  n.shape = {keys.size(), shape(keys[0])[1], shape(keys[0])[0]};
  n.run = n.shape[2];
  n.step = n.shape[1];
  n.pull = [=](const Coord& c) { return stored(keys[c[0]], coord(c[2], c[1])); };
  for (std::size_t e = 0; e < keys.size(); ++e)
    set_home(keys[e], [=](const Coord& c) { return Home{native, coord(e, c[1], c[0])}; });
}

void Assembly::bias_gate_up(int native, const std::vector<int>& gate, const std::vector<int>& up) {
  NativeTensor& n = tensor(native);
  n.rule = "N[e][i] = gate_e[i], N[e][I+i] = up_e[i]";
  if (!has_shapes_) return;
  need_rank(gate[0], 1);
  need_shape(up[0], shape(gate[0]));
  const std::uint64_t I = shape(gate[0])[0];
  n.shape = {gate.size(), 2 * I};
  n.run = I;
  n.pull = [=](const Coord& c) {
    return c[1] < I ? stored(gate[c[0]], coord(c[1])) : stored(up[c[0]], coord(c[1] - I));
  };
  for (std::size_t e = 0; e < gate.size(); ++e) {
    set_home(gate[e], [=](const Coord& c) { return Home{native, coord(e, c[0])}; });
    set_home(up[e], [=](const Coord& c) { return Home{native, coord(e, I + c[0])}; });
  }
}

void Assembly::bias_plain(int native, const std::vector<int>& keys) {
  NativeTensor& n = tensor(native);
  n.rule = "N[e][i] = S_e[i]";
  if (!has_shapes_) return;
  need_rank(keys[0], 1);
  n.shape = {keys.size(), shape(keys[0])[0]};
  n.run = shape(keys[0])[0];
  n.pull = [=](const Coord& c) { return stored(keys[c[0]], coord(c[1])); };
  for (std::size_t e = 0; e < keys.size(); ++e)
    set_home(keys[e], [=](const Coord& c) { return Home{native, coord(e, c[0])}; });
}

void Assembly::stacked_swap(int native, int key, int factor) {
  NativeTensor& n = tensor(native);
  n.rule = factor < 0 ? "N[e][b][a] = S[e][a][b]" : "N[e][b][a] = S[e][a][b] * per_expert_scale[e]";
  if (!has_shapes_) return;
  need_rank(key, 3);
  n.shape = {shape(key)[0], shape(key)[2], shape(key)[1]};
  n.run = n.shape[2];
  n.step = n.shape[1];
  if (factor >= 0) need_shape(factor, {n.shape[0]});
  n.pull = [=](const Coord& c) {
    Place place = stored(key, coord(c[0], c[2], c[1]));
    place.factor_key = factor;
    place.factor_at = c[0];
    return place;
  };
  set_home(key, [=](const Coord& c) { return Home{native, coord(c[0], c[2], c[1])}; });
}

void Assembly::stacked_gate_up(int native, int gate, int up) {
  NativeTensor& n = tensor(native);
  n.rule = "N[e][h][i] = gate[e][i][h], N[e][h][I+i] = up[e][i][h]";
  if (!has_shapes_) return;
  need_rank(gate, 3);
  need_shape(up, shape(gate));
  const std::uint64_t I = shape(gate)[1];
  n.shape = {shape(gate)[0], shape(gate)[2], 2 * I};
  n.run = I;
  n.step = n.shape[1];
  n.pull = [=](const Coord& c) {
    return c[2] < I ? stored(gate, coord(c[0], c[2], c[1])) : stored(up, coord(c[0], c[2] - I, c[1]));
  };
  set_home(gate, [=](const Coord& c) { return Home{native, coord(c[0], c[2], c[1])}; });
  set_home(up, [=](const Coord& c) { return Home{native, coord(c[0], c[2], I + c[1])}; });
}

// The fused key is shared by three native tensors; each assembles its own part, the last one completes the way back.
void Assembly::rows(int native, int key, Rule rule) {
  NativeTensor& n = tensor(native);
  n.rule = "rows of the fused projection: q, then k, then v";
  if (!has_shapes_) return;
  const std::uint64_t Nq = config_.need("num_attention_heads"), Nk = config_.need("num_key_value_heads");
  const std::uint64_t D = config_.natural("head_dim") ? config_.need("head_dim") : config_.need("hidden_size") / Nq;
  if (shape(key).empty() || shape(key)[0] != (Nq + 2 * Nk) * D)
    throw Failure("SHAPE_MISMATCH", "'" + name(key) + "' has shape " + text_of(shape(key)) + ", expected " +
                                        std::to_string((Nq + 2 * Nk) * D) + " rows");
  const std::uint64_t first = rule == Rule::rows_q ? 0 : rule == Rule::rows_k ? Nq * D : (Nq + Nk) * D;
  n.shape = shape(key);
  n.shape[0] = rule == Rule::rows_q ? Nq * D : Nk * D;
  n.run = count_of(n.shape);
  n.pull = [=](const Coord& c) { return stored(key, with_row(c, first + c[0])); };
  const std::uint64_t limit = first + n.shape[0];
  const auto others = mapping_.fates_[static_cast<std::size_t>(key)].home;
  set_home(key, [=](const Coord& c) {
    if (c[0] >= first && c[0] < limit) return Home{native, with_row(c, c[0] - first)};
    return others ? others(c) : Home{};
  });
}

void Assembly::groups(int native, int q, int k, int v) {
  NativeTensor& n = tensor(native);
  n.rule = "rows per key/value head: r*D of q, D of k, D of v";
  if (!has_shapes_) return;
  const std::uint64_t Nq = config_.need("num_attention_heads");
  const std::uint64_t Nk = config_.natural("num_key_value_heads").value_or(Nq);
  const std::uint64_t D = config_.natural("head_dim") ? config_.need("head_dim") : config_.need("hidden_size") / Nq;
  if (Nk == 0 || Nq % Nk != 0) throw Failure("CONFIG_INVALID", "query heads are no multiple of key/value heads");
  Shape expected = shape(q);
  if (expected.empty()) throw Failure("SHAPE_MISMATCH", "'" + name(q) + "' has no rows");
  expected[0] = Nq * D;
  need_shape(q, expected);
  expected[0] = Nk * D;
  need_shape(k, expected);
  need_shape(v, expected);
  const std::uint64_t r = Nq / Nk, group = (r + 2) * D;
  n.shape = expected;
  n.shape[0] = (Nq + 2 * Nk) * D;
  n.run = row_length(n.shape);
  n.pull = [=](const Coord& c) {
    const std::uint64_t g = c[0] / group, t = c[0] % group;
    if (t < r * D) return stored(q, with_row(c, g * r * D + t));
    if (t < (r + 1) * D) return stored(k, with_row(c, g * D + t - r * D));
    return stored(v, with_row(c, g * D + t - (r + 1) * D));
  };
  set_home(q, [=](const Coord& c) { return Home{native, with_row(c, c[0] / (r * D) * group + c[0] % (r * D))}; });
  set_home(k, [=](const Coord& c) { return Home{native, with_row(c, c[0] / D * group + r * D + c[0] % D)}; });
  set_home(v, [=](const Coord& c) { return Home{native, with_row(c, c[0] / D * group + (r + 1) * D + c[0] % D)}; });
}

void Assembly::alternate(int native, int gate, int up) {
  NativeTensor& n = tensor(native);
  n.rule = "rows alternate: gate 0, up 0, gate 1, up 1";
  if (!has_shapes_) return;
  need_shape(up, shape(gate));
  if (shape(gate).empty()) throw Failure("SHAPE_MISMATCH", "'" + name(gate) + "' has no rows");
  n.shape = shape(gate);
  n.shape[0] *= 2;
  n.run = row_length(n.shape);
  n.pull = [=](const Coord& c) { return stored(c[0] % 2 == 0 ? gate : up, with_row(c, c[0] / 2)); };
  set_home(gate, [=](const Coord& c) { return Home{native, with_row(c, 2 * c[0])}; });
  set_home(up, [=](const Coord& c) { return Home{native, with_row(c, 2 * c[0] + 1)}; });
}

}  // namespace weightproof::reference
