// SPDX-License-Identifier: Apache-2.0
// The makers of each group of schemes, and the checks they share.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "loader/codec/codec.hpp"
#include "loader/codec/grid_internal.hpp"

namespace weightproof::codec {

std::unique_ptr<const Codec> make_byte_codec(const Scheme& scheme, std::vector<Component> components);
std::unique_ptr<const Codec> make_fp4_codec(const Scheme& scheme, std::vector<Component> components);
std::unique_ptr<const Codec> make_row_packed_codec(const Scheme& scheme, std::vector<Component> components,
                                                   std::span<const std::vector<std::byte>> probe_bytes);
std::unique_ptr<const Codec> make_column_packed_codec(const Scheme& scheme, std::vector<Component> components,
                                                      std::span<const std::vector<std::byte>> probe_bytes);
std::unique_ptr<const Codec> make_bitsandbytes_codec(const Scheme& scheme, std::vector<Component> components,
                                                     std::span<const std::vector<std::byte>> probe_bytes);
std::unique_ptr<const Codec> make_expert_scale_codec(const Scheme& scheme, std::vector<Component> components);

/// First component with the role. Throws scale_missing (a scale) or quant_config_mismatch naming the weight.
const Component& require(std::span<const Component> components, Role role);
const Component* find(std::span<const Component> components, Role role);
void require_rank(const Component& component, unsigned least, unsigned most);
/// F32, BF16, F16, F8_E8M0, F8_E4M3 or U8 (read as E8M0).
void require_scale_dtype(const Component& scale);
[[noreturn]] void throw_wrong_dtype(const Component& component, const std::string& allowed);
/// The grid of a scale over a weight of rank 1 to 3; one element is per tensor. Throws scale_shape with both shapes.
ScaleGrid scale_grid(const Scheme& scheme, const Component& weight, const Component& scale);

}  // namespace weightproof::codec
