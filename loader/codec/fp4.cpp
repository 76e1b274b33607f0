// SPDX-License-Identifier: Apache-2.0
// Four-bit floats (E2M1), low nibble first: MXFP4 in the blocks-and-scales and in the packed spelling, plain F4, and
// NVFP4 with its two levels of scales. The second level multiplies (ModelOpt) or divides (compressed-tensors): the
// scheme says which, never a name.
#include <array>

#include "loader/codec/families_internal.hpp"
#include "loader/codec/kernels.hpp"

namespace weightproof::codec {
namespace {

enum class Kind : std::uint8_t { mx, plain, nv_multiply, nv_divide };

class NibbleCodec final : public Codec {
 public:
  NibbleCodec(Scheme scheme, std::vector<Component> components, Shape shape, Kind kind, std::uint64_t group,
              ScaleGrid grid, bool global_per_lead)
      : Codec(std::move(scheme), std::move(components), shape, granule_of(shape, group),
              kind == Kind::plain ? Exactness::exact : Exactness::correctly_rounded),
        kind_(kind),
        group_(group),
        grid_(grid),
        global_per_lead_(global_per_lead),
        weight_(component_of(Role::weight)),
        scale_(component_of(Role::scale)),
        global_(component_of(Role::global_scale)) {}

  void byte_runs(const Box& aligned, std::vector<ByteRun>& runs) const override {
    if (aligned.is_empty()) return;
    const Ranges box = ranges_of(aligned);
    const Shape& shape = natural_shape();
    append_runs(static_cast<std::uint32_t>(weight_), {shape[shape.rank() - 2], shape[shape.rank() - 1] / 2}, box.lead,
                box.rows, {box.cols.begin / 2, box.cols.end / 2}, runs);
    if (scale_ != SIZE_MAX) grid_.append(static_cast<std::uint32_t>(scale_), 1, box, runs);
    if (global_ != SIZE_MAX) {
      const Range leads = global_per_lead_ ? box.lead : Range{0, 1};
      runs.push_back({static_cast<std::uint32_t>(global_), leads.begin * 4, leads.size() * 4});
    }
  }

  void decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
              std::byte* out) const override {
    const std::uint64_t element = target_bytes(target);
    if (aligned.is_empty()) return;
    const Ranges box = ranges_of(aligned);
    const auto* packed = reinterpret_cast<const std::uint8_t*>(parts[weight_].data());
    const std::uint64_t cols = box.cols.size();
    const std::uint64_t groups = cols / group_;
    const Kernels& k = kernels();
    for (std::uint64_t lead = box.lead.begin; lead < box.lead.end; ++lead) {
      const float global = global_ == SIZE_MAX ? 1.0f
                                               : scale_at(DType::f32, parts[global_].data(),
                                                          global_per_lead_ ? lead - box.lead.begin : 0);
      for (std::uint64_t row = box.rows.begin; row < box.rows.end; ++row) {
        const std::uint64_t index = (lead - box.lead.begin) * box.rows.size() + row - box.rows.begin;
        const std::uint8_t* codes = packed + index * (cols / 2);
        std::byte* target_row = out + index * cols * element;
        if (kind_ == Kind::plain) {
          decode_plain_row(codes, cols, target, target_row, element);
          continue;
        }
        const auto* scales = reinterpret_cast<const std::uint8_t*>(parts[scale_].data()) +
                             grid_.window_index(box, lead, row, box.cols.begin);
        if (kind_ == Kind::mx)
          k.mxfp4(codes, groups, scales, target, target_row);
        else
          decode_nv_row(k, codes, groups, scales, global, target, target_row, element);
      }
    }
  }

  /// NaN has no code: where the scale is not NaN itself, a NaN is refused.
  bool encode(const Box& aligned, std::span<const std::span<const std::byte>> parts, std::span<const float> values,
              std::byte* weight_out) const override {
    if (aligned.is_empty()) return true;
    const Ranges box = ranges_of(aligned);
    std::size_t i = 0;
    for (std::uint64_t lead = box.lead.begin; lead < box.lead.end; ++lead) {
      const float global = global_ == SIZE_MAX ? 1.0f
                                               : scale_at(DType::f32, parts[global_].data(),
                                                          global_per_lead_ ? lead - box.lead.begin : 0);
      for (std::uint64_t row = box.rows.begin; row < box.rows.end; ++row)
        for (std::uint64_t col = box.cols.begin; col < box.cols.end; ++col, ++i) {
          float scale = 1.0f;
          if (kind_ != Kind::plain) {
            const auto code = std::to_integer<std::uint8_t>(parts[scale_][grid_.window_index(box, lead, row, col)]);
            const float first = float_of_bits(kind_ == Kind::mx ? e8m0_to_f32_bits(code) : e4m3fn_to_f32_bits(code));
            scale = kind_ == Kind::mx            ? first
                    : kind_ == Kind::nv_multiply ? multiply_f32(first, global)
                                                 : first / global;
          }
          const std::uint32_t bits = bits_of_float(values[i]);
          if (is_nan_bits(bits) && !is_nan_bits(bits_of_float(scale)))
            throw Error(ErrorCode::nan_not_encodable, components()[weight_].key + " holds NaN, which E2M1 cannot",
                        {.keys = {components()[weight_].key}, .expected = "numbers", .actual = "NaN"});
          const std::uint32_t ratio = bits_of_float(values[i] / scale);
          const std::uint8_t code = is_nan_bits(ratio) ? std::uint8_t{0} : f32_bits_to_e2m1(ratio);
          std::byte& byte = weight_out[i / 2];
          byte = i % 2 == 0 ? static_cast<std::byte>(code) : byte | static_cast<std::byte>(code << 4);
        }
    }
    return true;
  }

 private:
  static void decode_plain_row(const std::uint8_t* codes, std::uint64_t cols, DType target, std::byte* out,
                               std::uint64_t element) {
    std::array<std::uint32_t, 256> values;
    for (std::uint64_t done = 0; done < cols;) {
      const std::uint64_t now = std::min<std::uint64_t>(values.size(), cols - done);
      for (std::uint64_t i = 0; i < now; ++i)
        values[i] = e2m1_to_f32_bits(
            static_cast<std::uint8_t>((static_cast<unsigned>(codes[(done + i) / 2]) >> (4 * (i % 2))) & 15u));
      kernels().round(values.data(), now, target, out + done * element);
      done += now;
    }
  }

  void decode_nv_row(const Kernels& k, const std::uint8_t* codes, std::uint64_t groups, const std::uint8_t* scales,
                     float global, DType target, std::byte* out, std::uint64_t element) const {
    std::array<float, 256> combined;
    for (std::uint64_t done = 0; done < groups;) {
      const std::uint64_t now = std::min<std::uint64_t>(groups - done, combined.size());
      for (std::uint64_t g = 0; g < now; ++g) {
        const float s = float_of_bits(e4m3fn_to_f32_bits(scales[done + g]));
        combined[g] = kind_ == Kind::nv_multiply ? multiply_f32(s, global) : s / global;
      }
      k.nvfp4(codes + done * 8, now, combined.data(), target, out + done * 16 * element);
      done += now;
    }
  }

  static Extents granule_of(const Shape& shape, std::uint64_t group) {
    Extents granule;
    for (unsigned axis = 0; axis + 1 < shape.rank(); ++axis) granule.push_back(1);
    granule.push_back(group);
    return granule;
  }

  Kind kind_;
  std::uint64_t group_;
  ScaleGrid grid_;
  bool global_per_lead_;
  std::size_t weight_, scale_, global_;
};

Shape doubled(const Shape& packed) {
  Shape shape = packed;
  shape[shape.rank() - 1] *= 2;
  return shape;
}

}  // namespace

std::unique_ptr<const Codec> make_fp4_codec(const Scheme& scheme, std::vector<Component> components) {
  const Component weight = require(components, Role::weight);
  if (scheme.id == "f4") {
    if (weight.dtype != DType::f4) throw_wrong_dtype(weight, "F4");
    require_rank(weight, 2, 3);
    if (weight.shape[weight.shape.rank() - 1] % 2 != 0)
      throw Error(ErrorCode::quant_unsupported, weight.key + " has rows that end inside a byte",
                  {.keys = {weight.key}, .expected = "an even last extent", .actual = to_string(weight.shape)});
    return std::make_unique<NibbleCodec>(scheme, std::move(components), weight.shape, Kind::plain, 2, ScaleGrid{},
                                         false);
  }
  const Component scale = require(components, Role::scale);
  const bool is_mx = scheme.id == "mxfp4_blocks" || scheme.id == "mxfp4_packed";
  const std::uint64_t group = is_mx ? 32 : 16;
  if (weight.dtype != DType::u8 && !(scheme.id == "mxfp4_packed" && weight.dtype == DType::i8))
    throw_wrong_dtype(weight, "U8");
  if (is_mx && scale.dtype != DType::u8 && scale.dtype != DType::f8_e8m0) throw_wrong_dtype(scale, "U8 or F8_E8M0");
  if (!is_mx && scale.dtype != DType::f8_e4m3)
    throw_wrong_dtype(scale, "F8_E4M3 (a one-dimensional U8 scale is the swizzled layout)");

  Shape natural;
  Shape scale_expected;
  if (scheme.id == "mxfp4_blocks") {
    require_rank(weight, 3, 4);
    const unsigned rank = weight.shape.rank();
    if (weight.shape[rank - 1] != 16)
      throw Error(ErrorCode::quant_config_mismatch,
                  weight.key + " has blocks of " + std::to_string(weight.shape[rank - 1]) + " bytes",
                  {.keys = {weight.key}, .expected = "16 bytes a block", .actual = to_string(weight.shape)});
    for (unsigned axis = 0; axis + 2 < rank; ++axis) natural.push_back(weight.shape[axis]);
    natural.push_back(weight.shape[rank - 2] * 32);
    for (unsigned axis = 0; axis + 1 < rank; ++axis) scale_expected.push_back(weight.shape[axis]);
  } else {
    require_rank(weight, 2, 3);
    natural = doubled(weight.shape);
    const std::uint64_t cols = natural[natural.rank() - 1];
    if (cols % group != 0)
      throw Error(ErrorCode::scale_shape, weight.key + " has rows of " + std::to_string(cols) + " values",
                  {.keys = {weight.key, scale.key},
                   .expected = "a multiple of " + std::to_string(group),
                   .actual = std::to_string(cols)});
    scale_expected = natural;
    scale_expected[scale_expected.rank() - 1] = cols / group;
  }
  if (!(scale.shape == scale_expected)) throw_scale_shape(scale, weight, to_string(scale_expected));
  const unsigned rank = natural.rank();
  ScaleGrid grid{.leads = rank == 3 ? natural[0] : 1,
                 .grid_rows = natural[rank - 2],
                 .grid_cols = natural[rank - 1] / group,
                 .block_rows = 1,
                 .block_cols = group};
  if (is_mx) return std::make_unique<NibbleCodec>(scheme, std::move(components), natural, Kind::mx, group, grid, false);

  const Component global = require(components, Role::global_scale);
  if (global.dtype != DType::f32) throw_wrong_dtype(global, "F32");
  const std::uint64_t count = element_count(global.shape).value_or(0);
  const std::uint64_t leads = rank == 3 ? natural[0] : 1;
  if (count != 1 && count != leads) throw_scale_shape(global, weight, rank == 3 ? "[1] or one per expert" : "[1]");
  return std::make_unique<NibbleCodec>(scheme, std::move(components), natural,
                                       scheme.id == "nvfp4_modelopt" ? Kind::nv_multiply : Kind::nv_divide, group, grid,
                                       count != 1);
}

}  // namespace weightproof::codec
