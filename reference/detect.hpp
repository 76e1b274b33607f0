// SPDX-License-Identifier: Apache-2.0
// The reference's own answer to: which family is this, how are its keys spelled, in which form are its weights.
#pragma once

#include <string>
#include <vector>

#include "reference/config.hpp"
#include "reference/family.hpp"

namespace weightproof::reference {

struct Detection {
  std::string family;        // An id of family_ids().
  std::string name_space;    // The prefix in front of "layers.N." in the file; empty for bare keys.
  std::string quantization;  // The quantization method: as the config says, else as the key names say; "none".
  std::string experts;       // "per_expert", "stacked", "mxfp4_blocks", or "none".
  std::vector<std::string> evidence;
};

/// `config_text` may be empty (no config). Keys in any order.
/// Throws Failure (CONFIG_INVALID, NAMESPACE_MIXED, QUANT_UNSUPPORTED, EXPERTS_MIXED).
Detection detect(const std::string& config_text, const std::vector<std::string>& keys);
/// `quantization`: a quantization config from a file of its own, used where the config has none.
Detection detect(const Config& config, const std::vector<std::string>& keys, const Json* quantization = nullptr);

/// The family alone: by model_type, else by the class that the config names, else by the names of the keys.
std::string family_of_model(const Config& config, const std::vector<std::string>& keys,
                            std::vector<std::string>* evidence = nullptr);
/// An asked family under the id of the form in which these keys hold it: "hy_mt2" is hy_v3, "gpt_oss" has blocks or
/// not.
std::string family_as_stored(const std::string& id, const std::vector<std::string>& keys);
/// How routed experts of the decoder are stored: as Detection::experts. MTP layers may differ (Qwen3.5) and are not
/// asked. Throws Failure(EXPERTS_MIXED).
std::string experts_of(const std::vector<std::string>& keys);

/// The spelling used by the keys. Throws Failure(NAMESPACE_MIXED) if two are used at once.
Spelling spelling_of(const Family& family, const std::vector<std::string>& keys);
/// The key as the family's lines write it.
std::string respell(const Spelling& spelling, const std::string& key);

/// True if the key matches the pattern; captures holds the text of each '#', '{}' and '*' in order.
bool matches(const std::string& pattern, const std::string& key, std::vector<std::string>* captures = nullptr);

}  // namespace weightproof::reference
