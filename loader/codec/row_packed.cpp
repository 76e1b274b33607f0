// SPDX-License-Identifier: Apache-2.0
// Integer codes packed along rows of the [out, in] matrix: compressed-tensors pack-quantized (offset binary, fields may
// straddle words), int8 with zero points, ModelOpt's four-bit weights (packed along the OUTPUT axis, two's complement)
// and torchao int8.
//
//   value = RN( F32(q - z) *f32 F32(scale) )
#include <algorithm>
#include <array>

#include "loader/codec/families_internal.hpp"
#include "loader/codec/kernels.hpp"

namespace weightproof::codec {
namespace {

/// Where codes and zero points lie.
struct Packing {
  enum class Weight : std::uint8_t { words, words_old, int8, output_nibbles } weight = Weight::words;
  enum class Zero : std::uint8_t { none, packed_rows, int8 } zero = Zero::none;
  unsigned bits = 4;
  std::uint64_t row_bytes = 0;  ///< bytes of a stored weight row
  std::uint64_t word_rows = 0;  ///< rows of the packed zero-point tensor
};

class RowPackedCodec final : public Codec {
 public:
  RowPackedCodec(Scheme scheme, std::vector<Component> components, Shape shape, Packing packing, ScaleGrid grid,
                 std::vector<std::uint32_t> group_index, std::uint64_t groups)
      : Codec(std::move(scheme), std::move(components), shape, granule_of(shape, packing),
              Exactness::correctly_rounded),
        packing_(packing),
        grid_(grid),
        group_index_(std::move(group_index)),
        groups_(groups),
        weight_(component_of(Role::weight)),
        scale_(component_of(Role::scale)),
        zero_(component_of(Role::zero_point)) {}

  void byte_runs(const Box& aligned, std::vector<ByteRun>& runs) const override {
    if (aligned.is_empty()) return;
    const Ranges box = ranges_of(aligned);
    const std::uint64_t rows = natural_shape()[natural_shape().rank() - 2];
    const auto component = static_cast<std::uint32_t>(weight_);
    if (packing_.weight == Packing::Weight::output_nibbles)
      append_runs(component, {rows / 2, packing_.row_bytes}, box.lead, {box.rows.begin / 2, box.rows.end / 2}, box.cols,
                  runs);
    else
      append_runs(component, {rows, packing_.row_bytes}, box.lead, box.rows, byte_range(box.cols), runs);
    const Ranges scales = scale_ranges(box);
    grid_.append(static_cast<std::uint32_t>(scale_), bits_of(components()[scale_].dtype) / 8, scales, runs);
    if (zero_ == SIZE_MAX) return;
    if (packing_.zero == Packing::Zero::int8) {
      grid_.append(static_cast<std::uint32_t>(zero_), 1, scales, runs);
    } else {
      const Range cols = grid_.col_range(scales.cols);
      append_runs(static_cast<std::uint32_t>(zero_), {packing_.word_rows, grid_.grid_cols * 4},
                  grid_.lead_range(box.lead), word_rows(box.rows), {cols.begin * 4, cols.end * 4}, runs);
    }
  }

  void decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
              std::byte* out) const override {
    const std::uint64_t element = target_bytes(target);
    if (aligned.is_empty()) return;
    const Ranges box = ranges_of(aligned);
    const Ranges scales = scale_ranges(box);
    const std::uint64_t cols = box.cols.size();
    std::array<std::uint32_t, 256> values;
    for (std::uint64_t lead = box.lead.begin; lead < box.lead.end; ++lead)
      for (std::uint64_t row = box.rows.begin; row < box.rows.end; ++row) {
        const std::uint64_t index = (lead - box.lead.begin) * box.rows.size() + row - box.rows.begin;
        std::uint64_t group = UINT64_MAX;
        float scale = 0;
        int zero = 0;
        for (std::uint64_t done = 0; done < cols;) {
          const std::uint64_t now = std::min<std::uint64_t>(values.size(), cols - done);
          for (std::uint64_t i = 0; i < now; ++i) {
            const std::uint64_t col = box.cols.begin + done + i;
            const std::uint64_t col_group = group_of(col);
            if (col_group != group) {
              group = col_group;
              const std::uint64_t scale_col = grid_.block_cols == 0 ? 0 : group * grid_.block_cols;
              scale = scale_at(components()[scale_].dtype, parts[scale_].data(),
                               grid_.window_index(scales, lead, row, scale_col));
              zero = zero_at(parts, box, scales, lead, row, scale_col);
            }
            const int q = code_at(parts[weight_].data(), box, index, lead, row, col) - zero;
            values[i] = bits_of_float(multiply_f32(static_cast<float>(q), scale));
          }
          kernels().round(values.data(), now, target, out + (index * cols + done) * element);
          done += now;
        }
      }
  }

  bool encode(const Box& aligned, std::span<const std::span<const std::byte>> parts, std::span<const float> values,
              std::byte* weight_out) const override {
    if (aligned.is_empty()) return true;
    const Ranges box = ranges_of(aligned);
    const Ranges scales = scale_ranges(box);
    const int least = -(1 << (packing_.bits - 1));
    const int most = (1 << (packing_.bits - 1)) - 1;
    std::fill_n(weight_out, weight_bytes(box), std::byte{0});
    std::size_t i = 0;
    for (std::uint64_t lead = box.lead.begin; lead < box.lead.end; ++lead)
      for (std::uint64_t row = box.rows.begin; row < box.rows.end; ++row)
        for (std::uint64_t col = box.cols.begin; col < box.cols.end; ++col, ++i) {
          const std::uint64_t scale_col = grid_.block_cols == 0 ? 0 : group_of(col) * grid_.block_cols;
          const float scale = scale_at(components()[scale_].dtype, parts[scale_].data(),
                                       grid_.window_index(scales, lead, row, scale_col));
          const int zero = zero_at(parts, box, scales, lead, row, scale_col);
          const int q = difference_of(values[i], scale, least - zero, most - zero) + zero;
          set_code(weight_out, box, lead, row, col, q);
        }
    return true;
  }

 private:
  std::uint64_t weight_bytes(const Ranges& box) const {
    const std::uint64_t rows = box.lead.size() * box.rows.size();
    if (packing_.weight == Packing::Weight::output_nibbles) return rows / 2 * box.cols.size();
    return rows * byte_range(box.cols).size();
  }

  void set_code(std::byte* bytes, const Ranges& box, std::uint64_t lead, std::uint64_t row, std::uint64_t col,
                int q) const {
    const std::uint64_t row_index = (lead - box.lead.begin) * box.rows.size() + row - box.rows.begin;
    if (packing_.weight == Packing::Weight::int8) {
      bytes[row_index * box.cols.size() + col - box.cols.begin] = static_cast<std::byte>(q);
    } else if (packing_.weight == Packing::Weight::output_nibbles) {
      const std::uint64_t at = row_index / 2 * box.cols.size() + col - box.cols.begin;
      bytes[at] |= static_cast<std::byte>((static_cast<unsigned>(q) & 15u) << (row % 2 == 0 ? 0 : 4));
    } else {
      const Range window = byte_range(box.cols);
      const std::uint64_t bit = packing_.weight == Packing::Weight::words
                                    ? col * packing_.bits
                                    : col / fields_per_word() * 32 + col % fields_per_word() * packing_.bits;
      set_field_at(bytes + row_index * window.size(), bit - window.begin * 8, packing_.bits,
                   static_cast<std::uint32_t>(q + (1 << (packing_.bits - 1))));
    }
  }

  std::uint64_t fields_per_word() const { return 32 / packing_.bits; }

  /// Bytes of a row that hold the columns; columns lie on the granule, or end the row.
  Range byte_range(Range cols) const {
    const std::uint64_t total = natural_shape()[natural_shape().rank() - 1];
    const auto edge = [&](std::uint64_t col) -> std::uint64_t {
      if (col == total) return packing_.row_bytes;
      switch (packing_.weight) {
        case Packing::Weight::words:
          return col * packing_.bits / 8;
        case Packing::Weight::words_old:
          return col / fields_per_word() * 4;
        default:
          return col;
      }
    };
    return {edge(cols.begin), edge(cols.end)};
  }

  /// Scales that the box needs: with a group index any column may use any group.
  Ranges scale_ranges(const Ranges& box) const {
    if (group_index_.empty()) return box;
    Ranges all = box;
    all.cols = {0, grid_.block_cols == 0 ? 1 : groups_ * grid_.block_cols};
    return all;
  }

  Range word_rows(Range rows) const {
    return {rows.begin * packing_.bits / 32, ceil_div(rows.end * packing_.bits, 32)};
  }

  std::uint64_t group_of(std::uint64_t col) const {
    if (!group_index_.empty()) return group_index_[col];
    return grid_.col_block(col);
  }

  int code_at(const std::byte* bytes, const Ranges& box, std::uint64_t row_index, std::uint64_t lead, std::uint64_t row,
              std::uint64_t col) const {
    switch (packing_.weight) {
      case Packing::Weight::int8:
        return static_cast<std::int8_t>(
            std::to_integer<std::uint8_t>(bytes[row_index * box.cols.size() + col - box.cols.begin]));
      case Packing::Weight::output_nibbles: {
        const std::uint64_t pairs = box.rows.size() / 2;
        const std::uint64_t at =
            ((lead - box.lead.begin) * pairs + (row - box.rows.begin) / 2) * box.cols.size() + col - box.cols.begin;
        const unsigned nibble = (std::to_integer<unsigned>(bytes[at]) >> (row % 2 == 0 ? 0 : 4)) & 15u;
        return nibble >= 8 ? static_cast<int>(nibble) - 16 : static_cast<int>(nibble);
      }
      default:
        break;
    }
    const Range window = byte_range(box.cols);
    const std::byte* row_bytes = bytes + row_index * window.size();
    const std::uint64_t bit = packing_.weight == Packing::Weight::words
                                  ? col * packing_.bits
                                  : col / fields_per_word() * 32 + col % fields_per_word() * packing_.bits;
    return static_cast<int>(field_at(row_bytes, bit - window.begin * 8, packing_.bits)) - (1 << (packing_.bits - 1));
  }

  int zero_at(std::span<const std::span<const std::byte>> parts, const Ranges& box, const Ranges& scales,
              std::uint64_t lead, std::uint64_t row, std::uint64_t scale_col) const {
    if (packing_.zero == Packing::Zero::none) return 0;
    const std::byte* bytes = parts[zero_].data();
    if (packing_.zero == Packing::Zero::int8)
      return static_cast<std::int8_t>(
          std::to_integer<std::uint8_t>(bytes[grid_.window_index(scales, lead, row, scale_col)]));
    // Column g of the tensor is a bit stream down the rows: word w of it lies at row w.
    const Range words = word_rows(box.rows);
    const Range cols = grid_.col_range(scales.cols);
    const std::uint64_t lead_index = grid_.leads == 1 ? 0 : lead - box.lead.begin;
    const std::uint64_t column = grid_.col_block(scale_col) - cols.begin;
    const std::uint64_t bit = row * packing_.bits;
    std::byte pair[8] = {};
    for (std::uint64_t w = 0; w < 2; ++w) {
      const std::uint64_t word = bit / 32 + w;
      if (word >= words.end) break;
      std::memcpy(pair + 4 * w, bytes + ((lead_index * words.size() + word - words.begin) * cols.size() + column) * 4,
                  4);
    }
    return static_cast<int>(field_at(pair, bit % 32, packing_.bits)) - (1 << (packing_.bits - 1));
  }

  static Extents granule_of(const Shape& shape, const Packing& packing) {
    Extents granule;
    for (unsigned axis = 0; axis < shape.rank(); ++axis) granule.push_back(1);
    const unsigned last = shape.rank() - 1;
    if (packing.weight == Packing::Weight::words) granule[last] = 32;
    if (packing.weight == Packing::Weight::words_old) granule[last] = 32 / packing.bits;
    if (packing.weight == Packing::Weight::output_nibbles) granule[last - 1] = 2;
    return granule;
  }

  Packing packing_;
  ScaleGrid grid_;
  std::vector<std::uint32_t> group_index_;
  std::uint64_t groups_;
  std::size_t weight_, scale_, zero_;
};

std::vector<std::uint64_t> integers_of(const Component& component, const std::vector<std::byte>& bytes) {
  if (component.dtype != DType::i64 && component.dtype != DType::i32) throw_wrong_dtype(component, "I64 or I32");
  const std::size_t width = component.dtype == DType::i64 ? 8 : 4;
  std::vector<std::uint64_t> values;
  for (std::size_t i = 0; i + width <= bytes.size(); i += width) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + i, width);
    values.push_back(value);
  }
  return values;
}

Shape packed_natural_shape(const Scheme& scheme, const Component& weight, std::span<const Component> components,
                           std::span<const std::vector<std::byte>> probe_bytes, std::uint64_t& row_bytes) {
  Shape natural = weight.shape;
  const unsigned last = natural.rank() - 1;
  row_bytes = weight.shape[last] * 4;
  const std::vector<Probe> probes = probes_of(scheme, components);
  std::vector<std::uint64_t> stated;
  const Component* shape_component = find(components, Role::weight_shape);
  for (std::size_t i = 0; i < probes.size(); ++i)
    if (components[probes[i].component].role == Role::weight_shape)
      stated = integers_of(components[probes[i].component], probe_bytes[i]);
  std::uint64_t cols = weight.shape[last] * 32 / scheme.bits;
  if (shape_component != nullptr) {
    if (stated.size() < 2 || stated[stated.size() - 2] != weight.shape[last - 1])
      throw Error(ErrorCode::quant_config_mismatch, shape_component->key + " does not fit " + weight.key,
                  {.keys = {weight.key, shape_component->key},
                   .expected = "rows " + std::to_string(weight.shape[last - 1]),
                   .actual = stated.size() < 2 ? "fewer than two numbers"
                                               : "rows " + std::to_string(stated[stated.size() - 2])});
    cols = stated.back();
  }
  const std::uint64_t dense = cols > UINT64_MAX / 32 ? UINT64_MAX : ceil_div(cols * scheme.bits, 32);
  const std::uint64_t old = ceil_div(cols, 32 / scheme.bits);
  if (weight.shape[last] != (scheme.has_old_packing ? old : dense))
    throw Error(ErrorCode::quant_config_mismatch, weight.key + " holds another number of words than its shape needs",
                {.keys = {weight.key},
                 .expected = std::to_string(scheme.has_old_packing ? old : dense) + " words a row",
                 .actual = std::to_string(weight.shape[last])});
  natural[last] = cols;
  return natural;
}

}  // namespace

std::unique_ptr<const Codec> make_row_packed_codec(const Scheme& scheme, std::vector<Component> components,
                                                   std::span<const std::vector<std::byte>> probe_bytes) {
  const Component weight = require(components, Role::weight);
  const Component scale = require(components, Role::scale);
  require_scale_dtype(scale);
  require_rank(weight, 2, 3);
  Packing packing;
  Shape natural = weight.shape;
  const unsigned last = natural.rank() - 1;
  if (scheme.id == "ct_pack") {
    if (weight.dtype != DType::i32) throw_wrong_dtype(weight, "I32");
    if (scheme.bits == 0 || scheme.bits > 8)
      throw Error(ErrorCode::quant_unsupported, weight.key + ": codes of " + std::to_string(scheme.bits) + " bits",
                  {.keys = {weight.key}, .expected = "1 to 8 bits", .actual = std::to_string(scheme.bits)});
    packing.bits = scheme.bits;
    packing.weight = scheme.has_old_packing ? Packing::Weight::words_old : Packing::Weight::words;
    natural = packed_natural_shape(scheme, weight, components, probe_bytes, packing.row_bytes);
  } else if (scheme.id == "modelopt_w4") {
    if (weight.dtype != DType::u8) throw_wrong_dtype(weight, "U8");
    packing.weight = Packing::Weight::output_nibbles;
    packing.row_bytes = weight.shape[last];
    natural[last - 1] *= 2;
  } else {
    if (weight.dtype != DType::i8) throw_wrong_dtype(weight, "I8");
    packing.weight = Packing::Weight::int8;
    packing.row_bytes = weight.shape[last];
    packing.bits = 8;
  }
  const std::uint64_t leads = natural.rank() == 3 ? natural[0] : 1;
  const std::uint64_t rows = natural[last - 1];
  const std::uint64_t cols = natural[last];
  ScaleGrid grid;
  const std::uint64_t count = element_count(scale.shape).value_or(0);
  if (count != 1) {
    const unsigned s = scale.shape.rank();
    const std::uint64_t grid_cols = s >= 2 && s >= natural.rank() ? scale.shape[s - 1] : 1;
    const std::uint64_t group = grid_cols == 1 ? 0 : scheme.group_size;
    if (grid_cols != 1 && (group == 0 || ceil_div(cols, group) != grid_cols))
      throw_scale_shape(scale, weight,
                        std::to_string(group == 0 ? 1 : ceil_div(cols, group)) + " groups of " + std::to_string(group));
    if (count != leads * rows * grid_cols) throw_scale_shape(scale, weight, "one row of scales per output row");
    grid = {.leads = leads, .grid_rows = rows, .grid_cols = grid_cols, .block_rows = 1, .block_cols = group};
  }
  std::vector<std::uint32_t> group_index;
  if (const Component* index = find(components, Role::group_index)) {
    const std::vector<Probe> probes = probes_of(scheme, components);
    for (std::size_t i = 0; i < probes.size(); ++i) {
      if (components[probes[i].component].role != Role::group_index) continue;
      std::vector<std::uint64_t> values = integers_of(*index, probe_bytes[i]);
      if (values.size() != cols)
        throw Error(ErrorCode::scale_shape, index->key + " does not fit " + weight.key,
                    {.keys = {weight.key, index->key},
                     .expected = std::to_string(cols),
                     .actual = std::to_string(values.size())});
      const bool is_unset =
          std::any_of(values.begin(), values.end(), [](std::uint64_t v) { return (v & 0xffffffffu) == 0xffffffffu; });
      if (is_unset) break;  // -1 anywhere: the index was never filled, columns go by position
      for (std::uint64_t v : values) {
        if (v >= grid.grid_cols)
          throw Error(ErrorCode::scale_shape, index->key + " names group " + std::to_string(v),
                      {.keys = {weight.key, index->key},
                       .expected = "below " + std::to_string(grid.grid_cols),
                       .actual = std::to_string(v)});
        group_index.push_back(static_cast<std::uint32_t>(v));
      }
    }
  }
  if (const Component* zero = find(components, Role::zero_point)) {
    if (zero->dtype == DType::i32 && scheme.id == "ct_pack") {
      packing.zero = Packing::Zero::packed_rows;
      packing.word_rows = ceil_div(rows * packing.bits, 32);
      if (element_count(zero->shape) != leads * packing.word_rows * grid.grid_cols)
        throw_scale_shape(*zero, weight, to_string(Shape{packing.word_rows, grid.grid_cols}));
    } else if (zero->dtype == DType::i8) {
      packing.zero = Packing::Zero::int8;
      if (element_count(zero->shape) != element_count(scale.shape))
        throw_scale_shape(*zero, weight, to_string(scale.shape));
    } else {
      throw_wrong_dtype(*zero, scheme.id == "ct_pack" ? "I32" : "I8");
    }
  }
  const std::uint64_t groups = grid.grid_cols;
  return std::make_unique<RowPackedCodec>(scheme, std::move(components), natural, packing, grid, std::move(group_index),
                                          groups);
}

}  // namespace weightproof::codec
