// SPDX-License-Identifier: Apache-2.0
// Eight-bit floats with scales: one per tensor, per expert, per output row, per block, or per 32 columns (MXFP8). One
// rule for all: value = RN( F32(code) *f32 F32(scale) ), the scale found by global block coordinates.
#include <array>

#include "loader/codec/families_internal.hpp"
#include "loader/codec/grid_internal.hpp"
#include "loader/codec/kernels.hpp"

namespace weightproof::codec {
namespace {

/// Codes of one byte, widened by a table, times a scale grid. Also int8 without zero points.
class ByteCodec final : public Codec {
 public:
  ByteCodec(Scheme scheme, std::vector<Component> components, Shape shape, ByteFormat format, ScaleGrid grid,
            Exactness exactness)
      : Codec(std::move(scheme), std::move(components), shape, granule_of(shape), exactness),
        format_(format),
        grid_(grid),
        weight_(component_of(Role::weight)),
        scale_(component_of(Role::scale)) {}

  void byte_runs(const Box& aligned, std::vector<ByteRun>& runs) const override {
    if (aligned.is_empty()) return;
    const Ranges box = ranges_of(aligned);
    const Shape& shape = natural_shape();
    const unsigned rank = shape.rank();
    append_runs(static_cast<std::uint32_t>(weight_), {rank >= 2 ? shape[rank - 2] : 1, rank == 0 ? 1 : shape[rank - 1]},
                box.lead, box.rows, box.cols, runs);
    if (scale_ != SIZE_MAX)
      grid_.append(static_cast<std::uint32_t>(scale_), bits_of(components()[scale_].dtype) / 8, box, runs);
  }

  void decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
              std::byte* out) const override {
    const std::uint64_t element = target_bytes(target);
    if (aligned.is_empty()) return;
    const Ranges box = ranges_of(aligned);
    const auto* codes = reinterpret_cast<const std::uint8_t*>(parts[weight_].data());
    const std::uint64_t cols = box.cols.size();
    const Kernels& k = kernels();
    const std::uint64_t block_rows = grid_.block_rows == 0 ? UINT64_MAX : grid_.block_rows;
    const std::uint64_t block_cols = grid_.block_cols == 0 ? UINT64_MAX : grid_.block_cols;
    std::array<float, k_column_blocks_max> values;
    for (std::uint64_t lead = box.lead.begin; lead < box.lead.end; ++lead) {
      for (std::uint64_t row = box.rows.begin; row < box.rows.end;) {
        const std::uint64_t row_end = edge_after(row, block_rows, box.rows.end);
        for (std::uint64_t col = box.cols.begin; col < box.cols.end;) {
          // As many column blocks at once as the kernel keeps tables for: rows are then read and written in long runs.
          const std::uint64_t first_end = edge_after(col, block_cols, box.cols.end);
          std::uint64_t col_end = col;
          std::size_t blocks = 0;
          while (blocks < values.size() && col_end < box.cols.end) {
            values[blocks++] = scale_ == SIZE_MAX ? 1.0f
                                                  : scale_at(components()[scale_].dtype, parts[scale_].data(),
                                                             grid_.window_index(box, lead, row, col_end));
            col_end = edge_after(col_end, block_cols, box.cols.end);
          }
          const std::uint64_t first =
              ((lead - box.lead.begin) * box.rows.size() + row - box.rows.begin) * cols + col - box.cols.begin;
          k.bytes(codes + first, cols, row_end - row, col_end - col, format_,
                  {values.data(), first_end - col, block_cols}, target, out + first * element, cols * element);
          col = col_end;
        }
        row = row_end;
      }
    }
  }

  bool encode(const Box& aligned, std::span<const std::span<const std::byte>> parts, std::span<const float> values,
              std::byte* weight_out) const override {
    if (aligned.is_empty()) return true;
    const Ranges box = ranges_of(aligned);
    std::size_t i = 0;
    for (std::uint64_t lead = box.lead.begin; lead < box.lead.end; ++lead)
      for (std::uint64_t row = box.rows.begin; row < box.rows.end; ++row)
        for (std::uint64_t col = box.cols.begin; col < box.cols.end; ++col, ++i) {
          const float scale = scale_ == SIZE_MAX ? 1.0f
                                                 : scale_at(components()[scale_].dtype, parts[scale_].data(),
                                                            grid_.window_index(box, lead, row, col));
          weight_out[i] = static_cast<std::byte>(code_of(values[i], scale));
        }
    return true;
  }

 private:
  std::uint8_t code_of(float value, float scale) const {
    if (format_ == ByteFormat::int8) return static_cast<std::uint8_t>(difference_of(value, scale, -128, 127));
    std::uint32_t bits = bits_of_float(value / scale);
    if (is_nan_bits(bits) && !is_nan_bits(bits_of_float(value))) bits = 0;  // a scale of zero tells nothing
    switch (format_) {
      case ByteFormat::e5m2:
        return f32_bits_to_e5m2(bits, false);
      case ByteFormat::e4m3fnuz:
        return f32_bits_to_e4m3fnuz(bits, true);
      case ByteFormat::e5m2fnuz:
        return f32_bits_to_e5m2fnuz(bits, true);
      default:
        return f32_bits_to_e4m3fn(bits, true);
    }
  }

  /// End of the block that holds `at`, or of the box.
  static std::uint64_t edge_after(std::uint64_t at, std::uint64_t block, std::uint64_t end) {
    return block == UINT64_MAX ? end : std::min(end, (at / block + 1) * block);
  }

  static Extents granule_of(const Shape& shape) {
    Extents granule;
    for (unsigned axis = 0; axis < shape.rank(); ++axis) granule.push_back(1);
    return granule;
  }

  ByteFormat format_;
  ScaleGrid grid_;
  std::size_t weight_;
  std::size_t scale_;
};

ByteFormat float_format(const Component& weight) {
  switch (weight.dtype) {
    case DType::f8_e4m3:
      return ByteFormat::e4m3fn;
    case DType::f8_e5m2:
      return ByteFormat::e5m2;
    case DType::f8_e4m3fnuz:
      return ByteFormat::e4m3fnuz;
    case DType::f8_e5m2fnuz:
      return ByteFormat::e5m2fnuz;
    default:
      throw_wrong_dtype(weight, "F8_E4M3, F8_E5M2, F8_E4M3FNUZ or F8_E5M2FNUZ");
  }
}

}  // namespace

std::unique_ptr<const Codec> make_byte_codec(const Scheme& scheme, std::vector<Component> components) {
  const Component& weight = require(components, Role::weight);
  require_rank(weight, 1, 3);
  const bool is_integer = scheme.id == "int8";
  if (is_integer && weight.dtype != DType::i8) throw_wrong_dtype(weight, "I8");
  const ByteFormat format = is_integer ? ByteFormat::int8 : float_format(weight);
  const Shape shape = weight.shape;
  if (scheme.id == "fp8_bare") {
    for (const Component& c : components)
      if (c.role == Role::scale) throw_scale_shape(c, weight, "no scale: the scheme is bare F8");
    return std::make_unique<ByteCodec>(scheme, std::move(components), shape, format, ScaleGrid{}, Exactness::exact);
  }
  const Component& scale = require(components, Role::scale);
  require_scale_dtype(scale);
  const ScaleGrid grid = scale_grid(scheme, weight, scale);
  return std::make_unique<ByteCodec>(scheme, std::move(components), shape, format, grid, Exactness::correctly_rounded);
}

}  // namespace weightproof::codec
