// SPDX-License-Identifier: Apache-2.0
// Qwen 3.5, dense and with routed experts: the two differ in the MLP alone.
#pragma once

#include "adapters/qwen.hpp"

namespace weightproof::adapters {

Form find_qwen3_5_form(const Family& family, const ConfigValue& config, const Catalog& catalog);
Schema describe_qwen3_5(const Family& family, const ConfigValue& config, const Form& form, ExpertStorage storage,
                        bool is_moe);

}  // namespace weightproof::adapters
