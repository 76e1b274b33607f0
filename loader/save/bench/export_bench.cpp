// SPDX-License-Identifier: Apache-2.0
// Export of a checkpoint into files of another size, beside a plain copy of the same bytes with the same window, both
// made durable. Large tensors, and many small ones. The result is compared before anything is timed.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "loader/save/export.hpp"

namespace weightproof::save {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t k_payload_bytes = 256ULL * 1024 * 1024;

class Fixture {
 public:
  Fixture(const char* name, std::uint64_t tensor_bytes) {
    path_ = fs::temp_directory_path() / ("weightproof_export_bench_" + std::to_string(::getpid()) + "_" + name);
    fs::create_directories(path_);
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor_bytes));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 131 + (i >> 9));
    std::vector<ExportTensor> tensors;
    for (std::uint64_t i = 0; i < k_payload_bytes / tensor_bytes; ++i) {
      tensors.push_back({"model.layers." + std::to_string(i) + ".weight", DType::u8, {tensor_bytes}});
    }
    MemorySource source(std::vector<std::span<const std::byte>>(tensors.size(), bytes));
    export_checkpoint(tensors, source, path_ / "in");
    checkpoint_ = std::make_unique<storage::Checkpoint>(storage::open_checkpoint(path_ / "in", {}));
    run_export(true);
    clear();
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;
  ~Fixture() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  void run_export(bool is_verified) const {
    CheckpointSource source(*checkpoint_);
    ExportOptions options;
    options.shard_bytes = 96'000'000;
    options.is_verified = is_verified;
    const ExportResult result =
        export_checkpoint(CheckpointSource::tensors_of(*checkpoint_), source, path_ / "out", options);
    if (result.total_size != k_payload_bytes) std::abort();
  }
  void copy() const {
    constexpr std::size_t window_bytes = 4 * 1024 * 1024;
    const storage::File from = storage::File::open(path_ / "in/model.safetensors", "in");
    WritableFile to = WritableFile::create(path_ / "copy", "copy", from.size(), WriteCalls::system());
    std::vector<std::byte> window(window_bytes);
    for (std::uint64_t at = 0; at < from.size(); at += window_bytes) {
      const std::span<std::byte> part(
          window.data(), static_cast<std::size_t>(std::min<std::uint64_t>(window_bytes, from.size() - at)));
      from.read(at, part);
      to.write(at, part);
    }
    to.finish();
  }
  void clear() const {
    std::error_code ignored;
    fs::remove_all(path_ / "out", ignored);
    fs::remove(path_ / "copy", ignored);
  }

 private:
  fs::path path_;
  std::unique_ptr<storage::Checkpoint> checkpoint_;
};

const Fixture& large() {
  static const Fixture fixture("large", 16 * 1024 * 1024);
  return fixture;
}
const Fixture& small() {
  static const Fixture fixture("small", 16 * 1024);
  return fixture;
}

void measure(benchmark::State& state, const Fixture& fixture, int kind) {
  for (auto _ : state) {
    if (kind == 0) {
      fixture.copy();
    } else {
      fixture.run_export(kind == 2);
    }
    state.PauseTiming();
    fixture.clear();
    state.ResumeTiming();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(k_payload_bytes));
}

void plain_copy(benchmark::State& state) { measure(state, large(), 0); }
void export_large(benchmark::State& state) { measure(state, large(), 1); }
void export_large_verified(benchmark::State& state) { measure(state, large(), 2); }
void export_small(benchmark::State& state) { measure(state, small(), 1); }
void export_small_verified(benchmark::State& state) { measure(state, small(), 2); }

BENCHMARK(plain_copy)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(1)->Repetitions(9);
BENCHMARK(export_large)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(1)->Repetitions(9);
BENCHMARK(export_large_verified)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(1)->Repetitions(9);
BENCHMARK(export_small)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(1)->Repetitions(9);
BENCHMARK(export_small_verified)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(1)->Repetitions(9);

}  // namespace
}  // namespace weightproof::save

BENCHMARK_MAIN();
