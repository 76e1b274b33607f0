// SPDX-License-Identifier: Apache-2.0
// Ranks that hold parts: what a load puts into a local tensor is what a load of the whole has at that place.
#include <random>

#include "loader/exec/tests/models.hpp"
#include "loader/exec/tests/quantized.hpp"
#include "loader/plan/clip.hpp"

namespace weightproof::exec {
namespace {

using namespace testing_support;

class Parts : public ::testing::Test {
 public:
  std::mt19937_64 random{19};
  std::uint64_t below(std::uint64_t limit) { return random() % limit; }

  LocalTensor local_of(const Shape& shape) {
    const std::uint64_t kind = below(6);
    if (kind == 0 || shape.rank() == 0) return {shape, {{Box::whole(shape), Box::whole(shape)}}};
    if (kind == 1) return {};
    LocalTensor local{shape, {}};
    const unsigned axis = static_cast<unsigned>(below(shape.rank()));
    if (kind == 2 && shape[axis] > 1) {
      // The second half before a part of the first.
      const std::uint64_t half = shape[axis] / 2, some = below(half) + 1;
      LocalPiece second{Box::whole(shape), Box::whole(shape)}, first = second;
      second.global.start[axis] = half;
      second.global.length[axis] = second.local.length[axis] = shape[axis] - half;
      first.global.start[axis] = half - some;
      first.global.length[axis] = first.local.length[axis] = some;
      first.local.start[axis] = shape[axis] - half;
      local.pieces = {second, first};
      local.shape[axis] = shape[axis] - half + some;
      return local;
    }
    LocalPiece piece{Box::whole(shape), Box::whole(shape)};
    for (unsigned at = 0; at < shape.rank(); ++at) {
      if (below(2) == 0) continue;
      piece.global.start[at] = below(shape[at] + 1);
      piece.global.length[at] = piece.local.length[at] = below(shape[at] - piece.global.start[at] + 1);
    }
    local.shape = piece.local.length;
    if (!piece.global.is_empty()) local.pieces.push_back(piece);
    return local;
  }

  void check(Files& files, const Case& whole, const plan::Request& request, LoadAttempt& all) {
    const Schema& schema = whole.plan->schema();
    plan::RankPlacement placement;
    for (const NativeTensor& tensor : schema.native_tensors())
      placement.locals.push_back(local_of(schema.shape_of(tensor)));
    const plan::Source source{"base", std::make_shared<const Catalog>(whole.checkpoint->catalog)};
    const plan::Plan plan =
        plan::make_plan(std::make_shared<const Schema>(schema), std::span(&source, 1), placement, request);
    LoadOptions options;
    options.poison = std::byte{0xe7};
    options.sentinel = k_sentinel;
    options.has_digests = true;
    options.has_ledger = true;
    const SourceFiles sources = whole.sources();
    LoadAttempt attempt = load(plan, sources, options);
    expect_equal(attempt, files, k_sentinel);
    EXPECT_EQ(attempt.counters().read_bytes, plan.traffic().read_bytes);
    for (NativeId id = 0; id < placement.locals.size(); ++id) {
      const NativeTensor& native = schema.native_tensors()[id];
      const Shape& shape = schema.shape_of(native);
      const LocalTensor& local = placement.locals[id];
      const std::size_t at = plan.find(native.key);
      ASSERT_EQ(at == SIZE_MAX, plan::is_absent(local, shape)) << native.key;
      if (at == SIZE_MAX) continue;
      const std::size_t whole_at = whole.plan->find(native.key);
      ASSERT_EQ(plan.tensors()[at].dtype, whole.plan->tensors()[whole_at].dtype) << native.key;
      const unsigned size = bits_of(plan.tensors()[at].dtype) / 8;
      for (const LocalPiece& piece : local.pieces) {
        for (std::uint64_t i = 0; i < piece.global.element_count(); ++i) {
          Coordinate global = coordinate_of(piece.global.length, i), mine = global;
          for (unsigned axis = 0; axis < global.rank(); ++axis) {
            global[axis] += piece.global.start[axis];
            mine[axis] += piece.local.start[axis];
          }
          ASSERT_EQ(std::memcmp(attempt.bytes(at).data() + linear_index(local.shape, mine) * size,
                                all.bytes(whole_at).data() + linear_index(shape, global) * size, size),
                    0)
              << native.key << " at " << to_string(global);
          ++elements;
        }
      }
    }
  }
  std::uint64_t elements = 0;
};

TEST_F(Parts, OfPlainModels) {
  const Model model;
  Files files;
  model.add_to(files);
  for (const plan::TargetDType dtype : {plan::TargetDType::stored, plan::TargetDType::f32}) {
    plan::Request request;
    request.dtype = dtype;
    request.threads = 2;
    const Case whole = make_case(files, model.schema, request);
    const SourceFiles sources = whole.sources();
    LoadAttempt all = load(*whole.plan, sources);
    for (int round = 0; round < 40; ++round) {
      request.route.reset();
      if (below(5) == 0) request.route = plan::Route::materialized;
      ASSERT_NO_FATAL_FAILURE(check(files, whole, request, all));
    }
  }
  EXPECT_GT(elements, 100'000u);
}

TEST_F(Parts, OfQuantizedModels) {
  for (const bool has_interleaved : {false, true}) {
    const Quantized model(has_interleaved);
    Files files;
    model.add_to(files);
    for (const plan::TargetDType dtype : {plan::TargetDType::bf16, plan::TargetDType::f32}) {
      plan::Request request;
      request.dtype = dtype;
      request.threads = 2;
      const Case whole = make_case(files, model.schema, request, model.decodes());
      model.decodes()(whole.plan->catalog(), request);
      const SourceFiles sources = whole.sources();
      LoadAttempt all = load(*whole.plan, sources);
      for (int round = 0; round < 8; ++round) ASSERT_NO_FATAL_FAILURE(check(files, whole, request, all));
    }
  }
  EXPECT_GT(elements, 100'000u);
}

// Trap 9: six rows of ones under blocks of four, scales 1 and 10; the second rank of two has rows of both blocks.
TEST(PartTraps, T09_BlocksAreCountedInTheWholeTensor) {
  SchemaBuilder b("blocks");
  const StoredId stored = b.stored("w.weight", {6, 4});
  const NativeId native = b.native("w", {6, 4});
  b.bind(stored, native, b.whole(native));
  const std::shared_ptr<const Schema> schema = share(b);
  Files files;
  files.add("w.weight", {6, 4}, DType::f8_e4m3, std::vector<std::byte>(24, std::byte{0x38}));
  std::vector<std::byte> scales(8);
  const float values[] = {1, 10};
  std::memcpy(scales.data(), values, 8);
  files.add("w.weight_scale_inv", {2, 1}, DType::f32, scales);
  plan::Request request;
  request.dtype = plan::TargetDType::f32;
  const auto decodes = [&](const Catalog& catalog, plan::Request& asked) {
    codec::Scheme scheme = fp8_block();
    scheme.block_rows = scheme.block_cols = 4;
    asked.decodes.push_back(decode_of(catalog, stored, scheme,
                                      {{codec::Role::weight, "w.weight"}, {codec::Role::scale, "w.weight_scale_inv"}}));
  };
  const Case whole = make_case(files, schema, request, decodes);
  decodes(whole.plan->catalog(), request);
  const plan::Source source{"base", std::make_shared<const Catalog>(whole.checkpoint->catalog)};
  plan::RankPlacement second;
  second.rank = 1;
  second.locals = {{{3, 4}, {{{{3, 0}, {3, 4}}, {{0, 0}, {3, 4}}}}}};
  const plan::Plan plan = plan::make_plan(schema, std::span(&source, 1), second, request);
  const SourceFiles sources = whole.sources();
  LoadAttempt attempt = load(plan, sources);
  std::vector<float> rows(12);
  std::memcpy(rows.data(), attempt.bytes("w").data(), 48);
  EXPECT_EQ(rows, (std::vector<float>{1, 1, 1, 1, 10, 10, 10, 10, 10, 10, 10, 10}))
      << "local blocks would give ones, a guessed chunk of four rows only tens";
}

}  // namespace
}  // namespace weightproof::exec
