// SPDX-License-Identifier: Apache-2.0
// Integer codes stored as [in, out]: AWQ packs eight output columns into a word in a shuffled order, GPTQ packs
// consecutive input rows. The natural shape is the linear layer's own [out, in].
//
//   value[o][i] = RN( F32(q - z) *f32 F32(scale[group(i)][o]) )
#include <algorithm>
#include <array>

#include "loader/codec/families_internal.hpp"
#include "loader/codec/kernels.hpp"

namespace weightproof::codec {
namespace {

/// AWQ: output column 8w + c is nibble k_awq_field[c] of word w.
constexpr std::array<unsigned, 8> k_awq_field = {0, 4, 1, 5, 2, 6, 3, 7};

class ColumnPackedCodec final : public Codec {
 public:
  ColumnPackedCodec(Scheme scheme, std::vector<Component> components, Shape shape, bool is_awq, std::uint64_t group,
                    std::uint64_t groups, std::vector<std::uint32_t> group_index)
      : Codec(std::move(scheme), std::move(components), shape, Extents{is_awq ? 8u : 32u, is_awq ? 1u : 32u},
              Exactness::correctly_rounded),
        is_awq_(is_awq),
        group_(group),
        groups_(groups),
        group_index_(std::move(group_index)),
        weight_(component_of(Role::weight)),
        scale_(component_of(Role::scale)),
        zero_(component_of(Role::zero_point)) {}

  void byte_runs(const Box& aligned, std::vector<ByteRun>& runs) const override {
    if (aligned.is_empty()) return;
    const Ranges box = ranges_of(aligned);
    const Range outs = box.rows;
    const std::uint64_t all_outs = natural_shape()[0];
    if (is_awq_)
      append_runs(static_cast<std::uint32_t>(weight_), {1, all_outs / 8 * 4}, {0, 1}, box.cols,
                  {outs.begin / 8 * 4, outs.end / 8 * 4}, runs);
    else
      append_runs(static_cast<std::uint32_t>(weight_), {1, all_outs * 4}, {0, 1}, word_rows(box.cols),
                  {outs.begin * 4, outs.end * 4}, runs);
    const std::uint64_t width = bits_of(components()[scale_].dtype) / 8;
    append_runs(static_cast<std::uint32_t>(scale_), {1, all_outs * width}, {0, 1}, group_range(box.cols),
                {outs.begin * width, outs.end * width}, runs);
    if (zero_ != SIZE_MAX)
      append_runs(static_cast<std::uint32_t>(zero_), {1, zero_row_bytes()}, {0, 1}, group_range(box.cols),
                  zero_bytes(outs), runs);
  }

  void decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
              std::byte* out) const override {
    const std::uint64_t element = target_bytes(target);
    if (aligned.is_empty()) return;
    const Ranges box = ranges_of(aligned);
    const Range outs = box.rows;
    const Range ins = box.cols;
    const Range groups = group_range(ins);
    const Range zeros = zero_bytes(outs);
    const std::byte* codes = parts[weight_].data();
    const std::byte* zero_codes = zero_ == SIZE_MAX ? nullptr : parts[zero_].data();
    const DType scale_dtype = components()[scale_].dtype;
    std::array<std::uint32_t, 256> values;
    for (std::uint64_t o = outs.begin; o < outs.end; ++o)
      for (std::uint64_t done = 0; done < ins.size();) {
        const std::uint64_t now = std::min<std::uint64_t>(values.size(), ins.size() - done);
        for (std::uint64_t k = 0; k < now; ++k) {
          const std::uint64_t i = ins.begin + done + k;
          const std::uint64_t g = group_of(i) - groups.begin;
          const float scale = scale_at(scale_dtype, parts[scale_].data(), g * outs.size() + o - outs.begin);
          const int q = is_awq_ ? awq_code(codes, i - ins.begin, o, outs) : gptq_code(codes, i, o, ins, outs);
          const int z = zero_codes == nullptr ? 1 << (scheme().bits - 1)
                                              : zero_point(zero_codes + g * zeros.size(), o, outs, zeros);
          values[k] = bits_of_float(multiply_f32(static_cast<float>(q - z), scale));
        }
        kernels().round(values.data(), now, target, out + ((o - outs.begin) * ins.size() + done) * element);
        done += now;
      }
  }

  bool encode(const Box& aligned, std::span<const std::span<const std::byte>> parts, std::span<const float> values,
              std::byte* weight_out) const override {
    if (aligned.is_empty()) return true;
    const Ranges box = ranges_of(aligned);
    const Range outs = box.rows;
    const Range ins = box.cols;
    const Range groups = group_range(ins);
    const Range zeros = zero_bytes(outs);
    const Range words = word_rows(ins);
    const int most = (1 << scheme().bits) - 1;
    std::fill_n(weight_out, is_awq_ ? ins.size() * outs.size() / 2 : words.size() * outs.size() * 4, std::byte{0});
    std::size_t i = 0;
    for (std::uint64_t o = outs.begin; o < outs.end; ++o)
      for (std::uint64_t in = ins.begin; in < ins.end; ++in, ++i) {
        const std::uint64_t g = group_of(in) - groups.begin;
        const float scale =
            scale_at(components()[scale_].dtype, parts[scale_].data(), g * outs.size() + o - outs.begin);
        const int z = zero_ == SIZE_MAX ? 1 << (scheme().bits - 1)
                                        : zero_point(parts[zero_].data() + g * zeros.size(), o, outs, zeros);
        const auto q = static_cast<std::uint32_t>(difference_of(values[i], scale, -z, most - z) + z);
        if (is_awq_) {
          std::byte* word = weight_out + (in - ins.begin) * (outs.size() / 2) + (o - outs.begin) / 8 * 4;
          set_field_at(word, 4 * k_awq_field[o % 8], 4, q);
        } else {
          for (unsigned k = 0; k < scheme().bits; ++k) {  // one bit at a time: fields may lie in two words
            const std::uint64_t bit = in * scheme().bits + k;
            std::byte* word = weight_out + ((bit / 32 - words.begin) * outs.size() + o - outs.begin) * 4;
            set_field_at(word, bit % 32, 1, q >> k);
          }
        }
      }
    return true;
  }

 private:
  std::uint64_t group_of(std::uint64_t in) const { return group_index_.empty() ? in / group_ : group_index_[in]; }
  Range group_range(Range ins) const {
    if (!group_index_.empty()) return {0, groups_};
    return {ins.begin / group_, (ins.end - 1) / group_ + 1};
  }
  Range word_rows(Range ins) const { return {ins.begin * scheme().bits / 32, ceil_div(ins.end * scheme().bits, 32)}; }
  std::uint64_t zero_row_bytes() const { return natural_shape()[0] * scheme().bits / 8; }
  Range zero_bytes(Range outs) const { return {outs.begin * scheme().bits / 8, outs.end * scheme().bits / 8}; }

  static int awq_field(const std::byte* row, std::uint64_t column, std::uint64_t first_column) {
    const std::byte* word = row + (column - first_column) / 8 * 4;
    return static_cast<int>(field_at(word, 4 * k_awq_field[column % 8], 4));
  }
  static int awq_code(const std::byte* codes, std::uint64_t row, std::uint64_t o, Range outs) {
    return awq_field(codes + row * (outs.size() / 2), o, outs.begin);
  }
  /// Column o of the word matrix is a bit stream down the rows.
  int gptq_code(const std::byte* codes, std::uint64_t in, std::uint64_t o, Range ins, Range outs) const {
    const Range words = word_rows(ins);
    const std::uint64_t bit = in * scheme().bits;
    std::byte pair[8] = {};
    for (std::uint64_t w = 0; w < 2; ++w) {
      const std::uint64_t word = bit / 32 + w;
      if (word >= words.end) break;
      std::memcpy(pair + 4 * w, codes + ((word - words.begin) * outs.size() + o - outs.begin) * 4, 4);
    }
    return static_cast<int>(field_at(pair, bit % 32, scheme().bits));
  }
  int zero_point(const std::byte* row, std::uint64_t o, Range outs, Range bytes) const {
    if (is_awq_) return awq_field(row, o, outs.begin);
    const int field = static_cast<int>(field_at(row, o * scheme().bits - bytes.begin * 8, scheme().bits));
    // Version 1 stores z - 1; all ones is z = 0.
    return scheme().version == 1 ? (field + 1) & ((1 << scheme().bits) - 1) : field;
  }

  bool is_awq_;
  std::uint64_t group_, groups_;
  std::vector<std::uint32_t> group_index_;
  std::size_t weight_, scale_, zero_;
};

}  // namespace

namespace {

/// True where every field of the packed words equals `value`.
bool all_fields_are(std::span<const std::byte> words, unsigned bits, std::uint32_t value) {
  const std::uint64_t fields = words.size() * 8 / bits;
  for (std::uint64_t i = 0; i < fields; ++i)
    if (field_at(words.data(), i * bits, bits) != value) return false;
  return fields != 0;
}

}  // namespace

std::unique_ptr<const Codec> make_column_packed_codec(const Scheme& stated, std::vector<Component> components,
                                                      std::span<const std::vector<std::byte>> probe_bytes) {
  Scheme scheme = stated;
  const Component weight = require(components, Role::weight);
  const Component scale = require(components, Role::scale);
  const bool is_awq = scheme.id == "awq";
  require_rank(weight, 2, 2);
  require_rank(scale, 2, 2);
  if (weight.dtype != DType::i32) throw_wrong_dtype(weight, "I32");
  if (scale.dtype != DType::f16 && scale.dtype != DType::bf16 && scale.dtype != DType::f32)
    throw_wrong_dtype(scale, "F16, BF16 or F32");
  const bool bits_ok =
      is_awq ? scheme.bits == 4 : scheme.bits == 2 || scheme.bits == 3 || scheme.bits == 4 || scheme.bits == 8;
  if (!bits_ok)
    throw Error(
        ErrorCode::quant_unsupported, weight.key + ": " + scheme.id + " with " + std::to_string(scheme.bits) + " bits",
        {.keys = {weight.key}, .expected = is_awq ? "4" : "2, 3, 4 or 8", .actual = std::to_string(scheme.bits)});
  std::uint64_t ins = weight.shape[0];
  std::uint64_t outs = weight.shape[1];
  if (is_awq) {
    outs *= 8;
  } else {
    if (weight.shape[0] % scheme.bits != 0)
      throw Error(ErrorCode::quant_config_mismatch,
                  weight.key + " has " + std::to_string(weight.shape[0]) + " word rows",
                  {.keys = {weight.key},
                   .expected = "a multiple of " + std::to_string(scheme.bits),
                   .actual = std::to_string(weight.shape[0])});
    ins = weight.shape[0] / scheme.bits * 32;
    if (outs % 32 != 0)
      throw Error(ErrorCode::quant_config_mismatch, weight.key + " has " + std::to_string(outs) + " outputs",
                  {.keys = {weight.key}, .expected = "a multiple of 32", .actual = std::to_string(outs)});
  }
  const std::uint64_t group = scheme.group_size == 0 ? std::max<std::uint64_t>(ins, 1) : scheme.group_size;
  const std::uint64_t groups = ceil_div(ins, group);
  if (is_awq && ins % group != 0)
    throw Error(ErrorCode::scale_shape,
                weight.key + ": groups of " + std::to_string(group) + " do not divide " + std::to_string(ins),
                {.keys = {weight.key, scale.key},
                 .expected = "a divisor of " + std::to_string(ins),
                 .actual = std::to_string(group)});
  if (scale.shape[0] != groups || scale.shape[1] != outs)
    throw_scale_shape(scale, weight, to_string(Shape{groups, outs}));
  if (const Component* zero = find(components, Role::zero_point)) {
    if (zero->dtype != DType::i32) throw_wrong_dtype(*zero, "I32");
    const Shape expected{groups, outs * scheme.bits / 32};
    if (!(zero->shape == expected)) throw_scale_shape(*zero, weight, to_string(expected));
  } else if (is_awq || !scheme.is_symmetric) {
    require(components, Role::zero_point);
  }
  std::vector<std::uint32_t> group_index;
  if (!is_awq) {
    const std::vector<Probe> probes = probes_of(stated, components);
    for (std::size_t p = 0; p < probes.size(); ++p)
      if (components[probes[p].component].role == Role::zero_point) {
        const std::uint32_t middle = 1u << (scheme.bits - 1);
        if (all_fields_are(probe_bytes[p], scheme.bits, middle)) scheme.version = 2;
        if (all_fields_are(probe_bytes[p], scheme.bits, middle - 1)) scheme.version = 1;
      }
    for (std::size_t p = 0; p < probes.size(); ++p) {
      const Component& index = components[probes[p].component];
      if (index.role != Role::group_index) continue;
      if (index.dtype != DType::i32) throw_wrong_dtype(index, "I32");
      if (probe_bytes[p].size() != ins * 4) throw_scale_shape(index, weight, to_string(Shape{ins}));
      for (std::uint64_t i = 0; i < ins; ++i) {
        std::uint32_t g;
        std::memcpy(&g, probe_bytes[p].data() + 4 * i, 4);
        if (g >= groups)
          throw Error(ErrorCode::scale_shape, index.key + " names group " + std::to_string(g),
                      {.keys = {weight.key, index.key},
                       .coordinate = {i},
                       .expected = "below " + std::to_string(groups),
                       .actual = std::to_string(g)});
        group_index.push_back(g);
      }
    }
  }
  return std::make_unique<ColumnPackedCodec>(scheme, std::move(components), Shape{outs, ins}, is_awq, group, groups,
                                             std::move(group_index));
}

}  // namespace weightproof::codec
