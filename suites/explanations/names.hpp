// SPDX-License-Identifier: Apache-2.0
// What a tensor's name says about its place: layer, expert, what it is. Guesses from the words that checkpoints use;
// they choose titles, never whether something differs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weightproof::suites {

bool is_gate_up(std::string_view key);  ///< gate and up in one tensor
bool is_fused_qkv(std::string_view key);
bool is_rotary(std::string_view key);  ///< query or key projection
bool is_norm(std::string_view key);
bool has_experts(std::string_view key);

/// First number of the key, and the one behind `experts`.
std::optional<std::uint64_t> layer_of(std::string_view key);
std::optional<std::uint64_t> expert_of(std::string_view key);
/// The key with these two numbers replaced: what all layers and experts share.
std::string module_of(std::string_view key);
/// "up_proj" of "model.layers.3.mlp.up_proj.weight".
std::string_view short_name_of(std::string_view key);
/// How near two names are: larger is nearer. The same layer counts most, then what they share at both ends.
std::uint64_t nearness(std::string_view a, std::string_view b);

}  // namespace weightproof::suites
