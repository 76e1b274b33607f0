// SPDX-License-Identifier: Apache-2.0
// Plans of ranks that hold parts: every element of a local tensor comes from where the whole tensor has it, nothing
// else is read, and the proof is made for the local tensor.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "loader/plan/clip.hpp"
#include "loader/plan/tests/plan_testing.hpp"
#include "loader/plan/text.hpp"

namespace weightproof::plan {
namespace {

using namespace testing_support;

Plan part_of(const std::shared_ptr<const Schema>& schema, const std::shared_ptr<const Catalog>& catalog,
             const RankPlacement& placement, const Request& request = {}) {
  const Source source{"base", catalog};
  return make_plan(schema, std::span(&source, 1), placement, request);
}

LocalTensor whole_of(const Shape& shape) { return {shape, {{Box::whole(shape), Box::whole(shape)}}}; }

RankPlacement all_whole(const Schema& schema) {
  RankPlacement placement;
  for (const NativeTensor& tensor : schema.native_tensors())
    placement.locals.push_back(whole_of(schema.shape_of(tensor)));
  return placement;
}

LocalTensor box_of_shape(const Box& global) {
  LocalTensor local;
  local.shape = global.length;
  Box at = global;
  for (unsigned axis = 0; axis < at.start.rank(); ++axis) at.start[axis] = 0;
  if (!global.is_empty()) local.pieces.push_back({global, at});
  return local;
}

std::string_view stored_key(const Plan& plan, const Move& move) {
  return plan.schema().stored_tensors()[move.stored].key;
}

TEST(Clip, DigitsOfOneAxis) {
  // Rows [2 groups][3 kinds][4 heads] of one axis, of which the view takes kind 1; the piece cuts through both groups.
  const Shape shape{24, 5};
  const View target = View::whole(shape).unflatten(0, {2, 3, 4}).select(1, 1);
  const View source = View::whole({8, 5}).unflatten(0, {2, 4});
  const LocalPiece piece{{{6, 1}, {13, 3}}, {{2, 0}, {13, 3}}};
  std::vector<ClippedBinding> parts;
  clip_binding(source, target, shape, piece, {16, 3}, parts);
  ASSERT_EQ(parts.size(), 2u) << "rows 6, 7 of group 0 and 16, 17, 18 of group 1";
  EXPECT_EQ(parts[0].target.offset(), 2u * 3);
  EXPECT_EQ(parts[0].source.offset(), 2u * 5 + 1);
  EXPECT_EQ(parts[0].target.element_count(), 2u * 3);
  EXPECT_EQ(parts[1].target.offset(), (16u - 6 + 2) * 3);
  EXPECT_EQ(parts[1].source.offset(), 4u * 5 + 1);
  EXPECT_EQ(parts[1].source.element_count(), 3u * 3);
}

TEST(Clip, AViewAcrossAxesIsTakenStepByStepOrRefused) {
  const Shape shape{6, 7};
  const View flat = View::whole({42});
  std::vector<ClippedBinding> parts;
  clip_binding(flat, flat, shape, {{{2, 3}, {2, 2}}, {{0, 0}, {2, 2}}}, {2, 2}, parts);
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[3].source.offset(), 3u * 7 + 4);
  EXPECT_EQ(parts[3].target.offset(), 3u);
  const Shape large{100, 100};
  const View long_one = View::whole({10000});
  try {
    clip_binding(long_one, long_one, large, {{{0, 0}, {1, 1}}, {{0, 0}, {1, 1}}}, {1, 1}, parts);
    FAIL() << "ten thousand steps were taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::route_unavailable);
  }
}

struct Small {
  std::shared_ptr<const Schema> schema;
  NativeId embed = 0, norm = 0, experts = 0;
  Small() {
    SchemaBuilder builder("small");
    const StoredId stored = builder.stored("embed.weight", {6, 4});
    embed = builder.native("embed", {8, 4});
    builder.bind(stored, embed, builder.whole(embed).narrow(0, 0, 6));
    builder.constant(embed, builder.whole(embed).narrow(0, 6, 2), 0, "padding");
    const StoredId head = builder.stored("head.weight", {6, 4});
    builder.alias(head, builder.whole_stored(head), embed, builder.whole(embed).narrow(0, 0, 6), "tied");
    builder.identity("norm.weight", {4}, DTypeRule::weight, 0);
    norm = 1;
    experts = builder.native("experts", {4, 4, 6}, DTypeRule::weight, 0);
    for (unsigned e = 0; e < 4; ++e) {
      const std::string key = "expert." + std::to_string(e);
      builder.bind(builder.stored(key + ".gate", {3, 4}), experts,
                   builder.whole(experts).select(0, e).narrow(1, 0, 3).transpose(0, 1));
      builder.bind(builder.stored(key + ".up", {3, 4}), experts,
                   builder.whole(experts).select(0, e).narrow(1, 3, 3).transpose(0, 1));
    }
    builder.passthrough("vision.", "a tower of its own");
    schema = share(builder);
  }
  static CatalogMaker files() {
    CatalogMaker maker;
    maker.add("embed.weight", {6, 4}).add("head.weight", {6, 4}).add("norm.weight", {4});
    for (int e = 0; e < 4; ++e) {
      maker.add("expert." + std::to_string(e) + ".gate", {3, 4}, e == 3 ? DType::f16 : DType::bf16);
      maker.add("expert." + std::to_string(e) + ".up", {3, 4});
    }
    maker.add("vision.patch", {5}, DType::u8);
    return maker;
  }
};

TEST(Part, OnlyWhatIsHeldIsReadAndKeysAreJudgedOnTheWhole) {
  const Small model;
  RankPlacement placement = all_whole(*model.schema);
  placement.rank = 3;
  placement.has_passthrough = false;
  placement.locals[model.embed] = {};  // not this rank's at all
  placement.locals[model.norm] = {};
  placement.locals[model.experts] = box_of_shape({{2, 2, 0}, {1, 2, 6}});
  const Plan plan = part_of(model.schema, Small::files().make(), placement);
  ASSERT_EQ(plan.tensors().size(), 1u);
  EXPECT_EQ(plan.find("embed"), SIZE_MAX);
  EXPECT_EQ(plan.find("vision.patch"), SIZE_MAX);
  const PlannedTensor& tensor = plan.tensors()[plan.find("experts")];
  EXPECT_EQ(plan.shape_of(tensor), (Shape{1, 2, 6}));
  EXPECT_EQ(tensor.dtype, DType::f32) << "expert 3 is stored in another dtype: every rank holds what holds both";
  ASSERT_EQ(tensor.move_count, 2u);
  EXPECT_EQ(stored_key(plan, plan.moves()[0]), "expert.2.gate");
  EXPECT_EQ(stored_key(plan, plan.moves()[1]), "expert.2.up");
  EXPECT_EQ(plan.memory().final_tensor_bytes, 48u);
  EXPECT_EQ(plan.coverage().present, 11u) << "keys are judged on the whole checkpoint";
  ASSERT_EQ(plan.unread().size(), 1u);
  EXPECT_EQ(plan.unread()[0].reason, "held by other ranks");
  expect_accounts_for_all(plan);

  CatalogMaker lacking;
  lacking.add("embed.weight", {6, 4}).add("norm.weight", {4});
  const auto few = lacking.make();
  try {
    part_of(model.schema, few, placement);
    FAIL() << "keys of this rank are missing";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::missing_keys);
    EXPECT_EQ(error.facts().keys, (std::vector<std::string>{"expert.2.gate", "expert.2.up"}))
        << "what other ranks lack is theirs to say";
    EXPECT_EQ(error.facts().rank, 3);
  }
  try {
    part_of(model.schema, few, {});
    FAIL() << "a rank that holds everything lacks everything";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::missing_keys);
    EXPECT_EQ(error.facts().keys.size(), 9u);
  }
  CatalogMaker own;
  own.add("embed.weight", {6, 4}).add("norm.weight", {4}).add("expert.2.gate", {3, 4}).add("expert.2.up", {3, 4});
  const Plan alone = part_of(model.schema, own.make(), placement);
  ASSERT_EQ(alone.tensors().size(), 1u);
  EXPECT_EQ(alone.tensors()[0].move_count, 2u);
}

TEST(Part, TiedHeadOfTheLastStageReadsTheEmbedding) {
  const Small model;
  RankPlacement last = all_whole(*model.schema);
  for (LocalTensor& local : last.locals) local = {};
  last.locals[model.embed] = box_of_shape({{3, 0}, {3, 4}});
  last.has_passthrough = false;
  Plan plan = part_of(model.schema, Small::files().make(), last);
  ASSERT_EQ(plan.moves().size(), 2u);
  EXPECT_EQ(plan.moves()[0].action, Action::write);
  EXPECT_EQ(stored_key(plan, plan.moves()[0]), "embed.weight");
  EXPECT_EQ(plan.moves()[1].action, Action::compare) << "what is stored twice is compared, on this rank its own rows";
  EXPECT_EQ(plan.traffic().compare_bytes, 3u * 4 * 2);
  expect_loads_right(plan);

  // Rows of padding come from nowhere.
  last.locals[model.embed] = box_of_shape({{6, 0}, {2, 4}});
  plan = part_of(model.schema, Small::files().make(), last);
  ASSERT_EQ(plan.moves().size(), 1u);
  EXPECT_EQ(plan.moves()[0].action, Action::fill);
  EXPECT_EQ(plan.traffic().read_bytes, 0u);
}

TEST(Part, EmptyTensorsAreHeldAndARankMayHoldNothing) {
  const Small model;
  RankPlacement placement = all_whole(*model.schema);
  for (LocalTensor& local : placement.locals) local = {};
  placement.has_passthrough = false;
  const Plan nothing = part_of(model.schema, Small::files().make(), placement);
  EXPECT_TRUE(nothing.tensors().empty());
  EXPECT_EQ(nothing.traffic().read_bytes, 0u);
  expect_accounts_for_all(nothing);

  placement.locals[model.norm] = box_of_shape({{4}, {0}});
  const Plan empty = part_of(model.schema, Small::files().make(), placement);
  ASSERT_EQ(empty.tensors().size(), 1u) << "an empty part is a tensor, and must not be left out";
  EXPECT_EQ(empty.shape_of(empty.tensors()[0]), Shape{0});
  EXPECT_EQ(empty.tensors()[0].bytes, 0u);
  EXPECT_EQ(empty.tensors()[0].move_count, 0u);
  EXPECT_FALSE(to_text(empty).empty());
}

TEST(Part, LargeStacksAreNotReadThrough) {
  SchemaBuilder builder("stack");
  builder.identity("stack", {64, 1024, 1536});
  RankPlacement half;
  half.locals = {box_of_shape({{0, 512, 0}, {64, 512, 1536}})};
  const Plan plan = part_of(share(builder), CatalogMaker().add("stack", {64, 1024, 1536}).make(), half);
  EXPECT_EQ(plan.traffic().read_bytes, 64u * 512 * 1536 * 2) << "64 runs, and not the gaps between them";
}

TEST(Part, ThePlacementItselfIsProved) {
  const Small model;
  RankPlacement placement = all_whole(*model.schema);
  placement.rank = 5;
  const auto error_of_placement = [&] {
    try {
      part_of(model.schema, Small::files().make(), placement);
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorCode::usage, "none");
  };
  placement.locals[model.norm] = {{3}, {{{{0}, {2}}, {{0}, {2}}}}};
  Error error = error_of_placement();
  EXPECT_EQ(error.code(), ErrorCode::dest_not_covered);
  EXPECT_EQ(error.facts().keys, std::vector<std::string>{"norm.weight"});
  EXPECT_EQ(error.facts().coordinate, std::vector<std::uint64_t>{2});
  EXPECT_EQ(error.facts().rank, 5);
  placement.locals[model.norm] = {{3}, {{{{0}, {2}}, {{0}, {2}}}, {{{0}, {2}}, {{1}, {2}}}}};
  EXPECT_EQ(error_of_placement().code(), ErrorCode::duplicate_destination);
  placement.locals[model.norm] = {{3}, {{{{2}, {3}}, {{0}, {3}}}}};
  error = error_of_placement();
  EXPECT_EQ(error.code(), ErrorCode::internal) << "the piece leaves the tensor";
  placement.locals[model.norm] = {{3}, {{{{1}, {2}}, {{0}, {3}}}}};
  EXPECT_EQ(error_of_placement().code(), ErrorCode::internal) << "another size on the other side";

  placement.locals[model.norm] = box_of_shape({{1}, {2}});
  Request request;
  request.side = Side::hf;
  try {
    part_of(model.schema, Small::files().make(), placement, request);
    FAIL() << "a part of a stored tensor was planned";
  } catch (const Error& refused) {
    EXPECT_EQ(refused.code(), ErrorCode::route_unavailable);
    EXPECT_EQ(refused.facts().rank, 5);
  }
}

/// One native element's origin, from the schema and nothing of the plan.
using Origins = std::vector<std::pair<std::string_view, std::uint64_t>>;
Origins origins_of(const Schema& schema, NativeId native) {
  Origins origins(*element_count(schema.shape_of(schema.native_tensors()[native])));
  for (const Binding& binding : schema.bindings()) {
    if (binding.native != native) continue;
    const View from = schema.stored_view(binding), to = schema.native_view(binding);
    for (std::uint64_t i = 0; i < to.element_count(); ++i) {
      const Coordinate at = coordinate_of(to.extents(), i);
      origins[to.storage_index(at)] = {schema.stored_tensors()[binding.stored].key, from.storage_index(at)};
    }
  }
  return origins;
}

class RandomPlacement : public ::testing::Test {
 public:
  std::mt19937_64 random{20260711};
  std::uint64_t below(std::uint64_t limit) { return random() % limit; }

  Box box_in(const Shape& shape) {
    Box box = Box::whole(shape);
    for (unsigned axis = 0; axis < shape.rank(); ++axis) {
      if (below(3) == 0) continue;
      box.start[axis] = below(shape[axis] + 1);
      box.length[axis] = below(shape[axis] - box.start[axis] + 1);
    }
    return box;
  }

  LocalTensor local_of(const Shape& shape) {
    switch (below(5)) {
      case 0:
        return whole_of(shape);
      case 1:
        return {};
      case 2: {
        // Several pieces along one axis, in any order: a fused tensor of a rank.
        const unsigned axis = static_cast<unsigned>(below(shape.rank()));
        LocalTensor local{shape, {}};
        std::uint64_t filled = 0;
        for (std::uint64_t i = 0, count = 1 + below(3); i < count; ++i) {
          LocalPiece piece{Box::whole(shape), Box::whole(shape)};
          piece.global.start[axis] = below(shape[axis]);
          piece.global.length[axis] = piece.local.length[axis] = 1 + below(shape[axis] - piece.global.start[axis]);
          piece.local.start[axis] = filled;
          filled += piece.local.length[axis];
          local.pieces.push_back(piece);
        }
        local.shape[axis] = filled;
        std::shuffle(local.pieces.begin(), local.pieces.end(), random);
        return local;
      }
      default:
        return box_of_shape(box_in(shape));
    }
  }
};

/// Bytes of the files that the rank holds elements of, and in how many ranges they lie.
std::pair<std::uint64_t, std::uint64_t> held(const Plan& plan) {
  std::set<std::pair<std::uint32_t, std::uint64_t>> bytes;
  for (const Move& move : plan.moves()) {
    if (move.row == k_no_row) continue;
    const StoredTensor& row = plan.catalog().tensors()[move.row];
    const View source = plan.source_view(move);
    for (std::uint64_t i = 0; i < source.element_count(); ++i) {
      const std::uint64_t size = bits_of(row.dtype) / 8;
      const std::uint64_t at = row.begin + source.storage_index(coordinate_of(source.extents(), i)) * size;
      for (std::uint64_t b = 0; b < size; ++b) bytes.emplace(row.file, at + b);
    }
  }
  std::uint64_t ranges = 0;
  std::pair<std::uint32_t, std::uint64_t> last{UINT32_MAX, 0};
  for (const auto& at : bytes) {
    ranges += at.first != last.first || at.second != last.second + 1 ? 1u : 0u;
    last = at;
  }
  return {bytes.size(), ranges};
}

TEST_F(RandomPlacement, EveryLocalElementComesFromWhereTheWholeTensorHasIt) {
  std::uint64_t parts = 0, split = 0;
  for (int round = 0; round < 400; ++round) {
    SchemaBuilder builder("random");
    CatalogMaker maker(below(5000));
    std::vector<std::pair<std::string, Shape>> rows;
    const auto stored = [&](const std::string& key, const Shape& shape) {
      rows.emplace_back(key, shape);
      return builder.stored(key, shape);
    };
    const std::uint64_t experts = 1 + below(4), hidden = 1 + below(9), inner = 1 + below(9);
    const NativeId stack = builder.native("stack", {experts, hidden, 2 * inner});
    const bool is_interleaved = below(2) == 0;
    for (std::uint64_t e = 0; e < experts; ++e) {
      for (std::uint64_t half = 0; half < 2; ++half) {
        const View expert = builder.whole(stack).select(0, e);
        const View part =
            is_interleaved ? expert.unflatten(1, {inner, 2}).select(2, half) : expert.narrow(1, half * inner, inner);
        builder.bind(stored(std::to_string(e) + (half == 0 ? ".gate" : ".up"), {inner, hidden}), stack,
                     part.transpose(0, 1));
      }
    }
    // Rows in groups of q, k and v, natively fused; and taken apart.
    const std::uint64_t groups = 1 + below(3), head = 1 + below(4);
    const NativeId fused = builder.native("fused", {groups * 3 * head, hidden});
    for (std::uint64_t i = 0; i < 3; ++i) {
      const StoredId one = stored(std::string("one.") + "qkv" [i], { groups *head, hidden });
      builder.bind(one, builder.whole_stored(one).unflatten(0, {groups, head}), fused,
                   builder.whole(fused).unflatten(0, {groups, 3, head}).select(1, i));
    }
    const StoredId qkv = stored("qkv", {groups * 3 * head, hidden});
    for (std::uint64_t i = 0; i < 3; ++i) {
      const NativeId native = builder.native(std::string("apart.") + "qkv" [i], { groups *head, hidden });
      builder.bind(qkv, builder.whole_stored(qkv).unflatten(0, {groups, 3, head}).select(1, i), native,
                   builder.whole(native).unflatten(0, {groups, head}));
    }
    builder.identity("norm", {hidden});
    rows.emplace_back("norm", Shape{hidden});
    builder.identity("wide", {1 + below(4), 1 + below(3000)});
    const auto schema = share(builder);
    rows.emplace_back("wide", schema->shape_of(schema->native_tensors().back()));
    std::shuffle(rows.begin(), rows.end(), random);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (below(5) == 0) maker.skip(below(20'000));
      if (below(8) == 0) maker.file("file" + std::to_string(i));
      maker.add(rows[i].first, rows[i].second);
    }
    const auto catalog = maker.make();

    RankPlacement placement;
    for (const NativeTensor& tensor : schema->native_tensors())
      placement.locals.push_back(local_of(schema->shape_of(tensor)));
    Request request;
    if (below(4) == 0) request.route = Route::bounded;
    const Plan plan = part_of(schema, catalog, placement, request);
    EXPECT_EQ(plan, part_of(schema, catalog, placement, request));
    const Execution run = execute(plan);
    for (NativeId id = 0; id < schema->native_tensors().size(); ++id) {
      const NativeTensor& native = schema->native_tensors()[id];
      const LocalTensor& local = placement.locals[id];
      const std::size_t at = plan.find(native.key);
      if (is_absent(local, schema->shape_of(native))) {
        EXPECT_EQ(at, SIZE_MAX);
        continue;
      }
      ASSERT_NE(at, SIZE_MAX);
      const PlannedTensor& planned = plan.tensors()[at];
      ASSERT_EQ(plan.shape_of(planned), local.shape);
      const Origins origins = origins_of(*schema, id);
      for (const LocalPiece& piece : local.pieces) {
        for (std::uint64_t i = 0; i < piece.global.element_count(); ++i) {
          Coordinate global = coordinate_of(piece.global.length, i), mine = global;
          for (unsigned axis = 0; axis < global.rank(); ++axis) {
            global[axis] += piece.global.start[axis];
            mine[axis] += piece.local.start[axis];
          }
          const auto& [key, element] = origins[linear_index(schema->shape_of(native), global)];
          const StoredTensor& row = catalog->tensors()[catalog->index_of(key)];
          const std::uint64_t to = planned.arena_offset + linear_index(local.shape, mine) * 2;
          for (std::uint64_t b = 0; b < 2; ++b) {
            ASSERT_EQ(run.written[to + b], 1u) << native.key << ' ' << to_string(mine);
            ASSERT_EQ(run.arena[to + b], file_byte(row.file, row.begin + element * 2 + b)) << native.key;
          }
          ++parts;
        }
      }
      split += planned.move_count > 2 * experts ? 1u : 0u;
    }
    const auto [bytes, ranges] = held(plan);
    EXPECT_LE(static_cast<double>(plan.traffic().read_bytes),
              1.02 * static_cast<double>(bytes) + 4096.0 * static_cast<double>(ranges));
    EXPECT_EQ(plan.memory().final_tensor_bytes,
              static_cast<std::uint64_t>(std::accumulate(run.written.begin(), run.written.end(), std::uint64_t{0})));
    expect_accounts_for_all(plan);
    ASSERT_FALSE(HasFailure()) << "round " << round << "\n" << to_text(plan);
  }
  EXPECT_GT(parts, 20'000u);
  EXPECT_GT(split, 10u) << "pieces that cut through groups are among them";
}

}  // namespace
}  // namespace weightproof::plan
