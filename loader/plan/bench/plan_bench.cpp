// SPDX-License-Identifier: Apache-2.0
// Planning with its proof beside the bare scan of the same header, in one run. Names as in a mixture-of-experts
// checkpoint; native tensors fuse gate and up of each expert, so that nothing is a mere identity. Plans are checked
// before anything is timed.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>

#include "loader/plan/planner.hpp"
#include "loader/storage/header.hpp"
#include "loader/storage/writer.hpp"

namespace weightproof::plan {
namespace {

struct Case {
  std::shared_ptr<const std::string> header;
  std::uint64_t file_bytes = 0;
  std::shared_ptr<const Schema> schema;
  std::shared_ptr<const Catalog> catalog;
};

std::string prefix_of(std::size_t expert) {
  return "model.layers." + std::to_string(expert / 256) + ".mlp.experts." + std::to_string(expert % 256) + ".";
}

storage::Header scan(const Case& of) {
  return storage::scan_header(std::string_view(*of.header).substr(8), of.file_bytes, "bench", of.header);
}

Plan plan(const Case& of) {
  const Source source{"base", of.catalog};
  return make_plan(of.schema, std::span(&source, 1), {}, {});
}

Case make_case(std::size_t tensors) {
  Case made;
  std::vector<storage::TensorSpec> specs;
  SchemaBuilder builder("bench");
  for (std::size_t expert = 0; expert * 4 < tensors; ++expert) {
    // A million names of the usual length would pass the format's cap of 100 MB for one header.
    const std::string prefix = tensors > 500'000 ? "l." + std::to_string(expert) + "." : prefix_of(expert);
    const NativeId fused = builder.native(prefix + "gate_up", {64, 64});
    builder.bind(builder.stored(prefix + "gate", {32, 64}), fused, builder.whole(fused).narrow(0, 0, 32));
    builder.bind(builder.stored(prefix + "up", {32, 64}), fused, builder.whole(fused).narrow(0, 32, 32));
    builder.rename(prefix + "down", prefix + "w2", {64, 32});
    builder.rename(prefix + "norm", prefix + "n", {64});
    specs.push_back({prefix + "down", DType::bf16, {64, 32}});
    specs.push_back({prefix + "gate", DType::bf16, {32, 64}});
    specs.push_back({prefix + "norm", DType::bf16, {64}});
    specs.push_back({prefix + "up", DType::bf16, {32, 64}});
  }
  const storage::HeaderPlan header = storage::plan_header(specs, storage::Metadata{{"format", "pt"}});
  made.header = std::make_shared<const std::string>(header.bytes);
  made.file_bytes = header.bytes.size() + header.data_bytes;
  made.schema = std::make_shared<const Schema>(std::move(builder).finish());
  const storage::Header scanned = scan(made);
  if (scanned.error) std::abort();
  CatalogBuilder catalog;
  catalog.reserve(scanned.tensors.size());
  catalog.add_file("model.safetensors");
  catalog.keep_alive(scanned.text);
  for (const storage::HeaderTensor& tensor : scanned.tensors) {
    catalog.add({tensor.name, tensor.shape, header.bytes.size() + tensor.begin, tensor.end - tensor.begin, 0,
                 tensor.dtype, true});
  }
  made.catalog = std::make_shared<const Catalog>(std::move(catalog).finish());
  const Plan planned = plan(made);
  if (!planned.proof().is_exact() || planned.traffic().wanted_bytes != header.data_bytes || planned != plan(made)) {
    std::fprintf(stderr, "the plan is not what it should be\n");
    std::abort();
  }
  return made;
}

const Case& case_of(std::int64_t tensors) {
  static const Case small = make_case(100'000);
  static const Case large = make_case(1'000'000);
  return tensors > 500'000 ? large : small;
}

void bare_scan(benchmark::State& state) {
  const Case& of = case_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(scan(of));
}

void plan_with_proof(benchmark::State& state) {
  const Case& of = case_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(plan(of));
}

void proof_alone(benchmark::State& state) {
  const Case& of = case_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(prove_schema(*of.schema));
}

void key_coverage(benchmark::State& state) {
  const Case& of = case_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(check_keys(*of.schema, *of.catalog));
}

BENCHMARK(bare_scan)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(plan_with_proof)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(proof_alone)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(key_coverage)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weightproof::plan

BENCHMARK_MAIN();
