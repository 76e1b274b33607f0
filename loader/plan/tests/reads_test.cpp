// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <ctime>

#include "loader/plan/decode_items.hpp"
#include "loader/plan/tests/plan_testing.hpp"
#include "loader/plan/text.hpp"

namespace weightproof::plan {
namespace {

using namespace testing_support;

std::shared_ptr<const Schema> identities(std::span<const std::pair<std::string, Shape>> tensors,
                                         DTypeRule rule = DTypeRule::any) {
  SchemaBuilder builder("identity");
  for (const auto& [key, shape] : tensors) builder.identity(key, shape, rule);
  return share(builder);
}

using Tensors = std::vector<std::pair<std::string, Shape>>;

TEST(Reads, SmallTensorsAreReadTogether) {
  Tensors tensors;
  CatalogMaker maker;
  for (int i = 0; i < 4000; ++i) {
    tensors.emplace_back("t" + std::to_string(i), Shape{2048});
    maker.add(tensors.back().first, tensors.back().second);
  }
  const Plan plan = plan_of(identities(tensors), maker.make());
  const std::uint64_t bytes = 4000 * 4096;
  EXPECT_EQ(plan.requests().size(), (bytes + limits::read_bytes_max - 1) / limits::read_bytes_max);
  EXPECT_EQ(plan.traffic().read_bytes, bytes);
  EXPECT_EQ(plan.traffic().wanted_bytes, bytes);
  EXPECT_EQ(plan.memory().staging_bytes, 0u) << "everything is read into place";
  for (const ReadRequest& request : plan.requests()) EXPECT_LE(request.bytes, limits::read_bytes_max);
}

TEST(Reads, LargeTensorsAreCut) {
  const Tensors tensors = {{"large", {3, 1024, 1024}}, {"tail", {7}}};
  const Plan plan = plan_of(identities(tensors), CatalogMaker(8).add("large", {3, 1024, 1024}).add("tail", {7}).make());
  std::uint64_t next = 8;
  for (const ReadRequest& request : plan.requests()) {
    EXPECT_EQ(request.offset, next) << "no byte twice, none left out";
    EXPECT_LE(request.bytes, limits::read_bytes_max);
    next += request.bytes;
  }
  EXPECT_EQ(next, 8u + 3 * 1024 * 1024 * 2 + 14);
}

TEST(Reads, GapsAreReadThroughUpToTheLimit) {
  const Tensors tensors = {{"a", {8}}, {"b", {8}}};
  const auto plan_with_gap = [&](std::uint64_t gap) {
    return plan_of(identities(tensors), CatalogMaker().add("a", {8}).skip(gap).add("b", {8}).make());
  };
  EXPECT_EQ(plan_with_gap(limits::read_gap_bytes_max).requests().size(), 1u);
  EXPECT_EQ(plan_with_gap(limits::read_gap_bytes_max).memory().sink_bytes, limits::read_gap_bytes_max);
  const Plan apart = plan_with_gap(limits::read_gap_bytes_max + 1);
  EXPECT_EQ(apart.requests().size(), 2u);
  EXPECT_EQ(apart.traffic().read_bytes, apart.traffic().wanted_bytes);
}

TEST(Reads, OneStoredTensorIsReadOnceForSeveralNativeOnes) {
  // [rows, 3, columns]: three native tensors take every third block; the pieces coincide.
  constexpr std::uint64_t rows = 9000, columns = 128;
  SchemaBuilder builder("fused");
  const StoredId qkv = builder.stored("qkv", {rows, 3 * columns});
  for (std::uint64_t i = 0; i < 3; ++i) {
    const NativeId native = builder.native(std::string(1, "qkv"[i]), {rows, columns});
    builder.bind(qkv, builder.whole_stored(qkv).narrow(1, i * columns, columns), native, builder.whole(native));
  }
  const Plan plan = plan_of(share(builder), CatalogMaker().add("qkv", {rows, 3 * columns}).make());
  EXPECT_EQ(plan.traffic().wanted_bytes, rows * 3 * columns * 2);
  EXPECT_EQ(plan.traffic().read_bytes, plan.traffic().wanted_bytes);
  EXPECT_EQ(plan.requests().size(), 2u);
  for (const ReadRequest& request : plan.requests()) EXPECT_EQ(request.entry_count, 3u);
  EXPECT_EQ(plan.requests()[0].bytes % (3 * columns * 2), 0u) << "cut where a row ends";
  EXPECT_EQ(plan.memory().read_buffer_bytes, plan.requests()[0].bytes);
}

TEST(Reads, WideGapsInsideATensorAreSkipped) {
  constexpr std::uint64_t columns = 100'000;
  SchemaBuilder builder("columns");
  const StoredId wide = builder.stored("wide", {5, columns});
  const NativeId part = builder.native("part", {5, 10});
  const NativeId rest = builder.native("rest", {5, columns - 10});
  builder.bind(wide, builder.whole_stored(wide).narrow(1, 0, 10), part, builder.whole(part));
  builder.bind(wide, builder.whole_stored(wide).narrow(1, 10, columns - 10), rest, builder.whole(rest));
  const Plan plan = plan_of(share(builder), CatalogMaker().add("wide", {5, columns}).make());
  EXPECT_EQ(plan.traffic().wanted_bytes, 5 * columns * 2);
  EXPECT_EQ(plan.traffic().read_bytes, plan.traffic().wanted_bytes);
  std::uint64_t part_entries = 0;
  for (const ScatterEntry& entry : plan.entries()) part_entries += entry.bytes == 20 ? 1u : 0u;
  EXPECT_EQ(part_entries, 5u) << "one run a row instead of the whole rows";
  expect_loads_right(plan);
}

TEST(Reads, FilesAreReadInOrderWhateverTheOrderOfTheSchema) {
  Tensors tensors;
  CatalogMaker maker;
  for (int i = 0; i < 50; ++i) {
    tensors.emplace_back("t" + std::to_string(i), Shape{64});
    if (i % 10 == 9) maker.file("part" + std::to_string(i));
    maker.add("t" + std::to_string(i), {64});
  }
  std::reverse(tensors.begin(), tensors.end());
  const Plan plan = plan_of(identities(tensors), maker.make());
  for (std::size_t i = 1; i < plan.requests().size(); ++i) {
    const ReadRequest& before = plan.requests()[i - 1];
    const ReadRequest& now = plan.requests()[i];
    EXPECT_TRUE(before.file < now.file || (before.file == now.file && before.offset < now.offset));
  }
  EXPECT_EQ(plan.tensors().front().key, "t0") << "the arena follows the files";
  expect_loads_right(plan);
}

TEST(Arena, PacksAndMeetsPagesWhereFilesAllowIt) {
  constexpr std::uint64_t large = 1024 * 1024;
  const Tensors tensors = {{"a", {3}}, {"b", {large}}, {"c", {large}}, {"d", {5}}};
  // The first large tensor begins on a multiple of 64 in the file, the second does not.
  const Plan plan = plan_of(
      identities(tensors),
      CatalogMaker(256).add("a", {3}).skip(58).add("b", {large}).skip(2).add("c", {large}).add("d", {5}).make());
  const auto at = [&](std::string_view key) { return plan.tensors()[plan.find(key)].arena_offset; };
  EXPECT_EQ(at("b") % 4096, 320u) << "congruent to its place in the file";
  EXPECT_LT(at("b"), 4096u);
  EXPECT_EQ(at("c"), at("b") + 2 * large);
  for (const PlannedTensor& tensor : plan.tensors()) EXPECT_EQ(tensor.arena_offset % 64, 0u);
  EXPECT_EQ(plan.memory().final_bytes % 64, 0u);
  EXPECT_EQ(plan.memory().final_tensor_bytes, 2u * (3 + 5 + 2 * large));
}

TEST(Arena, EmptyTensorsTakeNoRoom) {
  const Tensors tensors = {{"none", {0, 4}}, {"one", {}}, {"zero", {4, 0}}};
  const Plan plan =
      plan_of(identities(tensors), CatalogMaker().add("none", {0, 4}).add("one", {}).add("zero", {4, 0}).make());
  EXPECT_EQ(plan.memory().final_bytes, 64u);
  EXPECT_EQ(plan.entries().size(), 1u);
  expect_loads_right(plan);
}

TEST(Arena, SizesThatDoNotFitAreRefused) {
  Tensors tensors;
  CatalogMaker maker(0);
  for (int i = 0; i < 10; ++i) {
    maker.file("f" + std::to_string(i)).add("t" + std::to_string(i), {1ull << 59}, DType::bf16);
    tensors.emplace_back("t" + std::to_string(i), Shape{1ull << 59});
  }
  EXPECT_EQ(error_of_plan(identities(tensors), maker.make()).code(), ErrorCode::validation_overflow);
}

TEST(Routes, BitsInsideBytesHaveNoAddress) {
  SchemaBuilder builder("sub byte");
  builder.identity("plain", {4, 6}, DTypeRule::any);
  const NativeId turned = builder.native("turned", {6, 4}, DTypeRule::any);
  builder.bind(builder.stored("turned", {4, 6}, DTypeRule::any), turned, builder.whole(turned).transpose(0, 1));
  const auto schema = share(builder);
  const auto catalog = [] {
    return CatalogMaker().add("plain", {4, 6}, DType::f4).add("turned", {4, 6}, DType::f4).make();
  };
  const Plan plan = plan_of(schema, catalog());
  EXPECT_EQ(only_move(plan, "plain").reason, Reason::contiguous);
  EXPECT_EQ(only_move(plan, "turned").route, Route::materialized);
  EXPECT_EQ(only_move(plan, "turned").reason, Reason::sub_byte);
  EXPECT_EQ(plan.memory().whole_bytes, 12u);
  Request request;
  request.route = Route::bounded;
  const Error error = error_of_plan(schema, catalog(), request);
  EXPECT_EQ(error.code(), ErrorCode::route_unavailable);
  EXPECT_EQ(error.facts().keys, std::vector<std::string>{"turned"});
}

TEST(Budget, MinimumIsExactAndNamedInTheError) {
  // One large transposed tensor: its tiles need a buffer, which a budget can shrink.
  SchemaBuilder builder("strided");
  const NativeId native = builder.native("turned", {3000, 2000});
  builder.bind(builder.stored("stored", {2000, 3000}), native, builder.whole(native).transpose(0, 1));
  const auto schema = share(builder);
  const auto catalog = [] { return CatalogMaker().add("stored", {2000, 3000}).make(); };
  Request request;
  request.threads = 8;
  const Plan free = plan_of(schema, catalog(), request);
  EXPECT_EQ(free.memory().threads, 8u);
  EXPECT_GT(free.memory().read_buffer_bytes, 3u << 20);
  EXPECT_EQ(free.memory().staging_bytes, 8 * free.memory().read_buffer_bytes);
  EXPECT_LE(free.memory().staging_bytes, limits::staging_bytes_max);

  request.budget_bytes = 0;
  const Error error = error_of_plan(schema, catalog(), request);
  EXPECT_EQ(error.code(), ErrorCode::budget_too_small);
  const std::uint64_t minimum = std::stoull(error.facts().expected);
  request.budget_bytes = minimum - 1;
  EXPECT_EQ(error_of_plan(schema, catalog(), request).code(), ErrorCode::budget_too_small);
  request.budget_bytes = minimum;
  const Plan least = plan_of(schema, catalog(), request);
  EXPECT_EQ(least.memory().minimum_budget_bytes, minimum);
  EXPECT_LE(least.memory().beyond_final_bytes(), minimum);
  EXPECT_LE(least.memory().read_buffer_bytes, 64u * 1024);
  expect_accounts_for_all(least);
  for (const std::uint64_t budget : {minimum * 2, minimum * 10, minimum * 100, minimum * 1000}) {
    request.budget_bytes = budget;
    const Plan plan = plan_of(schema, catalog(), request);
    EXPECT_LE(plan.memory().beyond_final_bytes(), budget);
    EXPECT_EQ(plan.memory().minimum_budget_bytes, minimum) << "the least does not depend on what is asked";
  }
}

TEST(Budget, ManyThreadsStayInsideTheStagingLimit) {
  SchemaBuilder builder("strided");
  const NativeId native = builder.native("turned", {3000, 2000});
  builder.bind(builder.stored("stored", {2000, 3000}), native, builder.whole(native).transpose(0, 1));
  Request request;
  request.threads = 4'000'000'000u;
  const Plan plan = plan_of(share(builder), CatalogMaker().add("stored", {2000, 3000}).make(), request);
  EXPECT_LE(plan.memory().staging_bytes, limits::staging_bytes_max);
  EXPECT_GT(plan.memory().threads, 10u);
}

TEST(Decode, TilesCoverTheTensorAndMemoryIsStated) {
  SchemaBuilder builder("fp8");
  const NativeId fused = builder.native("fused", {1024, 512});
  const StoredId first = builder.stored("a.weight", {512, 512});
  builder.bind(first, fused, builder.whole(fused).narrow(0, 0, 512));
  builder.bind(builder.stored("b.weight", {512, 512}), fused, builder.whole(fused).narrow(0, 512, 512));
  const auto schema = share(builder);
  CatalogMaker maker;
  maker.add("a.weight", {512, 512}, DType::f8_e4m3).add("a.weight_scale_inv", {4, 4}, DType::f32);
  maker.add("b.weight", {512, 512}, DType::bf16);
  const auto catalog = maker.make();
  Request request;
  codec::Scheme scheme;
  scheme.id = "fp8_block";
  scheme.block_rows = scheme.block_cols = 128;
  DecodeSource source;
  source.stored = first;
  source.rows = {static_cast<Row>(catalog->index_of("a.weight")),
                 static_cast<Row>(catalog->index_of("a.weight_scale_inv"))};
  source.codec = codec::make_codec(scheme, {{codec::Role::weight, "a.weight", DType::f8_e4m3, {512, 512}},
                                            {codec::Role::scale, "a.weight_scale_inv", DType::f32, {4, 4}}});
  request.decodes = {source};
  const Plan plan = plan_of(schema, catalog, request);
  EXPECT_EQ(plan.tensors()[0].dtype, DType::bf16);
  EXPECT_EQ(plan.route(), Route::bounded);
  ASSERT_EQ(plan.decode_order().size(), 1u);
  const Move& move = plan.moves()[plan.decode_order()[0]];
  EXPECT_EQ(move.reason, Reason::decode);
  expect_accounts_for_all(plan);
  EXPECT_GE(plan.memory().companion_bytes, 16u);
  EXPECT_LE(plan.memory().tile_bytes, limits::tile_bytes_max);
  EXPECT_GE(plan.memory().read_buffer_bytes, plan.memory().tile_bytes / 2);

  for (const std::uint64_t tile_elements : {1ull, 128ull * 128, 100'000ull, 1ull << 30}) {
    std::vector<int> seen(512 * 512, 0);
    for (const Box& tile : decode_tiles(plan, move, tile_elements)) {
      EXPECT_EQ(source.codec->align(tile), tile) << "on the granule";
      for (std::uint64_t i = 0; i < tile.element_count(); ++i) {
        Coordinate at = coordinate_of(tile.length, i);
        for (unsigned axis = 0; axis < 2; ++axis) at[axis] += tile.start[axis];
        ++seen[linear_index({512, 512}, at)];
      }
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 512 * 512) << tile_elements;
  }

  // A view that is no box of the decoded tensor: it is held whole.
  SchemaBuilder odd("odd");
  const StoredId stored = odd.stored("a.weight", {512, 512});
  const NativeId even = odd.native("even", {256, 512});
  const NativeId uneven = odd.native("uneven", {256, 512});
  odd.bind(stored, odd.whole_stored(stored).unflatten(0, {256, 2}).select(1, 0), even, odd.whole(even));
  odd.bind(stored, odd.whole_stored(stored).unflatten(0, {256, 2}).select(1, 1), uneven, odd.whole(uneven));
  request.decodes[0].stored = stored;
  request.keys.allow_unexpected = true;
  const Plan whole = plan_of(share(odd), catalog, request);
  EXPECT_EQ(only_move(whole, "even").reason, Reason::no_box);
  EXPECT_EQ(whole.memory().whole_bytes, 512u * 512 + 64 + 512 * 512 * 2);
  EXPECT_EQ(whole.whole_order().size(), 2u);
}

// Runs of companions as they stand in the buffer one after the other: what is read of a tile after another one.
TEST(Decode, CompanionsOfTheTileBeforeAreReadAgainWhereTheyMoved) {
  using Runs = std::vector<codec::ByteRun>;
  const auto read_of = [](const Runs& before, const Runs& now) {
    std::vector<std::pair<codec::ByteRun, std::uint64_t>> read;
    for_each_new_companion(before, now,
                           [&](const codec::ByteRun& run, std::uint64_t at) { read.emplace_back(run, at); });
    return read;
  };
  using Read = std::vector<std::pair<codec::ByteRun, std::uint64_t>>;
  const codec::ByteRun book{2, 0, 64};
  const codec::ByteRun scales{1, 0, 16};
  const codec::ByteRun next{1, 16, 16};
  const codec::ByteRun short_next{1, 16, 8};
  EXPECT_EQ(read_of({}, {scales, book}), (Read{{scales, 0}, {book, 16}})) << "the first tile of an item reads all";
  EXPECT_EQ(read_of({scales, book}, {scales, book}), Read{}) << "all of it is there";
  EXPECT_EQ(read_of({scales, book}, {next, book}), (Read{{next, 0}})) << "the code book stays where it is";
  EXPECT_EQ(read_of({book, scales}, {book, next}), (Read{{next, 64}}));
  EXPECT_EQ(read_of({scales, book}, {short_next, book}), (Read{{short_next, 0}, {book, 8}}))
      << "what comes before it is shorter, so it moves";
  EXPECT_EQ(read_of({scales, book}, {book, scales}), (Read{{book, 0}, {scales, 64}})) << "another order";
  EXPECT_EQ(read_of({scales}, {scales, book}), (Read{{book, 16}})) << "one more";
  EXPECT_EQ(read_of({scales, book}, {scales}), Read{}) << "one less";
  EXPECT_EQ(read_of({scales, next, book}, {scales, {1, 32, 16}, book}), (Read{{{1, 32, 16}, 16}})) << "in the middle";
  EXPECT_EQ(read_of({{1, 0, 0}, book}, {book}), (Read{{book, 0}})) << "another run in its place, though at its offset";
}

/// 12 tensors a layer, as models of many experts have them.
std::shared_ptr<const Schema> many(std::size_t tensors, CatalogMaker& maker) {
  SchemaBuilder builder("many");
  std::string name;
  for (std::uint32_t layer = 0; layer * 12 < tensors; ++layer) {
    for (std::uint32_t i = 0; i < 6; ++i) {
      name = "model.layers." + std::to_string(layer) + ".mlp.experts." + std::to_string(i) + ".";
      const NativeId fused = builder.native(name + "gate_up", {64, 64}, DTypeRule::weight, layer);
      builder.bind(builder.stored(name + "gate.weight", {32, 64}, DTypeRule::weight, layer), fused,
                   builder.whole(fused).narrow(0, 0, 32));
      builder.bind(builder.stored(name + "up.weight", {32, 64}, DTypeRule::weight, layer), fused,
                   builder.whole(fused).narrow(0, 32, 32));
      maker.add(name + "gate.weight", {32, 64}).add(name + "up.weight", {32, 64});
    }
  }
  return share(builder);
}

TEST(PlanScale, LinearInTensors) {
  const auto seconds_of = [](std::size_t tensors) {
    CatalogMaker maker;
    const auto schema = many(tensors, maker);
    const auto catalog = maker.make();
    double best = 1e9;
    for (int round = 0; round < 3; ++round) {
      const std::clock_t begin = std::clock();  // processor time: other processes do not count
      const Plan plan = plan_of(schema, catalog);
      best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
      EXPECT_EQ(plan.proof().proofs_done, 1u) << "equal layers are proved once";
      EXPECT_TRUE(plan.proof().is_exact());
    }
    return best;
  };
  const double small = seconds_of(40'000);
  const double large = seconds_of(400'000);
  std::printf("plan with proof: 40,000 tensors %.1f ms, 400,000 tensors %.1f ms, ratio %.1f\n", small * 1e3,
              large * 1e3, large / small);
  // Ten times the tensors; caches and a busy machine are given room, a quadratic step is not.
  EXPECT_LT(large / small, 30);
}

}  // namespace
}  // namespace weightproof::plan
