// SPDX-License-Identifier: Apache-2.0
// Warm loads against bare loops over the same bytes, goal and baseline alternating within each round. What is loaded is
// checked before anything is timed; the median of the ratios of the rounds is what counts. Files are at most 512 MiB,
// lie in the temporary directory, and go away.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "loader/exec/bench/baselines.hpp"
#include "loader/exec/engine.hpp"
#include "loader/storage/checkpoint.hpp"
#include "loader/storage/writer.hpp"

namespace weightproof::exec::bench {
namespace {

constexpr int k_rounds = 11;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "wrong result before timing: %s\n", what);
  std::abort();
}

double seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A checkpoint of random bytes in a folder that goes away.
class Checkpoint {
 public:
  using Bytes = std::function<void(const storage::TensorSpec&, std::vector<std::byte>&)>;
  explicit Checkpoint(const std::vector<storage::TensorSpec>& specs, const Bytes& change = {}) {
    static int count = 0;
    folder_ = std::filesystem::temp_directory_path() /
              ("weightproof_bench_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "model.safetensors";
    const storage::HeaderPlan header = storage::plan_header(specs, std::nullopt);
    std::ofstream file(path_, std::ios::binary);
    file << header.bytes;
    std::uint64_t state = 88172645463325252u;
    std::vector<std::byte> bytes;
    for (const storage::PlannedTensor& planned : header.tensors) {
      bytes.resize(planned.end - planned.begin);
      for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        std::memcpy(bytes.data() + at, &state, 8);
      }
      if (change) change(specs[planned.source], bytes);
      file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    }
    require(file.good(), "the file could not be written");
    file.close();
    data_begin_ = header.bytes.size();
    data_bytes_ = header.data_bytes;
    checkpoint_ = std::make_unique<storage::Checkpoint>(storage::open_checkpoint(path_, {}));
    catalog_ = std::make_shared<const Catalog>(checkpoint_->catalog);
  }
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;
  ~Checkpoint() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  SourceFiles sources() const {
    const storage::Checkpoint* const all[] = {checkpoint_.get()};
    return SourceFiles::of(all);
  }
  plan::Plan plan(SchemaBuilder& builder, unsigned threads, plan::Request request = {}) const {
    request.threads = threads;
    const plan::Source source{"base", catalog_};
    return plan::make_plan(std::make_shared<const Schema>(std::move(builder).finish()), std::span(&source, 1), {},
                           request);
  }
  const Catalog& catalog() const { return *catalog_; }
  std::string path() const { return path_.string(); }
  std::uint64_t begin() const { return data_begin_; }
  std::size_t bytes() const { return data_bytes_; }

 private:
  std::filesystem::path folder_;
  std::filesystem::path path_;
  std::uint64_t data_begin_ = 0;
  std::size_t data_bytes_ = 0;
  std::unique_ptr<storage::Checkpoint> checkpoint_;
  std::shared_ptr<const Catalog> catalog_;
};

/// A plan and memory that is used again for every load.
struct Loader {
  const plan::Plan& plan;
  SourceFiles sources;
  Allocator allocator;
  Arena arena;
  ArenaDestinations destinations{arena};
  LoadOptions options;
  Loader(const plan::Plan& plan_, SourceFiles sources_) : plan(plan_), sources(std::move(sources_)) {
    arena = Arena::make(allocator, plan.memory().final_bytes, std::byte{1});
    options.destinations = &destinations;
  }
  void load() {
    const LoadAttempt attempt = exec::load(plan, sources, options);
    if (!attempt.is_complete()) {
      std::fprintf(stderr, "%s\n", attempt.error()->what());
      std::abort();
    }
  }
  std::span<const std::byte> tensor(std::size_t at) const {
    return {arena.data() + plan.tensors()[at].arena_offset, plan.tensors()[at].bytes};
  }
};

/// Rounds of (baseline, goal, goal, baseline), so that a drift of the machine meets both alike.
void alternate(benchmark::State& state, std::size_t bytes, const char* name, const std::function<void()>& baseline,
               const std::function<void()>& goal) {
  baseline();
  goal();
  std::vector<double> ratios;
  std::vector<double> baselines;
  for (auto _ : state) {
    double base = seconds(baseline);
    double own = seconds(goal);
    own += seconds(goal);
    base += seconds(baseline);
    ratios.push_back(base / own);
    baselines.push_back(base / 2);
    state.SetIterationTime(own / 2);
  }
  std::sort(ratios.begin(), ratios.end());
  std::sort(baselines.begin(), baselines.end());
  state.counters[name] = ratios[ratios.size() / 2];
  state.counters["min"] = ratios.front();
  state.counters["max"] = ratios.back();
  state.counters["baseline_GBps"] = static_cast<double>(bytes) / baselines[baselines.size() / 2] / 1e9;
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}

void check_identity(const Checkpoint& checkpoint, const Loader& loader) {
  Pages whole(checkpoint.bytes(), true);
  pread_pool(checkpoint.path(), checkpoint.begin(), whole.data(), whole.size(), 1);
  for (std::size_t i = 0; i < loader.plan.tensors().size(); ++i) {
    const StoredTensor* stored = checkpoint.catalog().find(loader.plan.tensors()[i].key);
    require(
        std::memcmp(loader.tensor(i).data(), whole.data() + (stored->begin - checkpoint.begin()), stored->bytes) == 0,
        "an identity load");
  }
}

std::vector<storage::TensorSpec> big_tensors() {
  std::vector<storage::TensorSpec> specs;
  for (int i = 0; i < 8; ++i) specs.push_back({"layer." + std::to_string(i), DType::bf16, {8192, 4096}});
  return specs;
}

void identity(SchemaBuilder& builder, const std::vector<storage::TensorSpec>& specs) {
  for (const storage::TensorSpec& spec : specs) builder.identity(spec.name, spec.shape, DTypeRule::any);
}

/// P1: load time against a bare pread pool, destination touched before.
void identity_prefaulted(benchmark::State& state) {
  const auto threads = static_cast<unsigned>(state.range(0));
  const std::vector<storage::TensorSpec> specs = big_tensors();
  const Checkpoint checkpoint(specs);
  SchemaBuilder builder("bench");
  identity(builder, specs);
  const plan::Plan plan = checkpoint.plan(builder, threads);
  Loader loader(plan, checkpoint.sources());
  loader.load();
  check_identity(checkpoint, loader);
  alternate(
      state, checkpoint.bytes(), "of_pread",
      [&] { pread_pool(checkpoint.path(), checkpoint.begin(), loader.arena.data(), checkpoint.bytes(), threads); },
      [&] { loader.load(); });
}
BENCHMARK(identity_prefaulted)->Arg(1)->Arg(2)->Iterations(k_rounds)->UseManualTime()->Unit(benchmark::kMillisecond);

/// The baseline itself against memcpy.
void pread_of_memcpy(benchmark::State& state) {
  const auto threads = static_cast<unsigned>(state.range(0));
  const Checkpoint checkpoint({{"all", DType::bf16, {65536, 2048}}});
  Pages source(checkpoint.bytes(), true);
  Pages target(checkpoint.bytes(), true);
  alternate(
      state, checkpoint.bytes(), "of_memcpy",
      [&] { memcpy_pool(target.data(), source.data(), source.size(), threads); },
      [&] { pread_pool(checkpoint.path(), checkpoint.begin(), target.data(), target.size(), threads); });
}
BENCHMARK(pread_of_memcpy)->Arg(1)->Arg(2)->Iterations(k_rounds)->UseManualTime()->Unit(benchmark::kMillisecond);

/// The same with memory that nobody touched: populating it is part of both.
void identity_fresh(benchmark::State& state) {
  const auto threads = static_cast<unsigned>(state.range(0));
  const std::vector<storage::TensorSpec> specs = big_tensors();
  const Checkpoint checkpoint(specs);
  SchemaBuilder builder("bench");
  identity(builder, specs);
  const plan::Plan plan = checkpoint.plan(builder, threads);
  const SourceFiles sources = checkpoint.sources();
  alternate(
      state, checkpoint.bytes(), "of_pread",
      [&] { pread_pool_fresh(checkpoint.path(), checkpoint.begin(), Pages(checkpoint.bytes(), false), threads); },
      [&] { require(load(plan, sources).is_complete(), "a load"); });
}
BENCHMARK(identity_fresh)->Arg(1)->Arg(2)->Iterations(k_rounds)->UseManualTime()->Unit(benchmark::kMillisecond);

/// P9: tensors of 4 KiB against a stream over the same file; also of a size that leaves gaps in memory, so that none
/// can be read together with its neighbour into one place.
void small_tensors(benchmark::State& state) {
  const auto threads = static_cast<unsigned>(state.range(0));
  const auto elements = static_cast<std::uint64_t>(state.range(1));
  std::vector<storage::TensorSpec> specs;
  for (int i = 0; i < 65536; ++i) specs.push_back({"expert." + std::to_string(i) + ".bias", DType::bf16, {elements}});
  const Checkpoint checkpoint(specs);
  SchemaBuilder builder("bench");
  identity(builder, specs);
  const plan::Plan plan = checkpoint.plan(builder, threads);
  Loader loader(plan, checkpoint.sources());
  loader.load();
  check_identity(checkpoint, loader);
  alternate(
      state, checkpoint.bytes(), "of_stream",
      [&] { pread_pool(checkpoint.path(), checkpoint.begin(), loader.arena.data(), checkpoint.bytes(), threads); },
      [&] { loader.load(); });
}
BENCHMARK(small_tensors)
    ->ArgsProduct({{1, 2}, {2048, 2052}})
    ->Iterations(k_rounds)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// Experts stored [out, in] into a stack of [in, out], against loading the same bytes as they are.
void transposed_experts(benchmark::State& state) {
  const auto threads = static_cast<unsigned>(state.range(0));
  constexpr std::uint64_t k_experts = 12, k_hidden = 2688, k_inner = 1856;
  std::vector<storage::TensorSpec> specs;
  for (std::uint64_t e = 0; e < k_experts; ++e) {
    specs.push_back({"experts." + std::to_string(e) + ".up", DType::bf16, {k_inner, k_hidden}});
    specs.push_back({"experts." + std::to_string(e) + ".down", DType::bf16, {k_hidden, k_inner}});
  }
  const Checkpoint checkpoint(specs);
  SchemaBuilder plain("plain");
  identity(plain, specs);
  const plan::Plan as_stored = checkpoint.plan(plain, threads);
  SchemaBuilder builder("grouped");
  const NativeId up = builder.native("up", {k_experts, k_hidden, k_inner});
  const NativeId down = builder.native("down", {k_experts, k_inner, k_hidden});
  for (std::uint64_t e = 0; e < k_experts; ++e) {
    builder.bind(builder.stored(specs[2 * e].name, specs[2 * e].shape), up,
                 builder.whole(up).select(0, e).transpose(0, 1));
    builder.bind(builder.stored(specs[2 * e + 1].name, specs[2 * e + 1].shape), down,
                 builder.whole(down).select(0, e).transpose(0, 1));
  }
  const plan::Plan grouped = checkpoint.plan(builder, threads);
  Loader stored(as_stored, checkpoint.sources());
  Loader loader(grouped, checkpoint.sources());
  stored.load();
  loader.load();
  for (std::uint64_t e = 0; e < k_experts; e += 5) {
    const auto from = stored.tensor(as_stored.find(specs[2 * e].name));
    const auto to = loader.tensor(grouped.find("up")).subspan(e * k_hidden * k_inner * 2);
    for (std::uint64_t i = 0; i < k_inner; ++i) {
      for (std::uint64_t h = 0; h < k_hidden; ++h) {
        require(std::memcmp(from.data() + (i * k_hidden + h) * 2, to.data() + (h * k_inner + i) * 2, 2) == 0,
                "a transpose");
      }
    }
  }
  alternate(
      state, checkpoint.bytes(), "of_identity", [&] { stored.load(); }, [&] { loader.load(); });
}
BENCHMARK(transposed_experts)->Arg(1)->Arg(2)->Iterations(k_rounds)->UseManualTime()->Unit(benchmark::kMillisecond);

/// What a fused load is compared with: reading a file that holds the result, or reading the codes whole and decoding
/// them afterwards: into memory that each load takes anew, as the fused load takes its own, or into memory that was
/// kept from the load before, which no loader of one checkpoint has.
enum class Rival { bf16_twin, two_passes, two_passes_kept };

/// Reads every component whole, then decodes band by band, with as many threads as the load has.
class TwoPasses {
 public:
  TwoPasses(const Checkpoint& checkpoint, const plan::DecodeSource& source, const Shape& shape, unsigned threads,
            bool keeps_memory)
      : checkpoint_(checkpoint),
        source_(source),
        shape_(shape),
        threads_(threads),
        keeps_memory_(keeps_memory),
        held_(source.rows.size()),
        target_(*element_count(shape) * 2, true) {}
  void run() {
    for (std::size_t i = 0; i < held_.size(); ++i) {
      const StoredTensor& row = checkpoint_.catalog().tensors()[source_.rows[i]];
      if (held_[i] == nullptr) held_[i] = std::make_unique<Pages>(row.bytes, keeps_memory_);
      if (keeps_memory_) {
        pread_pool(checkpoint_.path(), row.begin, held_[i]->data(), held_[i]->size(), threads_);
      } else {
        pread_pool_fresh(checkpoint_.path(), row.begin, *held_[i], threads_);
      }
    }
    const unsigned rank = shape_.rank();
    const std::uint64_t leads = rank == 3 ? shape_[0] : 1;
    const std::uint64_t rows = shape_[rank - 2];
    constexpr std::uint64_t k_band = 128;
    const std::uint64_t bands = (rows + k_band - 1) / k_band;
    std::vector<std::thread> pool;
    for (unsigned t = 0; t < threads_; ++t)
      pool.emplace_back([&, t] {
        for (std::uint64_t band = t; band < leads * bands; band += threads_)
          decode(band / bands, band % bands * k_band);
      });
    for (std::thread& thread : pool) thread.join();
    for (std::unique_ptr<Pages>& held : held_) {
      if (!keeps_memory_) held.reset();
    }
  }
  std::span<const std::byte> result() const { return {target_.data(), target_.size()}; }

 private:
  void decode(std::uint64_t lead, std::uint64_t row) {
    const unsigned rank = shape_.rank();
    Box box = Box::whole(shape_);
    box.start[rank - 2] = row;
    box.length[rank - 2] = std::min<std::uint64_t>(128, shape_[rank - 2] - row);
    if (rank == 3) {
      box.start[0] = lead;
      box.length[0] = 1;
    }
    std::vector<codec::ByteRun> runs;
    source_.codec->byte_runs(box, runs);
    std::vector<std::span<const std::byte>> parts(held_.size());
    for (const codec::ByteRun& run : runs) {  // bands of whole rows: one run for each component
      require(parts[run.component].empty(), "a band that lies together");
      parts[run.component] = {held_[run.component]->data() + run.offset, run.bytes};
    }
    source_.codec->decode(box, parts, DType::bf16,
                          target_.data() + (lead * shape_[rank - 2] + row) * shape_[rank - 1] * 2);
  }

  const Checkpoint& checkpoint_;
  const plan::DecodeSource& source_;
  Shape shape_;
  unsigned threads_;
  bool keeps_memory_;
  std::vector<std::unique_ptr<Pages>> held_;
  Pages target_;
};

/// Decoded while it is read, against its rival.
void decoded(benchmark::State& state, const codec::Scheme& scheme, const std::vector<storage::TensorSpec>& coded,
             const std::vector<codec::Role>& roles, const Shape& shape, Rival rival) {
  const auto threads = static_cast<unsigned>(state.range(0));
  const Checkpoint checkpoint(coded, [&](const storage::TensorSpec& spec, std::vector<std::byte>& bytes) {
    // No NaN codes, scales near one thousandth: what weights are like.
    if (spec.dtype == DType::f8_e4m3) {
      for (std::byte& b : bytes) b = (b & std::byte{0x7f}) == std::byte{0x7f} ? std::byte{0} : b;
    } else if (spec.dtype == DType::f32) {
      for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
        const float scale = 0.001f + 0.00001f * static_cast<float>(i % 97);
        std::memcpy(bytes.data() + i, &scale, 4);
      }
    } else if (spec.name.ends_with("_scales")) {
      for (std::byte& b : bytes) b = std::byte{118} | (b & std::byte{7});
    }
  });
  SchemaBuilder builder("coded");
  const StoredId stored = builder.stored("w", shape);
  const NativeId native = builder.native("w", shape);
  builder.bind(stored, native, builder.whole(native));
  plan::Request request;
  plan::DecodeSource source;
  source.stored = stored;
  std::vector<codec::Component> components;
  for (std::size_t i = 0; i < coded.size(); ++i) {
    components.push_back({roles[i], coded[i].name, coded[i].dtype, coded[i].shape});
    source.rows.push_back(static_cast<plan::Row>(checkpoint.catalog().index_of(coded[i].name)));
  }
  source.codec = codec::make_codec(scheme, std::move(components));
  request.decodes = {source};
  const plan::Plan plan = checkpoint.plan(builder, threads, request);
  Loader loader(plan, checkpoint.sources());
  loader.load();
  {
    std::vector<std::vector<std::byte>> held;
    std::vector<std::span<const std::byte>> parts;
    for (const plan::Row row : source.rows) {
      const StoredTensor& tensor = checkpoint.catalog().tensors()[row];
      held.emplace_back(tensor.bytes);
      pread_pool(checkpoint.path(), tensor.begin, held.back().data(), tensor.bytes, 1);
    }
    parts.assign(held.begin(), held.end());
    std::vector<std::byte> wanted(loader.tensor(0).size());
    source.codec->decode(Box::whole(shape), parts, DType::bf16, wanted.data());
    require(std::memcmp(wanted.data(), loader.tensor(0).data(), wanted.size()) == 0, "a decoded load");
  }
  if (rival != Rival::bf16_twin) {
    TwoPasses passes(checkpoint, source, shape, threads, rival == Rival::two_passes_kept);
    passes.run();
    require(std::memcmp(passes.result().data(), loader.tensor(0).data(), passes.result().size()) == 0, "two passes");
    alternate(
        state, passes.result().size(), "of_two_passes", [&] { passes.run(); }, [&] { loader.load(); });
    return;
  }
  const std::vector<storage::TensorSpec> twin_specs = {{"w", DType::bf16, shape}};
  const Checkpoint twin(twin_specs);
  SchemaBuilder twin_builder("twin");
  identity(twin_builder, twin_specs);
  const plan::Plan twin_plan = twin.plan(twin_builder, threads);
  Loader twin_loader(twin_plan, twin.sources());
  alternate(
      state, twin.bytes(), "of_bf16_twin", [&] { twin_loader.load(); }, [&] { loader.load(); });
}

void fp8(benchmark::State& state, Rival rival) {
  codec::Scheme scheme;
  scheme.id = "fp8_block";
  scheme.block_rows = scheme.block_cols = 128;
  decoded(state, scheme, {{"w", DType::f8_e4m3, {32768, 4096}}, {"w_scale_inv", DType::f32, {256, 32}}},
          {codec::Role::weight, codec::Role::scale}, {32768, 4096}, rival);
}
/// P6: fused against the file that holds the result. P7: against two passes.
void fp8_blocks(benchmark::State& state) { fp8(state, Rival::bf16_twin); }
void fp8_blocks_two_passes(benchmark::State& state) { fp8(state, Rival::two_passes); }
void fp8_blocks_two_passes_kept(benchmark::State& state) { fp8(state, Rival::two_passes_kept); }
BENCHMARK(fp8_blocks)->Arg(1)->Arg(2)->Iterations(k_rounds)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(fp8_blocks_two_passes)->Arg(1)->Arg(2)->Iterations(k_rounds)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(fp8_blocks_two_passes_kept)->Arg(1)->Arg(2)->Iterations(k_rounds)->UseManualTime()->Unit(benchmark::kMillisecond);

void mx(benchmark::State& state, Rival rival) {
  codec::Scheme scheme;
  scheme.id = "mxfp4_blocks";
  scheme.group_size = 32;
  decoded(state, scheme, {{"w_blocks", DType::u8, {16, 2880, 90, 16}}, {"w_scales", DType::u8, {16, 2880, 90}}},
          {codec::Role::weight, codec::Role::scale}, {16, 2880, 2880}, rival);
}
void mxfp4(benchmark::State& state) { mx(state, Rival::bf16_twin); }
void mxfp4_two_passes(benchmark::State& state) { mx(state, Rival::two_passes); }
void mxfp4_two_passes_kept(benchmark::State& state) { mx(state, Rival::two_passes_kept); }
BENCHMARK(mxfp4)->Arg(1)->Arg(2)->Iterations(k_rounds)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(mxfp4_two_passes)->Arg(1)->Arg(2)->Iterations(k_rounds)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(mxfp4_two_passes_kept)->Arg(1)->Arg(2)->Iterations(k_rounds)->UseManualTime()->Unit(benchmark::kMillisecond);

/// P12: digests made on the way, against a load without.
void digests(benchmark::State& state) {
  const auto threads = static_cast<unsigned>(state.range(0));
  if (!digest_unavailable().empty()) {
    state.SkipWithError("digests are unavailable");
    return;
  }
  const std::vector<storage::TensorSpec> specs = big_tensors();
  const Checkpoint checkpoint(specs);
  SchemaBuilder builder("bench");
  identity(builder, specs);
  const plan::Plan plan = checkpoint.plan(builder, threads);
  Loader loader(plan, checkpoint.sources());
  LoadOptions with = loader.options;
  with.has_digests = true;
  const LoadAttempt attempt = load(plan, loader.sources, with);
  for (std::size_t i = 0; i < plan.tensors().size(); ++i) {
    require(*attempt.digest(i) == digest_of(loader.tensor(i)), "a digest");
  }
  alternate(
      state, checkpoint.bytes(), "of_plain", [&] { loader.load(); },
      [&] { require(load(plan, loader.sources, with).is_complete(), "a load"); });
}
BENCHMARK(digests)->Arg(1)->Arg(2)->Iterations(k_rounds)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weightproof::exec::bench

BENCHMARK_MAIN();
