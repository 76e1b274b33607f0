// SPDX-License-Identifier: Apache-2.0
// What ranks hold, from the rules of a schema: worked values, and for every topology that parts are the whole.
#include "loader/plan/ranks.hpp"

#include <gtest/gtest.h>

#include <set>

#include "loader/core/error.hpp"
#include "loader/core/tiling.hpp"

namespace weightproof::plan {
namespace {

ParallelRule along(std::uint8_t axis, std::initializer_list<FusedComponent> components) {
  ParallelRule rule;
  rule.kind = ParallelKind::components;
  rule.axis = axis;
  for (const FusedComponent& component : components) rule.components[rule.component_count++] = component;
  return rule;
}

ParallelRule kind_of(ParallelKind kind, StageRule stage = StageRule::last) {
  ParallelRule rule;
  rule.kind = kind;
  rule.stage = stage;
  return rule;
}

/// Four layers of a little of everything.
struct Model {
  Schema schema;
  static constexpr std::uint32_t layers = 4;
  explicit Model(std::uint64_t experts = 8) : schema(make(experts)) {}
  static Schema make(std::uint64_t experts) {
    SchemaBuilder b("ranks");
    const auto add = [&](const std::string& key, const Shape& shape, std::uint32_t layer, const ParallelRule& rule,
                         std::uint32_t expert = k_no_id) {
      b.identity(key, shape, DTypeRule::weight, layer);
      b.parallel(b.last_native(), rule, expert);
    };
    add("embed", {11, 6}, k_no_layer, kind_of(ParallelKind::chunks, StageRule::both));
    for (std::uint32_t l = 0; l < layers; ++l) {
      const std::string at = std::to_string(l) + ".";
      add(at + "norm", {6}, l, {});
      add(at + "qkv", {24, 6}, l, along(0, {{4, 3, false}, {2, 3, true}, {2, 3, true}}));
      add(at + "o", {6, 12}, l, along(1, {{4, 3, false}}));
      add(at + "experts", {experts, 6, 10}, l, kind_of(ParallelKind::experts));
      ParallelRule one = kind_of(ParallelKind::expert);
      one.experts = static_cast<std::uint32_t>(experts);
      for (std::uint32_t e = 0; e < experts; ++e) add(at + "te" + std::to_string(e), {10, 6}, l, one, e);
      ParallelRule buffer;
      buffer.is_buffer = true;
      add(at + "table", {5}, l, buffer);
    }
    add("final", {6}, k_no_layer, {});
    return std::move(b).finish();
  }
  LocalTensor held(const Topology& topology, std::uint32_t rank, std::string_view key) const {
    return RankLayout(schema, topology).of(rank).locals[schema.find_native(key)];
  }
};

Box box(std::initializer_list<std::uint64_t> start, std::initializer_list<std::uint64_t> length) {
  return {Extents(start), Extents(length)};
}

TEST(RankLayout, ComponentsAndSharedKeyHeads) {
  const Model model;
  const Topology tp4{.tp = 4};
  // Four query heads, two key heads: rank 2 has query head 2 and shares key head 1 with rank 3.
  const LocalTensor local = model.held(tp4, 2, "1.qkv");
  EXPECT_EQ(local.shape, (Shape{9, 6}));
  ASSERT_EQ(local.pieces.size(), 3u);
  EXPECT_EQ(local.pieces[0].global, box({6, 0}, {3, 6}));
  EXPECT_EQ(local.pieces[1].global, box({15, 0}, {3, 6}));
  EXPECT_EQ(local.pieces[2].global, box({21, 0}, {3, 6}));
  EXPECT_EQ(local.pieces[2].local, box({6, 0}, {3, 6}));
  EXPECT_EQ(model.held(tp4, 3, "1.qkv").pieces[1].global, local.pieces[1].global);
  EXPECT_EQ(model.held(tp4, 2, "1.o").pieces[0].global, box({0, 6}, {6, 3}));
  EXPECT_EQ(model.held(tp4, 3, "1.norm").pieces[0].global, box({0}, {6})) << "norms are whole";
  EXPECT_EQ(model.held(tp4, 3, "embed").pieces[0].global, box({9, 0}, {2, 6})) << "rows of the vocabulary by chunks";
}

TEST(RankLayout, ExpertsLiveOnTheirOwnMesh) {
  const Model model;
  const Topology both{.fsdp = 4, .tp = 2, .ep = 4};  // ep_shard 2
  // Rank 5 = (1, 1) of (ep_shard, ep): experts 2 and 3, rows 3 to 5.
  const LocalTensor grouped = model.held(both, 5, "0.experts");
  EXPECT_EQ(grouped.shape, (Shape{2, 3, 10}));
  EXPECT_EQ(grouped.pieces[0].global, box({2, 3, 0}, {2, 3, 10}));
  EXPECT_EQ(model.held(both, 5, "0.te2").pieces[0].global, box({0, 3}, {10, 3}));
  EXPECT_TRUE(model.held(both, 5, "0.te4").pieces.empty());
  EXPECT_EQ(model.held(both, 5, "0.te4").shape.rank(), 0u) << "not an empty tensor: none";
  // Without expert parallelism they are parameters like any other, and TP leaves them alone.
  const Topology none{.fsdp = 2, .tp = 2};
  EXPECT_EQ(model.held(none, 3, "0.experts").pieces[0].global, box({4, 0, 0}, {4, 6, 10}));
  EXPECT_EQ(model.held(none, 0, "0.te1").pieces[0].global, box({0, 0}, {5, 6}));
}

TEST(RankLayout, FsdpCutsWhatTensorParallelismLeftAndMayLeaveNothing) {
  const Model model;
  const Topology eight{.fsdp = 8};
  EXPECT_EQ(model.held(eight, 5, "1.norm").pieces[0].global, box({5}, {1}));
  const LocalTensor empty = model.held(eight, 7, "1.norm");
  EXPECT_EQ(empty.shape, Shape{0}) << "a rank beyond the rows holds an empty tensor, not none";
  EXPECT_TRUE(empty.pieces.empty());
  EXPECT_EQ(model.held(eight, 7, "1.table").pieces[0].global, box({0}, {5})) << "buffers are not cut";
  const Topology strided{.fsdp = 2, .tp = 2};  // rank = fsdp * 2 + tp
  EXPECT_EQ(model.held(strided, 2, "1.qkv").shape, (Shape{6, 6}));
  ASSERT_EQ(model.held(strided, 2, "1.qkv").pieces.size(), 2u) << "rows of k and of v";
  EXPECT_EQ(model.held(strided, 2, "1.qkv").pieces[0].global, box({12, 0}, {3, 6}));
}

TEST(RankLayout, StagesHoldTheirLayersAndATiedHeadStandsOnBothEnds) {
  const Model model;
  const Topology pp{.pp = 3};
  const RankLayout layout(model.schema, Topology{.pp = 2});
  EXPECT_EQ(layout.layers(), 4u);
  const RankPlacement first = layout.of(0), last = layout.of(1);
  const auto holds = [&](const RankPlacement& p, std::string_view key) {
    return !p.locals[model.schema.find_native(key)].pieces.empty();
  };
  EXPECT_TRUE(holds(first, "embed") && holds(last, "embed"));
  EXPECT_TRUE(holds(first, "1.norm") && !holds(last, "1.norm") && holds(last, "2.norm"));
  EXPECT_TRUE(!holds(first, "final") && holds(last, "final"));
  EXPECT_TRUE(first.has_passthrough && !last.has_passthrough);
  const RankLayout stated(model.schema, Topology{.pp = 2}, parse_stages("0,1-3", 4));
  EXPECT_FALSE(holds(stated.of(0), "1.norm"));
  EXPECT_THROW(RankLayout(model.schema, pp), Error) << "chunks of 2, 2 and 0 layers: a stage without one";
  EXPECT_THROW(RankLayout(model.schema, pp, parse_stages("0,1-3", 4)), Error);
}

TEST(RankLayout, IllegalTopologiesNameRuleAndTensor) {
  const auto error_of = [](const Topology& topology, std::uint64_t experts = 8) {
    const Model model(experts);
    try {
      const RankLayout layout(model.schema, topology);
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorCode::usage, "none");
  };
  Error error = error_of({.tp = 3});
  EXPECT_EQ(error.code(), ErrorCode::chunk_not_representable);
  EXPECT_EQ(error.facts().keys, std::vector<std::string>{"0.qkv"});
  EXPECT_EQ(error.check(), "shard.topology");
  EXPECT_NE(error.message().find("3 tensor parallel ranks cannot share 4 "), std::string::npos) << error.message();
  EXPECT_EQ(error.message().find("unit"), std::string::npos) << "a word of ours: " << error.message();
  EXPECT_NE(error.facts().hint.find("divides 4"), std::string::npos) << error.facts().hint;
  EXPECT_EQ(error_of({.tp = 8}).facts().keys, std::vector<std::string>{"0.qkv"}) << "more ranks than query heads";
  EXPECT_EQ(error_of({.fsdp = 3, .ep = 3}).code(), ErrorCode::ep_not_divisible);
  EXPECT_EQ(error_of({.fsdp = 4, .ep = 3}, 9).code(), ErrorCode::chunk_not_representable) << "ep divides the stage";
  error = error_of({.fsdp = 8, .ep = 2});
  EXPECT_EQ(error.code(), ErrorCode::chunk_not_representable) << "ep_shard 4 does not divide 6 rows";
  EXPECT_EQ(error.facts().keys, std::vector<std::string>{"0.experts"});
  EXPECT_EQ(error_of({.pp = 5}).code(), ErrorCode::chunk_not_representable);
  EXPECT_EQ(error_of({.fsdp = 3, .tp = 4, .ep = 4}).code(), ErrorCode::usage) << "this one is legal";
}

// Trap 10: 10 experts over 4 ranks, 5 over 4: balanced and chunked ownership differ, so neither is taken.
TEST(RankLayout, T10_UnevenExpertsAreRefused) {
  for (const std::uint64_t experts : {10u, 5u}) {
    const Model model(experts);
    try {
      const RankLayout layout(model.schema, Topology{.fsdp = 4, .ep = 4});
      FAIL() << experts;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::ep_not_divisible);
    }
  }
}

// Trap 39: a [1] tensor or 5 rows over 4 ranks.
TEST(RankLayout, T39_LaterRanksMayHoldNothingAndAreComplete) {
  SchemaBuilder b("traps");
  b.identity("five", {5, 2});
  b.identity("one", {1});
  const Schema schema = std::move(b).finish();
  const RankLayout layout(schema, Topology{.fsdp = 4});
  std::vector<std::uint64_t> rows;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    rows.push_back(layout.of(rank).locals[0].shape[0]);
    EXPECT_EQ(layout.of(rank).locals[1].shape, (Shape{rank == 0 ? 1u : 0u}));
  }
  EXPECT_EQ(rows, (std::vector<std::uint64_t>{2, 2, 1, 0}));
}

TEST(RankLayout, PartsOfEveryLegalTopologyAreTheWhole) {
  const Model model(12);
  std::uint64_t legal = 0, illegal = 0;
  for (const std::uint32_t tp : {1u, 2u, 4u, 8u}) {
    for (const std::uint32_t ep : {1u, 2u, 3u, 4u, 6u}) {
      for (const std::uint32_t fsdp : {1u, 2u, 3u, 7u, 12u}) {
        for (const std::uint32_t pp : {1u, 2u, 4u}) {
          const Topology topology{.pp = pp, .fsdp = fsdp, .tp = tp, .ep = ep};
          std::optional<RankLayout> layout;
          try {
            layout.emplace(model.schema, topology);
          } catch (const Error& error) {
            EXPECT_TRUE(error.code() == ErrorCode::chunk_not_representable ||
                        error.code() == ErrorCode::ep_not_divisible);
            ++illegal;
            continue;
          }
          ++legal;
          std::vector<std::set<std::vector<std::uint64_t>>> boxes(model.schema.native_tensors().size());
          for (std::uint32_t rank = 0; rank < topology.world(); ++rank) {
            const RankPlacement placement = layout->of(rank);
            for (NativeId id = 0; id < boxes.size(); ++id) {
              std::vector<View> filled;
              for (const LocalPiece& piece : placement.locals[id].pieces) {
                std::vector<std::uint64_t> words(piece.global.start.begin(), piece.global.start.end());
                words.insert(words.end(), piece.global.length.begin(), piece.global.length.end());
                boxes[id].insert(words);
                View view = View::whole(placement.locals[id].shape);
                for (unsigned axis = 0; axis < view.rank(); ++axis)
                  view = view.narrow(axis, piece.local.start[axis], piece.local.length[axis]);
                filled.push_back(view);
              }
              if (placement.locals[id].shape.rank() == 0) continue;
              EXPECT_EQ(prove_tiling(placement.locals[id].shape, filled).tiling, Tiling::exact);
            }
          }
          for (NativeId id = 0; id < boxes.size(); ++id) {
            const Shape& shape = model.schema.shape_of(model.schema.native_tensors()[id]);
            std::vector<View> views;
            for (const std::vector<std::uint64_t>& words : boxes[id]) {
              View view = View::whole(shape);
              for (unsigned axis = 0; axis < shape.rank(); ++axis)
                view = view.narrow(axis, words[axis], words[shape.rank() + axis]);
              views.push_back(view);
            }
            EXPECT_EQ(prove_tiling(shape, views).tiling, Tiling::exact)
                << to_string(topology) << " " << model.schema.native_tensors()[id].key;
          }
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
  EXPECT_GT(legal, 40u);
  EXPECT_GT(illegal, 40u);
}

}  // namespace
}  // namespace weightproof::plan
