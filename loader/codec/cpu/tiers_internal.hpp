// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "loader/codec/kernels.hpp"

namespace weightproof::codec {

extern const Kernels k_scalar_kernels;

}  // namespace weightproof::codec
