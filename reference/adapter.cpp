// SPDX-License-Identifier: Apache-2.0
#include "reference/adapter.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "reference/failure.hpp"

namespace weightproof::reference {
namespace {

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::string without_end(const std::string& text, const std::string& end) {
  return text.substr(0, text.size() - end.size());
}

Coord coord(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) { return {{a, b, c}}; }

Place stored_at(int key, const Coord& at) {
  Place place;
  place.key = key;
  place.at = at;
  return place;
}

// The experts of one layer of the base, as its mapping shows them.
struct Layer {
  std::string native;              // "model.layers.0.mlp.experts"
  std::vector<std::string> paths;  // Names of the module that holds them: the file's, then the native one.
  std::string gate, up, down;      // As the file calls them, empty where it has them stacked.
  std::uint64_t experts = 0, input = 0, inner = 0, rows = 0;
  bool has_gate() const { return rows == 2 * inner; }
};

// Everything in front of the last dot.
std::string parent_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}
std::string last_of(const std::string& name) { return name.substr(name.rfind('.') + 1); }

Layer layer_of(const Mapping& base, int gate_up, int down) {
  Layer layer;
  const NativeTensor& first = base.native_tensors()[static_cast<std::size_t>(gate_up)];
  const NativeTensor& second = base.native_tensors()[static_cast<std::size_t>(down)];
  layer.native = without_end(first.name, ".gate_and_up_projs");
  layer.experts = first.shape[0];
  layer.input = first.shape[1];
  layer.rows = first.shape[2];
  layer.inner = second.shape[1];
  const auto key_at = [&](int native, const Coord& at) {
    const Place place = base.pull(native, at);
    return place.kind == Kind::stored ? base.keys()[static_cast<std::size_t>(place.key)] : Key{};
  };
  const Key up = key_at(gate_up, coord(0, 0, layer.has_gate() ? layer.inner : 0));
  if (up.shape.size() == 2) {  // "<path>.0.up_proj.weight"
    layer.gate = layer.has_gate() ? last_of(parent_of(key_at(gate_up, coord(0)).name)) : std::string();
    layer.up = last_of(parent_of(up.name));
    layer.down = last_of(parent_of(key_at(down, coord(0)).name));
    layer.paths.push_back(parent_of(parent_of(parent_of(up.name))));
  } else {  // "<path>.gate_up_proj"
    layer.paths.push_back(parent_of(up.name));
  }
  if (layer.paths[0] != layer.native) layer.paths.push_back(layer.native);
  return layer;
}

}  // namespace

// Finds the keys of each factor and says how its elements lie in them.
class AdapterAssembly {
 public:
  AdapterAssembly(const Mapping& base, const Json& config, const Json* stamp, std::vector<Key> keys)
      : base_(base), config_(config), stamp_(stamp) {
    std::sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) { return a.name < b.name; });
    out_.family_ = base.family();
    out_.keys_ = std::move(keys);
    out_.fates_.resize(out_.keys_.size());
    is_taken_.resize(out_.keys_.size());
    for (std::size_t k = 0; k < out_.keys_.size(); ++k) {
      const std::string& name = out_.keys_[k].name;
      number_[name.rfind(prefix_, 0) == 0 ? name.substr(prefix_.size()) : name] = static_cast<int>(k);
    }
  }

  Mapping run() && {
    const Json* type = config_.find("peft_type");
    if (!type || !type->text() || *type->text() != "LORA") throw Failure("CONFIG_INVALID", "peft_type is not LORA");
    std::vector<Layer> layers;
    for (std::size_t n = 0; n < base_.native_tensors().size(); ++n) {
      const std::string& name = base_.native_tensors()[n].name;
      if (!ends_with(name, ".gate_and_up_projs")) continue;
      const int down = base_.native_id(without_end(name, "gate_and_up_projs") + "down_projs");
      if (down >= 0) layers.push_back(layer_of(base_, static_cast<int>(n), down));
    }
    find_generation(layers);
    for (const Layer& layer : layers) {
      for (const std::string& path : layer.paths) {
        packed(layer, path);
        single(layer, path);
      }
    }
    for (const auto& [name, key] : number_)
      if (!is_taken_[static_cast<std::size_t>(key)]) plain(name, key);
    finish();
    return std::move(out_);
  }

 private:
  int find(const std::string& name) const {
    const auto found = number_.find(name);
    return found == number_.end() ? -1 : found->second;
  }
  const Shape& shape(int key) const { return out_.keys_[static_cast<std::size_t>(key)].shape; }
  void need(int key, const Shape& expected) const {
    if (shape(key) != expected)
      throw Failure("SHAPE_MISMATCH", "'" + out_.keys_[static_cast<std::size_t>(key)].name + "' is " +
                                          text_of(shape(key)) + ", not " + text_of(expected));
  }
  std::uint64_t extent(int key, std::size_t axis) const {
    if (shape(key).size() != 2)
      throw Failure("SHAPE_MISMATCH", "'" + out_.keys_[static_cast<std::size_t>(key)].name + "' is no matrix");
    return shape(key)[axis];
  }

  bool asks_for(const std::string& path, const std::string& parameter) const {
    const Json* list = config_.find("target_parameters");
    if (!list || !list->array()) return false;
    const std::string whole = path + "." + parameter;
    for (const Json& item : *list->array())
      if (item.text() && (*item.text() == whole || ends_with(whole, "." + *item.text()))) return true;
    return false;
  }
  // Where only the input projection is adapted, nothing is wrapped twice and its pair has the outer names.
  bool outer_is_input(const Layer& layer) const {
    bool input = false, output = false;
    for (const std::string& path : layer.paths) {
      input = input || asks_for(path, layer.has_gate() ? "gate_up_proj" : "up_proj");
      output = output || asks_for(path, "down_proj");
    }
    return input && !output;
  }

  // Old: lora_A holds what goes out. New: lora_A holds what comes in.
  void find_generation(const std::vector<Layer>& layers) {
    bool says_old = false, says_new = false, is_packed = false;
    for (const Layer& layer : layers)
      for (const std::string& path : layer.paths)
        for (const bool is_inner : {true, false}) {
          const bool is_input = is_inner || outer_is_input(layer);
          const std::uint64_t in = is_input ? layer.input : layer.inner, out = is_input ? layer.rows : layer.input;
          const std::string module = is_inner ? path + ".base_layer" : path;
          const int a = find(module + ".lora_A.weight"), b = find(module + ".lora_B.weight");
          is_packed = is_packed || a >= 0 || b >= 0;
          if (in == out) continue;
          if (a >= 0) says_new = says_new || extent(a, 1) == in, says_old = says_old || extent(a, 1) == out;
          if (b >= 0) says_new = says_new || extent(b, 0) == out, says_old = says_old || extent(b, 0) == in;
        }
    if (!is_packed) return;
    const Json* stated = stamp_ ? stamp_->find("paramwrapper_layout") : nullptr;
    std::optional<bool> stamped;
    if (stated && !stated->is_null()) {
      if (stated->text() && *stated->text() == "peft-0.18") stamped = true;
      if (stated->text() && *stated->text() == "peft-0.19.1") stamped = false;
      if (!stamped) throw Failure("ADAPTER_LAYOUT_UNDECIDED", "the stamp is unknown");
    }
    if (says_old && says_new) throw Failure("ADAPTER_LAYOUT_UNDECIDED", "shapes speak for both generations");
    if (!stamped && !says_old && !says_new)
      throw Failure("ADAPTER_LAYOUT_UNDECIDED", "neither a shape nor a stamp tells the generation");
    if (stamped && (*stamped ? says_new : says_old))
      throw Failure("ADAPTER_LAYOUT_UNDECIDED", "the stamp contradicts the shapes");
    is_old_ = stamped ? *stamped : says_old;
  }

  void take(int key, std::function<Home(const Coord&)> home) {
    is_taken_[static_cast<std::size_t>(key)] = true;
    Fate& fate = out_.fates_[static_cast<std::size_t>(key)];
    fate.use = Use::weight;
    fate.reason = "factor";
    fate.home = std::move(home);
  }
  int add(const std::string& name, const Shape& shape, std::vector<int> keys, std::function<Place(const Coord&)> pull) {
    NativeTensor tensor;
    tensor.name = name;
    tensor.shape = shape;
    tensor.keys = std::move(keys);
    tensor.pull = std::move(pull);
    out_.natives_.push_back(std::move(tensor));
    return static_cast<int>(out_.natives_.size()) - 1;
  }

  // One matrix of the packed pair. `by_expert`: row e*R + r of a matrix [R*E, f]; else column r*E + e of one [f, R*E].
  // The native element is [e][r][f], or [e][f][r] where `rank_last`.
  void packed_matrix(int key, bool by_expert, const std::string& name, std::uint64_t experts, std::uint64_t rank,
                     std::uint64_t features, bool rank_last) {
    need(key, by_expert ? Shape{rank * experts, features} : Shape{features, rank * experts});
    const int native = add(name, rank_last ? Shape{experts, features, rank} : Shape{experts, rank, features}, {key},
                           [=](const Coord& at) {
                             const std::uint64_t e = at[0], r = at[rank_last ? 2 : 1], f = at[rank_last ? 1 : 2];
                             return stored_at(key, by_expert ? coord(e * rank + r, f) : coord(f, r * experts + e));
                           });
    take(key, [=](const Coord& at) {
      const std::uint64_t e = by_expert ? at[0] / rank : at[1] % experts;
      const std::uint64_t r = by_expert ? at[0] % rank : at[1] / experts;
      const std::uint64_t f = by_expert ? at[1] : at[0];
      return Home{native, rank_last ? coord(e, f, r) : coord(e, r, f)};
    });
  }

  void packed(const Layer& layer, const std::string& path) {
    for (const bool is_inner : {true, false}) {
      const std::string module = is_inner ? path + ".base_layer" : path;
      const int a = find(module + ".lora_A.weight"), b = find(module + ".lora_B.weight");
      if (a < 0 && b < 0) continue;
      if (a < 0 || b < 0) throw Failure("MISSING_KEYS", "'" + module + "' has one factor of two");
      if (layer.experts == 0 || extent(a, 0) % layer.experts != 0)
        throw Failure("SHAPE_MISMATCH", "the rows of '" + module + "' are no multiple of the experts");
      const std::uint64_t rank = extent(a, 0) / layer.experts;
      const bool is_input = is_inner || outer_is_input(layer);
      const std::string name = layer.native + (is_input ? ".lora_gate_and_up_" : ".lora_down_");
      const std::uint64_t in = is_input ? layer.input : layer.inner, out = is_input ? layer.rows : layer.input;
      packed_matrix(a, true, name + (is_old_ ? "B" : "A"), layer.experts, rank, is_old_ ? out : in, !is_old_);
      packed_matrix(b, false, name + (is_old_ ? "A" : "B"), layer.experts, rank, is_old_ ? in : out, is_old_);
    }
  }

  // The factor of every expert, or none: nothing where no expert has it.
  std::vector<int> every(const Layer& layer, const std::string& path, const std::string& matrix,
                         const std::string& factor) const {
    std::vector<int> keys;
    std::uint64_t there = 0;
    for (std::uint64_t e = 0; e < layer.experts; ++e) {
      keys.push_back(find(path + "." + std::to_string(e) + "." + matrix + factor));
      if (keys.back() >= 0) ++there;
    }
    if (there == 0) return {};
    if (there != layer.experts) throw Failure("MISSING_KEYS", "an expert of '" + path + "' lacks " + matrix + factor);
    return keys;
  }

  void single(const Layer& layer, const std::string& path) {
    const bool is_file_spelling = path == layer.paths[0] && !layer.up.empty();
    const std::string gate = is_file_spelling ? layer.gate : "gate_proj";
    const std::string up = is_file_spelling ? layer.up : "up_proj";
    const std::string down = is_file_spelling ? layer.down : "down_proj";
    const std::string a = ".lora_A.weight", b = ".lora_B.weight";
    const std::uint64_t inner = layer.inner;
    const auto gate_a = layer.has_gate() ? every(layer, path, gate, a) : std::vector<int>();
    const auto gate_b = layer.has_gate() ? every(layer, path, gate, b) : std::vector<int>();
    const auto up_a = every(layer, path, up, a), up_b = every(layer, path, up, b);
    if (gate_a.empty() != gate_b.empty() || up_a.empty() != up_b.empty())
      throw Failure("MISSING_KEYS", "the input projections of '" + path + "' have one factor of two");
    if (!gate_a.empty() || !up_a.empty()) {
      const std::vector<int>& first = gate_a.empty() ? up_a : gate_a;
      const std::uint64_t rank = extent(first[0], 0);
      for (const auto* keys : {&gate_a, &up_a})
        for (int key : *keys) need(key, {rank, layer.input});
      for (const auto* keys : {&gate_b, &up_b})
        for (int key : *keys) need(key, {inner, rank});
      const int native = add(layer.native + ".lora_gate_and_up_A", {layer.experts, layer.input, rank}, first,
                             [first](const Coord& at) { return stored_at(first[at[0]], coord(at[2], at[1])); });
      for (std::uint64_t e = 0; e < layer.experts; ++e) {
        take(first[e], [native, e](const Coord& at) { return Home{native, coord(e, at[1], at[0])}; });
        if (gate_a.empty() || up_a.empty()) continue;
        is_taken_[static_cast<std::size_t>(up_a[e])] = true;  // The same factor once more.
        out_.fates_[static_cast<std::size_t>(up_a[e])] = {Use::alias, "gate and up share A", native, {}};
      }
      std::vector<int> all = gate_b;
      all.insert(all.end(), up_b.begin(), up_b.end());
      const std::uint64_t first_up = layer.has_gate() ? inner : 0;
      const int native_b =
          add(layer.native + ".lora_gate_and_up_B", {layer.experts, rank, layer.rows}, all, [=](const Coord& at) {
            const bool is_up = at[2] >= first_up;
            const std::vector<int>& keys = is_up ? up_b : gate_b;
            if (keys.empty()) {
              Place zero;
              zero.kind = Kind::constant;
              return zero;
            }
            return stored_at(keys[at[0]], coord(is_up ? at[2] - first_up : at[2], at[1]));
          });
      for (std::uint64_t e = 0; e < layer.experts; ++e) {
        if (!gate_b.empty()) take(gate_b[e], [=](const Coord& at) { return Home{native_b, coord(e, at[1], at[0])}; });
        if (!up_b.empty())
          take(up_b[e], [=](const Coord& at) { return Home{native_b, coord(e, at[1], first_up + at[0])}; });
      }
    }
    const auto down_a = every(layer, path, down, a), down_b = every(layer, path, down, b);
    if (down_a.empty() != down_b.empty())
      throw Failure("MISSING_KEYS", "the output projections of '" + path + "' have one factor of two");
    if (down_a.empty()) return;
    const std::uint64_t rank = extent(down_a[0], 0);
    swapped(layer.native + ".lora_down_A", {layer.experts, inner, rank}, down_a);
    swapped(layer.native + ".lora_down_B", {layer.experts, rank, layer.input}, down_b);
  }

  // N[e][x][y] = S_e[y][x]
  void swapped(const std::string& name, const Shape& shape, const std::vector<int>& keys) {
    for (int key : keys) need(key, {shape[2], shape[1]});
    const int native =
        add(name, shape, keys, [keys](const Coord& at) { return stored_at(keys[at[0]], coord(at[2], at[1])); });
    for (std::uint64_t e = 0; e < keys.size(); ++e)
      take(keys[e], [native, e](const Coord& at) { return Home{native, coord(e, at[1], at[0])}; });
  }

  // The native name of a whole weight that is only renamed, else its own.
  std::string native_name(const std::string& weight) const {
    const int key = base_.key_id(weight);
    if (key < 0 || base_.fate(key).use != Use::weight) return weight;
    const Home home = base_.home(key, Coord{});
    const NativeTensor& tensor = base_.native_tensors()[static_cast<std::size_t>(home.native)];
    return tensor.keys.size() == 1 && tensor.shape == base_.keys()[static_cast<std::size_t>(key)].shape ? tensor.name
                                                                                                        : weight;
  }

  // Factors of a dense module, and tensors stored whole: element by element the same.
  void plain(const std::string& name, int key) {
    std::string native = native_name(name);
    for (const char* factor :
         {".lora_A.weight", ".lora_B.weight", ".lora_embedding_A", ".lora_embedding_B", ".lora_magnitude_vector"}) {
      if (!ends_with(name, factor)) continue;
      const std::string module = native_name(without_end(name, factor) + ".weight");
      native = ends_with(module, ".weight") ? without_end(module, ".weight") : module;
      native += std::string(factor) == ".lora_magnitude_vector" ? ".lora_magnitude" : factor;
    }
    const int id = add(native, shape(key), {key}, [key](const Coord& at) { return stored_at(key, at); });
    take(key, [id](const Coord& at) { return Home{id, at}; });
  }

  // Natives sorted by name, as everywhere; the homes follow.
  void finish() {
    std::vector<int> order(out_.natives_.size()), place(out_.natives_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return out_.natives_[static_cast<std::size_t>(a)].name < out_.natives_[static_cast<std::size_t>(b)].name;
    });
    std::vector<NativeTensor> sorted;
    for (std::size_t i = 0; i < order.size(); ++i) {
      place[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
      sorted.push_back(std::move(out_.natives_[static_cast<std::size_t>(order[i])]));
      if (i > 0 && sorted[i].name == sorted[i - 1].name)
        throw Failure("DUPLICATE_DESTINATION", "two keys are '" + sorted[i].name + "'");
    }
    out_.natives_ = std::move(sorted);
    for (Fate& fate : out_.fates_) {
      if (fate.native >= 0) fate.native = place[static_cast<std::size_t>(fate.native)];
      if (!fate.home) continue;
      fate.home = [home = std::move(fate.home), place](const Coord& at) {
        Home answer = home(at);
        answer.native = place[static_cast<std::size_t>(answer.native)];
        return answer;
      };
    }
  }

  const Mapping& base_;
  const Json& config_;
  const Json* stamp_;
  const std::string prefix_ = "base_model.model.";
  Mapping out_;
  std::map<std::string, int> number_;
  std::vector<bool> is_taken_;
  bool is_old_ = false;
};

Mapping adapter_mapping(const Mapping& base, const Json& config, const Json* stamp, std::vector<Key> keys) {
  return AdapterAssembly(base, config, stamp, std::move(keys)).run();
}

}  // namespace weightproof::reference
