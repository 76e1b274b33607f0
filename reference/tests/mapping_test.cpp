// SPDX-License-Identifier: Apache-2.0
// Every family on a small model: each stored element is in exactly one native place and the other way round, and the
// literal values of the known traps.
#include "reference/mapping.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "reference/model.hpp"
#include "reference/tests/reference_testing.hpp"
#include "reference/tests/small_models_testing.hpp"

namespace weightproof::reference {
namespace {

using testing::Maker;
using testing::small_models;
using testing::SmallModel;

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

std::vector<std::string> names_of(const std::vector<Key>& keys) {
  std::vector<std::string> names;
  for (const Key& key : keys) names.push_back(key.name);
  return names;
}

TEST(Mapping, EveryFamilyIsCoveredBySomeSmallModel) {
  std::vector<std::string> missing = family_ids();
  for (const SmallModel& model : small_models())
    missing.erase(std::remove(missing.begin(), missing.end(), model.family), missing.end());
  EXPECT_EQ(missing, std::vector<std::string>{"hy_mt2"});  // Another name of hy_v3.
}

TEST(Mapping, DetectionFindsFamilyAndSpelling) {
  for (const SmallModel& model : small_models()) {
    if (model.family == "dense_combined") continue;  // By request only.
    const Detection found = detect(model.config, names_of(model.keys));
    EXPECT_EQ(found.family, model.family);
    EXPECT_EQ(found.name_space, model.name_space) << model.family;
    EXPECT_FALSE(found.evidence.empty());
  }
}

TEST(Mapping, ClassesAndNamesDecideWhereTheTypeDoesNot) {
  const auto by_class = [](const std::string& config) { return family_of_model(Config(config), {}); };
  EXPECT_EQ(by_class(R"({"architectures":["Glm4MoeForCausalLM"]})"), "glm4_moe");
  EXPECT_EQ(by_class(R"({"model_type":"never_heard_of","architectures":["Glm4MoeForCausalLM"]})"), "glm4_moe");
  EXPECT_EQ(by_class(R"({"model_type":"never_heard_of","architectures":["Unheard"]})"), "identity");
  EXPECT_EQ(by_class(R"({"architectures":["Glm4MoeForCausalLM","LlamaForCausalLM"]})"), "identity");
  EXPECT_EQ(by_class(R"({"model_type":"kimi_k2"})"), "deepseek_v3");
  int told = 0;
  for (const SmallModel& model : small_models()) {
    if (model.family == "dense_combined") continue;  // By request only.
    const std::string found = family_of_model(Config(), names_of(model.keys));
    // Their text parts have the very names of another family.
    static const std::map<std::string, std::string> twins{
        {"qwen3_vl", "qwen3"}, {"qwen3_5", "qwen3"}, {"mimo", "qwen2"}, {"qwen3_omni_moe", "qwen3_moe"}};
    const bool is_twin = twins.count(model.family) != 0 && twins.at(model.family) == found;
    EXPECT_TRUE(found == "identity" || found == model.family || is_twin) << model.family << " taken for " << found;
    told += found == model.family;
  }
  EXPECT_GE(told, 3);  // qwen2, qwen3, qwen3_moe
  EXPECT_EQ(family_as_stored("hy_mt2", {}), "hy_v3");
  EXPECT_EQ(family_as_stored("gpt_oss", {"model.layers.0.mlp.experts.down_proj"}), "gpt_oss_bf16");
  EXPECT_EQ(family_as_stored("gpt_oss_bf16", {"model.layers.0.mlp.experts.down_proj_blocks"}), "gpt_oss");
}

TEST(Mapping, IsABijectionOnEveryElement) {
  std::uint64_t compared = 0;
  for (const SmallModel& small : small_models()) {
    SCOPED_TRACE(small.family + " " + small.name_space);
    const Mapping mapping = Mapping::build(small.family, Config(small.config), small.keys);
    EXPECT_EQ(mapping.unexpected(), std::vector<std::string>());
    std::uint64_t stored = 0, native = 0;
    for (std::size_t k = 0; k < mapping.keys().size(); ++k) {
      const Fate& fate = mapping.fate(static_cast<int>(k));
      if (fate.use != Use::weight) continue;
      stored += count_of(mapping.keys()[k].shape);
      every_coord(mapping.keys()[k].shape, [&](const Coord& at) {
        const Home home = mapping.home(static_cast<int>(k), at);
        ASSERT_GE(home.native, 0) << mapping.keys()[k].name;
        const Place back = mapping.pull(home.native, home.at);
        ASSERT_EQ(back.key, static_cast<int>(k));
        ASSERT_EQ(back.at, at) << mapping.keys()[k].name;
        ++compared;
      });
    }
    for (std::size_t n = 0; n < mapping.native_tensors().size(); ++n) {
      const NativeTensor& tensor = mapping.native_tensors()[n];
      if (tensor.alias_of >= 0 || tensor.is_default) continue;
      native += count_of(tensor.shape);
      every_coord(tensor.shape, [&](const Coord& at) {
        const Place place = mapping.pull(static_cast<int>(n), at);
        const Home home = mapping.home(place.key, place.at);
        ASSERT_EQ(home.native, static_cast<int>(n)) << tensor.name;
        ASSERT_EQ(home.at, at) << tensor.name;
      });
    }
    EXPECT_EQ(stored, native);
  }
  EXPECT_GT(compared, 10000u);
}

TEST(Mapping, PromisedRunsAreConsecutive) {
  std::uint64_t runs = 0;
  for (const SmallModel& small : small_models()) {
    const Mapping mapping = Mapping::build(small.family, Config(small.config), small.keys);
    for (const NativeTensor& tensor : mapping.native_tensors()) {
      if (tensor.is_default) continue;
      std::uint64_t flat = 0, first = 0;
      int key = -1;
      every_coord(tensor.shape, [&](const Coord& at) {
        const Place place = tensor.pull(at);
        const Shape& shape = mapping.keys()[static_cast<std::size_t>(place.key)].shape;
        std::uint64_t source = 0;
        for (std::size_t axis = 0; axis < shape.size(); ++axis) {
          ASSERT_LT(place.at[axis], shape[axis]);
          source = source * shape[axis] + place.at[axis];
        }
        if (flat % tensor.run == 0) {
          key = place.key;
          first = source;
          ++runs;
        }
        ASSERT_EQ(place.key, key) << tensor.name;
        ASSERT_EQ(source, first + flat % tensor.run * tensor.step) << tensor.name;
        ++flat;
      });
    }
  }
  EXPECT_GT(runs, 1000u);
}

// The native names that the layout tables spell out.
TEST(Mapping, NativeNamesAndShapes) {
  const auto has = [](const std::string& family, const std::vector<std::pair<std::string, Shape>>& expected) {
    for (const SmallModel& small : small_models()) {
      if (small.family != family) continue;
      const Mapping mapping = Mapping::build(small.family, Config(small.config), small.keys);
      bool all = true;
      for (const auto& [name, shape] : expected) {
        const int id = mapping.native_id(name);
        all = all && id >= 0 && mapping.native_tensors()[static_cast<std::size_t>(id)].shape == shape;
      }
      if (all) return true;
    }
    return false;
  };
  EXPECT_TRUE(has("nemotron_v3", {{"model.embed_tokens.weight", {7, 6}},
                                  {"model.norm.weight", {6}},
                                  {"model.layers.0.mixer._fp32_params.D", {2}},
                                  {"model.layers.1.mixer.experts.gate_and_up_projs", {3, 6, 4}},
                                  {"model.layers.1.mixer.experts.down_projs", {3, 4, 6}},
                                  {"model.layers.1.mixer.experts.gate_up_proj_bias", {3, 4}},
                                  {"mtp.layers.1.mixer.experts.down_projs", {3, 4, 6}}}));
  EXPECT_TRUE(has("ling_v2", {{"model.layers.0.self_attn.q_proj.weight", {20, 6}},
                              {"model.layers.0.self_attn.k_proj.bias", {10}},
                              {"model.layers.0.self_attn.o_proj.weight", {6, 20}},
                              {"model.layers.0.mlp.gate.e_score_correction_bias", {3}}}));
  EXPECT_TRUE(has("gpt_oss", {{"model.layers.0.mlp.experts.gate_and_up_projs", {3, 32, 8}},
                              {"model.layers.0.mlp.gate.bias", {3}},
                              {"model.layers.0.mlp.experts.gate_up_proj_bias", {3, 8}}}));
  EXPECT_TRUE(has("gpt_oss_bf16", {{"model.layers.0.mlp.experts.gate_and_up_projs", {3, 6, 8}}}));
  EXPECT_TRUE(has("gemma4_moe", {{"model.language_model.layers.0.moe.experts.gate_and_up_projs", {3, 6, 8}},
                                 {"model.language_model.layers.0.moe.gate.per_expert_scale", {3}},
                                 {"model.language_model.layers.0.layer_scalar", {1}},
                                 {"lm_head.weight", {7, 6}}}));
  EXPECT_TRUE(has("ernie4_5_moe", {{"model.layers.0.mlp.gate.e_score_correction_bias", {3}},
                                   {"model.layers.0.mlp.experts.gate_up_proj_bias", {3, 8}}}));
  EXPECT_TRUE(has("qwen3_vl_moe", {{"model.language_model.layers.0.mlp.experts.gate_and_up_projs", {3, 6, 8}}}));
  EXPECT_TRUE(has("qwen3_5_moe", {{"lm_head.weight", {7, 6}},
                                  {"mtp.layers.0.eh_proj.weight", {6, 12}},
                                  {"mtp.layers.0.final_layernorm.weight", {6}},
                                  {"model.language_model.layers.0.mlp.experts.gate_and_up_projs", {3, 6, 8}},
                                  {"model.language_model.layers.1.linear_attn._fp32_params.A_log", {4}}}));
  EXPECT_TRUE(has("kimi_linear", {{"model.layers.0.self_attn._fp32_params.A_log", {1, 1, 4, 1}},
                                  {"model.layers.0.mlp.shared_experts.up_proj.weight", {8, 6}}}));
  EXPECT_TRUE(has("step3p5", {{"model.layers.0.moe.experts.gate_and_up_projs", {3, 6, 8}},
                              {"model.layers.0.moe.gate.e_score_correction_bias", {3}}}));
  EXPECT_TRUE(has("mistral4", {{"model.language_model.model.layers.0.mlp.gate.e_score_correction_bias", {3}},
                               {"model.language_model.lm_head.weight", {7, 6}},
                               {"model.vision_tower.ln_pre.weight", {6}}}));
  EXPECT_TRUE(has("mistral4", {{"model.layers.0.mlp.experts.down_projs", {3, 4, 6}}, {"lm_head.weight", {7, 6}}}));
  EXPECT_TRUE(has("mistral3_fp8_vlm", {{"model.language_model.layers.0.mlp.up_proj.weight", {8, 6}},
                                       {"lm_head.weight", {7, 6}},
                                       {"model.vision_tower.ln_pre.weight", {6}}}));
  EXPECT_TRUE(has("deepseek_v4", {{"model.layers.0.self_attn.sinks_param.weight", {3, 2}},
                                  {"model.layers.0.self_attn.compressor.kv_norm.weight", {3, 2}},
                                  {"model.layers.0.self_attn.compressor.ape_param.weight", {3, 2}},
                                  {"model.layers.0.self_attn.compressor.indexer.kv_norm.weight", {3, 2}},
                                  {"model.layers.0.self_attn.compressor.indexer.wq_b.weight", {3, 2}},
                                  {"model.layers.0.attn_hc.fn", {3, 2}},
                                  {"model.hc_head.hc_fn", {2}},
                                  {"model.layers.0.mlp.experts.gate_and_up_projs", {3, 6, 8}},
                                  {"mtp.layers.0.enorm.weight", {6}},
                                  {"mtp.layers.0.self_attn.wq_a.weight", {6}}}));
  EXPECT_TRUE(has(
      "qwen3_omni_moe",
      {{"model.layers.0.mlp.experts.down_projs", {3, 4, 6}}, {"visual.x.weight", {2}}, {"lm_head.weight", {7, 6}}}));
  EXPECT_TRUE(has("dense_combined", {{"model.layers.0.self_attn.qkv_proj.weight", {40, 6}},
                                     {"model.layers.0.self_attn.qkv_proj.bias", {40}},
                                     {"model.layers.0.mlp.gate_up_proj.weight", {8, 6}}}));
}

std::string kind_of(const std::function<void()>& act) {
  try {
    act();
    return "none";
  } catch (const Failure& failure) {
    return failure.what();
  }
}

TEST(Mapping, DropsAndUnknownKeys) {
  Maker m;
  m.top();
  m.norms(0), m.attention(0), m.experts("model.layers.0.mlp.experts");
  m.add("model.layers.1.input_layernorm.weight", {6});
  m.add("model.layers.10.input_layernorm.weight", {6});  // Beyond; as text it begins like layer 1.
  m.add("model.layers.0.mlp.unheard_of.weight", {6});
  m.add("model.layers.0.self_attn._extra_state", {1});
  const Mapping mapping = Mapping::build("glm4_moe", Config(R"({"num_hidden_layers":2})"), m.keys);
  EXPECT_EQ(mapping.unexpected(), std::vector<std::string>{"model.layers.0.mlp.unheard_of.weight"});
  EXPECT_EQ(mapping.fate(mapping.key_id("model.layers.10.input_layernorm.weight")).use, Use::dropped);
  EXPECT_EQ(mapping.fate(mapping.key_id("model.layers.1.input_layernorm.weight")).use, Use::weight);
  EXPECT_EQ(mapping.fate(mapping.key_id("model.layers.0.self_attn._extra_state")).use, Use::dropped);
}

TEST(Mapping, RefusesWhatItCannotState) {
  const auto build = [](const std::string& family, const std::string& config,
                        const std::function<void(Maker&)>& change) {
    Maker m;
    m.top();
    m.norms(0), m.experts("model.layers.0.mlp.experts");
    change(m);
    return kind_of([&] { Mapping::build(family, Config(config), m.keys); });
  };
  const auto without = [](const std::string& name) {
    return [=](Maker& m) {
      m.keys.erase(std::remove_if(m.keys.begin(), m.keys.end(), [&](const Key& key) { return key.name == name; }),
                   m.keys.end());
    };
  };
  EXPECT_EQ(build("qwen3_moe", "{}", [](Maker&) {}), "none");
  const std::string lost = "model.layers.0.mlp.experts.1.down_proj.weight";
  EXPECT_NE(build("qwen3_moe", "{}", without(lost)).find("MISSING_KEYS: expert key '" + lost), std::string::npos);
  const std::string last = "model.layers.0.mlp.experts.2.down_proj.weight";
  EXPECT_NE(build("qwen3_moe", R"({"num_experts":3})", without(last)).find(last), std::string::npos);
  EXPECT_NE(build("qwen3_moe", R"({"num_experts":4})", [](Maker&) {}).find("experts.3."), std::string::npos);
  EXPECT_NE(build("qwen3_moe", "{}", without("lm_head.weight")).find("MISSING_KEYS: 'lm_head.weight'"),
            std::string::npos);
  EXPECT_NE(build("qwen3_moe", R"({"tie_word_embeddings":true})", [](Maker&) {}).find("TIED_FLAG_CONFLICT"),
            std::string::npos);
  EXPECT_NE(
      build("qwen3_moe", "{}", [](Maker& m) { m.add("layers.0.input_layernorm.weight", {6}); }).find("NAMESPACE_MIXED"),
      std::string::npos);
  EXPECT_NE(build("qwen3_moe", "{}",
                  [](Maker& m) {
                    m.add("model.layers.0.mlp.experts.gate_up_proj", {3, 8, 6});
                  })
                .find("EXPERTS_MIXED"),
            std::string::npos);
  EXPECT_NE(build("qwen3_moe", "{}",
                  [](Maker& m) {
                    m.keys.back().shape = {6, 5};
                  })
                .find("SHAPE_MISMATCH"),
            std::string::npos);
  EXPECT_NE(build("no_such_family", "{}", [](Maker&) {}).find("USAGE"), std::string::npos);
  EXPECT_NE(build("gemma4_moe", "{}",
                  [](Maker& m) {
                    m.add("model.language_model.embed_tokens.weight", {7, 6});
                    m.add("model.language_model.layers.0.experts.down_proj", {3, 6, 4});
                  })
                .find("MISSING_KEYS: nothing stored becomes"),
            std::string::npos);
}

TEST(Mapping, TiedHeads) {
  Maker m;
  m.top("");
  m.norms(0);
  const auto mapping = [&](const std::string& flag) {
    return Mapping::build("llama", Config(flag.empty() ? "{}" : R"({"tie_word_embeddings":)" + flag + "}"), m.keys);
  };
  const Mapping tied = mapping("true");
  const int head = tied.native_id("lm_head.weight");
  ASSERT_GE(head, 0);
  EXPECT_EQ(tied.native_tensors()[static_cast<std::size_t>(head)].alias_of,
            tied.native_id("model.embed_tokens.weight"));
  EXPECT_EQ(tied.pull(head, {{3, 2}}).key, tied.key_id("model.embed_tokens.weight"));
  EXPECT_TRUE(tied.defaulted().empty());
  EXPECT_EQ(mapping("").defaulted().size(), 1u);  // The flag is absent: taken from the keys, and said so.
  EXPECT_NE(kind_of([&] { mapping("false"); }).find("MISSING_KEYS"), std::string::npos);
  m.add("lm_head.weight", {7, 6});
  const Mapping both = mapping("true");
  EXPECT_EQ(both.fate(both.key_id("lm_head.weight")).use, Use::alias);
  EXPECT_EQ(mapping("false").native_tensors()[0].alias_of, -1);
  m.keys.back().shape = {5, 6};  // A smaller output vocabulary is a tensor of its own.
  EXPECT_EQ(mapping("true").fate(both.key_id("lm_head.weight")).use, Use::weight);
}

TEST(Mapping, RealIndexes) {
  const auto shared = testing::shared_directory();
  if (shared.empty()) GTEST_SKIP() << "no real checkpoint data here";
  const struct {
    const char *name, *family, *name_space;
    std::size_t keys, dropped, unexpected;
  } rows[] = {{"gpt-oss-20b", "gpt_oss", "model.", 459, 0,
               48},  // The 48 scales: companions, which the overlay takes away first.
              {"llama-3.2-3b-one-tensor-per-shard", "llama", "model.", 254, 0, 0},
              {"smollm3-3b", "smollm3", "model.", 326, 0, 0},
              {"gemma-2b-tied", "gemma", "model.", 164, 0, 0},
              {"devstral-small-2507", "mistral", "model.", 363, 0, 0},
              {"phi3-mini-slerp", "phi3", "model.", 195, 0, 0},
              {"mimo-7b-mtp", "mimo", "model.", 451, 0, 0},
              {"mixtral-8x22b-wizardlm2", "mixtral", "model.", 1739, 0, 0},
              {"minimax-m1", "minimax_m1", "model.", 8243, 0, 0},
              {"qwen3.5-moe-18b-reap", "qwen3_5_moe", "model.language_model.", 15973, 0, 0},
              {"medgemma-27b", "gemma3", "language_model.model.", 1247, 0, 0},
              {"cosmos-reason2-qwen3vl", "qwen3_vl", "model.language_model.", 750, 0, 0},
              {"qwen3-1.7b-mlx", "qwen3", "model.", 310, 0, 0}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const auto directory = shared / "data" / row.name;
    std::vector<Key> keys;
    for (const auto& [key, shard] : read_index(directory / "model.safetensors.index.json")) keys.push_back({key, {}});
    EXPECT_EQ(keys.size(), row.keys);
    const Config config(read_text(directory / "config.json"));
    const Detection found = detect(config, names_of(keys));
    EXPECT_EQ(found.family, row.family);
    EXPECT_EQ(found.name_space, row.name_space);
    MappingOptions options;
    options.names_only = true;
    const Mapping mapping = Mapping::build(found.family, config, keys, options);
    std::size_t dropped = 0;
    for (std::size_t k = 0; k < keys.size(); ++k) dropped += mapping.fate(static_cast<int>(k)).use == Use::dropped;
    EXPECT_EQ(dropped, row.dropped);
    EXPECT_EQ(mapping.unexpected().size(), row.unexpected);
  }
  // Another attention is in this file: five kinds of keys in 48 layers that Qwen3 does not have.
  std::vector<Key> transgqa;
  for (const auto& [key, shard] : read_index(shared / "data/qwen3-30b-a3b-transgqa/model.safetensors.index.json"))
    transgqa.push_back({key, {}});
  MappingOptions names_only;
  names_only.names_only = true;
  EXPECT_EQ(Mapping::build("qwen3_moe", Config(R"({"model_type":"qwen3_moe","num_experts":128})"), transgqa, names_only)
                .unexpected()
                .size(),
            240u);
  // MLX affine is refused by name.
  const auto mlx = shared / "data" / "qwen3.5-27b-mlx-mixed";
  std::vector<std::string> names;
  for (const auto& [key, shard] : read_index(mlx / "model.safetensors.index.json")) names.push_back(key);
  EXPECT_NE(kind_of([&] { detect(read_text(mlx / "config.json"), names); }).find("QUANT_UNSUPPORTED: MLX"),
            std::string::npos);
}

}  // namespace
}  // namespace weightproof::reference
