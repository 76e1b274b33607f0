// SPDX-License-Identifier: Apache-2.0
// Decode kernels against floors that move the same bytes without arithmetic, alternating in one run: FP8 -> BF16
// against a zero-extending copy, MXFP4 -> BF16 against a nibble spread. Prints the ratio of each round's pair;
// correctness is checked before anything is timed.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "loader/codec/bench/floors.hpp"
#include "loader/codec/kernels.hpp"
#include "loader/codec/scalar.hpp"

namespace weightproof::codec {
namespace {

struct Buffers {
  explicit Buffers(std::size_t codes) : in(codes), scales(codes / 16 + 64), out_bytes(codes * 4) {
    out_memory = std::aligned_alloc(std::size_t{2} << 20, (out_bytes + (std::size_t{2} << 20) - 1) >> 21 << 21);
    if (out_memory == nullptr) std::abort();
    madvise(out_memory, out_bytes, MADV_HUGEPAGE);
    std::memset(out_memory, 1, out_bytes);
    std::uint32_t state = 1;
    for (auto& b : in) b = static_cast<std::uint8_t>((state = state * 1664525u + 1013904223u) >> 24);
    for (auto& b : in) b = (b & 0x7f) == 0x7f ? std::uint8_t{0} : b;  // NaN codes are rare in weights
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::uint8_t>(110 + i % 20);
  }
  std::vector<std::uint8_t> in, scales;
  ~Buffers() { std::free(out_memory); }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  std::byte* out() { return static_cast<std::byte*>(out_memory); }
  std::size_t out_bytes;
  void* out_memory = nullptr;
};

using Clock = std::chrono::steady_clock;

template <typename F>
double seconds(F&& f) {
  const auto begin = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Rounds of (floor, kernel) pairs inside one benchmark; reports the median of floor time / kernel time.
template <typename Floor, typename Kernel>
void paired(benchmark::State& state, std::size_t bytes, Floor&& floor, Kernel&& kernel) {
  std::vector<double> ratios;
  floor();
  kernel();
  for (auto _ : state) {
    const double floor_seconds = seconds(floor);
    const double kernel_seconds = seconds(kernel);
    state.SetIterationTime(kernel_seconds);
    ratios.push_back(floor_seconds / kernel_seconds);
  }
  std::sort(ratios.begin(), ratios.end());
  state.counters["ratio_to_floor"] = ratios[ratios.size() / 2];
  state.counters["ratio_min"] = ratios.front();
  state.counters["ratio_max"] = ratios.back();
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * static_cast<std::int64_t>(bytes)));
}

const Kernels& tier_of(benchmark::State& state) {
  const auto tiers = available_kernels();
  const auto index = std::min<std::size_t>(static_cast<std::size_t>(state.range(0)), tiers.size() - 1);
  state.SetLabel(std::string(tiers[index]->name));
  return *tiers[index];
}

void fp8_to_bf16(benchmark::State& state) {
  const Kernels& tier = tier_of(state);
  const auto codes = static_cast<std::size_t>(state.range(1));
  Buffers buffers(codes);
  const std::size_t cols = 4096, rows = codes / cols;
  const std::vector<float> scales(cols / 128, 0.001f);
  const auto kernel = [&] {
    for (std::size_t row = 0; row < rows; row += 128)
      tier.bytes(buffers.in.data() + row * cols, cols, std::min<std::size_t>(128, rows - row), cols, ByteFormat::e4m3fn,
                 {scales.data(), 128, 128}, DType::bf16, buffers.out() + row * cols * 2, cols * 2);
  };
  kernel();
  for (std::size_t i = 0; i < codes; i += 977) {
    std::uint16_t got;
    std::memcpy(&got, buffers.out() + 2 * i, 2);
    if (got != f32_bits_to_bf16(bits_of_float(float_of_bits(e4m3fn_to_f32_bits(buffers.in[i])) * 0.001f))) std::abort();
  }
  paired(
      state, codes * 2, [&] { zero_extend(buffers.in.data(), codes, buffers.out()); }, kernel);
}

void mxfp4_to_bf16(benchmark::State& state) {
  const Kernels& tier = tier_of(state);
  const auto packed = static_cast<std::size_t>(state.range(1));
  Buffers buffers(packed);
  paired(
      state, packed * 4, [&] { spread_nibbles_floor(buffers.in.data(), packed, buffers.out()); },
      [&] { tier.mxfp4(buffers.in.data(), packed / 16, buffers.scales.data(), DType::bf16, buffers.out()); });
}

void tiers_and_sizes(benchmark::internal::Benchmark* b) {
  for (int tier = 0; tier < static_cast<int>(available_kernels().size()); ++tier)
    for (const std::int64_t codes : {std::int64_t{1} << 18, std::int64_t{64} << 20}) b->Args({tier, codes});
  b->ArgNames({"tier", "codes"})->UseManualTime()->MinTime(0.2);
}

BENCHMARK(fp8_to_bf16)->Apply(tiers_and_sizes);
BENCHMARK(mxfp4_to_bf16)->Apply(tiers_and_sizes);

}  // namespace
}  // namespace weightproof::codec

BENCHMARK_MAIN();
