// SPDX-License-Identifier: Apache-2.0
#include "reports/finding.hpp"
#include "reports/sha256_internal.hpp"
#include "reports/text_internal.hpp"

#include <bit>

namespace weightproof::reports {
namespace {

constexpr std::array<std::uint32_t, 64> k_round = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void compress(std::array<std::uint32_t, 8>& state, const std::uint8_t* block) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i) {
    w[i] = (std::uint32_t{block[4 * i]} << 24U) | (std::uint32_t{block[4 * i + 1]} << 16U) |
           (std::uint32_t{block[4 * i + 2]} << 8U) | std::uint32_t{block[4 * i + 3]};
  }
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3U);
    const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10U);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t t1 =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + k_round[i] + w[i];
    const std::uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<std::uint32_t, 8> sum = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) {
    state[i] += sum[i];
  }
}

}  // namespace

Sha256 sha256(std::string_view bytes) {
  std::array<std::uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> block{};
  std::size_t fill = 0;
  const auto put = [&](std::uint8_t byte) {
    block[fill++] = byte;
    if (fill == block.size()) {
      compress(state, block.data());
      fill = 0;
    }
  };
  for (const char c : bytes) {
    put(static_cast<std::uint8_t>(static_cast<unsigned char>(c)));
  }
  const std::uint64_t bits = std::uint64_t{bytes.size()} * 8;
  put(0x80);
  while (fill != 56) {
    put(0);
  }
  for (int shift = 56; shift >= 0; shift -= 8) {
    put(static_cast<std::uint8_t>((bits >> static_cast<unsigned>(shift)) & 0xFFU));
  }
  Sha256 digest{};
  for (std::size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<std::uint8_t>((state[i / 4] >> (24U - 8U * static_cast<unsigned>(i % 4))) & 0xFFU);
  }
  return digest;
}

std::string hex(const Sha256& digest, std::size_t digits) {
  constexpr std::string_view alphabet = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < digits && i < digest.size() * 2; ++i) {
    const unsigned byte = digest[i / 2];
    out += alphabet[i % 2 == 0 ? byte >> 4U : byte & 0xFU];
  }
  return out;
}

std::string base64(const Sha256& digest) {
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < digest.size(); i += 3) {
    const std::size_t left = digest.size() - i;
    const std::uint32_t group = (std::uint32_t{digest[i]} << 16U) |
                                (left > 1 ? std::uint32_t{digest[i + 1]} << 8U : 0U) |
                                (left > 2 ? std::uint32_t{digest[i + 2]} : 0U);
    out += alphabet[(group >> 18U) & 63U];
    out += alphabet[(group >> 12U) & 63U];
    out += left > 1 ? alphabet[(group >> 6U) & 63U] : '=';
    out += left > 2 ? alphabet[group & 63U] : '=';
  }
  return out;
}

std::string fingerprint_of(std::string_view rule, std::string_view key, std::string_view property) {
  std::string text;
  for (const std::string_view part : {rule, key, property}) {
    text += valid_utf8(part);
    text += '\0';
  }
  return hex(sha256(text), 16);
}

std::string tensor_fingerprint(std::string_view key) { return hex(sha256(valid_utf8(key)), 12); }

}  // namespace weightproof::reports
