// SPDX-License-Identifier: Apache-2.0
#include "loader/codec/codec.hpp"

#include <algorithm>
#include <array>

#include "loader/codec/families_internal.hpp"

namespace weightproof::codec {
namespace {

constexpr std::array<std::string_view, 19> k_schemes = {
    "fp8_bare",     "fp8_tensor", "fp8_channel",    "fp8_block", "mxfp8",   "mxfp4_blocks",
    "mxfp4_packed", "f4",         "nvfp4_modelopt", "nvfp4_ct",  "ct_pack", "int8",
    "modelopt_w4",  "awq",        "gptq",           "bnb4",      "bnb8",    "torchao_int8", "expert_scale"};

bool is_one_of(std::string_view id, std::initializer_list<std::string_view> ids) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

std::span<const std::string_view> scheme_ids() { return k_schemes; }

std::string_view to_string(Role role) {
  switch (role) {
    case Role::weight:
      return "weight";
    case Role::scale:
      return "scale";
    case Role::global_scale:
      return "global_scale";
    case Role::zero_point:
      return "zero_point";
    case Role::group_index:
      return "group_index";
    case Role::quant_map:
      return "quant_map";
    case Role::nested_absmax:
      return "nested_absmax";
    case Role::nested_quant_map:
      return "nested_quant_map";
    case Role::quant_state:
      return "quant_state";
    case Role::weight_shape:
      return "weight_shape";
    case Role::weight_format:
      return "weight_format";
    case Role::unused:
      return "unused";
  }
  return "";
}

std::uint64_t component_bytes(const Component& component) {
  const auto bytes = byte_count(component.shape, component.dtype);
  if (!bytes)
    throw Error(ErrorCode::validation_overflow, component.key + " has no representable size",
                {.keys = {component.key}});
  return *bytes;
}

Codec::Codec(Scheme scheme, std::vector<Component> components, Shape natural_shape, Extents granule,
             Exactness exactness)
    : scheme_(std::move(scheme)),
      components_(std::move(components)),
      natural_shape_(natural_shape),
      granule_(granule),
      exactness_(exactness) {}

std::size_t Codec::component_of(Role role) const {
  for (std::size_t i = 0; i < components_.size(); ++i)
    if (components_[i].role == role) return i;
  return SIZE_MAX;
}

Box Codec::align(const Box& box) const {
  Box aligned = box;
  for (unsigned axis = 0; axis < natural_shape_.rank(); ++axis) {
    if (box.length[axis] == 0) continue;
    const std::uint64_t step = granule_[axis];
    const std::uint64_t begin = box.start[axis] / step * step;
    const std::uint64_t end = std::min(natural_shape_[axis], ceil_div(box.start[axis] + box.length[axis], step) * step);
    aligned.start[axis] = begin;
    aligned.length[axis] = end - begin;
  }
  return aligned;
}

bool Codec::encode(const Box&, std::span<const std::span<const std::byte>>, std::span<const float>, std::byte*) const {
  return false;
}

std::uint64_t target_bytes(DType target) {
  switch (target) {
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::f32:
      return 4;
    default:
      throw Error(ErrorCode::dtype_unsupported,
                  "a quantized tensor decodes to BF16, F16 or F32, not " + std::string(name_of(target)),
                  {.expected = "BF16, F16 or F32", .actual = std::string(name_of(target))});
  }
}

const Component* find(std::span<const Component> components, Role role) {
  for (const Component& c : components)
    if (c.role == role) return &c;
  return nullptr;
}

const Component& require(std::span<const Component> components, Role role) {
  if (const Component* c = find(components, role)) return *c;
  const Component* weight = find(components, Role::weight);
  const std::string key = weight != nullptr    ? weight->key
                          : components.empty() ? std::string("?")
                                               : components.front().key;
  const ErrorCode code =
      role == Role::scale || role == Role::global_scale ? ErrorCode::scale_missing : ErrorCode::quant_config_mismatch;
  throw Error(
      code, key + " is quantized but its " + std::string(to_string(role)) + " tensor is missing",
      {.keys = {key},
       .expected = std::string(to_string(role)),
       .actual = "absent",
       .hint =
           "the weight cannot be decoded without it; look for it in the other shards or export the checkpoint again"});
}

void require_rank(const Component& component, unsigned least, unsigned most) {
  const unsigned rank = component.shape.rank();
  if (rank >= least && rank <= most) return;
  throw Error(ErrorCode::quant_unsupported, component.key + " has rank " + std::to_string(rank),
              {.keys = {component.key},
               .expected = least == most ? "rank " + std::to_string(least)
                                         : "rank " + std::to_string(least) + " to " + std::to_string(most),
               .actual = to_string(component.shape)});
}

void throw_wrong_dtype(const Component& component, const std::string& allowed) {
  throw Error(ErrorCode::quant_config_mismatch,
              component.key + " is stored as " + std::string(name_of(component.dtype)),
              {.keys = {component.key}, .expected = allowed, .actual = std::string(name_of(component.dtype))});
}

void require_scale_dtype(const Component& scale) {
  if (scale.dtype == DType::f32 || scale.dtype == DType::bf16 || scale.dtype == DType::f16 ||
      scale.dtype == DType::f8_e8m0 || scale.dtype == DType::u8 || scale.dtype == DType::f8_e4m3)
    return;
  throw_wrong_dtype(scale, "F32, BF16, F16, F8_E8M0, F8_E4M3 or U8");
}

void throw_scale_shape(const Component& scale, const Component& weight, const std::string& expected) {
  throw Error(ErrorCode::scale_shape, scale.key + " does not fit " + weight.key + " " + to_string(weight.shape),
              {.keys = {weight.key, scale.key}, .expected = expected, .actual = to_string(scale.shape)});
}

ScaleGrid scale_grid(const Scheme& scheme, const Component& weight, const Component& scale) {
  const Shape& w = weight.shape;
  const std::uint64_t leads = w.rank() == 3 ? w[0] : 1;
  const std::uint64_t rows = w.rank() >= 2 ? w[w.rank() - 2] : 1;
  const std::uint64_t cols = w.rank() >= 1 ? w[w.rank() - 1] : 1;
  Shape s = scale.shape;
  const std::uint64_t count = element_count(s).value_or(0);
  if (count == 1) return {};
  if (scheme.id ==
      "fp8_tensor") {  // [E], [E,1], [E,1,1]: one per expert; [2] on a matrix: gate and up, rows cut in halves
    if (w.rank() == 3 && count == leads && s[0] == leads) return {.leads = leads};
    if (w.rank() == 2 && s.rank() == 1 && count == 2 && rows % 2 == 0) return {.grid_rows = 2, .block_rows = rows / 2};
    throw_scale_shape(scale, weight, w.rank() == 3 ? "[1] or one per expert" : "[1]");
  }
  if (scheme.id == "fp8_channel" || scheme.id == "int8") {
    if (w.rank() == 3) {
      if (count == leads * rows && s[0] == leads) return {.leads = leads, .grid_rows = rows, .block_rows = 1};
      throw_scale_shape(scale, weight, to_string(Shape{leads, rows, 1}));
    }
    if (count == rows && s[0] == rows) return {.grid_rows = rows, .block_rows = 1};
    throw_scale_shape(scale, weight, to_string(Shape{rows, 1}));
  }
  const std::uint64_t block_rows = scheme.id == "fp8_block" ? scheme.block_rows : 1;
  const std::uint64_t block_cols = scheme.id == "fp8_block" ? scheme.block_cols
                                   : scheme.group_size == 0 ? cols
                                                            : scheme.group_size;
  if (block_rows == 0 || block_cols == 0) throw_scale_shape(scale, weight, "a block size above 0");
  const std::uint64_t need_rows = ceil_div(rows, block_rows);
  const std::uint64_t need_cols = ceil_div(cols, block_cols);
  const std::string expected =
      to_string(w.rank() == 3 ? Shape{leads, need_rows, need_cols} : Shape{need_rows, need_cols}) + " for blocks of " +
      std::to_string(block_rows) + "x" + std::to_string(block_cols);
  if (s.rank() != std::max(2u, w.rank())) throw_scale_shape(scale, weight, expected);
  if (w.rank() == 3 && s[0] != leads) throw_scale_shape(scale, weight, expected);
  const std::uint64_t grid_rows = s[s.rank() - 2];
  const std::uint64_t grid_cols = s[s.rank() - 1];
  if (grid_rows < need_rows || grid_cols < need_cols) throw_scale_shape(scale, weight, expected);
  return {.leads = leads,
          .grid_rows = grid_rows,
          .grid_cols = grid_cols,
          .block_rows = block_rows,
          .block_cols = block_cols};
}

std::vector<Probe> probes_of(const Scheme& scheme, std::span<const Component> components) {
  std::vector<Probe> probes;
  const auto add = [&](Role role, std::uint64_t cap, const char* why) {
    for (std::size_t i = 0; i < components.size(); ++i)
      if (components[i].role == role) probes.push_back({static_cast<std::uint32_t>(i), cap, why});
  };
  if (scheme.id == "bnb4") add(Role::quant_state, 64 * 1024, "shape, block size and nesting of the weight");
  if (scheme.id == "bnb8") add(Role::weight_format, 16, "layout of the int8 codes");
  if (scheme.id == "ct_pack") add(Role::weight_shape, 64, "true shape of the packed weight");
  if (scheme.id == "ct_pack" || scheme.id == "gptq") add(Role::group_index, 16u << 20, "group of each input column");
  // A symmetric file may say one version and hold the other's zero points: all of them tell.
  if (scheme.id == "gptq" && scheme.is_symmetric) add(Role::zero_point, 64u << 20, "version of the zero points");
  return probes;
}

std::unique_ptr<const Codec> make_codec(const Scheme& scheme, std::vector<Component> components,
                                        std::span<const std::vector<std::byte>> probe_bytes) {
  if (find(components, Role::weight) == nullptr)
    throw Error(
        ErrorCode::scale_orphan, "scales without their weight",
        {.keys = components.empty() ? std::vector<std::string>{} : std::vector<std::string>{components.front().key}});
  const std::vector<Probe> probes = probes_of(scheme, components);
  if (probes.size() != probe_bytes.size())
    throw Error(ErrorCode::internal, "scheme " + scheme.id + " needs " + std::to_string(probes.size()) +
                                         " probes, got " + std::to_string(probe_bytes.size()));
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const Component& c = components[probes[i].component];
    const std::uint64_t bytes = component_bytes(c);
    if (bytes > probes[i].bytes_max)
      throw Error(ErrorCode::limit_exceeded, c.key + " is too large to be what its name says",
                  {.keys = {c.key},
                   .expected = "at most " + std::to_string(probes[i].bytes_max) + " bytes",
                   .actual = std::to_string(bytes)});
    if (probe_bytes[i].size() != bytes)
      throw Error(ErrorCode::internal, "probe of " + c.key + " holds " + std::to_string(probe_bytes[i].size()) +
                                           " of " + std::to_string(bytes) + " bytes");
  }
  const std::string_view id = scheme.id;
  if (is_one_of(id, {"fp8_bare", "fp8_tensor", "fp8_channel", "fp8_block", "mxfp8"}))
    return make_byte_codec(scheme, std::move(components));
  if (id == "int8" && find(components, Role::zero_point) == nullptr)
    return make_byte_codec(scheme, std::move(components));
  if (is_one_of(id, {"mxfp4_blocks", "mxfp4_packed", "f4", "nvfp4_modelopt", "nvfp4_ct"}))
    return make_fp4_codec(scheme, std::move(components));
  if (is_one_of(id, {"ct_pack", "int8", "modelopt_w4", "torchao_int8"}))
    return make_row_packed_codec(scheme, std::move(components), probe_bytes);
  if (is_one_of(id, {"awq", "gptq"})) return make_column_packed_codec(scheme, std::move(components), probe_bytes);
  if (is_one_of(id, {"bnb4", "bnb8"})) return make_bitsandbytes_codec(scheme, std::move(components), probe_bytes);
  if (id == "expert_scale") return make_expert_scale_codec(scheme, std::move(components));
  const Component& weight = require(components, Role::weight);
  throw Error(ErrorCode::quant_unsupported, "scheme " + scheme.id + " cannot be decoded",
              {.keys = {weight.key}, .actual = scheme.id, .hint = "convert it with the tool that wrote it"});
}

}  // namespace weightproof::codec
