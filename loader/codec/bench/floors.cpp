// SPDX-License-Identifier: Apache-2.0
#include "loader/codec/bench/floors.hpp"

#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

#include <cstring>

namespace weightproof::codec {

void zero_extend(const std::uint8_t* in, std::size_t n, std::byte* out) {
  std::size_t i = 0;
#if defined(__AVX512BW__)
  for (; i + 64 <= n; i += 64) {
    _mm512_storeu_si512(out + 2 * i,
                        _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i))));
    _mm512_storeu_si512(out + 2 * i + 64,
                        _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i + 32))));
  }
#endif
  for (; i < n; ++i) {
    const std::uint16_t word = in[i];
    std::memcpy(out + 2 * i, &word, 2);
  }
}

void spread_nibbles_floor(const std::uint8_t* in, std::size_t bytes, std::byte* out) {
  std::size_t i = 0;
#if defined(__AVX512BW__)
  for (; i + 16 <= bytes; i += 16) {
    const __m512i b = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i)));
    _mm512_storeu_si512(out + 4 * i, _mm512_or_si512(b, _mm512_slli_epi32(b, 12)));
  }
#endif
  for (; i < bytes; ++i) {
    const std::uint32_t pair = (in[i] & 15u) | static_cast<std::uint32_t>(in[i] >> 4) << 16;
    std::memcpy(out + 4 * i, &pair, 4);
  }
}

}  // namespace weightproof::codec
