// SPDX-License-Identifier: Apache-2.0
// How a family file states bindings: it opens scopes (a prefix on the stored side, a prefix on the native side) and
// names tensors by what follows. Names are composed in two buffers that live as long as the describer: nothing is
// allocated per tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "loader/core/config.hpp"
#include "loader/core/form.hpp"
#include "loader/core/schema.hpp"

namespace weightproof::adapters {

struct Family;

class Describer {
 public:
  /// Stored tensors one config may ask for: the largest published models have 100,000.
  static constexpr std::size_t k_described_max = 2'500'000;

  Describer(const Family& family, const ConfigValue& config, const Form& form);

  const Form& form() const { return form_; }
  SchemaBuilder& builder() { return builder_; }

  // Names relative to the open scopes. Shapes outermost first. Errors: config_invalid for a shape whose elements do not
  // fit 64 bits, limit_exceeded beyond k_described_max tensors.
  StoredId stored(std::string_view name, const Shape& shape, DTypeRule rule = DTypeRule::weight,
                  DType fixed = DType::bf16);
  NativeId native(std::string_view name, const Shape& shape, DTypeRule rule = DTypeRule::weight,
                  DType fixed = DType::bf16);
  /// The same name and shape on both sides.
  void same(std::string_view name, const Shape& shape, DTypeRule rule = DTypeRule::weight) {
    moved(name, name, shape, rule);
  }
  /// The same shape under another name.
  void moved(std::string_view stored_name, std::string_view native_name, const Shape& shape,
             DTypeRule rule = DTypeRule::weight);
  // A module whose weight [out, in] multiplies activations: what quantized checkpoints store in codes. Names are the
  // module's, ".weight" and ".bias" [out] are appended.
  // `cut`: how tensor parallelism cuts it, see parallel.hpp; a bias goes with the rows of its weight.
  void linear(std::string_view module, std::uint64_t out, std::uint64_t in, bool has_bias = false,
              const ParallelRule& cut = {}) {
    linear(module, module, out, in, has_bias, cut);
  }
  void linear(std::string_view stored_module, std::string_view native_module, std::uint64_t out, std::uint64_t in,
              bool has_bias, const ParallelRule& cut = {});
  /// How a layout of ranks cuts the native tensor that was stated last. What nothing is said of is whole everywhere.
  void cut(const ParallelRule& rule) { builder_.parallel(builder_.last_native(), rule); }
  /// Its stored weight or bias alone, to be bound by hand.
  StoredId stored_linear(std::string_view module, std::uint64_t out, std::uint64_t in);
  StoredId stored_bias(std::string_view module, std::uint64_t out);
  /// The same shape under another name, stored or not: then every native element is `value`.
  void moved_optional(std::string_view stored_name, std::string_view native_name, const Shape& shape, DTypeRule rule,
                      double value, std::string_view rule_when_absent);
  /// Where block scales are not ".weight_scale_inv" F32 but the module's name with another ending.
  void name_block_scales(std::string_view ending, DType dtype);
  /// The same name in the open scopes, composed. Valid until the next name.
  std::string_view stored_key(std::string_view name);
  std::string_view native_key(std::string_view name);

  Schema finish() && { return std::move(builder_).finish(); }

 private:
  friend class Scope;
  friend class LayerScope;
  void check(const Shape& shape, std::string_view key);

  /// How the weights of linear modules are coded: by the config, less the modules it excepts.
  struct LinearCoding {
    enum class Kind : std::uint8_t { none, fp8_block, fp8_tensor } kind = Kind::none;
    std::uint64_t block_rows = 128;
    std::uint64_t block_cols = 128;
    bool has_activation_scale = false;
    std::string block_scale_ending = ".weight_scale_inv";
    DType block_scale = DType::f32;
    std::unordered_set<std::string> excepted;  ///< whole module names
    std::vector<std::string> excepted_parts;   ///< ".name." of modules above, "*.name.*" with '*'
  };
  void read_coding(const ConfigValue& config);
  bool is_excepted(std::string_view module);
  void code_linear(StoredId stored, std::string_view module, std::uint64_t out, std::uint64_t in);

  Form form_;
  SchemaBuilder builder_;
  LinearCoding coding_;
  std::string stored_;  // open prefixes, then the name being composed
  std::string native_;
  std::string stored_name_;  // module names with their endings
  std::string native_name_;
  std::string weight_key_;  // parts of a coded module
  std::string scale_key_;
  std::string activation_key_;
  std::string dotted_;
  std::size_t stored_prefix_ = 0;
  std::size_t native_prefix_ = 0;
  std::uint32_t layer_ = k_no_layer;
  std::size_t tensors_ = 0;
};

/// Opens a prefix on both sides until it goes out of scope.
class Scope {
 public:
  Scope(Describer& describer, std::string_view stored, std::string_view native);
  Scope(Describer& describer, std::string_view both) : Scope(describer, both, both) {}
  /// "<stored><index>." and "<native><index>.".
  Scope(Describer& describer, std::string_view stored, std::string_view native, std::uint64_t index);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Describer& describer_;
  std::size_t stored_prefix_;
  std::size_t native_prefix_;
  std::uint32_t layer_;
};

/// The numbered scope of a decoder layer: tensors inside carry its number.
class LayerScope : public Scope {
 public:
  LayerScope(Describer& describer, std::uint64_t index, std::string_view both = "layers.");
};

}  // namespace weightproof::adapters
