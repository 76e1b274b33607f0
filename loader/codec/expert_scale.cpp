// SPDX-License-Identifier: Apache-2.0
// A stack of experts times one number each, where a family declares that fold: value = RN( F32(w) *f32 F32(scale) ).
// The scale is used in the dtype it is stored in; a scale of one changes nothing.
#include <array>

#include "loader/codec/families_internal.hpp"
#include "loader/codec/kernels.hpp"

namespace weightproof::codec {
namespace {

class ExpertScaleCodec final : public Codec {
 public:
  ExpertScaleCodec(Scheme scheme, std::vector<Component> components, Shape shape)
      : Codec(std::move(scheme), std::move(components), shape, Extents{1, 1, 1}, Exactness::correctly_rounded),
        weight_(component_of(Role::weight)),
        scale_(component_of(Role::scale)) {}

  void byte_runs(const Box& aligned, std::vector<ByteRun>& runs) const override {
    if (aligned.is_empty()) return;
    const Ranges box = ranges_of(aligned);
    const std::uint64_t width = bits_of(components()[weight_].dtype) / 8;
    const std::uint64_t scale_width = bits_of(components()[scale_].dtype) / 8;
    append_runs(static_cast<std::uint32_t>(weight_), {natural_shape()[1], natural_shape()[2] * width}, box.lead,
                box.rows, {box.cols.begin * width, box.cols.end * width}, runs);
    runs.push_back({static_cast<std::uint32_t>(scale_), box.lead.begin * scale_width, box.lead.size() * scale_width});
  }

  void decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
              std::byte* out) const override {
    const std::uint64_t element = target_bytes(target);
    if (aligned.is_empty()) return;
    const Ranges box = ranges_of(aligned);
    const std::uint64_t each = box.rows.size() * box.cols.size();
    std::array<std::uint32_t, 256> values;
    for (std::uint64_t lead = 0; lead < box.lead.size(); ++lead) {
      const float scale = scale_at(components()[scale_].dtype, parts[scale_].data(), lead);
      for (std::uint64_t done = 0; done < each;) {
        const std::uint64_t now = std::min<std::uint64_t>(values.size(), each - done);
        for (std::uint64_t i = 0; i < now; ++i)
          values[i] = bits_of_float(multiply_f32(
              scale_at(components()[weight_].dtype, parts[weight_].data(), lead * each + done + i), scale));
        kernels().round(values.data(), now, target, out + (lead * each + done) * element);
        done += now;
      }
    }
  }

 private:
  std::size_t weight_;
  std::size_t scale_;
};

bool is_wide(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32; }

}  // namespace

std::unique_ptr<const Codec> make_expert_scale_codec(const Scheme& scheme, std::vector<Component> components) {
  const Component weight = require(components, Role::weight);
  const Component scale = require(components, Role::scale);
  require_rank(weight, 3, 3);
  if (!is_wide(weight.dtype)) throw_wrong_dtype(weight, "BF16, F16 or F32");
  if (!is_wide(scale.dtype)) throw_wrong_dtype(scale, "BF16, F16 or F32");
  const Shape expected{weight.shape[0]};
  if (!(scale.shape == expected)) throw_scale_shape(scale, weight, to_string(expected));
  return std::make_unique<ExpertScaleCodec>(scheme, std::move(components), weight.shape);
}

}  // namespace weightproof::codec
