// SPDX-License-Identifier: Apache-2.0
// Which modules of a base may carry factors, read off the bindings of its schema.
#include <map>

#include "adapters/lora.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::string_view k_weight = ".weight";
constexpr std::string_view k_gate_up = ".gate_and_up_projs";
constexpr std::string_view k_down = ".down_projs";
/// Gate and up alternate in its experts, which no view shows, and no form of adapters for that is published.
constexpr std::string_view k_interleaved = "gpt_oss";

std::string module_of(std::string_view key) { return std::string(key.substr(0, key.size() - k_weight.size())); }

bool is_embedding(std::string_view module) {
  const std::string_view name = module.substr(module.rfind('.') + 1);
  for (const std::string_view known :
       {"embed_tokens", "embeddings", "word_embeddings", "tok_embeddings", "wte", "wpe"}) {
    if (name == known) return true;
  }
  return false;
}

bool is_whole(const Schema& schema, const Binding& binding) {
  return schema.stored_view(binding) == View::whole(schema.shape_of(schema.stored_tensors()[binding.stored])) &&
         schema.native_view(binding) == View::whole(schema.shape_of(schema.native_tensors()[binding.native]));
}

/// Experts of one layer while their bindings are looked at.
struct Group {
  LoraExperts experts;
  NativeId gate_up = k_no_id;
  NativeId down = k_no_id;
  bool is_regular = true;  ///< of a form in which adapters are published
  bool is_named = false;   ///< some binding was seen
};

/// "<parent>.<expert>.<name>" of a stored key "<parent>.<expert>.<name>.weight".
struct ExpertName {
  std::string parent;
  std::string name;
  bool is_known = false;
};
ExpertName expert_name(std::string_view key, std::uint64_t expert) {
  ExpertName result;
  if (!key.ends_with(k_weight)) return result;
  key.remove_suffix(k_weight.size());
  const std::size_t last = key.rfind('.');
  if (last == std::string_view::npos || last == 0) return result;
  const std::size_t before = key.rfind('.', last - 1);
  if (before == std::string_view::npos || key.substr(before + 1, last - before - 1) != std::to_string(expert)) {
    return result;
  }
  result.parent = std::string(key.substr(0, before));
  result.name = std::string(key.substr(last + 1));
  result.is_known = true;
  return result;
}

class BaseReader {
 public:
  BaseReader(const Schema& schema, LoraBase& out) : schema_(schema), out_(out) {}

  void read() {
    find_groups();
    std::vector<bool> is_seen(schema_.stored_tensors().size(), false);
    for (const Binding& binding : schema_.bindings()) {
      if (binding.kind == BindingKind::constant) continue;
      const auto group = of_native_.find(binding.native);
      if (group != of_native_.end()) {
        add_expert(groups_[group->second], binding);
        is_seen[binding.stored] = true;
      } else if (!is_seen[binding.stored]) {
        is_seen[binding.stored] = true;
        add_plain(binding);
      }
    }
    for (Group& group : groups_) {
      if (group.is_regular && group.is_named) out_.experts.push_back(std::move(group.experts));
    }
  }

 private:
  void find_groups() {
    if (schema_.family() == k_interleaved) return;
    const auto natives = schema_.native_tensors();
    for (NativeId id = 0; id < natives.size(); ++id) {
      const std::string_view key = natives[id].key;
      if (!key.ends_with(k_gate_up)) continue;
      const std::string parent(key.substr(0, key.size() - k_gate_up.size()));
      const NativeId down = schema_.find_native(parent + std::string(k_down));
      const Shape& shape = schema_.shape_of(natives[id]);
      if (down == k_no_id || shape.rank() != 3 || schema_.shape_of(natives[down]).rank() != 3) continue;
      Group group;
      group.gate_up = id;
      group.down = down;
      group.experts.native = parent;
      group.experts.count = shape[0];
      group.experts.input = shape[1];
      group.experts.width = schema_.shape_of(natives[down])[1];
      group.experts.is_gated = shape[2] == 2 * group.experts.width;
      group.experts.layer = natives[id].layer;
      group.is_regular = group.experts.is_gated || shape[2] == group.experts.width;
      of_native_[id] = of_native_[down] = groups_.size();
      groups_.push_back(std::move(group));
    }
  }

  void add_expert(Group& group, const Binding& binding) {
    const LogicalTensor& tensor = schema_.stored_tensors()[binding.stored];
    LoraExperts& experts = group.experts;
    const View native = schema_.native_view(binding);
    if (schema_.stored_view(binding) != View::whole(schema_.shape_of(tensor))) {
      group.is_regular = false;
      return;
    }
    const bool is_down = binding.native == group.down;
    const View whole = View::whole(schema_.shape_of(schema_.native_tensors()[binding.native]));
    if (native.rank() == 3) {
      // Stacked: [E, U, He] and [E, He, I]. Any other way to stack has no published form of adapters.
      if (native != whole.permute({0, 2, 1})) group.is_regular = false;
      set_parent(group, std::string(tensor.key.substr(0, tensor.key.rfind('.'))));
      return;
    }
    const std::uint64_t each = experts.input * (is_down ? experts.width : experts.rows());
    const std::uint64_t expert = each == 0 ? 0 : native.offset() / each;
    const ExpertName name = expert_name(tensor.key, expert);
    if (!name.is_known || expert >= experts.count) {
      group.is_regular = false;
      return;
    }
    const View matrix = whole.select(0, expert);
    if (is_down) {
      check(group, native == matrix.transpose(0, 1), experts.down, name.name, expert);
    } else if (experts.is_gated && native == matrix.narrow(1, 0, experts.width).transpose(0, 1)) {
      check(group, true, experts.gate, name.name, expert);
    } else {
      const std::uint64_t first = experts.is_gated ? experts.width : 0;
      check(group, native == matrix.narrow(1, first, experts.width).transpose(0, 1), experts.up, name.name, expert);
    }
    set_parent(group, name.parent);
  }

  static void check(Group& group, bool is_as_expected, std::string& name, const std::string& found,
                    std::uint64_t expert) {
    if (expert == 0) name = found;
    group.is_regular = group.is_regular && is_as_expected && name == found;
  }

  static void set_parent(Group& group, const std::string& parent) {
    if (group.is_named && group.experts.stored != parent) group.is_regular = false;
    group.experts.stored = parent;
    group.is_named = true;
  }

  void add_plain(const Binding& binding) {
    const LogicalTensor& tensor = schema_.stored_tensors()[binding.stored];
    const NativeTensor& native = schema_.native_tensors()[binding.native];
    const Shape& shape = schema_.shape_of(tensor);
    // What is not moved whole keeps the name of the files: its factors cannot be split as its weight is.
    const bool is_moved =
        binding.kind == BindingKind::primary && is_whole(schema_, binding) && shape == schema_.shape_of(native);
    const std::string_view native_key = is_moved ? native.key : tensor.key;
    out_.wholes.push_back({std::string(tensor.key), std::string(native_key), shape});
    if (shape.rank() != 2 || !tensor.key.ends_with(k_weight)) return;
    LoraLinear linear;
    linear.stored = module_of(tensor.key);
    linear.native = native_key.ends_with(k_weight) ? module_of(native_key) : linear.stored;
    linear.out = shape[0];
    linear.in = shape[1];
    linear.layer = tensor.layer;
    linear.is_embedding = is_embedding(linear.stored);
    out_.linears.push_back(std::move(linear));
  }

  const Schema& schema_;
  LoraBase& out_;
  std::vector<Group> groups_;
  std::map<NativeId, std::size_t> of_native_;
};

void add_stored(const StoredTensor& row, std::string_view native_key, bool is_swapped, LoraBase& out) {
  out.wholes.push_back({std::string(row.key), std::string(native_key), row.shape});
  if (row.shape.rank() != 2 || !row.key.ends_with(k_weight)) return;
  LoraLinear linear;
  linear.stored = module_of(row.key);
  linear.native = module_of(native_key);
  linear.is_embedding = is_embedding(linear.stored);
  const bool is_turned = is_swapped && !linear.is_embedding;
  linear.out = row.shape[is_turned ? 1 : 0];
  linear.in = row.shape[is_turned ? 0 : 1];
  out.linears.push_back(std::move(linear));
}

}  // namespace

LoraBase lora_base(const Schema& schema, const Catalog& catalog) {
  LoraBase out;
  out.family = std::string(schema.family());
  BaseReader(schema, out).read();
  for (const StoredTensor& row : catalog.tensors()) {
    if (!row.is_described || schema.find_stored(row.key) != k_no_id) continue;
    for (const Passthrough& passthrough : schema.passthroughs()) {
      if (!row.key.starts_with(passthrough.prefix)) continue;
      add_stored(row, passthrough.native_prefix + std::string(row.key.substr(passthrough.prefix.size())), false, out);
      break;
    }
  }
  return out;
}

LoraBase lora_base(const Catalog& catalog, bool has_swapped_weights) {
  LoraBase out;
  for (const StoredTensor& row : catalog.tensors()) {
    if (row.is_described) add_stored(row, row.key, has_swapped_weights, out);
  }
  return out;
}

}  // namespace weightproof::adapters
