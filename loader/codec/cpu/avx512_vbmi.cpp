// SPDX-License-Identifier: Apache-2.0
// The AVX-512 tier once more, compiled with VBMI: byte permutes instead of word permutes.
#include "loader/codec/cpu/avx512.cpp"  // NOLINT(bugprone-suspicious-include)
