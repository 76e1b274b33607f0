// SPDX-License-Identifier: Apache-2.0
// Which tensors belong together. Decided by names, dtypes and shapes in the file; the config adds what a file cannot
// say.
#include "reference/quantized.hpp"

#include <regex.h>

#include <algorithm>
#include <set>

#include "reference/schemes/schemes_internal.hpp"

namespace weightproof::reference {
namespace {

using schemes::Entry;

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && std::string_view(text).substr(text.size() - end.size()) == end;
}
bool is_f8(Dtype dtype) {
  return dtype == Dtype::f8_e4m3 || dtype == Dtype::f8_e5m2 || dtype == Dtype::f8_e4m3fnuz ||
         dtype == Dtype::f8_e5m2fnuz;
}

// Companions that serve the activations or the cache and are never part of a weight.
constexpr std::string_view k_runtime_ends[] = {
    "activation_scale", "activation_scales", "input_scale", "input_global_scale", "input_zero_point",
    "k_scale",          "v_scale",           "q_scale",     "kv_scale",           "output_scale"};
// Companions that must have a weight.
constexpr std::string_view k_weight_ends[] = {
    "_scale_inv",           "_scales_inv",    ".weight_scale", ".weight_scale_2",
    ".weight_global_scale", ".weight_packed", ".weight_shape", ".weight_zero_point",
    ".weight_g_idx",        ".qzeros",        ".qweight",      ".SCB",
    ".weight_format",       ".absmax",        ".quant_map",    ".nested_absmax",
    ".nested_quant_map",    "_proj_scales"};

// True if some start of the text matches the regular expression. The dialect of the files is Python's; what differs
// from the system's extended expressions and occurs in targets is rewritten.
bool begins_with_match(const std::string& text, const std::string& pattern) {
  std::string extended = "^(";
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern.compare(i, 2, "\\d") == 0) {
      extended += "[0-9]";
      ++i;
    } else if (pattern.compare(i, 2, "\\w") == 0) {
      extended += "[A-Za-z0-9_]";
      ++i;
    } else if (pattern.compare(i, 3, "(?:") == 0) {
      extended += '(';
      i += 2;
    } else {
      extended += pattern[i];
    }
  }
  extended += ')';
  regex_t compiled;
  if (::regcomp(&compiled, extended.c_str(), REG_EXTENDED | REG_NOSUB) != 0)
    throw Failure("CONFIG_INVALID", "target '" + pattern + "' is no regular expression");
  const bool is_match = ::regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&compiled);
  return is_match;
}

// Where the arguments of a compressed-tensors module are: the group whose targets name it, unless it is ignored.
const Json* ct_group(const Json* config, const std::string& module) {
  const Json* groups = config ? config->find("config_groups") : nullptr;
  if (!groups || !groups->object()) return nullptr;
  const auto names = [&](const Json* list) {
    if (!list || !list->array()) return false;
    for (const Json& item : *list->array()) {
      if (!item.text()) continue;
      const std::string& target = *item.text();
      if (target.rfind("re:", 0) == 0 ? begins_with_match(module, target.substr(3))
                                      : target == module || target == "Linear")
        return true;
    }
    return false;
  };
  for (const auto& [name, group] : *groups->object())
    if (names(group.find("targets"))) return &group;
  return nullptr;
}

// Every lookup a grouping needs.
struct Finder {
  const Checkpoint& checkpoint;
  const Config& config;
  const Json* quantization;
  Overlay overlay;
  std::set<std::string> claimed;

  Entry find(const std::string& key) const { return checkpoint.find(key); }
  // The first of several spellings; two of them at once is an error.
  Entry find_one(const std::vector<std::string>& keys) const {
    Entry found = nullptr;
    for (const std::string& key : keys)
      if (Entry entry = find(key)) {
        if (found) throw Failure("SCALE_NAMES_CONFLICT", "both '" + found->key + "' and '" + key + "' are there");
        found = entry;
      }
    return found;
  }
  Entry need(const std::string& key, const std::string& weight) const {
    if (Entry entry = find(key)) return entry;
    throw Failure("SCALE_MISSING", "'" + weight + "' needs '" + key + "', which is absent");
  }
  void add(Logical tensor) {
    claimed.insert(tensor.weight->key);
    for (const std::string& key : tensor.companions) {
      claimed.insert(key);
      overlay.consumed[key] = "part of " + tensor.name;
    }
    if (tensor.weight->key != tensor.name) overlay.consumed[tensor.weight->key] = "codes of " + tensor.name;
    overlay.tensors.push_back(std::move(tensor));
  }
  void drop(const std::string& key, const std::string& why) {
    claimed.insert(key);
    overlay.consumed[key] = why;
  }

  schemes::Grid block_of(const std::string& module) const {
    const Json* size = quantization ? quantization->find("weight_block_size") : nullptr;
    if (!size || !size->array())
      if (const Json* group = ct_group(quantization, module))
        if (const Json* weights = group->find("weights")) size = weights->find("block_structure");
    if (!size || !size->array() || size->array()->size() != 2) return {};
    const auto *rows = (*size->array())[0].natural(), *columns = (*size->array())[1].natural();
    if (!rows || !columns || *rows == 0 || *columns == 0)
      throw Failure("CONFIG_INVALID", "weight_block_size is not two positive numbers");
    return {*rows, *columns};
  }
  // Rows of q, k, v where a fused projection carries three scales.
  Shape head_rows() const {
    const auto q = config.natural("num_attention_heads"), kv = config.natural("num_key_value_heads"),
               d = config.natural("head_dim");
    if (!q || !kv || !d) return {};
    return {*q * *d, *kv * *d, *kv * *d};
  }

  bool group(const TensorEntry& entry);
  void leftovers();
};

// Adds the logical tensor that begins with this entry, if it is the codes of one. False: a plain tensor or a companion.
bool Finder::group(const TensorEntry& entry) {
  const std::string& key = entry.key;
  const auto base = [&](std::string_view end) { return key.substr(0, key.size() - end.size()); };
  const std::string algorithm = schemes::text_in(quantization, "quant_algo");

  for (const char* end : {"_blocks", ".blocks"})
    if (ends_with(key, end) && entry.dtype == Dtype::u8) {
      const std::string scales = base(end) + end[0] + "scales";
      if (!find(scales) && end[0] == '.') continue;
      add(schemes::mxfp4_blocks(key, &entry, need(scales, key)));
      return true;
    }
  if (ends_with(key, ".qweight")) {
    const std::string module = base(".qweight");
    Entry zeros = need(module + ".qzeros", key), scales = need(module + ".scales", key),
          g_idx = find(module + ".g_idx");
    const std::string method = schemes::text_in(quantization, "quant_method");
    if (method == "awq" || (method.empty() && !g_idx)) {
      const std::string version = schemes::text_in(quantization, "version");
      std::string lower;
      for (char c : version) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
      if (!lower.empty() && lower != "gemm") throw Failure("QUANT_UNSUPPORTED", "AWQ version '" + version + "'");
      add(schemes::awq(module + ".weight", &entry, zeros, scales));
    } else {
      add(schemes::gptq(module + ".weight", &entry, zeros, scales, g_idx, quantization));
    }
    return true;
  }
  if (ends_with(key, ".weight_packed")) {
    const std::string module = base(".weight_packed"), name = module + ".weight";
    Entry scale = need(name + "_scale", key), global = find(name + "_global_scale");
    if (entry.dtype == Dtype::u8) {
      add(global ? schemes::nvfp4(name, &entry, scale, global, true) : schemes::mxfp4_packed(name, &entry, scale));
      return true;
    }
    const Json* group = ct_group(quantization, module);
    const Json* weights = group ? group->find("weights") : nullptr;
    const auto bits = schemes::number_in(weights, "num_bits");
    add(schemes::ct_pack(name, &entry, scale, find(name + "_shape"), find(name + "_zero_point"), find(name + "_g_idx"),
                         bits && *bits <= 8 ? std::optional<unsigned>(static_cast<unsigned>(*bits)) : std::nullopt,
                         schemes::number_in(weights, "group_size"), checkpoint));
    return true;
  }
  if (ends_with(key, "_qdata")) {
    // <module>._<param>_qdata of torchao.
    const std::size_t dot = key.rfind('.');
    if (dot == std::string::npos || key.compare(dot, 2, "._") != 0) return false;
    const std::string stem = base("_qdata"), name = key.substr(0, dot + 1) + stem.substr(dot + 2);
    Entry scale = need(stem + "_scale", key), zero = find(stem + "_zero_point");
    if (is_f8(entry.dtype))
      add(schemes::fp8(name, &entry, scale, {}, {}));
    else if (entry.dtype == Dtype::i8)
      add(schemes::int8_affine(name, &entry, scale, zero));
    else
      throw Failure("QUANT_UNSUPPORTED", "torchao layout of '" + key + "' (" + std::string(name_of(entry.dtype)) + ")");
    return true;
  }
  if (Entry absmax = find(key + ".absmax")) {
    Entry state = find_one({key + ".quant_state.bitsandbytes__nf4", key + ".quant_state.bitsandbytes__fp4"});
    add(schemes::bnb4(key, &entry, absmax, find(key + ".quant_map"), state, find(key + ".nested_absmax"),
                      find(key + ".nested_quant_map"), checkpoint));
    return true;
  }

  // From here on the weight keeps its name. Scale names: with `.weight`, and without it for fused experts.
  const bool is_weight = ends_with(key, ".weight");
  const std::string module = is_weight ? base(".weight") : key;
  if (is_f8(entry.dtype)) {
    std::vector<std::string> names{key + "_scale_inv", key + "_scales_inv", key + "_scale"};
    if (is_weight) names.push_back(module + ".scale");
    Entry scale = find_one(names);
    if (!scale) return false;
    if (find(key + "_zero_point")) throw Failure("QUANT_UNSUPPORTED", "'" + key + "' is FP8 with a zero point");
    add(schemes::fp8(key, &entry, scale, block_of(module), head_rows()));
    return true;
  }
  if (!is_weight && entry.dtype != Dtype::f4 && entry.dtype != Dtype::u8) return false;
  Entry scale = find(key + "_scale");
  if (entry.dtype == Dtype::i8) {
    if (Entry scb = find(module + ".SCB")) {
      if (Entry format = find(module + ".weight_format")) {
        Blocks blocks(checkpoint, 1 << 16);
        if (format->end == format->begin || blocks.byte(*format, 0) != 0)
          throw Failure("QUANT_UNSUPPORTED", "'" + format->key + "' names a hardware layout");
        drop(format->key, "row layout of " + key);
      }
      add(schemes::bnb8(key, &entry, scb));
      return true;
    }
    if (Entry e8m0 = find(module + ".scale"); e8m0 && (e8m0->dtype == Dtype::f8_e8m0 || e8m0->dtype == Dtype::u8)) {
      add(schemes::mxfp4_packed(key, &entry, e8m0));
      return true;
    }
    if (!scale) return false;
    add(schemes::int8_affine(key, &entry, scale, find(key + "_zero_point")));
    return true;
  }
  if (entry.dtype == Dtype::u8 || entry.dtype == Dtype::f4) {
    if (!scale) scale = find(module + ".scale");
    if (!scale) return false;
    if (find(module + ".svdquant_lora_a")) throw Failure("QUANT_UNSUPPORTED", "NVFP4_SVD of '" + key + "'");
    Entry smooth = find(module + ".pre_quant_scale");
    Logical tensor;
    if (Entry two = find(key + "_scale_2"))
      tensor = schemes::nvfp4(key, &entry, scale, two, false);
    else if (Entry global = find(key + "_global_scale"))
      tensor = schemes::nvfp4(key, &entry, scale, global, true);
    else if (scale->dtype == Dtype::u8 || scale->dtype == Dtype::f8_e8m0)
      tensor = schemes::mxfp4_packed(key, &entry, scale);
    else if (entry.dtype == Dtype::u8)
      tensor = schemes::int4_rows(key, &entry, scale);
    else
      throw Failure("QUANT_UNSUPPORTED",
                    "F4 tensor '" + key + "' with a scale of " + std::string(name_of(scale->dtype)));
    if (smooth) {  // The codes are for scaled activations; as a plain weight they would be wrong.
      drop(smooth->key, "activation scale that is folded into the codes of " + key);
      tensor.decoder = [key](Blocks&) -> Element {
        throw Failure("QUANT_UNSUPPORTED",
                      "'" + key + "' has a pre_quant_scale; it is no plain weight without folding it");
      };
    }
    add(std::move(tensor));
    return true;
  }
  return false;
}

void Finder::leftovers() {
  bool is_quantized = quantization != nullptr || !overlay.tensors.empty();
  for (const TensorEntry& entry : checkpoint.tensors()) {
    if (claimed.count(entry.key)) continue;
    bool is_runtime = false;
    for (std::string_view end : k_runtime_ends) {
      // A whole word at the end: "input_scale" after a dot or an underscore.
      const std::size_t at = entry.key.size() - std::min(entry.key.size(), end.size());
      is_runtime = is_runtime ||
                   (ends_with(entry.key, end) && (at == 0 || entry.key[at - 1] == '.' || entry.key[at - 1] == '_'));
    }
    if (is_runtime) {
      drop(entry.key, "serves activations, not a weight");
      continue;
    }
    for (std::string_view end : k_weight_ends)
      if (ends_with(entry.key, end)) throw Failure("SCALE_ORPHAN", "'" + entry.key + "' has no quantized weight");
    if (ends_with(entry.key, ".scale") && entry.dtype == Dtype::f8_e8m0)
      throw Failure("SCALE_ORPHAN", "'" + entry.key + "' has no quantized weight");
  }
  for (const TensorEntry& entry : checkpoint.tensors()) {
    if (claimed.count(entry.key)) continue;
    if (is_f8(entry.dtype)) {
      if (is_quantized)
        throw Failure("SCALE_MISSING",
                      "'" + entry.key + "' is " + std::string(name_of(entry.dtype)) + " without a scale");
      overlay.warnings.push_back("'" + entry.key + "' is " + std::string(name_of(entry.dtype)) +
                                 " and nothing names a scheme");
    }
    Logical plain;
    plain.name = entry.key;
    plain.shape = entry.shape;
    plain.weight = &entry;
    overlay.tensors.push_back(std::move(plain));
  }
}

}  // namespace

const std::byte* Blocks::load(const TensorEntry& entry, std::uint64_t offset) {
  const std::uint64_t size = entry.end - entry.begin, number = offset / k_block_bytes;
  if (offset >= size) throw Failure("SliceOutOfRange", "element beyond the end of '" + entry.key + "'");
  if (bytes_ >= bytes_max_) {
    for (auto& blocks : slots_) std::vector<std::unique_ptr<std::byte[]>>().swap(blocks);
    bytes_ = 0;
  }
  auto& blocks = slots_[static_cast<std::size_t>(&entry - checkpoint_->tensors().data())];
  if (blocks.empty()) blocks.resize(static_cast<std::size_t>((size + k_block_bytes - 1) / k_block_bytes));
  auto& block = blocks[static_cast<std::size_t>(number)];
  block.reset(new std::byte[k_block_bytes]);
  const std::uint64_t length = std::min(k_block_bytes, size - number * k_block_bytes);
  checkpoint_->read_bytes(entry, number * k_block_bytes, std::span(block.get(), static_cast<std::size_t>(length)));
  bytes_ += k_block_bytes;
  return block.get() + offset % k_block_bytes;
}

Overlay find_overlay(const Checkpoint& checkpoint, const Config& config, const Json* quantization) {
  const std::string format = schemes::text_in(quantization, "format");
  for (const char* refused : {"marlin-24", "sparse-24-bitmask", "sparse-bitmask"})
    if (format == refused) throw Failure("QUANT_UNSUPPORTED", "compressed-tensors format '" + format + "'");
  Finder finder{checkpoint, config, quantization, {}, {}};
  for (const TensorEntry& entry : checkpoint.tensors())
    if (!finder.claimed.count(entry.key)) finder.group(entry);
  finder.leftovers();
  std::sort(finder.overlay.tensors.begin(), finder.overlay.tensors.end(),
            [](const Logical& a, const Logical& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < finder.overlay.tensors.size(); ++i)
    if (finder.overlay.tensors[i - 1].name == finder.overlay.tensors[i].name)
      throw Failure("DUPLICATE_TENSOR", "'" + finder.overlay.tensors[i].name + "' is stored both plain and quantized");
  return std::move(finder.overlay);
}

}  // namespace weightproof::reference
