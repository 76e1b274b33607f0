// SPDX-License-Identifier: Apache-2.0
// Placement arithmetic against worked values, and against properties that hold for every mesh: parts tile, replicas
// agree.
#include "loader/plan/placement.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "loader/core/error.hpp"

namespace weightproof::plan {
namespace {

std::vector<std::uint64_t> sizes(std::uint64_t n, std::uint32_t parts) {
  std::vector<std::uint64_t> out;
  for (std::uint32_t i = 0; i < parts; ++i) out.push_back(chunk(n, parts, i).size());
  return out;
}

using Sizes = std::vector<std::uint64_t>;

TEST(Chunk, WorkedValues) {
  EXPECT_EQ(sizes(10, 4), (Sizes{3, 3, 3, 1}));
  EXPECT_EQ(sizes(5, 4), (Sizes{2, 2, 1, 0}));
  EXPECT_EQ(sizes(3, 4), (Sizes{1, 1, 1, 0}));
  EXPECT_EQ(sizes(9, 8), (Sizes{2, 2, 2, 2, 1, 0, 0, 0}));
  EXPECT_EQ(sizes(17, 8), (Sizes{3, 3, 3, 3, 3, 2, 0, 0}));
  EXPECT_EQ(sizes(13, 3), (Sizes{5, 5, 3}));
  EXPECT_EQ(sizes(2880, 7), (Sizes{412, 412, 412, 412, 412, 412, 408}));
  EXPECT_EQ(sizes(1, 2), (Sizes{1, 0}));
  EXPECT_EQ(chunk(5, 4, 3), (Interval{5, 5})) << "an empty part begins at the end";
  EXPECT_EQ(sizes(60, 8), (Sizes{8, 8, 8, 8, 8, 8, 8, 4})) << "the chunk rule, not the balanced one";
  EXPECT_EQ(chunk(UINT64_MAX, 65536, 65535).end, UINT64_MAX);
}

Interval interval(std::uint64_t n, std::vector<Placement> placements, std::vector<MeshAxis> mesh) {
  return shard_interval(n, 0, placements, mesh);
}

TEST(Shard, TwoMeshAxesOnOneTensorAxisCutLeftToRight) {
  const Placement s{PlacementKind::shard, 0, 1};
  EXPECT_EQ(interval(10, {s, s}, {{2, 0}, {2, 0}}), (Interval{0, 3}));
  EXPECT_EQ(interval(10, {s, s}, {{2, 0}, {2, 1}}), (Interval{3, 5}));
  EXPECT_EQ(interval(10, {s, s}, {{2, 1}, {2, 0}}), (Interval{5, 8}));
  EXPECT_EQ(interval(10, {s, s}, {{2, 1}, {2, 1}}), (Interval{8, 10}));
  EXPECT_EQ(interval(1, {s, s}, {{2, 0}, {2, 1}}).size(), 0u);
  EXPECT_EQ(interval(5, {s, s}, {{2, 0}, {2, 0}}), (Interval{0, 2}));
  EXPECT_EQ(interval(5, {s, s}, {{2, 1}, {2, 1}}), (Interval{4, 5}));
}

TEST(Shard, FsdpOverTpIsStrided) {
  const auto at = [](std::uint64_t n, std::uint32_t dp, std::uint32_t tp, std::uint32_t d, std::uint32_t t) {
    return interval(n, {{PlacementKind::strided_shard, 0, tp}, {PlacementKind::shard, 0, 1}}, {{dp, d}, {tp, t}});
  };
  EXPECT_EQ(at(8, 2, 2, 0, 0), (Interval{0, 2}));
  EXPECT_EQ(at(8, 2, 2, 0, 1), (Interval{4, 6}));
  EXPECT_EQ(at(8, 2, 2, 1, 0), (Interval{2, 4}));
  EXPECT_EQ(at(8, 2, 2, 1, 1), (Interval{6, 8}));
  EXPECT_EQ(at(12, 2, 3, 1, 2), (Interval{10, 12}));
  EXPECT_EQ(at(12, 2, 3, 0, 1), (Interval{4, 6}));
  for (std::uint32_t d = 0; d < 4; ++d)
    for (std::uint32_t t = 0; t < 2; ++t) EXPECT_EQ(at(16, 4, 2, d, t), (Interval{8 * t + 2 * d, 8 * t + 2 * d + 2}));
  // Uneven: by composition, not by local size x index.
  EXPECT_EQ(at(10, 2, 2, 0, 0), (Interval{0, 3}));
  EXPECT_EQ(at(10, 2, 2, 0, 1), (Interval{5, 8}));
  EXPECT_EQ(at(10, 2, 2, 1, 0), (Interval{3, 5}));
  EXPECT_EQ(at(10, 2, 2, 1, 1), (Interval{8, 10}));
}

TEST(Shard, IllegalOrdersAreRefusedWithTheRule) {
  const Placement s{PlacementKind::shard, 0, 1};
  EXPECT_THROW(interval(8, {s, {PlacementKind::strided_shard, 0, 1}}, {{2, 0}, {2, 0}}), Error);
  EXPECT_THROW(interval(8, {{PlacementKind::strided_shard, 0, 3}, s}, {{2, 0}, {2, 0}}), Error);
  EXPECT_THROW(place(Shape{4}, std::vector<Placement>{{PlacementKind::shard, 1, 1}}, std::vector<MeshAxis>{{2, 0}}),
               Error);
}

TEST(Shard, EveryMeshTilesEveryExtent) {
  for (std::uint64_t n = 0; n <= 40; ++n)
    for (std::uint32_t a = 1; a <= 5; ++a)
      for (std::uint32_t b = 1; b <= 5; ++b)
        for (const bool is_strided : {false, true}) {
          std::vector<int> covered(n, 0);
          for (std::uint32_t i = 0; i < a; ++i)
            for (std::uint32_t j = 0; j < b; ++j) {
              const Placement first =
                  is_strided ? Placement{PlacementKind::strided_shard, 0, b} : Placement{PlacementKind::shard, 0, 1};
              const Interval part = interval(n, {first, {PlacementKind::shard, 0, 1}}, {{a, i}, {b, j}});
              for (std::uint64_t k = part.begin; k < part.end; ++k) ++covered[k];
            }
          for (std::uint64_t k = 0; k < n; ++k) ASSERT_EQ(covered[k], 1) << n << " over " << a << "x" << b;
        }
}

TEST(Place, RowParallelOnTwoAxes) {
  // [Shard(0) over dp, Shard(1) over tp] on [8,6], 2x2: rank (1,0) owns rows 4-7, columns 0-2.
  const LocalTensor local =
      place(Shape{8, 6}, std::vector<Placement>{{PlacementKind::shard, 0, 1}, {PlacementKind::shard, 1, 1}},
            std::vector<MeshAxis>{{2, 1}, {2, 0}});
  ASSERT_EQ(local.pieces.size(), 1u);
  EXPECT_EQ(local.pieces[0].global, (Box{{4, 0}, {4, 3}}));
  EXPECT_EQ(local.shape, (Shape{4, 3}));
}

TEST(Fused, ComponentsAreCutByThemselves) {
  // 4 query heads, 2 key and 2 value heads of 2 rows: rank 1 of 2 owns q rows 4-7, k rows 10-11, v rows 14-15.
  const std::vector<FusedComponent> qkv = {{4, 2, false}, {2, 2, true}, {2, 2, true}};
  const LocalTensor local = place_fused(Shape{16, 3}, 0, qkv, 2, 1);
  ASSERT_EQ(local.pieces.size(), 3u);
  EXPECT_EQ(local.pieces[0].global, (Box{{4, 0}, {4, 3}}));
  EXPECT_EQ(local.pieces[1].global, (Box{{10, 0}, {2, 3}}));
  EXPECT_EQ(local.pieces[2].global, (Box{{14, 0}, {2, 3}}));
  EXPECT_EQ(local.pieces[2].local, (Box{{6, 0}, {2, 3}}));
  EXPECT_EQ(local.shape, (Shape{8, 3}));
  // More ranks than KV heads: ranks 0 and 1 share KV head 0.
  const LocalTensor shared = place_fused(Shape{16, 3}, 0, qkv, 4, 1);
  EXPECT_EQ(shared.pieces[1].global, (Box{{8, 0}, {2, 3}}));
  EXPECT_EQ(place_fused(Shape{16, 3}, 0, qkv, 4, 2).pieces[1].global, (Box{{10, 0}, {2, 3}}));
  EXPECT_THROW(place_fused(Shape{16, 3}, 0, qkv, 3, 0), Error);
  EXPECT_THROW(place_fused(Shape{15, 3}, 0, qkv, 2, 0), Error) << "components must sum to the axis";
  EXPECT_THROW(place_fused(Shape{4, 3}, 0, std::vector<FusedComponent>{{2, 2, false}}, 4, 0), Error);
}

TEST(Fused, FsdpCutsTheLocalTensorAcrossItsPieces) {
  const std::vector<FusedComponent> gate_up = {{6, 1, false}, {6, 1, false}};
  const LocalTensor tp = place_fused(Shape{12, 2}, 0, gate_up, 2, 0);  // global rows 0-2 and 6-8 as local 0-5
  const LocalTensor second = shard_local(tp, 0, 4, 1);                 // ceil(6/4) = 2: local rows 2-3
  ASSERT_EQ(second.pieces.size(), 2u);
  EXPECT_EQ(second.pieces[0].global, (Box{{2, 0}, {1, 2}}));
  EXPECT_EQ(second.pieces[1].global, (Box{{6, 0}, {1, 2}}));
  EXPECT_EQ(second.pieces[1].local, (Box{{1, 0}, {1, 2}}));
  EXPECT_EQ(shard_local(tp, 0, 4, 3).shape, (Shape{0, 2}));
  EXPECT_TRUE(shard_local(tp, 0, 4, 3).pieces.empty());
}

TEST(Topology, RankOrderAndExpertMesh) {
  const Topology t = parse_topology("tp=2,fsdp=4,ep=4");
  EXPECT_EQ(t.world(), 8u);
  EXPECT_EQ(ep_shards(t), 2u);
  for (std::uint32_t rank = 0; rank < t.world(); ++rank) EXPECT_EQ(rank_of(t, position_of(t, rank)), rank);
  const RankPosition five = position_of(t, 5);
  EXPECT_EQ(five.tp, 1u);
  EXPECT_EQ(five.fsdp, 2u);
  EXPECT_EQ(five.ep, 1u);
  EXPECT_EQ(five.ep_shard, 1u);
  // E = 8, ep = 4, ep_shard = 2, gate_up [8,6,10]: rank 5 = (1,1) owns experts 2-3, rows 3-5.
  const LocalTensor experts = place_experts(Shape{8, 6, 10}, t, five);
  ASSERT_EQ(experts.pieces.size(), 1u);
  EXPECT_EQ(experts.pieces[0].global, (Box{{2, 3, 0}, {2, 3, 10}}));
  EXPECT_THROW(parse_topology("tp=0"), Error);
  EXPECT_THROW(parse_topology("tp=2,tp=2"), Error);
  EXPECT_THROW(parse_topology("xp=2"), Error);
  EXPECT_THROW(parse_topology("tp"), Error);
  EXPECT_THROW(position_of(t, 8), Error);
}

TEST(Topology, IllegalOnesStateTheRule) {
  EXPECT_THROW(require_legal(parse_topology("tp=2,ep=4"), 8), Error);
  try {
    require_legal(parse_topology("fsdp=8,ep=8"), 20);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::ep_not_divisible);
    EXPECT_EQ(error.check(), "shard.topology");
  }
  EXPECT_NO_THROW(require_legal(parse_topology("fsdp=8,ep=8"), 16));
  EXPECT_NO_THROW(require_legal(parse_topology("fsdp=8"), 20));
}

TEST(Stages, ContiguousCeilChunksOrAsStated) {
  EXPECT_EQ(stage_layers(52, 3, 2), (Interval{36, 52}));
  EXPECT_EQ(parse_stages("0-11,12-23", 24), (std::vector<Interval>{{0, 12}, {12, 24}}));
  EXPECT_THROW(parse_stages("0-11,13-23", 24), Error);
  EXPECT_THROW(parse_stages("0-11", 24), Error);
  EXPECT_THROW(parse_stages("0-24", 24), Error);
  EXPECT_THROW(parse_stages("0-x", 24), Error);
}

// Trap 37: te configured for one process, for two, and under a dispatcher that rewrites the backend.
TEST(Storage, T37_OneProcessWithTe) {
  EXPECT_EQ(expert_storage(Dispatcher::deepep, ExpertBackend::te, 1).storage, ExpertStorage::grouped);
  EXPECT_EQ(expert_storage(Dispatcher::deepep, ExpertBackend::te, 2).storage, ExpertStorage::te);
  EXPECT_EQ(expert_storage(Dispatcher::torch, ExpertBackend::te, 1).storage, ExpertStorage::grouped);
}

TEST(Storage, WholeInputProduct) {
  std::size_t grouped = 0, te = 0, mok = 0, refused = 0;
  for (const std::string_view d : dispatcher_names())
    for (const std::string_view b : expert_backend_names())
      for (const std::uint32_t world : {1u, 2u, 4u, 8u}) {
        const Dispatcher dispatcher = dispatcher_from(d);
        const ExpertBackend backend = expert_backend_from(b);
        if (dispatcher == Dispatcher::mok && world % 4 != 0) {
          EXPECT_THROW(expert_storage(dispatcher, backend, world), Error);
          ++refused;
          continue;
        }
        const ExpertStorage storage = expert_storage(dispatcher, backend, world).storage;
        const bool has_ep_dispatcher = d == "deepep" || d == "hybridep" || d == "uccl_ep";
        const ExpertStorage want = d == "mok" ? ExpertStorage::mok
                                   : has_ep_dispatcher && world > 1 && (b == "te" || b == "torch")
                                       ? ExpertStorage::te
                                       : ExpertStorage::grouped;
        EXPECT_EQ(storage, want) << d << " " << b << " " << world;
        grouped += storage == ExpertStorage::grouped ? 1u : 0u;
        te += storage == ExpertStorage::te ? 1u : 0u;
        mok += storage == ExpertStorage::mok ? 1u : 0u;
      }
  EXPECT_EQ(grouped, 62u);
  EXPECT_EQ(te, 18u);
  EXPECT_EQ(mok, 10u);
  EXPECT_EQ(refused, 10u);
  EXPECT_THROW(expert_storage(Dispatcher::mok, ExpertBackend::gmm, 4, false), Error);
  EXPECT_THROW(dispatcher_from("nccl"), Error);
}

}  // namespace
}  // namespace weightproof::plan
