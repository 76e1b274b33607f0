// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <memory>

#include "loader/codec/cpu/tiers_internal.hpp"
#include "loader/codec/scalar.hpp"

namespace weightproof::codec {
namespace {

struct Tiers {
  std::array<const Kernels*, 4> list{};
  std::size_t count = 0;
};

const Tiers& tiers() {
  static const Tiers found = [] {
    Tiers t;
    t.list[t.count++] = &k_scalar_kernels;
#if defined(WEIGHTPROOF_X86_TIERS)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) t.list[t.count++] = &k_avx2_kernels;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
      t.list[t.count++] = &k_avx512_kernels;
      if (__builtin_cpu_supports("avx512vbmi")) t.list[t.count++] = &k_avx512_vbmi_kernels;
    }
#endif
    return t;
  }();
  return found;
}

std::atomic<const Kernels*> g_forced{nullptr};

using Table = std::array<std::uint32_t, 256>;

std::uint32_t int8_to_f32_bits(std::uint8_t code) {
  return bits_of_float(static_cast<float>(static_cast<std::int8_t>(code)));
}

Table table_of(std::uint32_t (*widen)(std::uint8_t)) {
  Table table{};
  for (unsigned code = 0; code < 256; ++code) table[code] = widen(static_cast<std::uint8_t>(code));
  return table;
}

}  // namespace

const std::uint32_t* byte_table(ByteFormat format) {
  static const std::array<Table, 5> tables = {table_of(e4m3fn_to_f32_bits), table_of(e5m2_to_f32_bits),
                                              table_of(e4m3fnuz_to_f32_bits), table_of(e5m2fnuz_to_f32_bits),
                                              table_of(int8_to_f32_bits)};
  return tables[static_cast<std::size_t>(format)].data();
}

const MxTables& mx_tables() {
  static const auto tables = [] {
    auto t = std::make_unique<MxTables>();
    for (unsigned scale = 0; scale < 256; ++scale)
      for (unsigned code = 0; code < 16; ++code) {
        const float product = multiply_f32(float_of_bits(e2m1_to_f32_bits(static_cast<std::uint8_t>(code))),
                                           float_of_bits(e8m0_to_f32_bits(static_cast<std::uint8_t>(scale))));
        t->bf16[scale][code] = f32_bits_to_bf16(bits_of_float(product));
        t->f16[scale][code] = f32_bits_to_f16(bits_of_float(product));
      }
    return t;
  }();
  return *tables;
}

std::span<const Kernels* const> available_kernels() { return {tiers().list.data(), tiers().count}; }

const Kernels& kernels() {
  const Kernels* forced = g_forced.load(std::memory_order_relaxed);
  return forced != nullptr ? *forced : *tiers().list[tiers().count - 1];
}

void force_kernels(const Kernels* kernels) { g_forced.store(kernels, std::memory_order_relaxed); }

}  // namespace weightproof::codec
