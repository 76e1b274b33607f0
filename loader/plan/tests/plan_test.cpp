// SPDX-License-Identifier: Apache-2.0
#include "loader/plan/plan.hpp"

#include <gtest/gtest.h>

#include <random>

#include "loader/plan/tests/plan_testing.hpp"
#include "loader/plan/text.hpp"

namespace weightproof::plan {
namespace {

using namespace testing_support;

/// Embedding, one norm in F32 state, a fused transposed expert matrix, a tied head.
std::shared_ptr<const Schema> small_schema() {
  SchemaBuilder builder("small");
  const StoredId embed = builder.stored("embed.weight", {6, 4});
  const NativeId native_embed = builder.native("embed", {6, 4});
  builder.bind(embed, native_embed, builder.whole(native_embed));
  builder.identity("norm.weight", {4}, DTypeRule::f32_state, 0);
  const NativeId fused = builder.native("gate_up", {4, 6}, DTypeRule::weight, 0);
  builder.bind(builder.stored("gate.weight", {3, 4}), fused, builder.whole(fused).narrow(1, 0, 3).transpose(0, 1));
  builder.bind(builder.stored("up.weight", {3, 4}), fused, builder.whole(fused).narrow(1, 3, 3).transpose(0, 1));
  builder.tie("head.weight", embed, native_embed, "tied");
  builder.drop("*.inv_freq", "recomputed");
  builder.passthrough("vision.", "a tower of its own");
  return share(builder);
}

CatalogMaker small_catalog() {
  CatalogMaker maker;
  maker.add("embed.weight", {6, 4}).add("norm.weight", {4}, DType::bf16);
  maker.add("gate.weight", {3, 4}).add("rope.inv_freq", {2}, DType::f32).add("up.weight", {3, 4});
  maker.add("vision.patch", {5}, DType::u8);
  return maker;
}

TEST(Plan, RoutesWithReasons) {
  const Plan plan = plan_of(small_schema(), small_catalog().make());
  EXPECT_EQ(plan.route(), Route::direct);
  EXPECT_EQ(only_move(plan, "embed").action, Action::write) << "the head is absent, so nothing is compared";
  EXPECT_EQ(only_move(plan, "embed").reason, Reason::contiguous);
  const PlannedTensor& fused = plan.tensors()[plan.find("gate_up")];
  ASSERT_EQ(fused.move_count, 2u);
  EXPECT_EQ(plan.moves()[fused.first_move].reason, Reason::strided_target);
  EXPECT_EQ(plan.moves()[fused.first_move].route, Route::direct);
  EXPECT_EQ(only_move(plan, "vision.patch").stored, k_no_id);
  EXPECT_EQ(plan.tensors()[plan.find("vision.patch")].dtype, DType::u8);
  EXPECT_EQ(plan.find("head.weight"), SIZE_MAX);
  EXPECT_EQ(plan.find("absent"), SIZE_MAX);
  ASSERT_EQ(plan.unread().size(), 1u);
  EXPECT_EQ(plan.unread()[0], (Unread{"*.inv_freq", "recomputed", 1, 8}));
  expect_accounts_for_all(plan);
  expect_loads_right(plan);
  ASSERT_EQ(plan.requests().size(), 1u) << "small tensors are read together, through the dropped one";
  EXPECT_EQ(plan.traffic().read_bytes, plan.traffic().wanted_bytes + 8);
  EXPECT_EQ(plan.memory().sink_bytes, 8u);
  EXPECT_EQ(plan.proof().native_proved, 3u);
  EXPECT_EQ(plan.proof().stored_proved, 4u);
}

TEST(Plan, HfSideIsTheStoredTensors) {
  Request request;
  request.side = Side::hf;
  CatalogMaker maker = small_catalog();
  const Plan plan = plan_of(small_schema(), maker.add("head.weight", {6, 4}).make(), request);
  EXPECT_EQ(plan.tensors().size(), 6u);
  for (const Move& move : plan.moves()) EXPECT_EQ(move.reason, Reason::contiguous);
  EXPECT_NE(plan.find("head.weight"), SIZE_MAX);
  expect_loads_right(plan);
  expect_accounts_for_all(plan);
}

TEST(Plan, DtypesAndCasts) {
  const auto dtype_of = [](const Plan& plan, std::string_view key) { return plan.tensors()[plan.find(key)].dtype; };
  Plan plan = plan_of(small_schema(), small_catalog().make());
  EXPECT_EQ(dtype_of(plan, "norm.weight"), DType::bf16) << "stored keeps what is found, F32 state too";
  Request request;
  request.dtype = TargetDType::bf16;
  plan = plan_of(small_schema(), small_catalog().make(), request);
  EXPECT_EQ(dtype_of(plan, "norm.weight"), DType::f32);
  EXPECT_EQ(only_move(plan, "norm.weight").reason, Reason::cast);
  EXPECT_EQ(only_move(plan, "embed").reason, Reason::contiguous);
  EXPECT_EQ(plan.route(), Route::bounded);
  EXPECT_EQ(plan.considered()[0].moves, 1u);
  EXPECT_EQ(plan.considered()[0].examples, std::vector<std::string>{"norm.weight"});
  EXPECT_FALSE(plan.considered()[0].is_chosen);
  EXPECT_TRUE(plan.considered()[1].is_chosen);
  request.dtype = TargetDType::f32;
  plan = plan_of(small_schema(), small_catalog().make(), request);
  EXPECT_EQ(dtype_of(plan, "gate_up"), DType::f32);
  EXPECT_EQ(plan.memory().tile_bytes, limits::tile_bytes_max) << "cast into a strided target";
  EXPECT_EQ(dtype_of(plan, "vision.patch"), DType::u8) << "integers that pass through are never converted";

  // Parts of one tensor stored in different dtypes: the one that holds both.
  SchemaBuilder builder("mixed");
  const NativeId fused = builder.native("fused", {4, 4});
  builder.bind(builder.stored("a", {2, 4}), fused, builder.whole(fused).narrow(0, 0, 2));
  builder.bind(builder.stored("b", {2, 4}), fused, builder.whole(fused).narrow(0, 2, 2));
  const auto schema = share(builder);
  plan = plan_of(schema, CatalogMaker().add("a", {2, 4}, DType::bf16).add("b", {2, 4}, DType::f16).make());
  EXPECT_EQ(dtype_of(plan, "fused"), DType::f32);
  plan = plan_of(schema, CatalogMaker().add("a", {2, 4}, DType::f32).add("b", {2, 4}, DType::f64).make());
  EXPECT_EQ(dtype_of(plan, "fused"), DType::f64);
}

TEST(Plan, IntegersAreNeverConverted) {
  SchemaBuilder builder("mixed");
  const NativeId fused = builder.native("fused", {4}, DTypeRule::any);
  builder.bind(builder.stored("a", {2}, DTypeRule::any), fused, builder.whole(fused).narrow(0, 0, 2));
  builder.bind(builder.stored("b", {2}, DTypeRule::any), fused, builder.whole(fused).narrow(0, 2, 2));
  const auto schema = share(builder);
  Request request;
  request.dtype = TargetDType::f32;
  const Plan plan = plan_of(schema, CatalogMaker().add("a", {2}, DType::i32).add("b", {2}, DType::i32).make(), request);
  EXPECT_EQ(plan.tensors()[0].dtype, DType::i32);
  const Error error =
      error_of_plan(schema, CatalogMaker().add("a", {2}, DType::i32).add("b", {2}, DType::i64).make(), request);
  EXPECT_EQ(error.code(), ErrorCode::dtype_unsupported);
  EXPECT_EQ(error.facts().keys, (std::vector<std::string>{"b", "fused"}));
}

TEST(Plan, TiedHeadInItsThreeForms) {
  CatalogMaker both = small_catalog();
  Plan plan = plan_of(small_schema(), both.add("head.weight", {6, 4}).make());
  const PlannedTensor& embed = plan.tensors()[plan.find("embed")];
  ASSERT_EQ(embed.move_count, 2u);
  EXPECT_EQ(plan.moves()[embed.first_move].action, Action::write);
  EXPECT_EQ(plan.moves()[embed.first_move + 1].action, Action::compare);
  EXPECT_EQ(plan.traffic().compare_bytes, 48u);
  EXPECT_GE(plan.memory().read_buffer_bytes, 48u) << "what is compared is not read into place";
  EXPECT_EQ(execute(plan).compared, 48u);
  expect_loads_right(plan);
  expect_accounts_for_all(plan);

  CatalogMaker alone;
  alone.add("head.weight", {6, 4}).add("norm.weight", {4}).add("gate.weight", {3, 4}).add("up.weight", {3, 4});
  plan = plan_of(small_schema(), alone.make());
  EXPECT_EQ(plan.schema().stored_tensors()[only_move(plan, "embed").stored].key, "head.weight");
  EXPECT_EQ(only_move(plan, "embed").action, Action::write);
  expect_loads_right(plan);
}

TEST(Plan, ConstantsFillPaddingAndStandInForAbsentTensors) {
  SchemaBuilder builder("padded");
  const NativeId vocabulary = builder.native("embed", {8, 2});
  builder.bind(builder.stored("embed.weight", {5, 2}), vocabulary, builder.whole(vocabulary).narrow(0, 0, 5));
  builder.constant(vocabulary, builder.whole(vocabulary).narrow(0, 5, 3), 0, "padding");
  const NativeId bias = builder.native("bias", {4});
  const StoredId stored_bias = builder.stored("bias.stored", {4});
  builder.bind(stored_bias, bias, builder.whole(bias));
  builder.optional(stored_bias, "zero where absent");
  builder.constant(bias, builder.whole(bias), 0, "zero where absent");
  const StoredId scale = builder.stored("scale", {1});
  const NativeId native_scale = builder.native("scale", {1});
  builder.bind(scale, native_scale, builder.whole(native_scale));
  builder.optional(scale, "recomputed");
  const auto schema = share(builder);

  Plan plan = plan_of(schema, CatalogMaker().add("embed.weight", {5, 2}).make());
  EXPECT_EQ(only_move(plan, "bias").action, Action::fill);
  EXPECT_EQ(only_move(plan, "bias").reason, Reason::constant);
  EXPECT_EQ(plan.find("scale"), SIZE_MAX) << "absent, and nothing stands in";
  EXPECT_EQ(plan.proof().left_out[native_scale], LeftOut::absent_optional);
  EXPECT_EQ(plan.schema().rule(plan.moves()[plan.tensors()[plan.find("embed")].first_move + 1].rule), "padding");
  EXPECT_EQ(plan.tensors()[plan.find("bias")].dtype, DType::bf16);

  plan = plan_of(schema, CatalogMaker().add("embed.weight", {5, 2}).add("bias.stored", {4}, DType::f32).make());
  EXPECT_EQ(only_move(plan, "bias").action, Action::write) << "the default gives way";
}

TEST(Plan, AliasesMayFillWhatNothingElseDoes) {
  // One stored key-value head kept twice.
  SchemaBuilder builder("duplicated");
  const StoredId key = builder.stored("k", {2, 3});
  const NativeId native = builder.native("k2", {4, 3});
  builder.bind(key, native, builder.whole(native).narrow(0, 0, 2));
  builder.alias(key, builder.whole_stored(key), native, builder.whole(native).narrow(0, 2, 2), "head kept twice");
  const Plan plan = plan_of(share(builder), CatalogMaker().add("k", {2, 3}).make());
  for (const Move& move : plan.moves()) EXPECT_EQ(move.action, Action::write);
  expect_loads_right(plan);
}

TEST(Plan, ForcedRoutes) {
  Request request;
  request.route = Route::direct;
  EXPECT_EQ(plan_of(small_schema(), small_catalog().make(), request).route(), Route::direct);
  request.dtype = TargetDType::f32;
  Error error = error_of_plan(small_schema(), small_catalog().make(), request);
  EXPECT_EQ(error.code(), ErrorCode::route_unavailable);
  EXPECT_EQ(error.facts().keys.size(), 4u);

  request.dtype = TargetDType::stored;
  request.route = Route::bounded;
  Plan plan = plan_of(small_schema(), small_catalog().make(), request);
  EXPECT_EQ(plan.route(), Route::bounded);
  EXPECT_EQ(only_move(plan, "embed").reason, Reason::forced);
  EXPECT_GT(plan.memory().read_buffer_bytes, 0u);
  expect_loads_right(plan);

  request.route = Route::materialized;
  plan = plan_of(small_schema(), small_catalog().make(), request);
  EXPECT_TRUE(plan.requests().empty());
  EXPECT_EQ(plan.whole_order().size(), plan.moves().size());
  EXPECT_EQ(plan.memory().whole_bytes, 48u) << "the largest stored tensor";
  EXPECT_EQ(plan.traffic().read_bytes, plan.traffic().wanted_bytes);
  expect_accounts_for_all(plan);
}

TEST(Plan, FaultyMappingsAreRefusedWithTensorAndCoordinate) {
  const auto catalog = [] { return CatalogMaker().add("a", {2, 4}).add("b", {2, 4}).make(); };
  const auto schema_with = [](std::uint64_t second_row, std::uint64_t rows, std::uint64_t stored_rows) {
    SchemaBuilder builder("faulty");
    const NativeId fused = builder.native("fused", {rows, 4});
    builder.bind(builder.stored("a", {2, 4}), fused, builder.whole(fused).narrow(0, 0, 2));
    const StoredId b = builder.stored("b", {2, 4});
    builder.bind(b, builder.whole_stored(b).narrow(0, 0, stored_rows), fused,
                 builder.whole(fused).narrow(0, second_row, stored_rows));
    return share(builder);
  };
  Error error = error_of_plan(schema_with(3, 5, 2), catalog());
  EXPECT_EQ(error.code(), ErrorCode::dest_not_covered);
  EXPECT_EQ(error.message(), "element [2,0] of native tensor 'fused' is filled by no stored tensor");
  error = error_of_plan(schema_with(1, 3, 2), catalog());
  EXPECT_EQ(error.code(), ErrorCode::duplicate_destination);
  EXPECT_EQ(error.message(), "element [1,0] of native tensor 'fused' is filled by 'a' and by 'b'");
  EXPECT_EQ(error.facts().coordinate, (std::vector<std::uint64_t>{1, 0}));
  error = error_of_plan(schema_with(2, 3, 1), catalog());
  EXPECT_EQ(error.code(), ErrorCode::dest_not_covered);
  EXPECT_EQ(error.message(), "element [1,0] of stored tensor 'b' is read by no binding");
  EXPECT_EQ(error.check(), "layout.coverage");

  SchemaBuilder builder("twice");
  const NativeId first = builder.native("first", {2, 4});
  const NativeId second = builder.native("second", {2, 4});
  const StoredId a = builder.stored("a", {2, 4});
  builder.bind(a, first, builder.whole(first));
  builder.bind(a, second, builder.whole(second));
  error = error_of_plan(share(builder), CatalogMaker().add("a", {2, 4}).make());
  EXPECT_EQ(error.code(), ErrorCode::duplicate_destination);
  EXPECT_EQ(error.message(), "element [0,0] of stored tensor 'a' is read for 'first' and by 'second'");
}

TEST(Plan, CoverageComesFirst) {
  CatalogMaker maker;
  maker.add("embed.weight", {6, 4});
  const Error error = error_of_plan(small_schema(), maker.make());
  EXPECT_EQ(error.code(), ErrorCode::missing_keys);
  EXPECT_EQ(error.facts().keys, (std::vector<std::string>{"gate.weight", "norm.weight", "up.weight"}));
}

TEST(Plan, SubsetLeavesOutWhatItCannotFill) {
  Request request;
  request.keys.exclude = {"up.weight"};
  Plan plan = plan_of(small_schema(), small_catalog().make(), request);
  EXPECT_EQ(plan.find("gate_up"), SIZE_MAX);
  EXPECT_EQ(plan.proof().left_out[plan.schema().find_native("gate_up")], LeftOut::not_selected);
  expect_accounts_for_all(plan);
  expect_loads_right(plan);

  request.keys = {};
  request.keys.allow_missing = {"up.*"};
  CatalogMaker maker;
  maker.add("embed.weight", {6, 4}).add("norm.weight", {4}).add("gate.weight", {3, 4});
  plan = plan_of(small_schema(), maker.make(), request);
  EXPECT_EQ(plan.proof().left_out[plan.schema().find_native("gate_up")], LeftOut::missing_allowed);
  ASSERT_EQ(plan.unread().size(), 1u);
  EXPECT_EQ(plan.unread()[0], (Unread{"", "needed only by tensors that are left out", 1, 24}));

  request.keys = {};
  request.keys.include = {"up.weight"};
  const Error error = error_of_plan(small_schema(), small_catalog().make(), request);
  EXPECT_EQ(error.code(), ErrorCode::subset_empty) << "half a tensor is none";
  request.side = Side::hf;
  EXPECT_EQ(plan_of(small_schema(), small_catalog().make(), request).tensors().size(), 1u);
}

TEST(Plan, InputsAreChecked) {
  CatalogBuilder names;
  names.add_file("model.safetensors");
  StoredTensor tensor;
  tensor.key = "embed.weight";
  names.add_copy(tensor);
  EXPECT_EQ(error_of_plan(small_schema(), std::make_shared<const Catalog>(std::move(names).finish())).code(),
            ErrorCode::usage);

  CatalogBuilder lying;
  lying.add_file("model.safetensors");
  tensor.is_described = true;
  tensor.shape = {6, 4};
  tensor.dtype = DType::bf16;
  tensor.bytes = 47;
  lying.add_copy(tensor);
  const Error error = error_of_plan(small_schema(), std::make_shared<const Catalog>(std::move(lying).finish()));
  EXPECT_EQ(error.code(), ErrorCode::tensor_invalid_info);
  EXPECT_EQ(error.facts().keys, std::vector<std::string>{"embed.weight"});

  RankPlacement placement;
  const auto schema = small_schema();
  for (const NativeTensor& native : schema->native_tensors()) {
    const Shape& shape = schema->shape_of(native);
    placement.locals.push_back({shape, {{Box::whole(shape), Box::whole(shape)}}});
  }
  const Source source{"base", small_catalog().make()};
  EXPECT_EQ(make_plan(schema, std::span(&source, 1), placement, {}), plan_of(schema, source.catalog));
}

TEST(Plan, SeveralSources) {
  SchemaBuilder builder("adapted");
  builder.identity("base.weight", {4});
  builder.identity("lora_A", {2});
  const auto schema = share(builder);
  const Source sources[] = {{"base", CatalogMaker().add("base.weight", {4}).make()},
                            {"adapter", CatalogMaker(64).add("lora_A", {2}).make()}};
  const Plan plan = make_plan(schema, sources, {}, {});
  EXPECT_EQ(plan.catalog().files(), (std::vector<std::string>{"base/model.safetensors", "adapter/model.safetensors"}));
  EXPECT_EQ(plan.requests().size(), 2u);
  EXPECT_EQ(plan.traffic().files, 2u);
  expect_loads_right(plan);
  const Source twice[] = {sources[0], sources[0]};
  try {
    make_plan(schema, twice, {}, {});
    FAIL() << "one key in two sources was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::duplicate_tensor);
  }
}

TEST(Plan, IsAValue) {
  const Plan plan = plan_of(small_schema(), small_catalog().make());
  const Plan again = plan_of(small_schema(), small_catalog().make());
  EXPECT_EQ(plan, again);
  EXPECT_EQ(to_text(plan), to_text(again));
  EXPECT_EQ(to_value(plan).dump(), to_value(again).dump());
  Request request;
  request.dtype = TargetDType::f32;
  EXPECT_NE(plan, plan_of(small_schema(), small_catalog().make(), request));
  CatalogMaker moved(2000);
  moved.add("embed.weight", {6, 4}).add("norm.weight", {4}).add("gate.weight", {3, 4}).add("up.weight", {3, 4});
  EXPECT_NE(plan, plan_of(small_schema(), moved.make()));
  request = {};
  request.probes = {{"quant_state", 12, "ab"}};
  EXPECT_NE(plan, plan_of(small_schema(), small_catalog().make(), request)) << "probed values are inputs";
}

TEST(Plan, TextAndValue) {
  Request request;
  request.dtype = TargetDType::bf16;
  const Plan plan = plan_of(small_schema(), small_catalog().make(), request);
  const std::string text = to_text(plan);
  for (const char* part :
       {"plan: 4 tensors of small, native layout, route bounded", "direct            rejected: 1 move needs",
        "bounded           chosen:", "norm.weight  F32 [4] at", "bounded cast BF16->F32",
        "not read          1 tensor, 8 B: *.inv_freq, recomputed", "direct strided_target"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const ConfigValue value = to_value(plan, {.tensors_max = 2});
  EXPECT_EQ(value.find("route")->as_string(), "bounded");
  EXPECT_EQ(value.find("tensors.total")->as_integer(), 4);
  EXPECT_EQ(value.find("tensors.shown")->as_integer(), 2);
  EXPECT_EQ(value.find("coverage.verdict")->as_string(), "exact");
  EXPECT_EQ(value.find("memory.peak")->as_integer(), static_cast<std::int64_t>(plan.memory().peak_bytes()));
  EXPECT_EQ(ConfigValue::parse(value.dump(), "plan").dump(), value.dump()) << "it is sound JSON";
  EXPECT_NE(to_text(plan, {.tensors_max = 1}).find("... and 3 more"), std::string::npos);
}

/// Random layouts: each native tensor assembled from stored tensors that are themselves cut, permuted and interleaved.
TEST(PlanProperty, EveryElementComesFromWhereItsBindingSays) {
  std::mt19937_64 random(20250918);
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  std::uint64_t strided = 0;
  for (int round = 0; round < 300; ++round) {
    SchemaBuilder builder("random");
    CatalogMaker maker(below(5000));
    std::vector<std::pair<std::string, Shape>> rows;
    const std::uint64_t layers = 1 + below(4);
    for (std::uint64_t layer = 0; layer < layers; ++layer) {
      const std::string name = "layer." + std::to_string(layer) + ".";
      const std::uint64_t experts = 1 + below(3), hidden = 1 + below(9), inner = 1 + below(9);
      const NativeId stack = builder.native(name + "stack", {experts, hidden, 2 * inner});
      const bool is_interleaved = below(2) == 0;
      for (std::uint64_t e = 0; e < experts; ++e) {
        for (std::uint64_t half = 0; half < 2; ++half) {
          const std::string key = name + std::to_string(e) + (half == 0 ? ".gate" : ".up");
          const View expert = builder.whole(stack).select(0, e);
          const View part =
              is_interleaved ? expert.unflatten(1, {inner, 2}).select(2, half) : expert.narrow(1, half * inner, inner);
          builder.bind(builder.stored(key, {inner, hidden}), stack, part.transpose(0, 1));
          rows.emplace_back(key, Shape{inner, hidden});
        }
      }
      // One stored tensor that feeds three native ones: rows grouped per head, so that its reads are strided.
      const std::uint64_t groups = 1 + below(3), head = 1 + below(3);
      const StoredId qkv = builder.stored(name + "qkv", {groups * 3 * head, hidden});
      rows.emplace_back(name + "qkv", Shape{groups * 3 * head, hidden});
      for (std::uint64_t i = 0; i < 3; ++i) {
        const NativeId native = builder.native(name + "qkv" [i], { groups *head, hidden });
        builder.bind(qkv, builder.whole_stored(qkv).unflatten(0, {groups, 3, head}).select(1, i), native,
                     builder.whole(native).unflatten(0, {groups, head}));
      }
      builder.identity(name + "norm", {hidden});
      rows.emplace_back(name + "norm", Shape{hidden});
    }
    std::shuffle(rows.begin(), rows.end(), random);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (below(5) == 0) maker.skip(below(200'000));
      if (below(8) == 0) maker.file("file" + std::to_string(i));
      maker.add(rows[i].first, rows[i].second);
    }
    Request request;
    if (below(4) == 0) request.route = Route::bounded;
    if (below(4) == 0) request.side = Side::hf;
    const Plan plan = plan_of(share(builder), maker.make(), request);
    ASSERT_NO_FATAL_FAILURE(expect_loads_right(plan));
    expect_accounts_for_all(plan);
    for (const Move& move : plan.moves()) strided += move.reason == Reason::strided_source ? 1u : 0u;
    ASSERT_FALSE(testing::Test::HasFailure()) << to_text(plan);
  }
  EXPECT_GT(strided, 100u);
}

}  // namespace
}  // namespace weightproof::plan
