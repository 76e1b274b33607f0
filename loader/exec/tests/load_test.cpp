// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "loader/core/tiling.hpp"
#include "loader/exec/tests/models.hpp"

namespace weightproof::exec {
namespace {

using namespace testing_support;

TEST(Load, EveryRouteGivesTheSameBytes) {
  const Model model;
  Files files;
  model.add_to(files);
  std::vector<std::vector<std::byte>> arenas;
  for (const std::optional<plan::Route> route :
       {std::optional<plan::Route>(), std::optional(plan::Route::bounded), std::optional(plan::Route::materialized)}) {
    plan::Request request;
    request.route = route;
    const Case c = make_case(files, model.schema, request);
    const SourceFiles sources = c.sources();
    LoadAttempt attempt = load(*c.plan, sources);
    expect_equal(attempt, files);
    EXPECT_GT(attempt.counters().compared_bytes, 0u) << "the head was compared with the embedding";
    EXPECT_EQ(attempt.counters().opens, 3u);
    EXPECT_EQ(attempt.counters().requests, c.plan->traffic().requests);
    EXPECT_EQ(attempt.counters().read_bytes, c.plan->traffic().read_bytes);
    EXPECT_EQ(attempt.counters().written_bytes, c.plan->traffic().write_bytes);
    EXPECT_EQ(attempt.completed_keys().size(), c.plan->tensors().size());
    // Second load, the same attempt-free sources.
    LoadAttempt again = load(*c.plan, sources);
    expect_equal(again, files);
    EXPECT_EQ(again.counters().opens, 0u);
  }
}

TEST(Load, CastsRoundOnce) {
  for (const DType stored : {DType::bf16, DType::f16, DType::f32, DType::f64}) {
    const Model model;
    Files files;
    model.add_to(files, stored);
    for (const plan::TargetDType wanted : {plan::TargetDType::bf16, plan::TargetDType::f16, plan::TargetDType::f32}) {
      for (const unsigned threads : {1u, 2u}) {
        plan::Request request;
        request.dtype = wanted;
        request.threads = threads;
        const Case c = make_case(files, model.schema, request);
        const SourceFiles sources = c.sources();
        LoadAttempt attempt = load(*c.plan, sources);
        expect_equal(attempt, files);
      }
    }
  }
}

TEST(Load, UnalignedDataOfEveryDtype) {
  for (const DType dtype : all_dtypes()) {
    SchemaBuilder b("dtypes");
    b.identity("first", {8, 24}, DTypeRule::any);
    b.rename("second", "renamed", {16}, DTypeRule::any);
    const unsigned bits = bits_of(dtype);
    // Elements of less than a byte: a transpose can only be taken from the whole tensor.
    const NativeId turned = b.native("turned", {24, 8}, DTypeRule::any);
    b.bind(b.stored("stored", {8, 24}, DTypeRule::any), turned, b.whole(turned).transpose(0, 1));
    const auto schema = share(b);
    Files files;
    files.unaligned().add("odd", {3}, DType::u8).add("first", {8, 24}, dtype).add("second", {16}, dtype);
    files.add("stored", {8, 24}, dtype);
    plan::Request request;
    request.keys.allow_unexpected = true;
    const Case c = make_case(files, schema, request);
    EXPECT_EQ(c.plan->catalog().find("first")->begin % 2, 0u) << "header of odd length and three bytes";
    const SourceFiles sources = c.sources();
    LoadAttempt attempt = load(*c.plan, sources);
    expect_equal(attempt, files);
    EXPECT_EQ(c.plan->memory().whole_bytes != 0, bits % 8 != 0) << name_of(dtype);
  }
}

TEST(Load, ThreadsDoNotShowInTheResult) {
  const Model model(512, 300, 4);
  Files files;
  model.add_to(files);
  std::vector<std::optional<Digest>> first;
  for (const unsigned threads : {1u, 2u, 7u}) {
    plan::Request request;
    request.threads = threads;
    request.budget_bytes = 8u << 20;
    const Case c = make_case(files, model.schema, request);
    LoadOptions options;
    options.has_digests = true;
    const SourceFiles sources = c.sources();
    LoadAttempt attempt = load(*c.plan, sources, options);
    expect_equal(attempt, files);
    EXPECT_EQ(attempt.threads(), c.plan->memory().threads);
    if (!digest_unavailable().empty()) {
      EXPECT_EQ(attempt.why_no_digest(), digest_unavailable());
      continue;
    }
    std::vector<std::optional<Digest>> digests;
    for (std::size_t i = 0; i < c.plan->tensors().size(); ++i) {
      digests.push_back(attempt.digest(i));
      EXPECT_EQ(*attempt.digest(i), digest_of(attempt.bytes(i))) << c.plan->tensors()[i].key;
    }
    if (first.empty()) first = digests;
    EXPECT_EQ(digests, first);
    EXPECT_GT(attempt.counters().hot_digests, 0u);
  }
}

TEST(Load, LedgerPartitionsTheModel) {
  const Model model;
  Files files;
  model.add_to(files);
  for (const std::optional<plan::Route> route :
       {std::optional<plan::Route>(), std::optional(plan::Route::materialized)}) {
    plan::Request request;
    request.route = route;
    const Case c = make_case(files, model.schema, request);
    LoadOptions options;
    options.has_ledger = true;
    const SourceFiles sources = c.sources();
    LoadAttempt attempt = load(*c.plan, sources, options);
    expect_equal(attempt, files);
    std::vector<std::vector<View>> regions(c.plan->tensors().size());
    for (const WrittenRegion& region : attempt.ledger().written) regions[region.tensor].push_back(region.region);
    for (std::size_t i = 0; i < regions.size(); ++i) {
      const plan::PlannedTensor& tensor = c.plan->tensors()[i];
      if (tensor.bytes == 0) continue;
      const TilingVerdict verdict = prove_tiling(c.plan->shape_of(tensor), regions[i]);
      EXPECT_EQ(verdict.tiling, Tiling::exact) << tensor.key << " " << verdict.reason;
    }
    std::uint64_t read = 0;
    for (const SourceRange& range : attempt.ledger().read) read += range.bytes;
    EXPECT_EQ(read, attempt.counters().read_bytes);
    EXPECT_GT(attempt.memory().of(MemoryKind::host, Purpose::ledger).peak, 0u);
  }
}

TEST(Load, SentinelDoesNotSurviveAndPoisonDoesNotShow) {
  const Model model;
  Files files;
  model.add_to(files);
  plan::Request request;
  request.dtype = plan::TargetDType::f32;
  const Case c = make_case(files, model.schema, request);
  const SourceFiles sources = c.sources();
  for (const std::byte sentinel : {k_sentinel, std::byte{0x5a}}) {
    LoadOptions options;
    options.sentinel = sentinel;
    options.poison = std::byte{0xa5};
    LoadAttempt attempt = load(*c.plan, sources, options);
    // With two patterns whatever was not written would differ from the oracle in one of them.
    expect_equal(attempt, files, sentinel);
  }
}

TEST(Load, TiedValuesThatDifferAreNamedWithTheirCoordinate) {
  const Model model;
  Files files;
  model.add_to(files, DType::bf16, false);
  std::vector<std::byte> head = files.find("embed.weight").bytes;
  head[(3 * 48 + 7) * 2 + 1] ^= std::byte{0x40};
  files.add("head.weight", {70, 48}, DType::bf16, head);
  for (const std::optional<plan::Route> route :
       {std::optional<plan::Route>(), std::optional(plan::Route::materialized)}) {
    plan::Request request;
    request.route = route;
    const Case c = make_case(files, model.schema, request);
    const SourceFiles sources = c.sources();
    const LoadAttempt attempt = load(*c.plan, sources);
    ASSERT_EQ(attempt.outcome(), Outcome::failed);
    EXPECT_EQ(attempt.cause()->code(), ErrorCode::tied_values_differ);
    EXPECT_EQ(attempt.cause()->facts().keys, (std::vector<std::string>{"head.weight", "embed"}));
    EXPECT_EQ(attempt.cause()->facts().coordinate, (std::vector<std::uint64_t>{3, 7}));
    EXPECT_EQ(attempt.error()->code(), ErrorCode::load_failed_partial);
    EXPECT_EQ(attempt.error()->facts().keys.size(), c.plan->tensors().size()) << "all were complete, and one is wrong";
    EXPECT_THROW(attempt.require_complete(), Error);
    EXPECT_THROW(attempt.bytes("embed"), Error);
  }
}

TEST(Load, AliasMayComeBeforeWhatItRepeats) {
  // Two tensors that repeat each other's rows, so that each request compares with what another one writes.
  SchemaBuilder b("crossed");
  for (const char* name : {"a", "b"}) {
    const std::string key = name;
    const NativeId native = b.native("native." + key, {64, 8});
    b.bind(b.stored(key, {64, 8}), native, b.whole(native));
    b.alias(b.stored(key + ".again", {64, 8}), View::whole({64, 8}), native, b.whole(native), "again");
  }
  const auto schema = share(b);
  Files files;
  const auto a_bytes = coded_bytes("a", 64 * 16);
  const auto b_bytes = coded_bytes("b", 64 * 16);
  // The writer sorts by name within a file; three files give the order again, a | again, b.
  files.add("a.again", {64, 8}, DType::bf16, a_bytes).add("b", {64, 8}, DType::bf16, b_bytes);
  files.next_file().add("a", {64, 8}, DType::bf16, a_bytes).add("b.again", {64, 8}, DType::bf16, b_bytes);
  for (const unsigned threads : {1u, 2u}) {
    plan::Request request;
    request.threads = threads;
    const Case c = make_case(files, schema, request);
    const SourceFiles sources = c.sources();
    LoadAttempt attempt = load(*c.plan, sources);
    expect_equal(attempt, files);
    EXPECT_EQ(attempt.counters().compared_bytes, 2u * 64 * 16);
  }
}

/// Random trees of views: whatever a family may state.
TEST(Load, RandomLayoutsEqualTheOracle) {
  const char* seed_text = std::getenv("WEIGHTPROOF_SEED");
  const std::uint64_t seed = seed_text != nullptr ? std::stoull(seed_text) : 20240607;
  SCOPED_TRACE("seed=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto pick = [&](std::uint64_t n) { return random() % n; };
  for (int round = 0; round < 60; ++round) {
    SchemaBuilder b("random");
    Files files;
    const DType dtypes[] = {DType::u8, DType::bf16, DType::f32, DType::f64};
    const DType dtype = dtypes[pick(4)];
    Shape shape;
    const unsigned rank = 1 + static_cast<unsigned>(pick(4));
    for (unsigned i = 0; i < rank; ++i) shape.push_back(1 + pick(rank == 1 ? 5000 : rank == 2 ? 200 : 40));
    const NativeId native = b.native("native", shape, DTypeRule::any);
    View whole = b.whole(native);
    // Cut one axis in up to three parts, each stored in a random order of its axes.
    const unsigned cut = static_cast<unsigned>(pick(rank));
    std::uint64_t at = 0;
    int part = 0;
    while (at < shape[cut]) {
      const std::uint64_t length = part == 2 ? shape[cut] - at : 1 + pick(shape[cut] - at);
      View view = whole.narrow(cut, at, length);
      std::vector<unsigned> order(rank);
      for (unsigned i = 0; i < rank; ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      view = view.permute(order);
      const std::string key = "part" + std::to_string(part++);
      b.bind(b.stored(key, view.extents(), DTypeRule::any), native, view);
      files.add(key, view.extents(), dtype);
      at += length;
    }
    plan::Request request;
    if (pick(3) == 0) request.budget_bytes = 2u << 20;
    if (is_ordinary_float(dtype) && pick(2) == 0) request.dtype = plan::TargetDType::stored;
    request.threads = 1 + static_cast<unsigned>(pick(3));
    const Case c = make_case(files, share(b), request);
    LoadOptions options;
    options.poison = std::byte{0xee};
    const SourceFiles sources = c.sources();
    LoadAttempt attempt = load(*c.plan, sources, options);
    expect_equal(attempt, files);
    if (::testing::Test::HasFailure()) FAIL() << "round " << round << " shape " << to_string(shape);
  }
}

}  // namespace
}  // namespace weightproof::exec
