// SPDX-License-Identifier: Apache-2.0
// Checkpoints whose values are written down in a test: what a load makes of them, what `verify` says, and that a loader
// which makes a known mistake is caught under the tensor's name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "suites/mutants/schema_draft.hpp"
#include "suites/tests/load_testing.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {

using Numbers = std::vector<double>;
using Codes = std::vector<std::uint8_t>;

/// Little-endian BF16 (the upper half of F32), F16 or F32.
std::vector<std::byte> encoded(const std::string& dtype, const Numbers& values);

/// A whole checkpoint of a config in which only the tensors that are named hold something. Names are those of the
/// family's canonical namespace.
class Literal {
 public:
  explicit Literal(const std::string& config, const std::string& family = {});
  /// Of a tensor that the config asks for; its shape stays.
  Literal& set(const std::string& key, const Numbers& values, const std::string& dtype = "BF16");
  /// First bytes of a tensor that is stored in codes.
  Literal& codes(const std::string& key, const Codes& codes);
  Literal& shaped(const std::string& key, const std::vector<std::uint64_t>& shape);
  /// A tensor that the config does not ask for, or another in its place.
  Literal& more(const std::string& key, const std::string& dtype, const std::vector<std::uint64_t>& shape,
                const Numbers& values);
  Literal& without(const std::string& key);
  Literal& renamed(const std::string& key, const std::string& name);
  /// Another config.json than the one by which the tensors were made.
  Literal& with_config(const std::string& config);
  /// Last name first, in the header and in the data.
  Literal& reversed();
  /// Writes DIRECTORY/model and answers with it.
  std::filesystem::path write(const TemporaryDirectory& directory) const;
  const Schema& schema() const { return *schema_; }

 private:
  struct Row {
    std::string dtype;
    std::vector<std::uint64_t> shape;
    std::vector<std::byte> bytes;
  };
  // Scales are one, everything else is zero.
  void add(const std::string& key, DType dtype, const Shape& shape, bool is_scale);

  std::string config_;
  std::optional<Schema> schema_;
  std::map<std::string, Row> rows_;
  bool is_reversed_ = false;
};

/// Values of a native tensor after a load.
Numbers loaded(const std::filesystem::path& path, std::string_view native, const LoadAs& how = {});

/// Values of a tensor of a checkpoint, decoded, under its stored name.
Numbers stored(const std::filesystem::path& path, const std::string& key);
/// Names of a checkpoint in the order of its files.
std::vector<std::string> stored_names(const std::filesystem::path& path);
/// Names that `export` gives the model again; written to DIRECTORY/back.
std::vector<std::string> exported_names(const std::filesystem::path& path, const TemporaryDirectory& directory);
bool contains(const std::vector<std::string>& names, const std::string& name);
/// True where a load makes such a tensor.
bool has_native(const std::filesystem::path& path, std::string_view key);

reports::Report judged(const std::filesystem::path& path, const std::string& family = {});

/// Changes bindings as a mistaken family would have them, and says whom a check must blame. False: nothing to change.
using Mistake = std::function<bool(SchemaDraft&, const ConfigValue&, std::vector<std::string>& blamed)>;
/// The native tensor has another name.
Mistake named(const std::string& native, const std::string& wrong);

/// A loader that makes the mistake is caught: a check fails under the name of one of the blamed tensors.
void expect_caught(const std::filesystem::path& path, const std::string& title, const Mistake& mistake,
                   const std::string& family = {});
/// The same for one of mapping_operators().
void expect_caught(const std::filesystem::path& path, std::string_view mistake, const std::string& family = {});

/// Members of a small decoder's config: one layer, everything two wide.
inline constexpr const char* k_small_sizes = R"("hidden_size": 2, "num_hidden_layers": 1, "num_attention_heads": 1,
    "num_key_value_heads": 1, "head_dim": 2, "intermediate_size": 2, "vocab_size": 2, "tie_word_embeddings": false)";

/// qwen3_moe of that size: experts of 2 x 2.
std::string moe_config(unsigned experts);
/// qwen3_next one wide, with two heads and one layer: of delta attention, or of full attention.
std::string qwen_next_config(bool is_full);
/// gemma4_moe of that size with one expert and `more` members ("layer_types", ...); without: one sliding layer.
std::string gemma_config(const std::string& more = {});

inline const std::string k_experts = "model.layers.0.mlp.experts.";

}  // namespace weightproof::suites::test
