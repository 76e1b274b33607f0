// SPDX-License-Identifier: Apache-2.0
// bitsandbytes. Four-bit codes index a stored map over blocks of the FLATTENED tensor, high nibble first; absmax may
// itself be quantized. Int8 rows have one scale each and a constant factor.
//
//   bnb4: value = RN( map[code] *f32 absmax[k / blocksize] ),  nested: absmax = nested_map[u8] *f32 nested_absmax[b /
//   nested] +f32 offset bnb8: value = RN( (F32(q) *f32 SCB[row]) *f32 (1/127) )
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "loader/codec/families_internal.hpp"
#include "loader/codec/kernels.hpp"
#include "loader/core/config.hpp"

namespace weightproof::codec {
namespace {

constexpr std::uint32_t k_one_over_127 = 0x3c010204u;

struct Nested {
  std::uint64_t block = 0;
  float offset = 0;
};

class Bnb4Codec final : public Codec {
 public:
  Bnb4Codec(Scheme scheme, std::vector<Component> components, Shape shape, std::uint64_t block, Nested nested)
      : Codec(std::move(scheme), std::move(components), shape, granule_of(shape), Exactness::correctly_rounded),
        block_(block),
        nested_(nested),
        weight_(component_of(Role::weight)),
        absmax_(component_of(Role::scale)),
        map_(component_of(Role::quant_map)),
        nested_absmax_(component_of(Role::nested_absmax)),
        nested_map_(component_of(Role::nested_quant_map)) {}

  void byte_runs(const Box& aligned, std::vector<ByteRun>& runs) const override {
    if (aligned.is_empty()) return;
    const Ranges box = ranges_of(aligned);
    for_each_row(box, [&](std::uint64_t begin, std::uint64_t end, std::uint64_t) {
      const std::uint64_t offset = begin / 2;
      const std::uint64_t bytes = ceil_div(end, 2) - offset;
      if (!runs.empty() && runs.back().component == weight_ && runs.back().offset + runs.back().bytes == offset)
        runs.back().bytes += bytes;
      else
        runs.push_back({static_cast<std::uint32_t>(weight_), offset, bytes});
    });
    const Range blocks = blocks_of(box);
    const std::uint64_t width = nested_.block == 0 ? 4 : 1;
    runs.push_back({static_cast<std::uint32_t>(absmax_), blocks.begin * width, blocks.size() * width});
    runs.push_back({static_cast<std::uint32_t>(map_), 0, 64});
    if (nested_.block == 0) return;
    const Range outer = nested_blocks_of(blocks);
    runs.push_back({static_cast<std::uint32_t>(nested_absmax_), outer.begin * 4, outer.size() * 4});
    runs.push_back({static_cast<std::uint32_t>(nested_map_), 0, 1024});
  }

  void decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
              std::byte* out) const override {
    const std::uint64_t element = target_bytes(target);
    if (aligned.is_empty()) return;
    const Ranges box = ranges_of(aligned);
    const Range blocks = blocks_of(box);
    const Range outer = nested_.block == 0 ? Range{} : nested_blocks_of(blocks);
    std::array<float, 16> map;
    for (unsigned code = 0; code < 16; ++code) map[code] = scale_at(DType::f32, parts[map_].data(), code);
    const std::byte* bytes = parts[weight_].data();
    std::array<std::uint32_t, 256> values;
    for_each_row(box, [&](std::uint64_t begin, std::uint64_t end, std::uint64_t out_index) {
      std::uint64_t block = UINT64_MAX;
      float scale = 0;
      for (std::uint64_t done = 0; done < end - begin;) {
        const std::uint64_t now = std::min<std::uint64_t>(values.size(), end - begin - done);
        for (std::uint64_t i = 0; i < now; ++i) {
          const std::uint64_t k = begin + done + i;
          if (k / block_ != block) {
            block = k / block_;
            scale = absmax_of(parts, block, blocks, outer);
          }
          const auto byte = std::to_integer<std::uint8_t>(bytes[k / 2 - begin / 2]);
          values[i] = bits_of_float(multiply_f32(map[k % 2 == 0 ? byte >> 4 : byte & 15], scale));
        }
        kernels().round(values.data(), now, target, out + (out_index + done) * element);
        done += now;
      }
      bytes += ceil_div(end, 2) - begin / 2;
    });
  }

 private:
  /// Calls f(first flat element, past the last, index of the first in the dense box) for each row of the box.
  template <typename F>
  void for_each_row(const Ranges& box, F&& f) const {
    const Shape& shape = natural_shape();
    const std::uint64_t rows = shape.rank() >= 2 ? shape[shape.rank() - 2] : 1;
    const std::uint64_t cols = shape[shape.rank() - 1];
    std::uint64_t out_index = 0;
    for (std::uint64_t lead = box.lead.begin; lead < box.lead.end; ++lead)
      for (std::uint64_t row = box.rows.begin; row < box.rows.end; ++row) {
        const std::uint64_t base = (lead * rows + row) * cols;
        f(base + box.cols.begin, base + box.cols.end, out_index);
        out_index += box.cols.size();
      }
  }

  Range blocks_of(const Ranges& box) const {
    const Shape& shape = natural_shape();
    const std::uint64_t rows = shape.rank() >= 2 ? shape[shape.rank() - 2] : 1;
    const std::uint64_t cols = shape[shape.rank() - 1];
    const std::uint64_t first = (box.lead.begin * rows + box.rows.begin) * cols + box.cols.begin;
    const std::uint64_t last = ((box.lead.end - 1) * rows + box.rows.end - 1) * cols + box.cols.end - 1;
    return {first / block_, last / block_ + 1};
  }
  Range nested_blocks_of(Range blocks) const {
    return {blocks.begin / nested_.block, (blocks.end - 1) / nested_.block + 1};
  }

  float absmax_of(std::span<const std::span<const std::byte>> parts, std::uint64_t block, Range blocks,
                  Range outer) const {
    if (nested_.block == 0) return scale_at(DType::f32, parts[absmax_].data(), block - blocks.begin);
    const auto code = std::to_integer<std::uint8_t>(parts[absmax_][block - blocks.begin]);
    const float scale = scale_at(DType::f32, parts[nested_absmax_].data(), block / nested_.block - outer.begin);
    const float product = multiply_f32(scale_at(DType::f32, parts[nested_map_].data(), code), scale);
    return product + nested_.offset;
  }

  static Extents granule_of(const Shape& shape) {
    Extents granule;
    for (unsigned axis = 0; axis < shape.rank(); ++axis) granule.push_back(1);
    const unsigned last = shape.rank() - 1;
    if (shape[last] % 2 == 0) {
      granule[last] = 2;
    } else {  // rows end inside a byte: whole rows, starting at even ones
      granule[last] = std::max<std::uint64_t>(shape[last], 1);
      if (last >= 1) granule[last - 1] = 2;
      if (last >= 2) granule[0] = shape[0] == 0 ? 1 : shape[0];
    }
    return granule;
  }

  std::uint64_t block_;
  Nested nested_;
  std::size_t weight_, absmax_, map_, nested_absmax_, nested_map_;
};

class Bnb8Codec final : public Codec {
 public:
  Bnb8Codec(Scheme scheme, std::vector<Component> components, Shape shape)
      : Codec(std::move(scheme), std::move(components), shape, Extents{1, 1}, Exactness::correctly_rounded),
        weight_(component_of(Role::weight)),
        scale_(component_of(Role::scale)) {}

  void byte_runs(const Box& aligned, std::vector<ByteRun>& runs) const override {
    if (aligned.is_empty()) return;
    const Ranges box = ranges_of(aligned);
    append_runs(static_cast<std::uint32_t>(weight_), {natural_shape()[0], natural_shape()[1]}, box.lead, box.rows,
                box.cols, runs);
    runs.push_back({static_cast<std::uint32_t>(scale_), box.rows.begin * 4, box.rows.size() * 4});
  }

  void decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
              std::byte* out) const override {
    const std::uint64_t element = target_bytes(target);
    if (aligned.is_empty()) return;
    const Ranges box = ranges_of(aligned);
    const std::uint64_t cols = box.cols.size();
    std::array<std::uint32_t, 256> values;
    for (std::uint64_t row = 0; row < box.rows.size(); ++row) {
      const float scale = scale_at(DType::f32, parts[scale_].data(), row);
      for (std::uint64_t done = 0; done < cols;) {
        const std::uint64_t now = std::min<std::uint64_t>(values.size(), cols - done);
        for (std::uint64_t i = 0; i < now; ++i) {
          const auto q = static_cast<std::int8_t>(std::to_integer<std::uint8_t>(parts[weight_][row * cols + done + i]));
          values[i] =
              bits_of_float(multiply_f32(multiply_f32(static_cast<float>(q), scale), float_of_bits(k_one_over_127)));
        }
        kernels().round(values.data(), now, target, out + (row * cols + done) * element);
        done += now;
      }
    }
  }

 private:
  std::size_t weight_, scale_;
};

std::uint64_t positive(const ConfigValue& state, std::string_view name, const Component& component) {
  const ConfigValue* value = state.find(name);
  const auto number = value == nullptr ? std::nullopt : value->as_integer();
  if (!number || *number <= 0)
    throw Error(ErrorCode::quant_config_mismatch,
                component.key + ": " + std::string(name) + " is not a positive number",
                {.keys = {component.key},
                 .expected = "a positive integer",
                 .actual = value == nullptr ? "absent" : value->dump()});
  return static_cast<std::uint64_t>(*number);
}

void require_elements(const Component& component, const Component& weight, std::uint64_t count) {
  if (element_count(component.shape) != count) throw_scale_shape(component, weight, to_string(Shape{count}));
}

}  // namespace

std::unique_ptr<const Codec> make_bitsandbytes_codec(const Scheme& scheme, std::vector<Component> components,
                                                     std::span<const std::vector<std::byte>> probe_bytes) {
  const Component weight = require(components, Role::weight);
  const Component scale = require(components, Role::scale);
  if (scheme.id == "bnb8") {
    if (weight.dtype != DType::i8) throw_wrong_dtype(weight, "I8");
    require_rank(weight, 2, 2);
    if (scale.dtype != DType::f32) throw_wrong_dtype(scale, "F32");
    require_elements(scale, weight, weight.shape[0]);
    if (!probe_bytes.empty() && !probe_bytes[0].empty() && std::to_integer<int>(probe_bytes[0][0]) != 0)
      throw Error(ErrorCode::quant_unsupported, weight.key + " is stored in a hardware layout",
                  {.keys = {weight.key},
                   .expected = "weight_format 0 (row)",
                   .actual = std::to_string(std::to_integer<int>(probe_bytes[0][0])),
                   .hint = "save the model again with row layout"});
    return std::make_unique<Bnb8Codec>(scheme, std::move(components), weight.shape);
  }
  const Component state_component = require(components, Role::quant_state);
  const std::string_view text(reinterpret_cast<const char*>(probe_bytes[0].data()), probe_bytes[0].size());
  const ConfigValue state = ConfigValue::parse(text, state_component.key);
  const std::uint64_t block = positive(state, "blocksize", state_component);
  Shape natural;
  const ConfigValue* shape = state.find("shape");
  if (shape == nullptr || !shape->is_array() || shape->items().empty() || shape->items().size() > 3)
    throw Error(ErrorCode::quant_config_mismatch, state_component.key + ": shape is not a list of one to three numbers",
                {.keys = {state_component.key}, .actual = shape == nullptr ? "absent" : shape->dump()});
  for (const ConfigValue& extent : shape->items()) {
    const auto number = extent.as_integer();
    if (!number || *number < 0)
      throw Error(ErrorCode::quant_config_mismatch, state_component.key + ": shape has an entry that is no extent",
                  {.keys = {state_component.key}, .actual = extent.dump()});
    natural.push_back(static_cast<std::uint64_t>(*number));
  }
  const auto elements = element_count(natural);
  if (!elements || component_bytes(weight) != ceil_div(*elements, 2))
    throw Error(ErrorCode::quant_config_mismatch, weight.key + " does not hold as many codes as its state says",
                {.keys = {weight.key, state_component.key},
                 .expected = elements ? std::to_string(ceil_div(*elements, 2)) + " bytes" : "a size",
                 .actual = std::to_string(component_bytes(weight))});
  const Component map = require(components, Role::quant_map);
  if (map.dtype != DType::f32) throw_wrong_dtype(map, "F32");
  require_elements(map, weight, 16);
  const std::uint64_t blocks = ceil_div(*elements, block);
  require_elements(scale, weight, blocks);
  Nested nested;
  if (find(components, Role::nested_absmax) != nullptr || scale.dtype == DType::u8) {
    const Component nested_absmax = require(components, Role::nested_absmax);
    const Component nested_map = require(components, Role::nested_quant_map);
    if (scale.dtype != DType::u8) throw_wrong_dtype(scale, "U8 (its own absmax is quantized)");
    if (nested_absmax.dtype != DType::f32) throw_wrong_dtype(nested_absmax, "F32");
    if (nested_map.dtype != DType::f32) throw_wrong_dtype(nested_map, "F32");
    nested.block = positive(state, "nested_blocksize", state_component);
    require_elements(nested_map, weight, 256);
    require_elements(nested_absmax, weight, ceil_div(blocks, nested.block));
    const ConfigValue* offset = state.find("nested_offset");
    const auto number = offset == nullptr ? std::nullopt : offset->as_number();
    if (!number || !std::isfinite(*number) ||
        std::abs(*number) > static_cast<double>(std::numeric_limits<float>::max()))
      throw Error(ErrorCode::quant_config_mismatch, state_component.key + ": nested_offset is not a number",
                  {.keys = {state_component.key}, .actual = offset == nullptr ? "absent" : offset->dump()});
    nested.offset = static_cast<float>(*number);
  } else if (scale.dtype != DType::f32) {
    throw_wrong_dtype(scale, "F32");
  }
  return std::make_unique<Bnb4Codec>(scheme, std::move(components), natural, block, nested);
}

}  // namespace weightproof::codec
