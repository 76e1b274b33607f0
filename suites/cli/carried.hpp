// SPDX-License-Identifier: Apache-2.0
// What goes along with an export: the small files beside the weights, and a config.json that says what is there now.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loader/core/config.hpp"
#include "loader/core/dtype.hpp"
#include "loader/save/export.hpp"
#include "loader/storage/checkpoint.hpp"

namespace weightproof::suites::cli {

/// config.json of the result: the dtype it holds, no word of a quantization that is gone, and the words of a new one:
/// `quantization` is the text of quantization_config, empty where there is none.
ConfigValue edited_config(const ConfigValue& config, std::optional<DType> dtype, bool is_decoded,
                          const std::string& quantization = {});

/// The same as the text of a file.
std::string edited_config_text(const ConfigValue& config, std::optional<DType> dtype, bool is_decoded,
                               const std::string& quantization = {});

/// Everything small beside the weights that is a plain file.
std::vector<save::CarriedFile> carried_files(const storage::Checkpoint& checkpoint, std::optional<DType> dtype,
                                             bool is_decoded, const std::string& quantization = {});

}  // namespace weightproof::suites::cli
