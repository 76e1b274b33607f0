// SPDX-License-Identifier: Apache-2.0
#include "loader/exec/memory.hpp"

#include <sys/resource.h>

#include <thread>

#include "loader/exec/tests/models.hpp"

namespace weightproof::exec {
namespace {

using namespace testing_support;

template <typename F>
std::optional<Error> error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

TEST(Memory, CountsByKindAndPurpose) {
  Allocator allocator;
  {
    Buffer a = allocator.allocate(MemoryKind::host, Purpose::staging, 1000, 4096);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 4096, 0u);
    EXPECT_EQ(a.size(), 1000u);
    const Charge b = allocator.charge(MemoryKind::host, Purpose::metadata, 24);
    Buffer moved = std::move(a);
    EXPECT_EQ(allocator.statistics().of(MemoryKind::host), (Usage{1024, 1024, 1024, 2}));
    EXPECT_EQ(allocator.statistics().of(MemoryKind::host, Purpose::staging), (Usage{1000, 1000, 1000, 1}));
    moved = allocator.allocate(MemoryKind::host, Purpose::staging, 10);
    EXPECT_EQ(allocator.statistics().of(MemoryKind::host, Purpose::staging), (Usage{10, 1010, 1010, 2}));
  }
  EXPECT_EQ(allocator.statistics().of(MemoryKind::host).live, 0u);
  EXPECT_EQ(allocator.statistics().of(MemoryKind::pinned), Usage{});
  const Buffer empty = allocator.allocate(MemoryKind::host, Purpose::staging, 0);
  EXPECT_EQ(empty.size(), 0u);
  EXPECT_EQ(error_of([&] { allocator.allocate(MemoryKind::device, Purpose::staging, 1); })->code(),
            ErrorCode::device_unavailable);
}

TEST(Memory, LimitIsExactAndTheLedgerIsOutsideOfIt) {
  Allocator allocator;
  allocator.set_limit(MemoryKind::host, 100);
  const Buffer most = allocator.allocate(MemoryKind::host, Purpose::whole, 60);
  const Charge ledger = allocator.charge(MemoryKind::host, Purpose::ledger, 5000);
  const auto refused = error_of([&] { allocator.allocate(MemoryKind::host, Purpose::staging, 41); });
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code(), ErrorCode::budget_too_small);
  EXPECT_NE(refused->message().find("100 bytes"), std::string::npos);
  EXPECT_EQ(allocator.statistics().of(MemoryKind::host).live, 60u) << "what was refused is not counted";
  const Buffer rest = allocator.allocate(MemoryKind::host, Purpose::staging, 40);
  EXPECT_EQ(allocator.statistics().of(MemoryKind::host).peak, 100u);
}

TEST(Memory, FailsTheNthRequestOnce) {
  Allocator allocator;
  allocator.fail_at(2);
  const Buffer first = allocator.allocate(MemoryKind::host, Purpose::staging, 8);
  const auto refused = error_of([&] { allocator.charge(MemoryKind::host, Purpose::metadata, 8); });
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code(), ErrorCode::alloc_failed);
  const Charge third = allocator.charge(MemoryKind::host, Purpose::metadata, 8);
  EXPECT_EQ(allocator.statistics().of(MemoryKind::host).live, 16u);
  EXPECT_EQ(error_of([&] { allocator.allocate(MemoryKind::host, Purpose::whole, UINT64_MAX / 2 + 1); })->code(),
            ErrorCode::alloc_failed);
}

TEST(Memory, CountsFromManyThreads) {
  Allocator allocator;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) allocator.allocate(MemoryKind::host, Purpose::staging, 16);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator.statistics().of(MemoryKind::host).live, 0u);
  EXPECT_EQ(allocator.statistics().of(MemoryKind::host).count, 800u);
  EXPECT_EQ(allocator.statistics().of(MemoryKind::host).total, 800u * 16);
}

TEST(Memory, SentinelIsNotANumberInEveryFormat) {
  Allocator allocator;
  Arena arena = Arena::make(allocator, 3 << 20, k_sentinel);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.data()) % (2 << 20), 0u);
  std::uint32_t bits = 0;
  std::memcpy(&bits, arena.data() + (3 << 20) - 4, 4);
  EXPECT_TRUE(codec::is_nan_bits(bits));
  EXPECT_TRUE(codec::is_nan_bits(codec::bf16_to_f32_bits(static_cast<std::uint16_t>(bits))));
  EXPECT_TRUE(codec::is_nan_bits(codec::f16_to_f32_bits(static_cast<std::uint16_t>(bits))));
  EXPECT_TRUE(codec::is_nan_bits(codec::e4m3fn_to_f32_bits(static_cast<std::uint8_t>(bits))));
  EXPECT_TRUE(codec::is_nan_bits(codec::e5m2_to_f32_bits(static_cast<std::uint8_t>(bits))));
  double wide = 0;
  std::memcpy(&wide, arena.data(), 8);
  EXPECT_NE(wide, wide);
}

TEST(Memory, ArenaIsPopulatedWhereAskedByAnyNumberOfThreads) {
  Allocator allocator;
  Arena arena = Arena::make(allocator, (200 << 20) + 5);
  EXPECT_EQ(arena.populated(), 0u);
  arena.populate(k_populate_bytes, k_populate_bytes);
  EXPECT_EQ(arena.populated(), 0u) << "nothing was asked for";
  arena.populate(3 * k_populate_bytes - 1, 3 * k_populate_bytes + 1);
  EXPECT_EQ(arena.populated(), 2 * k_populate_bytes);
  arena.populate(arena.size() - 1, arena.size() + 100);
  EXPECT_EQ(arena.populated(), 2 * k_populate_bytes + 5) << "the last step is as long as what is left";
  EXPECT_FALSE(arena.is_populated());
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) threads.emplace_back([&] { arena.populate(0, arena.size()); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena.populated(), arena.size());
  EXPECT_TRUE(arena.is_populated());
  struct ::rusage before {
  }, after{};
  ::getrusage(RUSAGE_SELF, &before);
  std::memset(arena.data(), 1, arena.size());
  ::getrusage(RUSAGE_SELF, &after);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(after.ru_minflt - before.ru_minflt, 200) << "the pages were there";
#endif
}

/// What a load counts is what was predicted, by any path through the plan.
void expect_exact(const Files& files, const Case& c, LoadOptions options = {}) {
  Allocator allocator;
  options.allocator = &allocator;
  const Forecast predicted = forecast(*c.plan, options);
  allocator.set_limit(MemoryKind::host, predicted.host_bytes());
  const SourceFiles sources = c.sources();
  {
    LoadAttempt attempt = load(*c.plan, sources, options);
    expect_equal(attempt, files);
    const MemoryStatistics& counted = attempt.memory();
    EXPECT_EQ(counted.of(MemoryKind::host).peak, predicted.host_bytes());
    EXPECT_EQ(counted.of(MemoryKind::host, Purpose::final_storage).peak, c.plan->memory().final_bytes);
    EXPECT_EQ(counted.of(MemoryKind::host, Purpose::whole).peak, c.plan->memory().whole_bytes);
    EXPECT_EQ(counted.of(MemoryKind::host).live, c.plan->memory().final_bytes) << "only the arena stays";
    if (!options.has_digests) {
      EXPECT_EQ(predicted.host_bytes(), c.plan->memory().peak_bytes());
    }
  }
  EXPECT_EQ(allocator.statistics().of(MemoryKind::host).live, 0u);
  // One byte less, and nothing is written.
  allocator.set_limit(MemoryKind::host, predicted.host_bytes() - 1);
  const LoadAttempt refused = load(*c.plan, sources, options);
  EXPECT_EQ(refused.outcome(), Outcome::failed);
  EXPECT_EQ(refused.error()->code(), ErrorCode::budget_too_small);
  EXPECT_TRUE(refused.completed_keys().empty() || refused.completed_keys() == std::vector<std::string_view>{"empty"});
  EXPECT_EQ(allocator.statistics().of(MemoryKind::host).live, 0u);
}

TEST(Memory, CountedIsPredictedToTheByte) {
  const Model model(256, 150, 3);
  Files files;
  model.add_to(files);
  for (const std::optional<plan::Route> route :
       {std::optional<plan::Route>(), std::optional(plan::Route::materialized)}) {
    for (const plan::TargetDType dtype : {plan::TargetDType::stored, plan::TargetDType::f32}) {
      for (const unsigned threads : {1u, 3u}) {
        plan::Request request;
        request.route = route;
        request.dtype = dtype;
        request.threads = threads;
        const Case c = make_case(files, model.schema, request);
        expect_exact(files, c);
        if (!digest_unavailable().empty()) continue;
        LoadOptions options;
        options.has_digests = true;
        expect_exact(files, c, options);
      }
    }
  }
}

TEST(Memory, BudgetIsHeldAndOneByteLessIsRefused) {
  const Model model(256, 150, 3);
  Files files;
  model.add_to(files);
  plan::Request request;
  request.budget_bytes = 64u << 20;
  request.threads = 2;
  const std::uint64_t least = make_case(files, model.schema, request).plan->memory().minimum_budget_bytes;
  request.budget_bytes = least;
  const Case c = make_case(files, model.schema, request);
  const SourceFiles sources = c.sources();
  LoadAttempt attempt = load(*c.plan, sources);
  expect_equal(attempt, files);
  EXPECT_EQ(attempt.memory().of(MemoryKind::host).peak, c.plan->memory().final_bytes + least);
  request.budget_bytes = least - 1;
  const auto refused = error_of([&] { make_case(files, model.schema, request); });
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code(), ErrorCode::budget_too_small);
}

}  // namespace
}  // namespace weightproof::exec
