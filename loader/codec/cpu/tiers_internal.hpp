// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "loader/codec/kernels.hpp"

namespace weightproof::codec {

extern const Kernels k_scalar_kernels;
extern const Kernels k_avx2_kernels;
extern const Kernels k_avx512_kernels;
extern const Kernels k_avx512_vbmi_kernels;

/// Tables that the vector tiers share, built by the scalar functions on first use: for every E8M0 scale the 16
/// products, rounded to BF16 and to F16. An MXFP4 product is always a BF16 value, so the F32 result is the BF16 one
/// widened.
struct MxTables {
  std::uint16_t bf16[256][16];
  std::uint16_t f16[256][16];
};
const MxTables& mx_tables();

}  // namespace weightproof::codec
