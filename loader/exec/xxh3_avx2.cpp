// SPDX-License-Identifier: Apache-2.0
#define WEIGHTPROOF_XXH3 k_xxh3_avx2
#include "loader/exec/xxh3.inc"
