// SPDX-License-Identifier: Apache-2.0
// What the Qwen 3 families with routed experts share.
#pragma once

#include <string_view>

#include "adapters/blocks.hpp"
#include "adapters/experts.hpp"

namespace weightproof::adapters {

/// Decoder of Qwen 3 with routed experts under any prefix. Expert layouts: "per_expert", "stacked" [E, 2I, H],
/// "stacked_transposed" [E, H, 2I].
void qwen3_moe_layers(Describer& d, const Fields& fields, ExpertStorage storage, const NameSpace& names,
                      std::string_view native_prefix = "model.");
Schema qwen3_moe_decoder(const Family& family, const ConfigValue& config, const Form& form, ExpertStorage storage,
                         const NameSpace& names);

/// The sparse block of Qwen3-Next and Qwen3.5: router, experts, a shared expert and its gate.
struct QwenExperts {
  ExpertSpec experts;
  std::uint64_t shared_width = 0;
};
QwenExperts read_qwen_experts(const Fields& fields);
/// Under "mlp." of the open scope. Layouts as above.
void qwen_experts(Describer& d, const QwenExperts& spec, ExpertStorage storage, std::string_view layout);

}  // namespace weightproof::adapters
