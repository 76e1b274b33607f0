// SPDX-License-Identifier: Apache-2.0
// Schemas of low-rank adapters: shapes as literals, the coverage proof, round trips, and the order in which experts are
// packed.
#include <algorithm>

#include "adapters/tests/lora_testing.hpp"

namespace weightproof::adapters {
namespace {

using namespace testing;

constexpr std::array k_packings = {LoraPacking::per_expert, LoraPacking::peft_0_18, LoraPacking::peft_0_19_1};

LoraBase trap_base(std::uint64_t hidden, std::uint64_t width, std::uint64_t experts = 2) {
  return base_of(
      "qwen3_moe",
      {{"hidden_size", number(hidden)}, {"moe_intermediate_size", number(width)}, {"num_experts", number(experts)}});
}

// Trap 45: E 2, H 8, I 3, R 2.
TEST(Lora, ShapesOfBothGenerationsAreThePublishedOnes) {
  const LoraBase base = trap_base(8, 3);
  const std::string at = "base_model.model.model.layers.1.mlp.experts.";
  const auto shapes = [&](LoraPacking packing) {
    const Schema schema = describe_lora(base, lora_layout(base, full_config(), packing));
    std::vector<std::string> out;
    for (const char* name :
         {"base_layer.lora_A.weight", "base_layer.lora_B.weight", "lora_A.weight", "lora_B.weight"}) {
      out.push_back(to_string(shape_of(schema, at + name)));
    }
    return out;
  };
  EXPECT_EQ(shapes(LoraPacking::peft_0_18), (std::vector<std::string>{"[4,6]", "[8,4]", "[4,8]", "[3,4]"}));
  EXPECT_EQ(shapes(LoraPacking::peft_0_19_1), (std::vector<std::string>{"[4,8]", "[6,4]", "[4,3]", "[8,4]"}));

  const Schema single = describe_lora(base, lora_layout(base, full_config(), LoraPacking::per_expert));
  EXPECT_EQ(to_string(shape_of(single, at + "1.gate_proj.lora_A.weight")), "[2,8]");
  EXPECT_EQ(to_string(shape_of(single, at + "1.up_proj.lora_B.weight")), "[3,2]");
  EXPECT_EQ(to_string(shape_of(single, at + "1.down_proj.lora_A.weight")), "[2,3]");
  EXPECT_EQ(to_string(shape_of(single, at + "1.down_proj.lora_B.weight")), "[8,2]");
  const std::string native = "model.layers.1.mlp.experts.";
  for (const Schema& schema : {single}) {
    const auto native_shape = [&](const char* name) {
      const NativeId id = schema.find_native(native + name);
      return id == k_no_id ? "none" : to_string(schema.shape_of(schema.native_tensors()[id]));
    };
    EXPECT_EQ(native_shape("lora_gate_and_up_A"), "[2,8,2]");
    EXPECT_EQ(native_shape("lora_gate_and_up_B"), "[2,2,6]");
    EXPECT_EQ(native_shape("lora_down_A"), "[2,3,2]");
    EXPECT_EQ(native_shape("lora_down_B"), "[2,2,8]");
  }
}

// Every family that has a sample, every packing: natives are covered once, stored bytes used once; export after load is
// the identity, aliases included.
TEST(Lora, EveryFamilyCoversAndReturns) {
  std::size_t with_experts = 0;
  for (const Family* family : all_families()) {
    if (family->sample.empty()) continue;
    const LoraBase base = base_of(family->name);
    with_experts += base.experts.empty() ? 0U : 1U;
    for (const LoraPacking packing : k_packings) {
      SCOPED_TRACE(std::string(family->name) + " " + std::string(to_string(packing)));
      const LoraConfig config = full_config(3);
      const LoraLayout layout = lora_layout(base, config, packing);
      const Schema schema = describe_lora(base, layout);
      expect_exact(schema);
      Values stored = numbered(schema);
      const Values native = load(schema, stored);
      const Values back = save_all(schema, native);
      for (const auto& [key, values] : stored) {
        // Gate's A is the one that counts; up's repeats it.
        const StoredId id = schema.find_stored(key);
        const bool is_alias = std::any_of(schema.bindings().begin(), schema.bindings().end(), [&](const Binding& each) {
          return each.kind == BindingKind::alias && each.stored == id;
        });
        if (!is_alias) {
          EXPECT_EQ(back.at(key), values) << key;
        }
      }
      const Values again = save_all(schema, load(schema, back));
      EXPECT_EQ(again, back);

      // What was described is what matching finds again.
      const LoraMatch match = match_lora(base, config, catalog_from(schema));
      EXPECT_EQ(match.unmatched, std::vector<std::string>{});
      EXPECT_EQ(match.matched, match.modules);
      EXPECT_EQ(match.untargeted, std::vector<std::string>{});
      EXPECT_EQ(match.misnamed, std::vector<std::string>{});
      if (!layout.experts.empty()) {
        EXPECT_EQ(match.layout.packing, packing);
        EXPECT_EQ(match.absent, std::vector<std::string>{});
      }
      const Schema found = describe_lora(base, match.layout);
      EXPECT_EQ(found.stored_tensors().size(), schema.stored_tensors().size());
      EXPECT_EQ(found.native_tensors().size(), schema.native_tensors().size());
    }
  }
  EXPECT_GE(with_experts, 12U);
}

// S31. Two experts, rank 2: the delta of each expert as the library of each generation computes it from the packed
// factors is the product of the native ones; experts packed in the other order give another delta.
TEST(Lora, PackedFactorsMergeToTheSameDeltaOfEachExpert) {
  constexpr std::uint64_t e_count = 2, rank = 2, hidden = 3, width = 2;
  const LoraBase base = trap_base(hidden, width, e_count);
  const std::string native = "model.layers.1.mlp.experts.";
  const std::string at = "base_model.model." + native;
  const Schema single = describe_lora(base, lora_layout(base, full_config(), LoraPacking::per_expert));
  Values factors;
  double next = 1;
  for (const NativeTensor& tensor : single.native_tensors()) {
    auto& values = factors[std::string(tensor.key)];
    values.resize(element_count(single.shape_of(tensor)).value());
    for (double& value : values) value = next++;
  }
  const auto& a = factors.at(native + "lora_down_A");  // [E, I, R]
  const auto& b = factors.at(native + "lora_down_B");  // [E, R, H]
  const auto delta = [&](std::uint64_t e, std::uint64_t h, std::uint64_t i) {
    double sum = 0;
    for (std::uint64_t r = 0; r < rank; ++r) {
      sum += a[(e * width + i) * rank + r] * b[(e * rank + r) * hidden + h];
    }
    return sum;
  };
  bool is_order_visible = false;
  for (const LoraPacking packing : {LoraPacking::peft_0_18, LoraPacking::peft_0_19_1}) {
    const Schema schema = describe_lora(base, lora_layout(base, full_config(), packing));
    const Values stored = save(schema, factors);
    const auto& first = stored.at(at + "lora_A.weight");   // rows e*R + r
    const auto& second = stored.at(at + "lora_B.weight");  // columns r*E + e
    for (std::uint64_t e = 0; e < e_count; ++e) {
      for (std::uint64_t h = 0; h < hidden; ++h) {
        for (std::uint64_t i = 0; i < width; ++i) {
          double sum = 0;
          double in_wrong_order = 0;
          for (std::uint64_t r = 0; r < rank; ++r) {
            const std::uint64_t row = e * rank + r;
            const bool is_old = packing == LoraPacking::peft_0_18;
            const double from_a = is_old ? first[row * hidden + h] : first[row * width + i];
            const std::uint64_t feature = is_old ? i : h;
            sum += from_a * second[feature * e_count * rank + r * e_count + e];
            in_wrong_order += from_a * second[feature * e_count * rank + e * rank + r];
          }
          EXPECT_EQ(sum, delta(e, h, i)) << to_string(packing) << " expert " << e;
          is_order_visible = is_order_visible || in_wrong_order != delta(e, h, i);
        }
      }
    }
  }
  EXPECT_TRUE(is_order_visible);
}

TEST(Lora, GateAloneOrUpAloneLeavesTheOtherWithoutEffect) {
  const LoraBase base = trap_base(6, 4, 3);
  LoraConfig config = full_config();
  config.target_modules = {"experts.0.up_proj", "up_proj"};
  const Schema schema = describe_lora(base, lora_layout(base, config, LoraPacking::per_expert));
  expect_exact(schema);
  const Values native = load(schema, numbered(schema));
  const auto& b = native.at("model.layers.1.mlp.experts.lora_gate_and_up_B");  // [3, 2, 8]
  for (std::size_t i = 0; i < b.size(); ++i) EXPECT_EQ(b[i] == 0, i % 8 < 4) << i;
}

TEST(Lora, InputProjectionAloneHasTheOuterNames) {
  const LoraBase base = trap_base(8, 3);
  LoraConfig config = full_config();
  config.target_modules.clear();
  config.target_parameters = {"mlp.experts.gate_up_proj"};
  const Schema schema = describe_lora(base, lora_layout(base, config, LoraPacking::peft_0_19_1));
  EXPECT_EQ(to_string(shape_of(schema, "base_model.model.model.layers.1.mlp.experts.lora_A.weight")), "[4,8]");
  const LoraMatch match = match_lora(base, config, catalog_from(schema));
  ASSERT_EQ(match.layout.experts.size(), 1U);
  EXPECT_TRUE(match.layout.experts[0].has_up);
  EXPECT_FALSE(match.layout.experts[0].has_down);
  EXPECT_EQ(match.layout.packing, LoraPacking::peft_0_19_1);
  EXPECT_EQ(match.absent, std::vector<std::string>{});
}

TEST(Lora, FamiliesNameTheirExpertsAsPublished) {
  const LoraBase minimax = base_of("minimax_m2");
  const LoraConfig config = full_config();
  const auto has = [&](const LoraBase& base, LoraPacking packing, const char* key) {
    const Schema schema = describe_lora(base, lora_layout(base, config, packing));
    return schema.find_stored(key) != k_no_id;
  };
  EXPECT_TRUE(has(minimax, LoraPacking::per_expert,
                  "base_model.model.model.layers.0.block_sparse_moe.experts.2.w1.lora_A.weight"));
  EXPECT_TRUE(
      has(minimax, LoraPacking::peft_0_19_1, "base_model.model.model.layers.0.mlp.experts.base_layer.lora_A.weight"));
  const LoraBase nemotron = base_of("nemotron_v3");
  EXPECT_TRUE(has(nemotron, LoraPacking::peft_0_18, "base_model.model.backbone.layers.1.mixer.experts.lora_A.weight"));
  ASSERT_FALSE(nemotron.experts.empty());
  EXPECT_FALSE(nemotron.experts[0].is_gated);
  EXPECT_EQ(nemotron.experts[0].rows(), nemotron.experts[0].width);
  // Interleaved and transposed experts have no published form.
  EXPECT_TRUE(base_of("gpt_oss").experts.empty());
  EXPECT_TRUE(base_of("qwen3_vl_moe").experts.empty());
}

TEST(Lora, MagnitudesOfDenseModulesAreMovedThoseOfExpertsRefused) {
  const LoraBase llama = base_of("llama");
  LoraConfig config = full_config();
  config.use_dora = true;
  const Schema schema = describe_lora(llama, lora_layout(llama, config, LoraPacking::per_expert));
  const StoredId id = schema.find_stored("base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector");
  ASSERT_NE(id, k_no_id);
  EXPECT_NE(schema.find_native("model.layers.0.self_attn.q_proj.lora_magnitude"), k_no_id);
  const LoraBase moe = trap_base(6, 4, 3);
  const auto error = error_of([&] { describe_lora(moe, lora_layout(moe, config, LoraPacking::per_expert)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->check(), "adapter.config");
}

}  // namespace
}  // namespace weightproof::adapters
