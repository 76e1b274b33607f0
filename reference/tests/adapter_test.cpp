// SPDX-License-Identifier: Apache-2.0
// Adapters in pull form: every stored element in one native place and back, packed elements at the places that the
// layout rules give them, and the decision between the generations.
#include "reference/adapter.hpp"

#include <gtest/gtest.h>

#include "reference/failure.hpp"
#include "reference/json.hpp"

namespace weightproof::reference {
namespace {

// One layer of two experts: H 3, I 2, one q_proj.
Mapping base_mapping(std::uint64_t hidden = 3, std::uint64_t inner = 2) {
  std::vector<Key> keys = {{"model.embed_tokens.weight", {5, hidden}},
                           {"lm_head.weight", {5, hidden}},
                           {"model.norm.weight", {hidden}},
                           {"model.layers.0.self_attn.q_proj.weight", {4, hidden}},
                           {"model.layers.0.mlp.gate.weight", {2, hidden}}};
  for (const std::string e : {"0", "1"}) {
    const std::string at = "model.layers.0.mlp.experts." + e + ".";
    keys.push_back({at + "gate_proj.weight", {inner, hidden}});
    keys.push_back({at + "up_proj.weight", {inner, hidden}});
    keys.push_back({at + "down_proj.weight", {hidden, inner}});
  }
  return Mapping::build("qwen3_moe", Config(R"({"model_type": "qwen3_moe", "num_hidden_layers": 1})"), keys);
}

constexpr const char* k_config = R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"],
    "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]})";
const std::string k_at = "base_model.model.model.layers.0.mlp.experts.";

std::vector<Key> single_keys(std::uint64_t hidden = 3, std::uint64_t inner = 2) {
  std::vector<Key> keys = {{"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", {2, hidden}},
                           {"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", {4, 2}}};
  for (const std::string e : {"0", "1"}) {
    for (const std::string name : {".gate_proj", ".up_proj"}) {
      keys.push_back({k_at + e + name + ".lora_A.weight", {2, hidden}});
      keys.push_back({k_at + e + name + ".lora_B.weight", {inner, 2}});
    }
    keys.push_back({k_at + e + ".down_proj.lora_A.weight", {2, inner}});
    keys.push_back({k_at + e + ".down_proj.lora_B.weight", {hidden, 2}});
  }
  return keys;
}
std::vector<Key> packed_keys(bool is_old, std::uint64_t hidden = 3, std::uint64_t inner = 2) {
  const auto a = [&](std::uint64_t in, std::uint64_t out) { return Shape{4, is_old ? out : in}; };
  const auto b = [&](std::uint64_t in, std::uint64_t out) { return Shape{is_old ? in : out, 4}; };
  return {{k_at + "base_layer.lora_A.weight", a(hidden, 2 * inner)},
          {k_at + "base_layer.lora_B.weight", b(hidden, 2 * inner)},
          {k_at + "lora_A.weight", a(inner, hidden)},
          {k_at + "lora_B.weight", b(inner, hidden)}};
}

Mapping map(std::vector<Key> keys, const char* stamp = nullptr, const Mapping& base = base_mapping()) {
  const Json config = parse_json(k_config);
  const Json stamped = stamp ? parse_json(stamp) : Json();
  return adapter_mapping(base, config, stamp ? &stamped : nullptr, std::move(keys));
}

template <typename Visit>
void every_coord(const Shape& shape, Visit visit) {
  Coord at;
  for (std::uint64_t left = count_of(shape); left > 0; --left) {
    visit(at);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (++at[axis] < shape[axis]) break;
      at[axis] = 0;
    }
  }
}

TEST(ReferenceAdapter, IsABijectionOnEveryElement) {
  for (const auto& keys : {single_keys(), packed_keys(true), packed_keys(false)}) {
    const Mapping mapping = map(keys);
    std::uint64_t stored = 0, native = 0;
    for (std::size_t k = 0; k < mapping.keys().size(); ++k) {
      if (mapping.fate(static_cast<int>(k)).use != Use::weight) continue;
      every_coord(mapping.keys()[k].shape, [&](const Coord& at) {
        const Home home = mapping.home(static_cast<int>(k), at);
        const Place back = mapping.pull(home.native, home.at);
        ASSERT_EQ(back.key, static_cast<int>(k)) << mapping.keys()[k].name;
        ASSERT_EQ(back.at, at) << mapping.keys()[k].name;
        ++stored;
      });
    }
    for (const NativeTensor& tensor : mapping.native_tensors()) native += count_of(tensor.shape);
    EXPECT_EQ(stored, native);
    EXPECT_EQ(mapping.unexpected(), std::vector<std::string>());
  }
}

TEST(ReferenceAdapter, PackedElementsLieWhereTheRulesSay) {
  const Mapping old = map(packed_keys(true)), fresh = map(packed_keys(false));
  const auto place = [](const Mapping& mapping, const char* name, const Coord& at) {
    const Place found = mapping.pull(mapping.native_id(std::string("model.layers.0.mlp.experts.") + name), at);
    return mapping.keys()[static_cast<std::size_t>(found.key)].name.substr(k_at.size()) + " " +
           std::to_string(found.at[0]) + " " + std::to_string(found.at[1]);
  };
  // Expert 1, rank 0: row 1*2 + 0 = 2 of a first matrix, column 0*2 + 1 = 1 of a second.
  EXPECT_EQ(place(old, "lora_down_B", {{1, 0, 2}}), "lora_A.weight 2 2");
  EXPECT_EQ(place(old, "lora_down_A", {{1, 1, 0}}), "lora_B.weight 1 1");
  EXPECT_EQ(place(old, "lora_gate_and_up_B", {{1, 0, 3}}), "base_layer.lora_A.weight 2 3");
  EXPECT_EQ(place(old, "lora_gate_and_up_A", {{1, 2, 0}}), "base_layer.lora_B.weight 2 1");
  EXPECT_EQ(place(fresh, "lora_down_A", {{1, 1, 0}}), "lora_A.weight 2 1");
  EXPECT_EQ(place(fresh, "lora_down_B", {{1, 0, 2}}), "lora_B.weight 2 1");
  EXPECT_EQ(place(fresh, "lora_gate_and_up_A", {{1, 2, 0}}), "base_layer.lora_A.weight 2 2");
  EXPECT_EQ(place(fresh, "lora_gate_and_up_B", {{1, 0, 3}}), "base_layer.lora_B.weight 3 1");
}

TEST(ReferenceAdapter, UpRepeatsTheFirstFactorOfGate) {
  const Mapping mapping = map(single_keys());
  const int up = mapping.key_id(k_at + "1.up_proj.lora_A.weight");
  EXPECT_EQ(mapping.fate(up).use, Use::alias);
  EXPECT_EQ(mapping.fate(up).native, mapping.native_id("model.layers.0.mlp.experts.lora_gate_and_up_A"));
  const Place last = mapping.pull(mapping.native_id("model.layers.0.mlp.experts.lora_gate_and_up_B"), {{0, 1, 3}});
  EXPECT_EQ(last.key, mapping.key_id(k_at + "0.up_proj.lora_B.weight"));
  EXPECT_EQ(last.at, (Coord{{1, 1}}));
}

std::string kind_of(const std::vector<Key>& keys, const char* stamp, const Mapping& base) {
  try {
    map(keys, stamp, base);
    return {};
  } catch (const Failure& failure) {
    return failure.kind();
  }
}

TEST(ReferenceAdapter, TheGenerationIsNeverGuessed) {
  const char* const stamp_old = R"({"paramwrapper_layout": "peft-0.18"})";
  const char* const stamp_new = R"({"paramwrapper_layout": "peft-0.19.1"})";
  const char* const undecided = "ADAPTER_LAYOUT_UNDECIDED";
  const Mapping base = base_mapping();
  EXPECT_EQ(kind_of(packed_keys(true), stamp_old, base), "");
  EXPECT_EQ(kind_of(packed_keys(false), stamp_new, base), "");
  EXPECT_EQ(kind_of(packed_keys(true), stamp_new, base), undecided);
  EXPECT_EQ(kind_of(packed_keys(false), stamp_old, base), undecided);
  EXPECT_EQ(kind_of(packed_keys(false), R"({"paramwrapper_layout": "peft-1"})", base), undecided);
  std::vector<Key> mixed = packed_keys(false);
  mixed[0].shape = packed_keys(true)[0].shape;
  EXPECT_EQ(kind_of(mixed, stamp_new, base), undecided);
  std::vector<Key> lost = packed_keys(false);
  lost.pop_back();
  EXPECT_EQ(kind_of(lost, nullptr, base), "MISSING_KEYS");
  std::vector<Key> wrong = packed_keys(false);
  wrong[3].shape[1] = 6;
  EXPECT_EQ(kind_of(wrong, nullptr, base), "SHAPE_MISMATCH");
  // Hidden = width: only the input pair tells; without it nothing does.
  const Mapping square = base_mapping(2, 2);
  EXPECT_EQ(kind_of(packed_keys(true, 2, 2), nullptr, square), "");
  std::vector<Key> down_alone;
  for (const Key& key : packed_keys(true, 2, 2))
    if (key.name.find("base_layer") == std::string::npos) down_alone.push_back(key);
  EXPECT_EQ(kind_of(down_alone, nullptr, square), undecided);
  EXPECT_EQ(kind_of(down_alone, stamp_old, square), "");
}

}  // namespace
}  // namespace weightproof::reference
