// SPDX-License-Identifier: Apache-2.0
// What the reference asks of a config.json: one value by name, in the language part of a composite model first.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/json.hpp"

namespace weightproof::reference {

class Config {
 public:
  Config() = default;
  /// Empty text: no config. Throws Failure(CONFIG_INVALID) where the text is no JSON object.
  explicit Config(std::string_view text);

  bool exists() const { return root_.is_object(); }
  const Json& root() const { return root_; }
  /// thinker_config.text_config, text_config or llm_config if there is one, else the root.
  const Json& language() const;
  /// In the language part, else in thinker_config, else at the root; null if nowhere or JSON null.
  const Json* find(std::string_view name) const;
  std::optional<std::uint64_t> natural(std::string_view name) const;
  std::uint64_t need(std::string_view name) const;  // Failure(CONFIG_INVALID) if absent.
  std::string text(std::string_view name) const;    // Empty if absent.
  bool truth(std::string_view name) const;          // False if absent.
  /// model_type at the root, and that of the language part (empty if it is the same object).
  std::string model_type() const;
  std::string language_type() const;
  std::vector<std::string> architectures() const;
  /// tie_word_embeddings: the root's if the key exists there, else thinker_config's, else text_config's.
  std::optional<bool> tied() const;
  /// quantization_config at the root, else in the language part; null if there is none.
  const Json* quantization() const;

 private:
  Json root_;
};

}  // namespace weightproof::reference
