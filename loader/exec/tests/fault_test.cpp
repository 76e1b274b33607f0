// SPDX-License-Identifier: Apache-2.0
// What goes wrong while loading: every Nth of everything fails until nothing does.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <iostream>
#include <set>
#include <system_error>
#include <thread>

#include "loader/exec/tests/models.hpp"

namespace weightproof::exec {
namespace {

using namespace testing_support;

/// System calls of which the n-th does what it is told.
class FailingCalls final : public storage::FileCalls {
 public:
  enum class What : std::uint8_t { nothing, fail, interrupt, shorten, end };
  What what = What::nothing;
  std::atomic<std::uint64_t> at{0};
  std::atomic<std::uint64_t> calls{0};
  std::function<void(std::uint64_t)> before_read;

  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override {
    const What now = next();
    if (now == What::shorten) bytes = (bytes + 1) / 2;
    if (const auto made = failure(now)) return *made;
    return FileCalls::pread(fd, buffer, bytes, offset);
  }
  std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) override {
    const What now = next();
    if (const auto made = failure(now)) return *made;
    if (now == What::shorten && parts[0].iov_len > 1) {
      const ::iovec first{parts[0].iov_base, parts[0].iov_len / 2};
      return FileCalls::preadv(fd, &first, 1, offset);
    }
    return FileCalls::preadv(fd, parts, count, offset);
  }

 private:
  What next() {
    const std::uint64_t call = ++calls;
    if (before_read) before_read(call);
    return call == at || at == UINT64_MAX ? what : What::nothing;
  }
  static std::optional<std::int64_t> failure(What now) {
    if (now == What::end) return 0;
    if (now != What::fail && now != What::interrupt) return std::nullopt;
    errno = now == What::fail ? EIO : EINTR;
    return -1;
  }
};

struct Setting {
  Model model{64, 40, 2};
  Files files;
  Case c;
  explicit Setting(unsigned threads, plan::TargetDType dtype = plan::TargetDType::stored) {
    model.add_to(files);
    plan::Request request;
    request.threads = threads;
    request.dtype = dtype;
    c = make_case(files, model.schema, request);
  }
};

/// A failed load hands nothing out and names what was complete.
void expect_clean_failure(LoadAttempt& attempt, ErrorCode cause) {
  EXPECT_EQ(attempt.outcome(), Outcome::failed);
  ASSERT_TRUE(attempt.cause());
  EXPECT_EQ(attempt.cause()->code(), cause) << attempt.cause()->what();
  EXPECT_THROW(attempt.arena(), Error);
  EXPECT_FALSE(attempt.digest(0));
  if (attempt.error()->code() == ErrorCode::load_failed_partial) {
    std::vector<std::string> keys;
    for (const std::string_view key : attempt.completed_keys()) keys.emplace_back(key);
    EXPECT_EQ(attempt.error()->facts().keys, keys);
    EXPECT_NE(attempt.error()->message().find(attempt.cause()->message()), std::string::npos);
  } else {
    EXPECT_EQ(attempt.error()->code(), cause);
    EXPECT_EQ(attempt.counters().written_bytes, 0u);
  }
}

TEST(Fault, EveryReadFailsOnce) {
  for (const unsigned threads : {1u, 2u}) {
    const Setting s(threads, plan::TargetDType::f32);
    std::uint64_t failed = 0;
    for (std::uint64_t n = 1;; ++n) {
      FailingCalls calls;
      calls.what = n % 2 == 0 ? FailingCalls::What::fail : FailingCalls::What::end;
      calls.at = n;
      const SourceFiles sources = s.c.sources(calls);
      Allocator allocator;
      LoadOptions options;
      options.allocator = &allocator;
      {
        LoadAttempt attempt = load(*s.c.plan, sources, options);
        if (attempt.is_complete()) {
          EXPECT_LT(calls.calls, n);
          expect_equal(attempt, s.files);
          break;
        }
        expect_clean_failure(attempt, ErrorCode::io_error);
        EXPECT_FALSE(attempt.cause()->facts().file.empty());
        ++failed;
      }
      EXPECT_EQ(allocator.statistics().of(MemoryKind::host).live, 0u);
      ASSERT_LT(n, 1000u);
    }
    EXPECT_GE(failed, 3u);
    RecordProperty("reads_failed", static_cast<int>(failed));
    std::cout << threads << " threads: " << failed << " reads failed one by one, then the load was whole\n";
  }
}

TEST(Fault, InterruptedAndShortReadsGoOn) {
  const Setting s(2);
  for (const FailingCalls::What what : {FailingCalls::What::interrupt, FailingCalls::What::shorten}) {
    for (std::uint64_t n = 1; n < 12; ++n) {
      FailingCalls calls;
      calls.what = what;
      calls.at = n;
      const SourceFiles sources = s.c.sources(calls);
      LoadAttempt attempt = load(*s.c.plan, sources);
      expect_equal(attempt, s.files);
    }
    // Every call short.
    if (what == FailingCalls::What::interrupt) continue;
    FailingCalls calls;
    calls.what = what;
    calls.at = UINT64_MAX;
    const SourceFiles sources = s.c.sources(calls);
    LoadAttempt attempt = load(*s.c.plan, sources);
    expect_equal(attempt, s.files);
  }
}

TEST(Fault, EveryAllocationFailsOnce) {
  const Setting s(3, plan::TargetDType::f32);
  const SourceFiles sources = s.c.sources();
  std::uint64_t failed = 0;
  for (std::uint64_t n = 1;; ++n) {
    Allocator allocator;
    allocator.fail_at(n);
    LoadOptions options;
    options.allocator = &allocator;
    {
      LoadAttempt attempt = load(*s.c.plan, sources, options);
      if (attempt.is_complete()) break;
      expect_clean_failure(attempt, ErrorCode::alloc_failed);
      ++failed;
    }
    EXPECT_EQ(allocator.statistics().of(MemoryKind::host).live, 0u);
    ASSERT_LT(n, 1000u);
  }
  std::cout << failed << " allocations failed one by one, then the load was whole\n";
  EXPECT_GE(failed, 6u);
}

TEST(Fault, EveryThreadFailsToStartOnce) {
  const Setting s(4);
  const SourceFiles sources = s.c.sources();
  ASSERT_EQ(s.c.plan->memory().threads, 4u);
  unsigned failed = 0;
  for (unsigned n = 1;; ++n) {
    unsigned started = 0;
    LoadOptions options;
    options.start_thread = [&](std::function<void()> body) {
      if (++started == n) throw std::system_error(EAGAIN, std::generic_category());
      return std::thread(std::move(body));
    };
    LoadAttempt attempt = load(*s.c.plan, sources, options);
    if (attempt.is_complete()) {
      expect_equal(attempt, s.files);
      break;
    }
    expect_clean_failure(attempt, ErrorCode::alloc_failed);
    EXPECT_EQ(attempt.error()->code(), ErrorCode::alloc_failed) << "nothing was written";
    ++failed;
  }
  EXPECT_EQ(failed, 3u);
}

TEST(Fault, FilesThatChange) {
  // Before anything is read: shorter, replaced, written to.
  for (const int what : {0, 1, 2}) {
    Setting s(2);
    const std::filesystem::path path = s.files.path_of(1);
    if (what == 0) std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
    if (what == 1) {
      std::filesystem::copy_file(path, path.string() + ".new");
      std::filesystem::rename(path.string() + ".new", path);
    }
    if (what == 2) {
      const auto time = std::filesystem::last_write_time(path);
      std::filesystem::last_write_time(path, time + std::chrono::seconds(1));
    }
    const SourceFiles sources = s.c.sources();
    LoadAttempt attempt = load(*s.c.plan, sources);
    expect_clean_failure(attempt, ErrorCode::file_changed);
    EXPECT_EQ(attempt.cause()->facts().file, path.filename().string());
  }
  // Between two loads over the same open files.
  {
    Setting s(1);
    const SourceFiles sources = s.c.sources();
    ASSERT_TRUE(load(*s.c.plan, sources).is_complete());
    std::filesystem::resize_file(s.files.path_of(0), 100);
    LoadAttempt attempt = load(*s.c.plan, sources);
    expect_clean_failure(attempt, ErrorCode::file_changed);
    EXPECT_EQ(attempt.error()->code(), ErrorCode::file_changed) << "seen before the first read";
  }
  // While it is read: cut off, and overwritten in place with bytes that would pass.
  for (const bool is_cut : {true, false}) {
    Setting s(1);
    FailingCalls calls;
    const std::filesystem::path path = s.files.path_of(2);
    calls.before_read = [&](std::uint64_t call) {
      if (call != 2) return;
      if (is_cut) {
        std::filesystem::resize_file(path, 300);
      } else {
        std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(2));
      }
    };
    const SourceFiles sources = s.c.sources(calls);
    LoadAttempt attempt = load(*s.c.plan, sources);
    EXPECT_EQ(attempt.outcome(), Outcome::failed);
    EXPECT_EQ(attempt.error()->code(), ErrorCode::load_failed_partial);
    EXPECT_TRUE(attempt.cause()->code() == ErrorCode::file_changed || attempt.cause()->code() == ErrorCode::io_error);
    EXPECT_EQ(attempt.cause()->facts().file, path.filename().string());
  }
}

TEST(Fault, StopsAtEveryPoint) {
  for (const unsigned threads : {1u, 2u}) {
    const Setting s(threads);
    for (std::uint64_t n = 1;; ++n) {
      std::stop_source stop;
      FailingCalls calls;
      calls.before_read = [&](std::uint64_t call) {
        if (call == n) stop.request_stop();
      };
      const SourceFiles sources = s.c.sources(calls);
      LoadOptions options;
      options.stop = stop.get_token();
      LoadAttempt attempt = load(*s.c.plan, sources, options);
      if (attempt.is_complete()) {
        expect_equal(attempt, s.files);
        break;
      }
      EXPECT_EQ(attempt.outcome(), Outcome::stopped);
      EXPECT_EQ(attempt.error()->code(), ErrorCode::load_failed_partial);
      EXPECT_FALSE(attempt.cause());
      EXPECT_THROW(attempt.bytes("embed"), Error);
      EXPECT_LT(attempt.completed_keys().size(), s.c.plan->tensors().size() + 1);
      ASSERT_LT(n, 1000u);
    }
    // Stopped before it began.
    std::stop_source stop;
    stop.request_stop();
    LoadOptions options;
    options.stop = stop.get_token();
    const SourceFiles sources = s.c.sources();
    const LoadAttempt attempt = load(*s.c.plan, sources, options);
    EXPECT_EQ(attempt.outcome(), Outcome::stopped);
    EXPECT_EQ(attempt.counters().read_bytes, 0u);
  }
}

TEST(Fault, ProgressIsToldAndMayEndTheLoad) {
  const Setting s(2);
  struct Sink final : ProgressSink {
    std::mutex mutex;
    std::uint64_t most = 0, total = 0, calls = 0, throw_at = 0;
    void advance(std::uint64_t bytes, std::uint64_t all) override {
      const std::lock_guard lock(mutex);
      most = std::max(most, bytes);
      total = all;
      if (++calls == throw_at) throw Error(ErrorCode::usage, "the sink is full");
    }
  } sink;
  LoadOptions options;
  options.progress = &sink;
  const SourceFiles sources = s.c.sources();
  LoadAttempt attempt = load(*s.c.plan, sources, options);
  expect_equal(attempt, s.files);
  EXPECT_EQ(sink.most, s.c.plan->traffic().read_bytes);
  EXPECT_EQ(sink.total, s.c.plan->traffic().read_bytes);
  sink.calls = 0;
  sink.throw_at = 1;
  LoadAttempt ended = load(*s.c.plan, sources, options);
  expect_clean_failure(ended, ErrorCode::usage);
}

TEST(Fault, FirstCauseWinsAndLaterOnesAreNotes) {
  const Setting s(2);
  FailingCalls calls;
  calls.what = FailingCalls::What::fail;
  calls.at = UINT64_MAX;
  const SourceFiles sources = s.c.sources(calls);
  LoadAttempt attempt = load(*s.c.plan, sources);
  expect_clean_failure(attempt, ErrorCode::io_error);
  EXPECT_LE(attempt.cause()->facts().notes.size(), 1u) << "of two threads";
}

/// Each deliberate fault changes the tensor that it names, and no other.
TEST(Fault, DeliberateFaultsChangeExactlyTheirTensor) {
  const Setting s(1);
  const SourceFiles sources = s.c.sources();
  const std::vector<std::byte> wanted = oracle(*s.c.plan, s.files, k_sentinel);
  std::set<Fault> seen;
  for (const char* key : {"layers.1.norm.weight", "experts.gate_up", "right"}) {
    const std::size_t named = s.c.plan->find(key);
    ASSERT_NE(named, SIZE_MAX);
    for (const Fault fault : all_faults()) {
      Faults faults{fault, static_cast<std::uint32_t>(named), 0};
      LoadOptions options;
      options.faults = &faults;
      options.sentinel = k_sentinel;
      options.has_ledger = true;
      LoadAttempt attempt = load(*s.c.plan, sources, options);
      ASSERT_TRUE(attempt.is_complete()) << attempt.error()->what();
      EXPECT_EQ(attempt.counters().faults, 1u);
      seen.insert(fault);
      for (std::size_t i = 0; i < s.c.plan->tensors().size(); ++i) {
        const plan::PlannedTensor& tensor = s.c.plan->tensors()[i];
        const auto bytes = attempt.bytes(i);
        const bool is_equal =
            std::equal(bytes.begin(), bytes.end(), wanted.begin() + static_cast<std::ptrdiff_t>(tensor.arena_offset));
        EXPECT_EQ(is_equal, i != named) << to_string(fault) << " " << key << " shows in " << tensor.key;
      }
      std::vector<View> regions;
      for (const WrittenRegion& region : attempt.ledger().written) {
        if (region.tensor == named) regions.push_back(region.region);
      }
      const bool is_covered =
          prove_tiling(s.c.plan->shape_of(s.c.plan->tensors()[named]), regions).tiling == Tiling::exact;
      EXPECT_EQ(is_covered, fault != Fault::skip_tile) << to_string(fault);
    }
  }
  EXPECT_EQ(seen.size(), all_faults().size());
}

TEST(Fault, PlanOfMoreFilesThanGivenIsRefused) {
  const Setting s(1);
  const SourceFiles none{std::vector<SourceFile>{}};
  const LoadAttempt attempt = load(*s.c.plan, none);
  EXPECT_EQ(attempt.error()->code(), ErrorCode::internal);
}

TEST(Fault, SparseFileOfMoreThanFourGiB) {
  // The hole reads as zeros; only what is asked for is read, far beyond 4 GiB.
  Folder folder;
  const std::filesystem::path path = folder.path() / "model.safetensors";
  const std::uint64_t rows = 3u << 20;
  const storage::TensorSpec specs[] = {{"a.huge", DType::f32, {rows, 512}}, {"b.tail", DType::f32, {16, 8}}};
  const storage::HeaderPlan header = storage::plan_header(specs, std::nullopt);
  const std::vector<std::byte> tail = coded_bytes("b.tail", 512);
  {
    std::ofstream file(path, std::ios::binary);
    file << header.bytes;
    file.seekp(static_cast<std::streamoff>(header.bytes.size() + header.tensors[1].begin));
    file.write(reinterpret_cast<const char*>(tail.data()), 512);
    ASSERT_TRUE(file.good());
  }
  ASSERT_GT(std::filesystem::file_size(path), 4ull << 30);
  SchemaBuilder b("sparse");
  b.identity("a.huge", {rows, 512});
  const NativeId turned = b.native("tail", {8, 16});
  b.bind(b.stored("b.tail", {16, 8}), turned, b.whole(turned).transpose(0, 1));
  const auto schema = share(b);
  const storage::Checkpoint checkpoint = storage::open_checkpoint(folder.path(), {});
  const auto catalog = std::make_shared<const Catalog>(checkpoint.catalog);
  const plan::Source source{"base", catalog};
  const storage::Checkpoint* const all[] = {&checkpoint};
  const SourceFiles sources = SourceFiles::of(all);
  plan::Request request;
  request.keys.exclude = {"a.huge"};
  const plan::Plan part = plan::make_plan(schema, std::span(&source, 1), {}, request);
  LoadAttempt attempt = load(part, sources);
  ASSERT_TRUE(attempt.is_complete()) << attempt.error()->what();
  const std::span<const std::byte> got = attempt.bytes("tail");
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      ASSERT_EQ(std::memcmp(got.data() + (column * 16 + row) * 4, tail.data() + (row * 8 + column) * 4, 4), 0);
    }
  }
  // All of it, as far as nobody has 6 GiB to spare for zeros: stopped after 32 MiB.
  const plan::Plan plan = plan::make_plan(schema, std::span(&source, 1), {}, {});
  EXPECT_GT(plan.memory().final_bytes, 4ull << 30);
  std::stop_source stop;
  struct Sink final : ProgressSink {
    std::stop_source* stop = nullptr;
    void advance(std::uint64_t bytes, std::uint64_t) override {
      if (bytes > 32u << 20) stop->request_stop();
    }
  } sink;
  sink.stop = &stop;
  LoadOptions options;
  options.stop = stop.get_token();
  options.progress = &sink;
  const LoadAttempt stopped = load(plan, sources, options);
  EXPECT_EQ(stopped.outcome(), Outcome::stopped);
  EXPECT_LT(stopped.counters().read_bytes, 64u << 20);
}

}  // namespace
}  // namespace weightproof::exec
