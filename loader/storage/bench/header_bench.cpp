// SPDX-License-Identifier: Apache-2.0
// Scan and validate one header file, beside reading and parsing the same file with a general JSON parser. Names and
// sizes as in a mixture-of-experts checkpoint. Results are checked before anything is timed.
#include <benchmark/benchmark.h>
#include <malloc.h>
#include <unistd.h>

#ifdef WEIGHTPROOF_HAVE_SIMDJSON
#include <simdjson.h>
#endif

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "loader/storage/header.hpp"
#include "loader/storage/writer.hpp"

namespace weightproof::storage {
namespace {

namespace fs = std::filesystem;

class HeaderFile {
 public:
  // A million names of the usual length would pass the format's 100 MB, so that header has shorter ones.
  HeaderFile(std::size_t count, bool is_short) {
    std::vector<TensorSpec> specs;
    constexpr const char* kinds[] = {"gate_proj", "up_proj", "down_proj", "input_scale"};
    for (std::size_t i = 0; i < count; ++i) {
      const std::string layer = std::to_string(i / 1024);
      const std::string expert = std::to_string(i / 4 % 256);
      const std::string name =
          is_short ? "l." + layer + "." + expert + "." + std::to_string(i % 4)
                   : "model.layers." + layer + ".mlp.experts." + expert + "." + kinds[i % 4] + ".weight";
      specs.push_back({name, DType::bf16, {2048, is_short ? 64U : 7168U}});
    }
    const HeaderPlan plan = plan_header(specs, Metadata{{"format", "pt"}}, HeaderStyle::automodel);
    path_ = fs::temp_directory_path() /
            ("weightproof_header_bench_" + std::to_string(::getpid()) + "_" + std::to_string(count));
    std::ofstream(path_, std::ios::binary).write(plan.bytes.data(), static_cast<std::streamsize>(plan.bytes.size()));
    header_bytes_ = plan.bytes.size() - 8;
    fs::resize_file(path_, plan.bytes.size() + plan.data_bytes);  // sparse: only the header is ever read
    // The general parser gets the header text as a file of its own, without data behind it.
    json_path_ = path_.string() + ".json";
    std::ofstream(json_path_, std::ios::binary)
        .write(plan.bytes.data() + 8, static_cast<std::streamsize>(header_bytes_));
    const Header header = read_header(File::open(path_, "bench"));
    if (header.error || header.tensors.size() != count) {
      std::fprintf(stderr, "the header was not read as written\n");
      std::abort();
    }
  }
  HeaderFile(const HeaderFile&) = delete;
  HeaderFile& operator=(const HeaderFile&) = delete;
  ~HeaderFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
    fs::remove(json_path_, ignored);
  }
  const fs::path& path() const { return path_; }
  const fs::path& json_path() const { return json_path_; }
  std::size_t header_bytes() const { return header_bytes_; }

 private:
  fs::path path_;
  fs::path json_path_;
  std::size_t header_bytes_ = 0;
};

const HeaderFile& hundred_thousand() {
  static const HeaderFile file(100'000, false);
  return file;
}

const HeaderFile& hundred_thousand_short() {
  static const HeaderFile file(100'000, true);
  return file;
}

const HeaderFile& million_short() {
  static const HeaderFile file(1'000'000, true);
  return file;
}

void scan_file(benchmark::State& state, const HeaderFile& file, std::size_t count) {
  for (auto _ : state) {
    const Header header = read_header(File::open(file.path(), "bench"));
    if (header.tensors.size() != count) state.SkipWithError("wrong number of tensors");
    benchmark::DoNotOptimize(header.tensors.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(file.header_bytes()));
  state.counters["tensors"] = static_cast<double>(count);
}

void header_scan_100k(benchmark::State& state) { scan_file(state, hundred_thousand(), 100'000); }
void header_scan_100k_short(benchmark::State& state) { scan_file(state, hundred_thousand_short(), 100'000); }
void header_scan_1m_short(benchmark::State& state) { scan_file(state, million_short(), 1'000'000); }

#ifdef WEIGHTPROOF_HAVE_SIMDJSON
// As a first read of a header is: the parser has no buffers yet. Our scanner keeps none between headers either.
void simdjson_parse_100k(benchmark::State& state) {
  const HeaderFile& file = hundred_thousand();
  for (auto _ : state) {
    simdjson::dom::parser parser(200'000'000);
    simdjson::dom::element document;
    if (parser.load(file.json_path().string()).get(document) != simdjson::SUCCESS) state.SkipWithError("not parsed");
    benchmark::DoNotOptimize(document);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(file.header_bytes()));
}
BENCHMARK(simdjson_parse_100k)->Unit(benchmark::kMillisecond)->Repetitions(9);

// The parser's buffers are kept over all iterations.
void simdjson_parse_100k_warm(benchmark::State& state) {
  const HeaderFile& file = hundred_thousand();
  simdjson::dom::parser parser(200'000'000);
  for (auto _ : state) {
    simdjson::dom::element document;
    if (parser.load(file.json_path().string()).get(document) != simdjson::SUCCESS) state.SkipWithError("not parsed");
    benchmark::DoNotOptimize(document);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(file.header_bytes()));
}
BENCHMARK(simdjson_parse_100k_warm)->Unit(benchmark::kMillisecond)->Repetitions(9);
#endif

BENCHMARK(header_scan_100k)->Unit(benchmark::kMillisecond)->Repetitions(9);
BENCHMARK(header_scan_100k_short)->Unit(benchmark::kMillisecond)->Repetitions(9);
BENCHMARK(header_scan_1m_short)->Unit(benchmark::kMillisecond)->Repetitions(9);

}  // namespace
}  // namespace weightproof::storage

int main(int argc, char** argv) {
  // Freed memory stays with the process, for all sizes and for both sides: otherwise the larger case alone would pay
  // for fresh pages in every round, and the figures would compare the kernel with the scanner.
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, INT_MAX);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
