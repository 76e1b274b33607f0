// SPDX-License-Identifier: Apache-2.0
// All 2^32 F32 patterns to BF16: every kernel tier, the scalar rounding and the reference's, and the digest of the 8
// GiB that they agree on. A long run of its own, outside the gate.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "loader/codec/kernels.hpp"
#include "loader/codec/scalar.hpp"
#include "reference/numbers.hpp"
#include "suites/state/digests.hpp"

int main() {
  using namespace weightproof;
  constexpr std::uint64_t k_step = std::uint64_t{1} << 20U;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::uint32_t> values(k_step);
  std::vector<std::uint16_t> ours(k_step);
  std::vector<std::uint16_t> wanted(k_step);
  suites::Hasher hasher;
  std::uint64_t differing = 0;
  for (std::uint64_t first = 0; first < (std::uint64_t{1} << 32U); first += k_step) {
    for (std::uint64_t i = 0; i < k_step; ++i) {
      values[i] = static_cast<std::uint32_t>(first + i);
      wanted[i] = static_cast<std::uint16_t>(reference::from_f32(reference::Dtype::bf16, values[i]));
      differing += codec::f32_bits_to_bf16(values[i]) != wanted[i] ? 1U : 0U;
    }
    for (const codec::Kernels* tier : codec::available_kernels()) {
      tier->round(values.data(), k_step, DType::bf16, reinterpret_cast<std::byte*>(ours.data()));
      if (std::memcmp(ours.data(), wanted.data(), k_step * 2) != 0) {
        std::printf("%s differs between %08llx and %08llx\n", std::string(tier->name).c_str(),
                    static_cast<unsigned long long>(first), static_cast<unsigned long long>(first + k_step));
        ++differing;
      }
    }
    hasher.update(std::as_bytes(std::span(wanted)));
  }
  suites::TensorDigest digest;
  hasher.finish(digest);
  std::string tiers;
  for (const codec::Kernels* tier : codec::available_kernels()) {
    tiers += " " + std::string(tier->name);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("4294967296 patterns, %llu differ; tiers:%s; sha256 %s; xxh3 %s; %.0f s\n",
              static_cast<unsigned long long>(differing), tiers.c_str(), digest.sha256.c_str(), digest.xxh3.c_str(),
              seconds);
  return differing == 0 ? 0 : 1;
}
