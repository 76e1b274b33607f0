// SPDX-License-Identifier: Apache-2.0
#include "reference/model.hpp"

#include <algorithm>
#include <vector>

#include "reference/adapter.hpp"

namespace weightproof::reference {
namespace fs = std::filesystem;

namespace {

std::uint64_t flat_of(const Shape& shape, const Coord& at) {
  std::uint64_t flat = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) flat = flat * shape[axis] + at[axis];
  return flat;
}

Coord coord_of(const Shape& shape, std::uint64_t flat) {
  Coord at;
  for (std::size_t axis = shape.size(); axis-- > 0; flat /= shape[axis]) at[axis] = flat % shape[axis];
  return at;
}

// `width` bytes, low byte first.
void put(std::span<std::byte> into, std::uint64_t index, unsigned width, std::uint64_t code) {
  std::byte* out = into.data() + index * width;
  for (unsigned b = 0; b < width; ++b) out[b] = static_cast<std::byte>(code >> (8 * b));
}

}  // namespace

struct Model::State {
  Checkpoint checkpoint;
  Config config;
  Detection detection;
  Overlay overlay;
  Mapping mapping;
  ModelOptions options;
  Dtype decoded_dtype = Dtype::bf16;  // Of quantized tensors when nothing is asked.
  std::unique_ptr<Blocks> blocks;
  std::vector<Element> elements;  // Per key, made at first use; empty for plain tensors.

  const Logical& logical(int key) const { return overlay.tensors[static_cast<std::size_t>(key)]; }

  // One logical element in the target dtype.
  std::uint64_t value(int key, const Coord& at, Dtype target) {
    const Logical& tensor = logical(key);
    if (!tensor.decoder)
      return cast(tensor.weight->dtype, blocks->code(*tensor.weight, flat_of(tensor.shape, at)), target);
    return from_f32(target, decoded(key, at));
  }
  std::uint32_t value_f32(int key, const Coord& at) {
    const Logical& tensor = logical(key);
    if (tensor.decoder) return decoded(key, at);
    return to_f32(tensor.weight->dtype, blocks->code(*tensor.weight, flat_of(tensor.shape, at)));
  }
  std::uint32_t decoded(int key, const Coord& at) {
    Element& element = elements[static_cast<std::size_t>(key)];
    if (!element) element = logical(key).decoder(*blocks);
    return element(at);
  }
  std::uint64_t place_value(const Place& place, Dtype target) {
    if (place.kind == Kind::constant) return from_f32(target, bits_of_float(place.value));
    if (place.factor_key < 0) return value(place.key, place.at, target);
    // Product in F32, one rounding.
    const float product =
        as_float(value_f32(place.key, place.at)) * as_float(value_f32(place.factor_key, Coord{{place.factor_at}}));
    return from_f32(target, bits_of_float(product));
  }
  // `count` elements that begin at `place` and lie `step` stored elements apart.
  void fill(const Place& place, std::uint64_t step, std::uint64_t count, Dtype target, std::span<std::byte> into);
  Dtype key_dtype(int key) const { return logical(key).decoder ? decoded_dtype : logical(key).weight->dtype; }
};

void Model::State::fill(const Place& place, std::uint64_t step, std::uint64_t count, Dtype target,
                        std::span<std::byte> into) {
  const unsigned bits = bits_of(target), width = bits / 8;
  const Logical* source = place.kind == Kind::stored && place.factor_key < 0 ? &logical(place.key) : nullptr;
  if (source && !source->decoder && source->weight->dtype == target && step == 1 && (count > 16 || bits < 8)) {
    // Bytes move as they are.
    const std::uint64_t first = flat_of(source->shape, place.at) * bits;
    if (first % 8 != 0 || count * bits % 8 != 0)
      throw Failure("MisalignedSlice", "a row of '" + source->name + "' begins or ends inside a byte");
    checkpoint.read_bytes(*source->weight, first / 8, into.first(static_cast<std::size_t>(count * bits / 8)));
  } else if (source && !source->decoder) {
    const TensorEntry& weight = *source->weight;
    const std::uint64_t first = flat_of(source->shape, place.at);
    for (std::uint64_t k = 0; k < count; ++k)
      put(into, k, width, cast(weight.dtype, blocks->code(weight, first + k * step), target));
  } else if (place.kind == Kind::constant) {
    for (std::uint64_t k = 0; k < count; ++k) put(into, k, width, place_value(place, target));
  } else {
    // Decoded: walk the coordinate along the axis whose stride is the step.
    Place each = place;
    const Shape& shape = logical(place.key).shape;
    std::size_t axis = shape.size();
    for (std::uint64_t stride = 1; axis > 0 && (stride *= shape[axis - 1]) <= step;) --axis;
    for (std::uint64_t k = 0; k < count; ++k) {
      put(into, k, width, place_value(each, target));
      for (std::size_t a = axis; a-- > 0;) {
        if (++each.at[a] < shape[a]) break;
        each.at[a] = 0;
      }
    }
  }
}

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
const Checkpoint& Model::checkpoint() const { return state_->checkpoint; }
const Config& Model::config() const { return state_->config; }
const Detection& Model::detection() const { return state_->detection; }
const Mapping& Model::mapping() const { return state_->mapping; }
const Overlay& Model::overlay() const { return state_->overlay; }

const Json* ModelConfig::quantization() const {
  if (const Json* own = config.quantization()) return own;
  const Json* inner = beside.find("quantization");
  return inner && inner->is_object() ? inner : beside.is_object() ? &beside : nullptr;
}

namespace {

/// Empty where there is no such file.
std::string text_if_there(const fs::path& directory, const char* name) {
  return fs::exists(directory / name) ? read_text(directory / name, 64u << 20) : std::string();
}

}  // namespace

ModelConfig read_model_config(const fs::path& directory) {
  ModelConfig described;
  described.config = Config(text_if_there(directory, "config.json"));
  for (const char* name : {"hf_quant_config.json", "quantize_config.json", "quant_config.json"}) {
    if (described.quantization()) break;
    const std::string text = text_if_there(directory, name);
    if (!text.empty()) described.beside = Config(text).root();
  }
  return described;
}

Model Model::open(const fs::path& path, const ModelOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  if (options.dtype && *options.dtype != Dtype::bf16 && *options.dtype != Dtype::f16 && *options.dtype != Dtype::f32)
    throw Failure("USAGE", "a model is asked for in BF16, F16 or F32");
  const bool is_adapter = !options.base.empty();
  state->checkpoint =
      Checkpoint::open(is_adapter && fs::is_directory(path) ? path / "adapter_model.safetensors" : path);
  const fs::path directory = state->checkpoint.directory();
  ModelConfig described = read_model_config(directory);
  const Json* quantization = described.quantization();
  state->config = described.config;

  if (is_adapter) {
    ModelOptions base_options;
    base_options.family = options.family;
    const Model base = open(options.base, base_options);
    state->detection = base.detection();
    state->overlay = find_overlay(state->checkpoint, Config(), nullptr);
    std::vector<Key> keys;
    for (const Logical& tensor : state->overlay.tensors) keys.push_back({tensor.name, tensor.shape});
    const Config stamp(text_if_there(directory, "automodel_peft_config.json"));
    state->mapping = adapter_mapping(base.mapping(), Config(text_if_there(directory, "adapter_config.json")).root(),
                                     stamp.exists() ? &stamp.root() : nullptr, std::move(keys));
    state->blocks = std::make_unique<Blocks>(state->checkpoint, options.cache_bytes_max);
    state->elements.resize(state->overlay.tensors.size());
    return Model(std::move(state));
  }

  std::vector<std::string> names;
  for (const TensorEntry& entry : state->checkpoint.tensors()) names.push_back(entry.key);
  state->detection = detect(state->config, names, quantization);
  if (!options.family.empty()) state->detection.family = family_as_stored(options.family, names);
  state->overlay = find_overlay(state->checkpoint, state->config, quantization);
  std::vector<Key> keys;
  for (const Logical& tensor : state->overlay.tensors) keys.push_back({tensor.name, tensor.shape});
  state->mapping = Mapping::build(state->detection.family, state->config, std::move(keys), options.mapping);

  for (const char* field : {"dtype", "torch_dtype"}) {
    const std::string name = state->config.text(field);
    if (name == "float16") state->decoded_dtype = Dtype::f16;
    if (name == "float32") state->decoded_dtype = Dtype::f32;
    if (!name.empty()) break;
  }
  if (options.dtype) state->decoded_dtype = *options.dtype;
  state->blocks = std::make_unique<Blocks>(state->checkpoint, options.cache_bytes_max);
  state->elements.resize(state->overlay.tensors.size());
  return Model(std::move(state));
}

Dtype Model::native_dtype(int native) const {
  const NativeTensor& tensor = mapping().native_tensors().at(static_cast<std::size_t>(native));
  if (tensor.is_f32) return Dtype::f32;
  if (tensor.keys.empty()) return state_->decoded_dtype;
  const Dtype dtype = state_->key_dtype(tensor.keys[0]);
  if (tensor.keeps_f32 && dtype == Dtype::f32) return dtype;
  if (state_->options.dtype && is_floating(dtype)) return *state_->options.dtype;
  for (int key : tensor.keys)
    if (state_->key_dtype(key) != dtype)
      throw Failure("DTYPE_UNSUPPORTED", "'" + tensor.name + "' comes from tensors of different dtypes; ask for one");
  return dtype;
}

std::uint64_t Model::element(int native, const Coord& at, Dtype dtype) const {
  return state_->place_value(mapping().pull(native, at), dtype);
}

int Model::native_or_fail(std::string_view native) const {
  const int id = mapping().native_id(native);
  if (id < 0) throw Failure("TensorNotFound", "'" + std::string(native) + "' is no native tensor");
  return id;
}
Bytes Model::region(std::string_view native, const Box& box) const { return region(native_or_fail(native), box); }
Bytes Model::region(std::string_view native, const Box& box, Dtype dtype) const {
  return region(native_or_fail(native), box, dtype);
}
Bytes Model::region(int native, const Box& box) const { return region(native, box, native_dtype(native)); }

Bytes Model::region(int native, const Box& box, Dtype asked) const {
  const NativeTensor& tensor = mapping().native_tensors().at(static_cast<std::size_t>(native));
  const std::size_t rank = tensor.shape.size();
  if (box.start.size() != rank || box.extent.size() != rank)
    throw Failure("SliceOutOfRange", "box of another rank than '" + tensor.name + "'");
  for (std::size_t axis = 0; axis < rank; ++axis)
    if (box.extent[axis] > tensor.shape[axis] || box.start[axis] > tensor.shape[axis] - box.extent[axis])
      throw Failure("SliceOutOfRange", "axis " + std::to_string(axis) + " of '" + tensor.name + "'");
  const Dtype own = native_dtype(native);
  const Dtype target = is_floating(own) ? asked : own;
  const std::uint64_t bits = bits_of(target), count = count_of(box.extent);
  if (count * bits % 8 != 0) throw Failure("MisalignedSlice", "the box of '" + tensor.name + "' ends inside a byte");
  Bytes out(static_cast<std::size_t>(count * bits / 8));

  // Axes that are taken whole merge with the one in front of them into one row of consecutive native elements.
  std::size_t outer = rank;
  std::uint64_t row = 1;
  while (outer > 0) {
    --outer;
    row *= box.extent[outer];
    if (box.extent[outer] != tensor.shape[outer]) break;
  }
  Coord at;
  for (std::size_t axis = 0; axis < rank; ++axis) at[axis] = box.start[axis];
  for (std::uint64_t done = 0; done < count; done += row) {
    const std::uint64_t first = flat_of(tensor.shape, at);
    for (std::uint64_t i = 0; i < row;) {
      // A piece the mapping promises to lie in one key, evenly spaced.
      const std::uint64_t piece = std::min(row - i, tensor.run - (first + i) % tensor.run);
      const Place place = tensor.pull(coord_of(tensor.shape, first + i));
      const std::span<std::byte> into = std::span(out).subspan(static_cast<std::size_t>((done + i) * bits / 8));
      state_->fill(place, tensor.step, piece, target, into);
      i += piece;
    }
    for (std::size_t axis = outer; axis-- > 0;) {
      if (++at[axis] < box.start[axis] + box.extent[axis]) break;
      at[axis] = box.start[axis];
    }
  }
  return out;
}

Bytes Model::logical_region(std::string_view name, const Box& box, Dtype dtype) const {
  const int key = mapping().key_id(name);
  if (key < 0) throw Failure("TensorNotFound", "'" + std::string(name) + "' is not in the checkpoint");
  const Shape& shape = state_->logical(key).shape;
  if (box.start.size() != shape.size() || box.extent.size() != shape.size() || shape.size() > 8)
    throw Failure("SliceOutOfRange", "box of another rank");
  Coord at;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (box.extent[axis] > shape[axis] || box.start[axis] > shape[axis] - box.extent[axis])
      throw Failure("SliceOutOfRange", "box outside of '" + std::string(name) + "'");
    at[axis] = box.start[axis];
  }
  const unsigned width = bits_of(dtype) / 8;
  Bytes out;
  for (std::uint64_t left = count_of(box.extent); left > 0; --left) {
    const std::uint64_t code = state_->value(key, at, dtype);
    for (unsigned b = 0; b < width; ++b) out.push_back(static_cast<std::byte>(code >> (8 * b)));
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (++at[axis] < box.start[axis] + box.extent[axis]) break;
      at[axis] = box.start[axis];
    }
  }
  return out;
}

void Model::for_each_window(int native, std::uint64_t bytes_max,
                            const std::function<void(const Box&, const Bytes&)>& visit) const {
  const Shape& shape = mapping().native_tensors().at(static_cast<std::size_t>(native)).shape;
  if (count_of(shape) == 0) return;
  const std::uint64_t bits = bits_of(native_dtype(native));
  // The outermost axis at which a slab of one fits: axes in front go one by one, this one in steps, those behind whole.
  std::size_t cut = 0;
  std::uint64_t slab = count_of(shape);
  while (cut + 1 < shape.size()) {
    if (slab / shape[cut] * bits / 8 <= bytes_max) break;
    slab /= shape[cut++];
  }
  if (shape.empty()) return visit(whole(shape), region(native, whole(shape)));
  const std::uint64_t one = slab / shape[cut];
  const std::uint64_t step =
      cut + 1 == shape.size() ? shape[cut] : std::max<std::uint64_t>(1, bytes_max * 8 / (one * bits));
  Box box = whole(shape);
  for (std::size_t axis = 0; axis < cut; ++axis) box.extent[axis] = 1;
  for (bool is_left = true; is_left;) {
    for (box.start[cut] = 0; box.start[cut] < shape[cut]; box.start[cut] += step) {
      box.extent[cut] = std::min(step, shape[cut] - box.start[cut]);
      visit(box, region(native, box));
    }
    is_left = false;
    for (std::size_t axis = cut; axis-- > 0;) {
      if (++box.start[axis] < shape[axis]) {
        is_left = true;
        break;
      }
      box.start[axis] = 0;
    }
  }
}

Bytes export_region(const Model& model, const Mapping& target, int key, const Box& box, Dtype dtype) {
  const Key& stored = target.keys().at(static_cast<std::size_t>(key));
  const std::size_t rank = stored.shape.size();
  if (box.start.size() != rank || box.extent.size() != rank) throw Failure("SliceOutOfRange", "box of another rank");
  if (!target.fate(key).home) throw Failure("TENSOR_NOT_MAPPED", "'" + stored.name + "' has no native place");
  Coord at;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (box.extent[axis] > stored.shape[axis] || box.start[axis] > stored.shape[axis] - box.extent[axis])
      throw Failure("SliceOutOfRange", "box outside of '" + stored.name + "'");
    at[axis] = box.start[axis];
  }
  const unsigned width = bits_of(dtype) / 8;
  Bytes out(static_cast<std::size_t>(count_of(box.extent) * width));
  int native = -1, native_in_model = -1;
  for (std::uint64_t i = 0; i < count_of(box.extent); ++i) {
    const Home home = target.home(key, at);
    if (home.native != native) {
      native = home.native;
      native_in_model = model.native_or_fail(target.native_tensors().at(static_cast<std::size_t>(native)).name);
    }
    put(out, i, width, model.element(native_in_model, home.at, dtype));
    for (std::size_t axis = rank; axis-- > 0;) {
      if (++at[axis] < box.start[axis] + box.extent[axis]) break;
      at[axis] = box.start[axis];
    }
  }
  return out;
}

bool Model::tied_copies_agree() const {
  for (std::size_t k = 0; k < mapping().keys().size(); ++k) {
    const Fate& fate = mapping().fate(static_cast<int>(k));
    if (fate.use != Use::alias) continue;
    const TensorEntry& copy = *state_->logical(static_cast<int>(k)).weight;
    const TensorEntry& primary =
        *state_->logical(mapping().native_tensors()[static_cast<std::size_t>(fate.native)].keys[0]).weight;
    const std::uint64_t bytes = copy.end - copy.begin;
    if (copy.dtype != primary.dtype || bytes != primary.end - primary.begin) return false;
    Bytes a(1 << 20), b(1 << 20);
    for (std::uint64_t offset = 0; offset < bytes; offset += a.size()) {
      const std::size_t length = static_cast<std::size_t>(std::min<std::uint64_t>(a.size(), bytes - offset));
      checkpoint().read_bytes(copy, offset, std::span(a).first(length));
      checkpoint().read_bytes(primary, offset, std::span(b).first(length));
      if (!std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(length), b.begin())) return false;
    }
  }
  return true;
}

}  // namespace weightproof::reference
