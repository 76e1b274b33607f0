// SPDX-License-Identifier: Apache-2.0
#include "adapters/describer.hpp"

#include <array>
#include <charconv>

#include "adapters/family.hpp"
#include "adapters/fields.hpp"
#include "adapters/names.hpp"
#include "adapters/quantization.hpp"
#include "loader/core/error.hpp"
#include "loader/core/glob.hpp"

namespace weightproof::adapters {
namespace {

struct GeneralDrop {
  std::string_view pattern;
  std::string_view reason;
};
// Numbered modules that a config excepts are found by their whole names; so many of them also by parts of names.
constexpr std::size_t k_excepted_parts_max = 64;

// Keys that own no parameter in any family.
constexpr std::array k_general_drops = {
    GeneralDrop{"*.rotary_emb.inv_freq", "rotary frequencies are recomputed from the config"},
    GeneralDrop{"*.rotary_emb.cos_cached", "a rotary cache is recomputed from the config"},
    GeneralDrop{"*.rotary_emb.sin_cached", "a rotary cache is recomputed from the config"},
    GeneralDrop{"*_inv_freq", "rotary frequencies are recomputed from the config"},
    GeneralDrop{"*.embed_scale", "a constant of the architecture, recomputed from the config"},
    GeneralDrop{"*.root_size", "a constant of the architecture, recomputed from the config"},
    GeneralDrop{"*_extra_state", "runtime state of a module, no weight"},
    GeneralDrop{"*.k_scale", "a scale of the key cache at inference, no weight"},
    GeneralDrop{"*.v_scale", "a scale of the value cache at inference, no weight"},
    GeneralDrop{"*activation_scale", "a scale of activations at inference, no weight"},
    GeneralDrop{"*.input_scale", "a scale of activations at inference, no weight"},
};

}  // namespace

Describer::Describer(const Family& family, const ConfigValue& config, const Form& form)
    : form_(form), builder_(std::string(family.name)) {
  const Fields fields(config, family.config_root);
  for (const std::string_view name : family.required) {
    if (fields.has(name)) continue;
    ErrorFacts facts;
    facts.file = "config.json";
    facts.expected = std::string(name);
    facts.actual = "absent";
    throw Error(ErrorCode::config_invalid,
                "the config lacks " + std::string(name) + ", without which a " + std::string(family.name) +
                    " cannot be described",
                std::move(facts));
  }
  for (const GeneralDrop& drop : k_general_drops) builder_.drop(std::string(drop.pattern), std::string(drop.reason));
  std::string taken = tie_default_text(family, config, form.is_tied);
  if (!taken.empty()) builder_.defaulted(std::move(taken));
  read_coding(config);
}

void Describer::read_coding(const ConfigValue& config) {
  if (form_.quantization == "fp8_block") coding_.kind = LinearCoding::Kind::fp8_block;
  if (form_.quantization == "fp8_tensor") coding_.kind = LinearCoding::Kind::fp8_tensor;
  const ConfigValue* stated = quantization_config(config);
  if (coding_.kind == LinearCoding::Kind::none || stated == nullptr) return;
  if (const ConfigValue* block = stated->find("weight_block_size"); block != nullptr && block->items().size() == 2) {
    const auto rows = block->items()[0].as_integer();
    const auto cols = block->items()[1].as_integer();
    if (rows && cols && *rows > 0 && *cols > 0) {
      coding_.block_rows = static_cast<std::uint64_t>(*rows);
      coding_.block_cols = static_cast<std::uint64_t>(*cols);
    }
  }
  const ConfigValue* scheme = stated->find("activation_scheme");
  coding_.has_activation_scale = scheme != nullptr && scheme->as_string() == "static";
  for (const std::string_view list : {"modules_to_not_convert", "ignored_layers"}) {
    const ConfigValue* modules = stated->find(list);
    if (modules == nullptr) continue;
    for (const ConfigValue& item : modules->items()) {
      const auto name = item.as_string();
      if (!name || name->empty()) continue;
      const bool is_leaf =
          name->find('*') == std::string_view::npos && name->find_first_of("0123456789") != std::string_view::npos;
      if (is_leaf) coding_.excepted.emplace(*name);
      if (is_leaf && coding_.excepted_parts.size() >= k_excepted_parts_max) continue;
      const bool is_glob = name->find('*') != std::string_view::npos;
      coding_.excepted_parts.push_back((is_glob ? "*." : ".") + std::string(*name) + (is_glob ? ".*" : "."));
    }
  }
}

bool Describer::is_excepted(std::string_view module) {
  dotted_.assign(".").append(module).append(".");
  for (const std::string& part : coding_.excepted_parts) {
    if (part.find('*') == std::string::npos ? dotted_.find(part) != std::string::npos : matches_glob(part, dotted_)) {
      return true;
    }
  }
  return !coding_.excepted.empty() && coding_.excepted.contains(std::string(module));
}

void Describer::code_linear(StoredId stored, std::string_view module, std::uint64_t out, std::uint64_t in) {
  if (!coding_.excepted.empty() || !coding_.excepted_parts.empty()) {
    // The config names modules as they run, the file may name them otherwise: either name counts.
    if (is_excepted(stored_key(module))) return;
    const bool has_one_prefix = stored_.compare(0, stored_prefix_, native_, 0, native_prefix_) == 0;
    if (!has_one_prefix && is_excepted(native_key(module))) return;
  }
  const bool is_block = coding_.kind == LinearCoding::Kind::fp8_block;
  const std::string_view stored_module = stored_key(module);
  weight_key_.assign(stored_module).append(".weight");
  scale_key_.assign(stored_module)
      .append(is_block ? std::string_view(coding_.block_scale_ending) : ".weight_scale_inv");
  const auto blocks = [](std::uint64_t extent, std::uint64_t edge) {
    return extent == 0 ? 0 : (extent - 1) / edge + 1;
  };
  SchemaBuilder::Part parts[3];
  parts[0].role = "weight";
  parts[0].key = weight_key_;
  parts[0].shape.push_back(out);
  parts[0].shape.push_back(in);
  parts[0].dtype = DType::f8_e4m3;
  parts[1].role = "scale";
  parts[1].key = scale_key_;
  parts[1].dtype = is_block ? coding_.block_scale : DType::bf16;
  parts[1].dtype_rule = coding_.block_scale == DType::f32 ? DTypeRule::weight : DTypeRule::fixed;
  if (is_block) {
    parts[1].shape.push_back(blocks(out, coding_.block_rows));
    parts[1].shape.push_back(blocks(in, coding_.block_cols));
  }
  std::size_t count = 2;
  if (!is_block && coding_.has_activation_scale) {
    activation_key_.assign(stored_module).append(".activation_scale");
    parts[count++] = {"unused", activation_key_, {}, DType::bf16, DTypeRule::weight, true};
  }
  builder_.code(stored, is_block ? "fp8_block" : "fp8_tensor", std::span<const SchemaBuilder::Part>(parts, count),
                is_block ? coding_.block_rows : 0, is_block ? coding_.block_cols : 0);
}

std::string_view Describer::stored_key(std::string_view name) {
  stored_.resize(stored_prefix_);
  return stored_.append(name);
}

std::string_view Describer::native_key(std::string_view name) {
  native_.resize(native_prefix_);
  return native_.append(name);
}

void Describer::check(const Shape& shape, std::string_view key) {
  if (!element_count(shape)) {
    ErrorFacts facts;
    facts.file = "config.json";
    facts.keys = {std::string(key)};
    facts.actual = to_string(shape);
    facts.expected = "a number of elements below 2^64";
    throw Error(ErrorCode::config_invalid, "the config gives a tensor that cannot exist", std::move(facts));
  }
  if (++tensors_ > k_described_max) {
    ErrorFacts facts;
    facts.file = "config.json";
    facts.keys = {std::string(key)};
    facts.expected = "at most " + std::to_string(k_described_max) + " tensors";
    throw Error(ErrorCode::limit_exceeded, "the config asks for more tensors than a checkpoint may have",
                std::move(facts));
  }
}

StoredId Describer::stored(std::string_view name, const Shape& shape, DTypeRule rule, DType fixed) {
  const std::string_view key = stored_key(name);
  check(shape, key);
  return builder_.stored(key, shape, rule, layer_, fixed);
}

NativeId Describer::native(std::string_view name, const Shape& shape, DTypeRule rule, DType fixed) {
  const std::string_view key = native_key(name);
  check(shape, key);
  return builder_.native(key, shape, rule, layer_, fixed);
}

void Describer::moved(std::string_view stored_name, std::string_view native_name, const Shape& shape, DTypeRule rule) {
  const std::string_view from = stored_key(stored_name);
  check(shape, from);
  builder_.rename(from, native_key(native_name), shape, rule, layer_);
}

void Describer::moved_optional(std::string_view stored_name, std::string_view native_name, const Shape& shape,
                               DTypeRule rule, double value, std::string_view rule_when_absent) {
  const StoredId from = stored(stored_name, shape, rule);
  const NativeId to = native(native_name, shape, rule);
  builder_.constant(to, builder_.whole(to), value, rule_when_absent);
  builder_.bind(from, to, builder_.whole(to));
  builder_.optional(from, rule_when_absent, value);
}

void Describer::name_block_scales(std::string_view ending, DType dtype) {
  coding_.block_scale_ending = std::string(ending);
  coding_.block_scale = dtype;
}

void Describer::linear(std::string_view stored_module, std::string_view native_module, std::uint64_t out,
                       std::uint64_t in, bool has_bias, const ParallelRule& cut) {
  native_name_.assign(native_module).append(".weight");
  const StoredId weight = stored_linear(stored_module, out, in);
  const NativeId native_weight = native(native_name_, {out, in});
  builder_.bind(weight, native_weight, builder_.whole(native_weight));
  builder_.parallel(native_weight, cut);
  if (!has_bias) return;
  stored_name_.assign(stored_module).append(".bias");
  native_name_.assign(native_module).append(".bias");
  moved(stored_name_, native_name_, {out});
  // The bias of a module that is cut along its inputs is added once, after the sum: whole everywhere.
  if (cut.axis == 0) this->cut(cut);
}

StoredId Describer::stored_linear(std::string_view module, std::uint64_t out, std::uint64_t in) {
  stored_name_.assign(module).append(".weight");
  const StoredId id = stored(stored_name_, {out, in});
  if (coding_.kind != LinearCoding::Kind::none) code_linear(id, module, out, in);
  return id;
}

StoredId Describer::stored_bias(std::string_view module, std::uint64_t out) {
  stored_name_.assign(module).append(".bias");
  return stored(stored_name_, {out});
}

Scope::Scope(Describer& describer, std::string_view stored, std::string_view native)
    : describer_(describer),
      stored_prefix_(describer.stored_prefix_),
      native_prefix_(describer.native_prefix_),
      layer_(describer.layer_) {
  describer.stored_key(stored);
  describer.native_key(native);
  describer.stored_prefix_ = describer.stored_.size();
  describer.native_prefix_ = describer.native_.size();
}

Scope::Scope(Describer& describer, std::string_view stored, std::string_view native, std::uint64_t index)
    : Scope(describer, stored, native) {
  char digits[24];
  char* end = std::to_chars(digits, digits + sizeof(digits) - 1, index).ptr;
  *end++ = '.';
  const std::string_view text(digits, static_cast<std::size_t>(end - digits));
  describer.stored_.append(text);
  describer.native_.append(text);
  describer.stored_prefix_ = describer.stored_.size();
  describer.native_prefix_ = describer.native_.size();
}

Scope::~Scope() {
  describer_.stored_prefix_ = stored_prefix_;
  describer_.native_prefix_ = native_prefix_;
  describer_.layer_ = layer_;
}

LayerScope::LayerScope(Describer& describer, std::uint64_t index, std::string_view both)
    : Scope(describer, both, both, index) {
  describer.layer_ = static_cast<std::uint32_t>(index);
}

}  // namespace weightproof::adapters
