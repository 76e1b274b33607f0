// SPDX-License-Identifier: Apache-2.0
#include "suites/judge/expected.hpp"

#include <algorithm>

#include "loader/core/config.hpp"
#include "loader/core/limits.hpp"
#include "loader/plan/ranks.hpp"
#include "reference/failure.hpp"
#include "suites/ranks/oracle.hpp"

namespace weightproof::suites::judge {
namespace {

using reference::Dtype;

constexpr std::uint64_t k_cache_bytes = 32U << 20U;

std::optional<Dtype> asked_dtype(const std::string& name) {
  return name == "bf16"  ? std::optional(Dtype::bf16)
         : name == "f32" ? std::optional(Dtype::f32)
         : name == "f16" ? std::optional(Dtype::f16)
                         : std::nullopt;
}

reference::Model open_model(const std::filesystem::path& checkpoint, std::optional<Dtype> asked) {
  reference::ModelOptions options;
  options.dtype = asked;
  options.cache_bytes_max = k_cache_bytes;
  return reference::Model::open(checkpoint, options);
}

ConfigValue without_quantization(const ConfigValue& config) {
  ConfigValue::Object members;
  for (const auto& [name, value] : config.members()) {
    if (name != "quantization_config") {
      members.emplace_back(name, value.is_object() ? without_quantization(value) : value);
    }
  }
  return ConfigValue(std::move(members));
}

/// The text of a config as it is for plain weights; empty where there is none.
std::string plain_config(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) {
    return {};
  }
  const std::string text = reference::read_text(path, limits::config_bytes_max);
  return without_quantization(ConfigValue::parse(text, "config.json")).dump();
}

void add_dtype(std::vector<Dtype>& list, Dtype dtype) {
  if (std::find(list.begin(), list.end(), dtype) == list.end()) {
    list.push_back(dtype);
  }
}

}  // namespace

ExpectedState::ExpectedState(const std::filesystem::path& checkpoint, const Case& asked)
    : model_(open_model(checkpoint, asked_dtype(asked.dtype))),
      case_(asked),
      asked_(asked_dtype(asked.dtype)),
      wanted_(asked.wanted) {
  const reference::Mapping& mapping = model_.mapping();
  if (asked.is_of_rank()) {
    schema_ = schema_of(asked.fixture);
    if (!schema_) {
      throw reference::Failure("RankUnknown", "no family says how ranks share these tensors");
    }
    topology_ = plan::parse_topology(asked.topology);
    stages_ = dealt_stages(plan::layer_count(*schema_), topology_.pp);
  }
  if (asked.names == Names::native) {
    for (std::size_t i = 0; i < mapping.native_tensors().size(); ++i) {
      ExpectedTensor row = native_tensor(static_cast<int>(i));
      if (!schema_ || cut_to_rank(row, asked.rank)) {
        tensors_.push_back(std::move(row));
      }
    }
  } else {
    for (std::size_t i = 0; i < mapping.keys().size(); ++i) {
      tensors_.push_back(stored_tensor(static_cast<int>(i)));
    }
  }
  for (const reference::Logical& logical : model_.overlay().tensors) {
    is_decoded_ = is_decoded_ || logical.decoder;
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [](const ExpectedTensor& a, const ExpectedTensor& b) { return a.name < b.name; });
}

ExpectedTensor ExpectedState::native_tensor(int native) const {
  const reference::NativeTensor& row = model_.mapping().native_tensors()[static_cast<std::size_t>(native)];
  ExpectedTensor out;
  out.name = row.name;
  out.shape = row.shape;
  out.native = native;
  out.dtypes = {model_.native_dtype(native)};
  out.is_state_f32 = row.is_f32;
  out.source = row.rule;
  if (row.alias_of >= 0) {
    out.need = Need::optional;
    out.is_head = true;
    out.same_as = model_.mapping().native_tensors()[static_cast<std::size_t>(row.alias_of)].name;
  }
  return out;
}

ExpectedTensor ExpectedState::stored_tensor(int key) const {
  const reference::Mapping& mapping = model_.mapping();
  const reference::Logical& logical = model_.overlay().tensors[static_cast<std::size_t>(key)];
  const reference::Fate& fate = mapping.fate(key);
  ExpectedTensor out;
  out.name = logical.name;
  out.shape = logical.shape;
  out.key = logical.name;
  out.is_plain = !logical.decoder;
  if (!out.is_plain) {
    // Blocks of codes hold the tensor of that name; experts in blocks are published the other way round without them.
    for (const std::string_view end : {"_blocks", ".blocks"}) {
      if (out.name.size() > end.size() && out.name.ends_with(end)) {
        out.name.resize(out.name.size() - end.size());
        out.is_transposed = wanted_ == Wanted::exported && end == "_blocks" && out.shape.size() == 3;
        break;
      }
    }
    if (out.is_transposed) {
      std::swap(out.shape[1], out.shape[2]);
    }
  }
  out.source =
      out.is_plain ? "stored " + std::string(name_of(logical.weight->dtype)) : "decoded from " + logical.scheme;

  // The native tensor that takes the first element tells which dtype the family gives this state.
  const reference::NativeTensor* native = nullptr;
  int native_id = -1;
  if (fate.use == reference::Use::weight && fate.home && reference::count_of(logical.shape) > 0) {
    native_id = fate.home(reference::Coord{}).native;
    native = &mapping.native_tensors()[static_cast<std::size_t>(native_id)];
    out.is_state_f32 = native->is_f32;
  }
  const Dtype stored = logical.weight->dtype;
  if (out.is_plain) {
    const bool is_cast = asked_ && is_floating(stored);
    const bool keeps = native != nullptr && (native->is_f32 || (native->keeps_f32 && stored == Dtype::f32));
    out.dtypes = {is_cast ? (keeps ? Dtype::f32 : *asked_) : stored};
  } else {
    const Dtype own = native != nullptr ? model_.native_dtype(native_id) : Dtype::bf16;
    out.dtypes = {asked_ ? *asked_ : own};
  }
  if (wanted_ == Wanted::state && out.is_state_f32) {
    add_dtype(out.dtypes, Dtype::f32);  // in memory it is F32 whatever the file says
  }
  switch (fate.use) {
    case reference::Use::weight:
      break;
    case reference::Use::alias:
      out.need = Need::optional;
      out.is_head = true;
      out.same_as = mapping.native_tensors()[static_cast<std::size_t>(fate.native)].name;
      break;
    case reference::Use::dropped:
    case reference::Use::unexpected:
      out.need = Need::optional;
      out.source += fate.reason.empty() ? ", known to no family" : ", dropped: " + fate.reason;
      add_dtype(out.dtypes, stored);  // nobody loads it, so nobody says how it is cast
      break;
  }
  const std::string head = reference::family_of(model_.detection().family, model_.config()).head;
  out.is_head = out.is_head || (native != nullptr && native->name == head);
  return out;
}

ExpectedTensor ExpectedState::target_tensor(const reference::Mapping& target, int key, int native) const {
  const reference::Key& row = target.keys()[static_cast<std::size_t>(key)];
  const reference::NativeTensor& own = model_.mapping().native_tensors()[static_cast<std::size_t>(native)];
  ExpectedTensor out;
  out.name = row.name;
  out.shape = row.shape;
  out.target = key;
  out.is_state_f32 = own.is_f32;
  out.source = "part of " + own.name + ", " + own.rule;
  out.native = native;
  out.dtypes = {model_.native_dtype(native)};
  if (!asked_ && own.is_f32 && !own.keys.empty()) {
    const reference::Logical& logical = model_.overlay().tensors[static_cast<std::size_t>(own.keys[0])];
    if (!logical.decoder) {
      out.dtypes = {logical.weight->dtype};
    }
    if (wanted_ == Wanted::state) {
      add_dtype(out.dtypes, Dtype::f32);
    }
  }
  if (own.is_default) {
    add_dtype(out.dtypes, Dtype::f32);
    add_dtype(out.dtypes, Dtype::bf16);
  }
  return out;
}

bool ExpectedState::take_form(std::vector<reference::Key> answer) {
  if (schema_) {
    return false;  // other forms are of whole models
  }
  std::optional<reference::Mapping> target;
  try {
    const reference::Config config(plain_config(model_.checkpoint().directory() / "config.json"));
    std::vector<std::string> names;
    for (const reference::Key& key : answer) {
      names.push_back(key.name);
    }
    target = reference::Mapping::build(reference::detect(config, names).family, config, std::move(answer));
  } catch (const reference::Failure&) {
    return false;
  }
  const reference::Mapping& own = model_.mapping();
  std::vector<bool> is_held(own.native_tensors().size(), false);
  for (const reference::NativeTensor& native : target->native_tensors()) {
    const int id = own.native_id(native.name);
    if (id < 0 || own.native_tensors()[static_cast<std::size_t>(id)].shape != native.shape) {
      return false;
    }
    is_held[static_cast<std::size_t>(id)] = true;
  }
  std::vector<ExpectedTensor> rows;
  for (std::size_t i = 0; i < target->keys().size(); ++i) {
    const int key = static_cast<int>(i);
    const reference::Fate& fate = target->fate(key);
    if (fate.use == reference::Use::weight && fate.home && reference::count_of(target->keys()[i].shape) > 0) {
      const reference::Home home = fate.home(reference::Coord{});
      const std::string& name = target->native_tensors()[static_cast<std::size_t>(home.native)].name;
      rows.push_back(target_tensor(*target, key, own.native_id(name)));
    } else if (const ExpectedTensor* same = find(target->keys()[i].name)) {
      rows.push_back(*same);  // a tied head, or what the family drops
    }
  }
  for (std::size_t i = 0; i < is_held.size(); ++i) {
    const reference::NativeTensor& native = own.native_tensors()[i];
    if (!is_held[i] && native.alias_of < 0 && !native.is_default) {
      rows.push_back(native_tensor(static_cast<int>(i)));
    }
  }
  std::sort(rows.begin(), rows.end(), [](const ExpectedTensor& a, const ExpectedTensor& b) { return a.name < b.name; });
  tensors_ = std::move(rows);
  target_ = std::move(target);
  return true;
}

void ExpectedState::set_form(Form form) {
  tensors_ = std::move(form.tensors);
  target_ = std::move(form.target);
}

const ExpectedTensor* ExpectedState::find(std::string_view name) const {
  const auto found = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                      [](const ExpectedTensor& row, std::string_view text) { return row.name < text; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

std::optional<ExpectedTensor> ExpectedState::find_extra(std::string_view name) const {
  const reference::Mapping& mapping = model_.mapping();
  const reference::Family family = reference::family_of(model_.detection().family, model_.config());
  std::string own(name);
  for (const reference::Spelling& spelling : family.spellings) {
    if (spelling.name == mapping.name_space()) {
      own = respell(spelling, own);
      break;
    }
  }
  const int native = mapping.native_id(own);
  if (native < 0) {
    return std::nullopt;
  }
  const reference::NativeTensor& row = mapping.native_tensors()[static_cast<std::size_t>(native)];
  if (row.alias_of < 0 && !row.is_default) {
    return std::nullopt;
  }
  ExpectedTensor out = native_tensor(native);
  if (schema_ && !cut_to_rank(out, case_.rank)) {
    return std::nullopt;
  }
  out.name = std::string(name);
  out.need = Need::optional;
  if (row.is_default) {
    add_dtype(out.dtypes, Dtype::f32);
    add_dtype(out.dtypes, Dtype::bf16);
  }
  return out;
}

reference::Bytes ExpectedState::region(const ExpectedTensor& tensor, const reference::Box& box, Dtype dtype) const {
  if (tensor.target >= 0) {
    return reference::export_region(model_, *target_, tensor.target, box, dtype);
  }
  if (tensor.native >= 0) {
    return tensor.held.empty() ? model_.region(tensor.native, box, dtype) : held_region(tensor, box, dtype);
  }
  if (tensor.is_plain && model_.checkpoint().at(tensor.key).dtype == dtype) {
    return model_.stored_region(tensor.key, box);
  }
  return tensor.is_transposed ? transposed_region(tensor, box, dtype) : model_.logical_region(tensor.key, box, dtype);
}

reference::Bytes ExpectedState::transposed_region(const ExpectedTensor& tensor, const reference::Box& box,
                                                  Dtype dtype) const {
  reference::Box natural = box;
  std::swap(natural.start[1], natural.start[2]);
  std::swap(natural.extent[1], natural.extent[2]);
  const reference::Bytes from = model_.logical_region(tensor.key, natural, dtype);
  const std::size_t width = bits_of(dtype) / 8;
  const std::uint64_t rows = box.extent[1];
  const std::uint64_t columns = box.extent[2];
  reference::Bytes out(from.size());
  for (std::uint64_t i = 0; i < reference::count_of(box.extent); ++i) {
    const std::uint64_t expert = i / (rows * columns);
    const std::uint64_t source = (expert * columns + i % columns) * rows + i / columns % rows;
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(source * width), width,
                out.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
  return out;
}

bool ExpectedState::is_converted(const ExpectedTensor& tensor, Dtype dtype) const {
  const auto is_other = [&](int key) {
    const reference::Logical& logical = model_.overlay().tensors[static_cast<std::size_t>(key)];
    return logical.decoder || logical.weight->dtype != dtype;
  };
  if (tensor.native < 0) {
    return is_other(model_.mapping().key_id(tensor.key));
  }
  const auto& keys = model_.mapping().native_tensors()[static_cast<std::size_t>(tensor.native)].keys;
  return std::any_of(keys.begin(), keys.end(), is_other);
}

std::uint64_t ExpectedState::bytes() const {
  std::uint64_t sum = 0;
  for (const ExpectedTensor& tensor : tensors_) {
    sum += reference::count_of(tensor.shape) * bits_of(tensor.dtypes.front()) / 8;
  }
  return sum;
}

}  // namespace weightproof::suites::judge
