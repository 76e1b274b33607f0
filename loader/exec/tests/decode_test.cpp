// SPDX-License-Identifier: Apache-2.0
#include "loader/exec/tests/quantized.hpp"

namespace weightproof::exec {
namespace {

using namespace testing_support;

TEST(Decode, TilesGiveWhatTheWholeTensorGives) {
  for (const bool has_interleaved : {false, true}) {
    const Quantized model(has_interleaved);
    Files files;
    model.add_to(files);
    for (const plan::TargetDType dtype : {plan::TargetDType::bf16, plan::TargetDType::f32, plan::TargetDType::f16}) {
      for (const unsigned threads : {1u, 2u, 7u}) {
        plan::Request request;
        request.dtype = dtype;
        request.threads = threads;
        const Case c = make_case(files, model.schema, request, model.decodes());
        EXPECT_EQ(c.plan->route(), has_interleaved ? plan::Route::materialized : plan::Route::bounded);
        LoadOptions options;
        options.poison = std::byte{0xe7};
        options.has_digests = true;
        options.sentinel = k_sentinel;
        const SourceFiles sources = c.sources();
        LoadAttempt attempt = load(*c.plan, sources, options);
        expect_equal(attempt, files, k_sentinel);
        EXPECT_GT(attempt.counters().tiles, 3u);
        EXPECT_EQ(attempt.counters().read_bytes, c.plan->traffic().read_bytes);
        EXPECT_EQ(attempt.memory().of(MemoryKind::host, Purpose::companion).peak, c.plan->memory().companion_bytes);
        if (!digest_unavailable().empty()) continue;
        for (std::size_t i = 0; i < c.plan->tensors().size(); ++i) {
          EXPECT_EQ(*attempt.digest(i), digest_of(attempt.bytes(i))) << c.plan->tensors()[i].key;
        }
        EXPECT_GE(attempt.counters().hot_digests, 700u * 600)
            << "a tensor whose tiles are runs is digested as it comes";
      }
    }
  }
}

TEST(Decode, ForcedWholeAndItsLedger) {
  const Quantized model(true);
  Files files;
  model.add_to(files);
  for (const std::optional<plan::Route> route :
       {std::optional<plan::Route>(), std::optional(plan::Route::materialized)}) {
    plan::Request request;
    request.route = route;
    const Case c = make_case(files, model.schema, request, model.decodes());
    LoadOptions options;
    options.has_ledger = true;
    const SourceFiles sources = c.sources();
    LoadAttempt attempt = load(*c.plan, sources, options);
    expect_equal(attempt, files);
    std::vector<std::vector<View>> regions(c.plan->tensors().size());
    for (const WrittenRegion& region : attempt.ledger().written) regions[region.tensor].push_back(region.region);
    for (std::size_t i = 0; i < regions.size(); ++i) {
      const TilingVerdict verdict = prove_tiling(c.plan->shape_of(c.plan->tensors()[i]), regions[i]);
      EXPECT_EQ(verdict.tiling, Tiling::exact) << c.plan->tensors()[i].key << " " << verdict.reason;
    }
  }
}

TEST(Decode, ScalesAreReadOncePerWindow) {
  const Quantized model(false);
  Files files;
  model.add_to(files);
  const Case c = make_case(files, model.schema, {}, model.decodes());
  const SourceFiles sources = c.sources();
  LoadAttempt attempt = load(*c.plan, sources);
  expect_equal(attempt, files);
  // Tiles of one row of blocks share its scales; only where a tile spans two rows of blocks, or begins what a thread
  // takes, is one of them read again.
  EXPECT_EQ(attempt.counters().read_bytes, c.plan->traffic().read_bytes);
  EXPECT_LE(c.plan->traffic().read_bytes, c.plan->traffic().wanted_bytes + 64u * attempt.counters().tiles);
}

}  // namespace
}  // namespace weightproof::exec
