// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/mapping_parity.hpp"

#include <algorithm>
#include <set>

namespace weightproof::suites {
namespace {

using reference::Coord;
using reference::Mapping;
using reference::Place;

Coord coord_of(const Coordinate& coordinate) {
  Coord out;
  for (unsigned axis = 0; axis < coordinate.rank(); ++axis) {
    out[axis] = coordinate[axis];
  }
  return out;
}

std::uint64_t index_of(const reference::Shape& shape, const Coord& at) {
  std::uint64_t index = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    index = index * shape[axis] + at[axis];
  }
  return index;
}

bool same_shape(const Shape& ours, const reference::Shape& theirs) {
  return std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end());
}

// Calls `visit` with coordinates of a box until it says no.
template <typename Visit>
void for_each_coordinate(const Extents& extents, ParityDepth depth, const Visit& visit) {
  const std::uint64_t count = element_count(extents).value_or(0);
  if (count == 0) {
    return;
  }
  if (depth == ParityDepth::every_element) {
    for (std::uint64_t i = 0; i < count; ++i) {
      if (!visit(coordinate_of(extents, i))) {
        return;
      }
    }
    return;
  }
  for (std::uint64_t corner = 0; corner < (1ULL << extents.rank()); ++corner) {
    Coordinate at = extents;
    for (unsigned axis = 0; axis < extents.rank(); ++axis) {
      at[axis] = (corner >> axis & 1U) != 0 ? extents[axis] - 1 : 0;
    }
    if (!visit(at)) {
      return;
    }
  }
}

std::string place_text(const Mapping& mapping, const Place& place) {
  if (place.kind == reference::Kind::constant) {
    return "the constant " + std::to_string(place.value);
  }
  const reference::Key& key = mapping.keys()[static_cast<std::size_t>(place.key)];
  Coordinate at;
  for (std::size_t axis = 0; axis < key.shape.size(); ++axis) {
    at.push_back(place.at[axis]);
  }
  return key.name + to_string(at);
}

class Comparison {
 public:
  Comparison(const Schema& schema, const Catalog& catalog, const plan::KeyCoverage& coverage, const Mapping& mapping,
             ParityDepth depth)
      : schema_(schema), catalog_(catalog), coverage_(coverage), mapping_(mapping), depth_(depth) {}

  MappingParity run() {
    is_met_.assign(mapping_.native_tensors().size(), false);
    find_tied_sources();
    for (NativeId id = 0; id < schema_.native_tensors().size(); ++id) {
      meet(id);
    }
    for (const Binding& binding : schema_.bindings()) {
      compare(binding);
    }
    compare_passed_through();
    compare_names_of_rest();
    compare_fates();
    return_elements();
    return std::move(out_);
  }

 private:
  void differ(std::string_view key, std::string message) {
    if (is_told_.insert(std::string(key)).second) {
      out_.differences.push_back({std::string(key), std::move(message)});
    }
  }

  bool is_present(StoredId stored) const { return coverage_.row_of[stored] != plan::k_no_row; }

  // Where the head alone is stored, its values stand in for the embedding's.
  void find_tied_sources() {
    for (const plan::TieVerdict& verdict : coverage_.ties) {
      const Tie& tie = schema_.ties()[verdict.tie];
      if (verdict.state == plan::TieState::from_alias) {
        stands_in_.emplace_back(tie.stored_source, tie.stored_alias);
      }
    }
  }

  std::string_view stored_name(StoredId stored) const {
    for (const auto& [source, alias] : stands_in_) {
      if (source == stored) {
        return alias;
      }
    }
    const LogicalTensor& tensor = schema_.stored_tensors()[stored];
    // Where no tensor has the weight's own name, the reference calls what is decoded after its codes.
    const auto parts = schema_.parts_of(tensor);
    return parts.empty() || mapping_.key_id(tensor.key) >= 0 ? tensor.key : parts.front().key;
  }

  void meet(NativeId id) {
    const NativeTensor& tensor = schema_.native_tensors()[id];
    const int native = mapping_.native_id(tensor.key);
    if (native < 0) {
      return differ(tensor.key, "the reference has no such native tensor");
    }
    is_met_[static_cast<std::size_t>(native)] = true;
    ++out_.native_tensors;
    const reference::NativeTensor& theirs = mapping_.native_tensors()[static_cast<std::size_t>(native)];
    if (!same_shape(schema_.shape_of(tensor), theirs.shape)) {
      return differ(tensor.key, "its shape is " + to_string(schema_.shape_of(tensor)) + ", the reference says " +
                                    reference::text_of(theirs.shape));
    }
    if (theirs.alias_of >= 0) {
      return differ(tensor.key, "a tensor of its own, the reference says " + theirs.rule);
    }
    const bool is_state = tensor.dtype_rule == DTypeRule::f32_state ||
                          (tensor.dtype_rule == DTypeRule::fixed && tensor.dtype == DType::f32);
    if (is_state != theirs.is_f32) {
      differ(tensor.key, theirs.is_f32 ? "it follows the weights' dtype, the reference keeps it in F32"
                                       : "it is kept in F32, for the reference it follows the stored dtype");
    }
  }

  void compare(const Binding& binding) {
    const NativeTensor& tensor = schema_.native_tensors()[binding.native];
    const int native = mapping_.native_id(tensor.key);
    if (binding.kind == BindingKind::alias || native < 0 || is_told_.count(std::string(tensor.key)) != 0) {
      return;
    }
    const Shape& shape = schema_.shape_of(tensor);
    const View native_view = schema_.native_view(binding);
    const bool is_constant = binding.kind == BindingKind::constant;
    if (is_constant && is_default(binding)) {
      return;  // the primary tells both: what is stored, and what stands in for it
    }
    bool is_stored = !is_constant && is_present(binding.stored);
    const std::string_view name = is_constant ? std::string_view() : stored_name(binding.stored);
    const int key = is_constant ? -1 : mapping_.key_id(name);
    is_stored = is_stored || (key >= 0 && !is_constant);
    if (!is_constant && !is_stored && !schema_.stored_tensors()[binding.stored].is_optional) {
      return;  // keys.missing
    }
    const double value = is_constant ? binding.value : schema_.stored_tensors()[binding.stored].absent_value;
    const View stored_view = is_constant ? native_view : schema_.stored_view(binding);
    const int factor = is_stored ? factor_of(binding.stored) : -1;
    for_each_coordinate(native_view.extents(), depth_, [&](const Coordinate& at) {
      const Coordinate native_at = coordinate_of(shape, native_view.storage_index(at));
      const Place place = mapping_.pull(native, coord_of(native_at));
      ++out_.elements;
      bool is_same = false;
      if (!is_stored) {
        is_same = place.kind == reference::Kind::constant && static_cast<double>(place.value) == value;
      } else if (place.kind == reference::Kind::stored) {
        const std::uint64_t index = stored_view.storage_index(at);
        const auto& stored_shape = mapping_.keys()[static_cast<std::size_t>(place.key)].shape;
        is_same = place.key == key && index_of(stored_shape, place.at) == index && place.factor_key == factor &&
                  (factor < 0 || place.factor_at == place.at[0]);
      }
      if (!is_same) {
        const Shape& stored_shape = is_constant ? shape : schema_.shape_of(schema_.stored_tensors()[binding.stored]);
        differ(tensor.key, std::string(tensor.key) + to_string(native_at) + " comes from " +
                               (is_stored ? std::string(name) +
                                                to_string(coordinate_of(stored_shape, stored_view.storage_index(at)))
                                          : "the constant " + std::to_string(value)) +
                               ", the reference says " + place_text(mapping_, place));
      }
      return is_same;
    });
  }

  // A constant that stands in where an optional stored tensor is absent.
  bool is_default(const Binding& constant) const {
    const auto bindings = schema_.bindings();
    return std::any_of(bindings.begin(), bindings.end(), [&](const Binding& other) {
      return other.kind == BindingKind::primary && other.native == constant.native &&
             other.native_offset == constant.native_offset && other.native_layout == constant.native_layout &&
             schema_.stored_tensors()[other.stored].is_optional;
    });
  }

  // The key of the scale that is multiplied into an expert's weights on the way, or -1.
  int factor_of(StoredId stored) const {
    const LogicalTensor& tensor = schema_.stored_tensors()[stored];
    if (tensor.coding == k_no_id || schema_.rule(schema_.codings()[tensor.coding].scheme) != "expert_scale") {
      return -1;
    }
    for (const CodedPart& part : schema_.parts_of(tensor)) {
      if (part.role == "scale") {
        return mapping_.key_id(part.key);
      }
    }
    return -1;
  }

  void compare_passed_through() {
    for (std::size_t rule = 0; rule < coverage_.passed_through.size(); ++rule) {
      const Passthrough& passthrough = schema_.passthroughs()[rule];
      for (const plan::Row row : coverage_.passed_through[rule].rows) {
        const StoredTensor& tensor = catalog_.tensors()[row];
        const std::string name = passthrough.native_prefix + std::string(tensor.key.substr(passthrough.prefix.size()));
        const int native = mapping_.native_id(name);
        const int key = mapping_.key_id(tensor.key);
        if (native < 0 || key < 0) {
          differ(name, "passes through, the reference has no such native tensor");
          continue;
        }
        is_met_[static_cast<std::size_t>(native)] = true;
        if (!tensor.is_described) {
          continue;
        }
        for_each_coordinate(tensor.shape, depth_, [&](const Coordinate& at) {
          const Place place = mapping_.pull(native, coord_of(at));
          ++out_.passed_through;
          const bool is_same = place.kind == reference::Kind::stored && place.key == key && place.at == coord_of(at) &&
                               place.factor_key < 0;
          if (!is_same) {
            differ(name, name + to_string(at) + " passes through, the reference says " + place_text(mapping_, place));
          }
          return is_same;
        });
      }
    }
  }

  // Native tensors of the reference alone: heads tied to a source, or a difference.
  void compare_names_of_rest() {
    std::size_t tied = 0;
    for (std::size_t i = 0; i < is_met_.size(); ++i) {
      const reference::NativeTensor& theirs = mapping_.native_tensors()[i];
      if (is_met_[i]) {
        continue;
      }
      if (theirs.alias_of < 0) {
        differ(theirs.name, "native for the reference alone");
        continue;
      }
      ++tied;
      const std::string& source = mapping_.native_tensors()[static_cast<std::size_t>(theirs.alias_of)].name;
      const bool is_tie = std::any_of(schema_.ties().begin(), schema_.ties().end(), [&](const Tie& tie) {
        return schema_.native_tensors()[tie.source].key == source;
      });
      if (!is_tie) {
        differ(theirs.name, "the reference says " + theirs.rule + ", no tie is stated for it");
      }
    }
    if (tied < schema_.ties().size()) {
      for (const Tie& tie : schema_.ties()) {
        differ(tie.stored_alias, "tied to " + std::string(schema_.native_tensors()[tie.source].key) +
                                     ", for the reference no tensor of its own is");
      }
    }
  }

  // What either side does with each stored key.
  void compare_fates() {
    const auto fate_of = [&](std::string_view key) -> const reference::Fate* {
      const int id = mapping_.key_id(key);
      return id < 0 ? nullptr : &mapping_.fate(id);
    };
    const auto expect = [&](std::string_view key, reference::Use use, const char* what) {
      const reference::Fate* fate = fate_of(key);
      if (fate != nullptr && fate->use != use) {
        differ(key, std::string(what) + ", the reference: " + (fate->reason.empty() ? "unknown" : fate->reason));
      }
    };
    for (const plan::MatchedRows& rule : coverage_.dropped) {
      for (const plan::Row row : rule.rows) {
        expect(catalog_.tensors()[row].key, reference::Use::dropped, "not loaded");
      }
    }
    for (const plan::Row row : coverage_.unexpected) {
      expect(catalog_.tensors()[row].key, reference::Use::unexpected, "unknown");
    }
    for (StoredId id = 0; id < schema_.stored_tensors().size(); ++id) {
      if (!is_present(id)) {
        continue;
      }
      const std::string_view key = stored_name(id);
      const bool is_alias = std::any_of(schema_.ties().begin(), schema_.ties().end(),
                                        [key](const Tie& tie) { return tie.stored_alias == key; });
      if (fate_of(key) == nullptr) {
        differ(key, "the reference knows no such tensor");
      } else if (!is_alias) {
        expect(key, reference::Use::weight, "loaded");
      }
    }
  }

  // The reference's way there and its way back, stated apart.
  void return_elements() {
    for (std::size_t i = 0; i < mapping_.keys().size(); ++i) {
      const int key = static_cast<int>(i);
      const reference::Fate& fate = mapping_.fate(key);
      if (fate.use != reference::Use::weight || !fate.home) {
        continue;
      }
      const Shape shape{std::span<const std::uint64_t>(mapping_.keys()[i].shape)};
      for_each_coordinate(shape, depth_, [&](const Coordinate& at) {
        const reference::Home home = fate.home(coord_of(at));
        const bool has_home = home.native >= 0;
        const Place place = has_home ? mapping_.pull(home.native, home.at) : Place{};
        ++out_.returned_elements;
        const bool returns = has_home && place.key == key && place.at == coord_of(at);
        if (!returns) {
          differ(mapping_.keys()[i].name,
                 mapping_.keys()[i].name + to_string(at) + " does not come back from where the reference takes it");
        }
        return returns;
      });
    }
  }

  const Schema& schema_;
  const Catalog& catalog_;
  const plan::KeyCoverage& coverage_;
  const Mapping& mapping_;
  ParityDepth depth_;
  MappingParity out_;
  std::vector<bool> is_met_;
  std::set<std::string> is_told_;
  std::vector<std::pair<StoredId, std::string>> stands_in_;
};

}  // namespace

MappingParity compare_mappings(const Schema& schema, const Catalog& catalog, const plan::KeyCoverage& coverage,
                               const Mapping& mapping, ParityDepth depth) {
  return Comparison(schema, catalog, coverage, mapping, depth).run();
}

std::vector<reference::Key> logical_keys(const Schema& schema, const Catalog& catalog,
                                         const std::vector<plan::DecodedTensor>& decoded) {
  std::vector<reference::Key> keys;
  std::vector<bool> is_taken(catalog.size(), false);
  const auto add = [&keys](std::string_view name, const Shape& shape) {
    keys.push_back({std::string(name), {shape.begin(), shape.end()}});
  };
  for (const plan::DecodedTensor& tensor : decoded) {
    for (const plan::Row row : tensor.rows) {
      is_taken[row] = true;
    }
    // MXFP4 blocks: no tensor has the weight's own name.
    const std::string_view codes = catalog.tensors()[tensor.rows.front()].key;
    add(codes.ends_with("_blocks") ? codes : schema.stored_tensors()[tensor.stored].key, tensor.shape);
  }
  for (std::size_t row = 0; row < catalog.size(); ++row) {
    const StoredTensor& tensor = catalog.tensors()[row];
    if (is_taken[row]) {
      continue;
    }
    const StoredId id = schema.find_stored(tensor.key);
    const bool is_known = id != k_no_id;
    add(tensor.key, tensor.is_described || !is_known ? tensor.shape : schema.shape_of(schema.stored_tensors()[id]));
  }
  return keys;
}

std::uint64_t native_element_count(const Schema& schema) {
  std::uint64_t total = 0;
  for (const NativeTensor& tensor : schema.native_tensors()) {
    total += element_count(schema.shape_of(tensor)).value_or(0);
  }
  return total;
}

}  // namespace weightproof::suites
