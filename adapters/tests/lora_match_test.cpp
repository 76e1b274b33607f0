// SPDX-License-Identifier: Apache-2.0
// An adapter's config, its names against the base, and the decision between the two ways to pack experts.
#include "adapters/tests/lora_testing.hpp"

namespace weightproof::adapters {
namespace {

using namespace testing;

ConfigValue lora_json(std::string_view changes) {
  ConfigValue::Object members;
  const ConfigValue given = config_of(changes);
  for (const auto& [name, value] : given.members()) members.emplace_back(name, value);
  const ConfigValue usual = config_of(
      R"({"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"], "unknown_field": [1, {"x": null}]})");
  for (const auto& [name, value] : usual.members()) {
    if (!given.has(name)) members.emplace_back(name, value);
  }
  return ConfigValue(std::move(members));
}

TEST(LoraConfig, IsRead) {
  const ConfigValue stamp = config_of(R"({"paramwrapper_layout": "peft-0.18", "moe_rank_scaling": true, "dim": 7})");
  const LoraConfig config = read_lora_config(
      lora_json(R"({"rank_pattern": {"model.layers.0.self_attn.q_proj": 4}, "modules_to_save": ["lm_head"],
                    "target_parameters": ["mlp.experts.down_proj"], "layers_to_transform": 3, "use_dora": true})"),
      &stamp);
  EXPECT_EQ(config.rank, 8U);
  EXPECT_EQ(config.alpha, 16);
  EXPECT_EQ(config.target_modules, std::vector<std::string>{"q_proj"});
  EXPECT_EQ(config.target_parameters, std::vector<std::string>{"mlp.experts.down_proj"});
  EXPECT_EQ(config.layers, std::vector<std::uint64_t>{3});
  EXPECT_EQ(config.rank_pattern.front().second, 4U);
  EXPECT_EQ(config.packing_stamp, "peft-0.18");
  EXPECT_TRUE(config.has_scaled_expert_rank);
  EXPECT_TRUE(config.use_dora);
  EXPECT_TRUE(config.tells_modules());
  EXPECT_FALSE(read_lora_config(lora_json(R"({"target_modules": "all-linear"})"), nullptr).tells_modules());
  EXPECT_FALSE(read_lora_config(lora_json(R"({"exclude_modules": ".*vision.*"})"), nullptr).tells_modules());
}

TEST(LoraConfig, HostileValuesAreRefusedByField) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"r": null})", "'r'"},
      {R"({"r": 0})", "'r'"},
      {R"({"r": -8})", "'r'"},
      {R"({"r": 2.5})", "'r'"},
      {R"({"r": "8"})", "'r'"},
      {R"({"r": 1152921504606846976})", "'r'"},
      {R"({"r": 18446744073709551615})", "'r'"},
      {R"({"lora_alpha": 0})", "'lora_alpha'"},
      {R"({"lora_alpha": -1e300})", "'lora_alpha'"},
      {R"({"lora_alpha": [4]})", "'lora_alpha'"},
      {R"({"peft_type": "LOHA"})", "'peft_type'"},
      {R"({"peft_type": 7})", "'peft_type'"},
      {R"({"target_modules": []})", "'target_modules'"},
      {R"({"target_modules": ""})", "'target_modules'"},
      {R"({"target_modules": [""]})", "'target_modules'"},
      {R"({"target_modules": [3]})", "'target_modules'"},
      {R"({"target_modules": {"q_proj": 1}})", "'target_modules'"},
      {R"({"target_parameters": "mlp"})", "'target_parameters'"},
      {R"({"modules_to_save": 3})", "'modules_to_save'"},
      {R"({"rank_pattern": [8]})", "'rank_pattern'"},
      {R"({"rank_pattern": {"q_proj": -1}})", "'rank_pattern'"},
      {R"({"layers_to_transform": [-1]})", "'layers_to_transform'"},
      {R"({"layers_to_transform": "3"})", "'layers_to_transform'"},
      {R"({"use_dora": "yes"})", "'use_dora'"},
      {R"({"bias": "some"})", "'bias'"},
  };
  for (const auto& [text, field] : cases) {
    const auto error = error_of([&] { read_lora_config(lora_json(text), nullptr); });
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->code(), ErrorCode::config_invalid);
    EXPECT_EQ(error->check(), "adapter.config");
    EXPECT_NE(error->message().find(field), std::string::npos) << error->message();
    EXPECT_FALSE(error->facts().hint.empty());
  }
  for (const char* stamp : {R"({"paramwrapper_layout": 1})", R"({"moe_rank_scaling": 1})"}) {
    const ConfigValue value = config_of(stamp);
    EXPECT_TRUE(error_of([&] { read_lora_config(lora_json("{}"), &value); })) << stamp;
  }
}

struct Vote {
  const char* name;
  const char* family;
  std::uint64_t hidden;
  std::uint64_t width;
  LoraPacking stored;
  const char* stamp;    ///< empty: none
  std::size_t votes;    ///< of one layer
  const char* refused;  ///< part of the message, empty: decided as stored
};
void PrintTo(const Vote& row, std::ostream* out) { *out << row.name; }

class LoraVote : public ::testing::TestWithParam<Vote> {};

TEST_P(LoraVote, IsCountedAsTheTableSays) {
  const Vote& row = GetParam();
  ConfigValue::Object changes = {{"hidden_size", number(row.hidden)}, {"moe_intermediate_size", number(row.width)}};
  if (std::string_view(row.family) == "nemotron_v3") {
    changes.emplace_back("hybrid_override_pattern", ConfigValue(std::string("E")));
    changes.emplace_back("num_nextn_predict_layers", number(0));
  }
  const LoraBase base = base_of(row.family, std::move(changes));
  ASSERT_EQ(base.experts.size(), 1U);
  LoraConfig config = full_config();
  if (*row.stamp != '\0') config.packing_stamp = row.stamp;
  const Schema schema = describe_lora(base, lora_layout(base, config, row.stored));
  const Catalog catalog = catalog_from(schema);
  LoraMatch match;
  const auto error = error_of([&] { match = match_lora(base, config, catalog); });
  if (*row.refused == '\0') {
    ASSERT_FALSE(error) << error->message();
    EXPECT_EQ(match.layout.packing, row.stored);
    EXPECT_EQ(match.votes, row.votes);
    EXPECT_EQ(match.is_stamped, *row.stamp != '\0');
    return;
  }
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::adapter_layout_undecided);
  EXPECT_EQ(error->check(), "adapter.config");
  EXPECT_NE(error->message().find(row.refused), std::string::npos) << error->message();
  EXPECT_FALSE(error->facts().keys.empty());
}

constexpr LoraPacking k_old = LoraPacking::peft_0_18;
constexpr LoraPacking k_new = LoraPacking::peft_0_19_1;
INSTANTIATE_TEST_SUITE_P(
    All, LoraVote,
    ::testing::Values(
        Vote{"old_by_all_shapes", "qwen3_moe", 8, 3, k_old, "", 4, ""},
        Vote{"new_by_all_shapes", "qwen3_moe", 8, 3, k_new, "", 4, ""},
        Vote{"old_by_shapes_and_stamp", "qwen3_moe", 8, 3, k_old, "peft-0.18", 4, ""},
        Vote{"new_by_shapes_and_stamp", "qwen3_moe", 8, 3, k_new, "peft-0.19.1", 4, ""},
        // Hidden = 2 x width: the input pair has the same shapes in both generations, the output pair decides.
        Vote{"old_by_the_output_pair", "qwen3_moe", 8, 4, k_old, "", 2, ""},
        Vote{"new_by_the_output_pair", "qwen3_moe", 8, 4, k_new, "", 2, ""},
        // Hidden = width: the output pair has the same shapes, the input pair decides.
        Vote{"old_by_the_input_pair", "qwen3_moe", 4, 4, k_old, "", 2, ""},
        Vote{"new_by_the_input_pair", "qwen3_moe", 4, 4, k_new, "", 2, ""},
        Vote{"ungated_old", "nemotron_v3", 6, 4, k_old, "", 4, ""},
        Vote{"ungated_new", "nemotron_v3", 6, 4, k_new, "", 4, ""},
        // Ungated and hidden = width: every matrix is square, only the stamp tells.
        Vote{"square_old_by_the_stamp", "nemotron_v3", 6, 6, k_old, "peft-0.18", 0, ""},
        Vote{"square_new_by_the_stamp", "nemotron_v3", 6, 6, k_new, "peft-0.19.1", 0, ""},
        Vote{"square_without_stamp", "nemotron_v3", 6, 6, k_new, "", 0, "no shape tells"},
        Vote{"stamp_against_old", "qwen3_moe", 8, 3, k_old, "peft-0.19.1", 0, "contradicts the shapes"},
        Vote{"stamp_against_new", "qwen3_moe", 8, 3, k_new, "peft-0.18", 0, "contradicts the shapes"},
        Vote{"stamp_against_the_one_pair_that_tells", "qwen3_moe", 8, 4, k_new, "peft-0.18", 0, "contradicts"},
        Vote{"stamp_unknown", "qwen3_moe", 8, 3, k_new, "peft-0.20", 0, "names no known order"},
        Vote{"stamp_unknown_on_squares", "nemotron_v3", 6, 6, k_new, "0.19.1", 0, "names no known order"}),
    [](const auto& row) { return row.param.name; });

TEST(LoraMatch, MixedVotesAreRefusedWithBothTensors) {
  const LoraBase base =
      base_of("qwen3_moe",
              {{"decoder_sparse_step", number(1)}, {"hidden_size", number(8)}, {"moe_intermediate_size", number(3)}});
  ASSERT_GE(base.experts.size(), 2U);
  const LoraConfig config = full_config();
  const Schema older = describe_lora(base, lora_layout(base, config, k_old));
  const Catalog mixed = changed(catalog_from(describe_lora(base, lora_layout(base, config, k_new))),
                                [&](std::string& key, StoredTensor& row) {
                                  if (key.find("layers.1.mlp.experts.lora_B") != std::string::npos) {
                                    row.shape = shape_of(older, key);
                                  }
                                });
  for (const char* stamp : {"", "peft-0.18", "peft-0.19.1"}) {
    LoraConfig stamped = config;
    if (*stamp != '\0') stamped.packing_stamp = stamp;
    const auto error = error_of([&] { match_lora(base, stamped, mixed); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::adapter_layout_undecided);
    EXPECT_EQ(error->facts().keys[0], "base_model.model.model.layers.1.mlp.experts.lora_B.weight");
  }
}

TEST(LoraMatch, SpellingsOfNewerLibrariesAreTheSameModules) {
  const LoraBase base = base_of("minimax_m2");
  const LoraConfig config = full_config();
  LoraLayout layout = lora_layout(base, config, LoraPacking::per_expert);
  for (LoraExpertsPart& part : layout.experts) part.is_spelled_natively = true;
  const Schema schema = describe_lora(base, layout);
  EXPECT_NE(schema.find_stored("base_model.model.model.layers.0.mlp.experts.0.gate_proj.lora_A.weight"), k_no_id);
  const LoraMatch match = match_lora(base, config, catalog_from(schema));
  EXPECT_EQ(match.matched, match.modules);
  EXPECT_EQ(match.absent, std::vector<std::string>{});
  EXPECT_TRUE(match.layout.experts.at(0).is_spelled_natively);

  const Catalog mixed = changed(catalog_from(schema), [](std::string& key, StoredTensor&) {
    if (key == "base_model.model.model.layers.0.mlp.experts.0.gate_proj.lora_A.weight") {
      key = "base_model.model.model.layers.0.block_sparse_moe.experts.0.w1.lora_A.weight";
    }
  });
  const auto error = error_of([&] { match_lora(base, config, mixed); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::namespace_mixed);
  EXPECT_EQ(error->check(), "adapter.config");

  // Nemotron: files say backbone, libraries say model.
  const LoraBase nemotron = base_of("nemotron_v3");
  const Schema stored = describe_lora(nemotron, lora_layout(nemotron, config, k_new));
  const Catalog renamed = changed(catalog_from(stored), [](std::string& key, StoredTensor&) {
    const std::size_t at = key.find("backbone.");
    if (at != std::string::npos) key.replace(at, 9, "model.");
  });
  EXPECT_EQ(match_lora(nemotron, config, renamed).unmatched, std::vector<std::string>{});
}

TEST(LoraMatch, ListsWhatDoesNotFit) {
  const LoraBase base = base_of("llama");
  LoraConfig config = full_config();
  config.target_modules = {"q_proj", "v_proj"};
  config.modules_to_save = {"lm_head"};
  const Catalog whole = catalog_from(describe_lora(base, lora_layout(base, config, LoraPacking::per_expert)));
  const std::string layer = "base_model.model.model.layers.0.self_attn.";
  const Catalog broken = changed(whole, [&](std::string& key, StoredTensor&) {
    if (key.starts_with(layer + "v_proj")) key.clear();
    if (key == layer + "q_proj.lora_A.weight") key = layer + "q_proj.lora_A.default.weight";
    if (key.starts_with("base_model.model.model.layers.1.self_attn.q_proj")) key.replace(17, 5, "modle");
    if (key.starts_with("base_model.model.model.layers.1.self_attn.v_proj")) {
      key.replace(key.find("v_proj"), 6, "k_proj");
    }
  });
  CatalogBuilder builder;
  builder.add_file("adapter_model.safetensors");
  for (const StoredTensor& row : broken.tensors()) builder.add_copy(row);
  for (const char* key : {"base_model.model.lm_head.weight", "base_model.model.model.norm.weight"}) {
    StoredTensor row;
    row.key = key;
    row.shape = {3, 2};
    row.is_described = true;
    builder.add_copy(row);
  }
  const LoraMatch match = match_lora(base, config, std::move(builder).finish());
  EXPECT_EQ(match.misnamed, std::vector<std::string>{layer + "q_proj.lora_A.default.weight"});
  EXPECT_EQ(match.unknown, std::vector<std::string>{"base_model.model.model.norm.weight"});
  ASSERT_EQ(match.unmatched.size(), 2U);
  EXPECT_EQ(match.unmatched[0], "base_model.model.modle.layers.1.self_attn.q_proj.lora_A.weight");
  ASSERT_EQ(match.untargeted.size(), 2U);
  EXPECT_EQ(match.untargeted[0], "base_model.model.model.layers.1.self_attn.k_proj.lora_A.weight");
  EXPECT_EQ(match.absent, (std::vector<std::string>{layer + "v_proj.lora_A.weight", layer + "v_proj.lora_B.weight",
                                                    "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight",
                                                    "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight",
                                                    "base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight",
                                                    "base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight"}));
  ASSERT_EQ(match.layout.wholes.size(), 1U);
  EXPECT_EQ(match.layout.wholes[0].stored, "lm_head.weight");
  EXPECT_NE(match.layout.wholes[0].shape, (Shape{3, 2})) << "the base's shape counts (S98)";
}

TEST(LoraMatch, ARankThatAllFactorsShareIsFound) {
  const LoraBase base = base_of("qwen3_moe");
  const LoraConfig made = full_config(4);
  LoraConfig stated = full_config(2);
  for (const LoraPacking packing : {LoraPacking::per_expert, k_old, k_new}) {
    const Catalog catalog = catalog_from(describe_lora(base, lora_layout(base, made, packing)));
    const LoraMatch match = match_lora(base, stated, catalog);
    EXPECT_EQ(match.found_rank, 4U);
    EXPECT_FALSE(match_lora(base, made, catalog).found_rank);
  }
  // Experts with a rank of their own, as stated beside the config.
  stated.target_modules = {"q_proj"};
  LoraLayout layout = lora_layout(base, stated, k_new);
  for (LoraExpertsPart& part : layout.experts) part.rank = 1;
  const Catalog scaled = catalog_from(describe_lora(base, layout));
  EXPECT_EQ(match_lora(base, stated, scaled).found_rank, 1U);
  stated.has_scaled_expert_rank = true;
  const LoraMatch match = match_lora(base, stated, scaled);
  EXPECT_FALSE(match.found_rank);
  EXPECT_EQ(match.layout.experts.at(0).rank, 1U);
}

TEST(LoraMatch, HostileNamesMatchNothing) {
  const LoraBase base = base_of("qwen3_moe");
  const std::string at = "base_model.model.model.layers.1.mlp.experts.";
  std::vector<std::string> keys = {".lora_A.weight",
                                   "base_model.model..lora_A.weight",
                                   at + "5.gate_proj.lora_A.weight",
                                   at + "01.gate_proj.lora_A.weight",
                                   at + "-1.gate_proj.lora_A.weight",
                                   at + "99999999999999999999.gate_proj.lora_A.weight",
                                   at + ".gate_proj.lora_A.weight",
                                   at + "base_layer.base_layer.lora_A.weight",
                                   at + "1.w1.lora_A.weight"};
  for (std::size_t i = 1; i < keys.size(); ++i) {
    const LoraMatch match = match_lora(base, full_config(), catalog_of({keys[i]}));
    EXPECT_EQ(match.matched, 0U) << keys[i];
    EXPECT_TRUE(match.layout.experts.empty());
  }
  EXPECT_EQ(match_lora(base, full_config(), catalog_of({keys[0]})).modules, 0U);
}

}  // namespace
}  // namespace weightproof::adapters
