// SPDX-License-Identifier: Apache-2.0
// XXH3-128 once per instruction set; the fastest that this processor has is taken. All give the same digests.
#pragma once

#include <cstddef>

#include "loader/exec/digest.hpp"

namespace weightproof::exec {

struct Xxh3 {
  Digest (*at_once)(const std::byte* bytes, std::size_t count);
  void* (*make)();  // null where there is no memory
  void (*free)(void* state);
  void (*update)(void* state, const std::byte* bytes, std::size_t count);
  Digest (*finish)(const void* state);
};

extern const Xxh3 k_xxh3_base;
extern const Xxh3 k_xxh3_avx2;
extern const Xxh3 k_xxh3_avx512;

}  // namespace weightproof::exec
