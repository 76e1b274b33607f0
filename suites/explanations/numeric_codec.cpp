// SPDX-License-Identifier: Apache-2.0
#include "suites/explanations/numeric_codec.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "loader/codec/scalar.hpp"

namespace weightproof::suites {
namespace {

using codec::Component;
using codec::Role;

CodecParts copy_parts(std::span<const std::span<const std::byte>> parts) {
  CodecParts out;
  for (const auto& part : parts) {
    out.emplace_back(part.begin(), part.end());
  }
  return out;
}

std::vector<std::span<const std::byte>> views_of(const CodecParts& parts) { return {parts.begin(), parts.end()}; }

/// All 32 bits of a double, once rounded to odd: a later rounding to fewer than 22 bits is then the only one.
float to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || !std::isfinite(nearest)) {
    return nearest;
  }
  std::uint32_t bits = codec::bits_of_float(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) {
    --bits;
  }
  return codec::float_of_bits(bits | 1U);
}

std::uint16_t narrowed(std::uint32_t bits, DType target) {
  return target == DType::f16 ? codec::f32_bits_to_f16(bits) : codec::f32_bits_to_bf16(bits);
}

void fill_with(std::vector<std::byte>& bytes, std::uint32_t value, std::size_t width) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(value >> (8 * (i % width)));
  }
}

void fill_with_one(const Component& component, std::vector<std::byte>& bytes) {
  switch (component.dtype) {
    case DType::f32:
      fill_with(bytes, 0x3f800000, 4);
      break;
    case DType::bf16:
      fill_with(bytes, 0x3f80, 2);
      break;
    case DType::f16:
      fill_with(bytes, 0x3c00, 2);
      break;
    case DType::f8_e4m3:
      fill_with(bytes, 0x38, 1);
      break;
    default:
      fill_with(bytes, 127, 1);
  }
}

/// A stream of equal fields of `bits` bits. Streams that run down the columns of a matrix of words hold, in word row w,
/// the same word in every column.
void fill_fields(std::vector<std::byte>& bytes, std::uint32_t field, unsigned bits, std::uint64_t columns,
                 std::uint64_t first_word) {
  for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    const std::uint64_t word_index = first_word + (columns == 0 ? at / 4 : at / 4 / columns);
    std::uint32_t word = 0;
    for (unsigned k = 0; k < 32; ++k) {
      word |= (field >> ((word_index * 32 + k) % bits) & 1U) << k;
    }
    std::memcpy(bytes.data() + at, &word, 4);
  }
}

/// Makes every code decode to `unit`, 0 or 1, before scaling.
void fill_codes(const codec::Codec& codec, const Box& box, CodecParts& parts, unsigned unit) {
  const codec::Scheme& scheme = codec.scheme();
  const Component& weight = codec.components()[component_of(codec, Role::weight)];
  std::vector<std::byte>& bytes = parts[component_of(codec, Role::weight)];
  const std::uint32_t middle = scheme.bits == 0 ? 0 : 1U << (scheme.bits - 1);
  if (scheme.id == "ct_pack") {
    const std::uint64_t row_bytes =
        bytes.size() / std::max<std::uint64_t>(1, box.element_count() / box.length[box.length.rank() - 1]);
    std::vector<std::byte> row(row_bytes);
    for (std::size_t at = 0; at < bytes.size(); at += row_bytes) {
      fill_fields(row, middle + unit, scheme.bits, 0, 0);
      std::copy(row.begin(), row.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    }
  } else if (scheme.id == "awq") {
    fill_with(bytes, unit * 0x11, 1);
  } else if (scheme.id == "gptq") {
    const bool has_zeros = component_of(codec, Role::zero_point) != SIZE_MAX;
    fill_fields(bytes, has_zeros ? unit : middle + unit, scheme.bits, box.length[0], 0);
  } else if (scheme.id == "modelopt_w4") {
    fill_with(bytes, unit * 0x11, 1);
  } else if (weight.dtype == DType::i8 && scheme.id != "mxfp4_packed") {
    fill_with(bytes, unit, 1);
  } else if (scheme.id.starts_with("mxfp4") || scheme.id.starts_with("nvfp4") || scheme.id == "f4") {
    fill_with(bytes, unit * 0x22, 1);
  } else {
    const bool is_five = weight.dtype == DType::f8_e5m2;
    const bool is_fn = weight.dtype == DType::f8_e4m3;
    fill_with(bytes, unit == 0 ? 0 : is_fn ? 0x38 : is_five ? 0x3c : 0x40, 1);
  }
}

/// Makes every zero point 0.
void clear_zeros(const codec::Codec& codec, const Box& box, CodecParts& parts) {
  const std::size_t zero = component_of(codec, Role::zero_point);
  if (zero == SIZE_MAX) {
    return;
  }
  const codec::Scheme& scheme = codec.scheme();
  if (scheme.id == "ct_pack" && codec.components()[zero].dtype == DType::i32) {
    const Shape& shape = codec.components()[zero].shape;
    const std::uint64_t first = box.start[box.start.rank() - 2] * scheme.bits / 32;
    fill_fields(parts[zero], 1U << (scheme.bits - 1), scheme.bits, shape[shape.rank() - 1], first);
  } else if (scheme.id == "gptq" && scheme.version == 1) {
    fill_with(parts[zero], 0xff, 1);
  } else {
    fill_with(parts[zero], 0, 1);
  }
}

std::vector<float> decode_floats(const codec::Codec& codec, const Box& box, const CodecParts& parts) {
  std::vector<float> out(box.element_count());
  codec.decode(box, views_of(parts), DType::f32, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

void elements_of_bnb4(const codec::Codec& codec, const Box& box, const CodecParts& parts, Elements& out) {
  const std::size_t map = component_of(codec, Role::quant_map);
  CodecParts changed = parts;
  fill_with(changed[map], 0x3f800000, 4);
  out.s = decode_floats(codec, box, changed);
  for (unsigned code = 0; code < 16; ++code) {
    const auto number = static_cast<float>(code);
    std::memcpy(changed[map].data() + std::size_t{4} * code, &number, 4);
  }
  out.q = decode_floats(codec, box, changed);
  for (std::size_t i = 0; i < out.q.size(); ++i) {
    const float ratio = out.s[i] == 0 ? 0 : out.q[i] / out.s[i];
    const auto code = static_cast<std::size_t>(std::isfinite(ratio) ? std::lround(ratio) & 15 : 0);
    std::memcpy(&out.q[i], parts[map].data() + 4 * code, 4);
  }
  const std::size_t nested_map = component_of(codec, Role::nested_quant_map);
  const std::size_t nested = component_of(codec, Role::nested_absmax);
  if (nested_map == SIZE_MAX || parts[nested].size() != 4) {
    return;
  }
  // first * second + shift = s: the level of the block, the absmax of levels, the offset.
  changed = parts;
  fill_with(changed[map], 0x3f800000, 4);
  fill_with(changed[nested], 0, 1);
  out.shift = decode_floats(codec, box, changed);
  fill_with(changed[nested], 0x3f800000, 4);
  for (unsigned code = 0; code < 256; ++code) {
    const auto number = static_cast<float>(code);
    std::memcpy(changed[nested_map].data() + std::size_t{4} * code, &number, 4);
  }
  out.first = decode_floats(codec, box, changed);
  float absmax = 0;
  std::memcpy(&absmax, parts[nested].data(), 4);
  for (std::size_t i = 0; i < out.first.size(); ++i) {
    const auto code = static_cast<std::size_t>(std::lround(out.first[i] - out.shift[i]) & 255);
    std::memcpy(&out.first[i], parts[nested_map].data() + 4 * code, 4);
  }
  out.second.assign(out.first.size(), absmax);
}

void elements_of_bnb8(const codec::Codec& codec, const Box& box, const CodecParts& parts, Elements& out) {
  const std::uint64_t cols = box.length[1];
  const std::vector<std::byte>& codes = parts[component_of(codec, Role::weight)];
  const std::vector<std::byte>& scales = parts[component_of(codec, Role::scale)];
  for (std::uint64_t i = 0; i < box.element_count(); ++i) {
    float scale = 0;
    std::memcpy(&scale, scales.data() + i / cols * 4, 4);
    out.q.push_back(static_cast<float>(static_cast<std::int8_t>(codes[i])));
    out.s.push_back(scale);
  }
}

}  // namespace

std::size_t component_of(const codec::Codec& codec, Role role) {
  const auto components = codec.components();
  for (std::size_t i = 0; i < components.size(); ++i) {
    if (components[i].role == role) {
      return i;
    }
  }
  return SIZE_MAX;
}

bool is_scale_component(const codec::Codec& codec, std::size_t component) {
  const Component& row = codec.components()[component];
  const bool is_code = codec.scheme().id == "bnb4" && row.dtype == DType::u8;
  return !is_code && (row.role == Role::scale || row.role == Role::global_scale || row.role == Role::nested_absmax);
}

void change_scales(const Component& component, std::vector<std::byte>& bytes,
                   const std::function<float(float)>& change) {
  const std::size_t width = bits_of(component.dtype) / 8;
  for (std::size_t at = 0; at + width <= bytes.size(); at += width) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, width);
    const auto changed = [&change](std::uint32_t from) {
      return codec::bits_of_float(change(codec::float_of_bits(from)));
    };
    switch (component.dtype) {
      case DType::f32:
        bits = changed(bits);
        break;
      case DType::bf16:
        bits = codec::f32_bits_to_bf16(changed(codec::bf16_to_f32_bits(static_cast<std::uint16_t>(bits))));
        break;
      case DType::f16:
        bits = codec::f32_bits_to_f16(changed(codec::f16_to_f32_bits(static_cast<std::uint16_t>(bits))));
        break;
      case DType::f8_e4m3:
        bits = codec::f32_bits_to_e4m3fn(changed(codec::e4m3fn_to_f32_bits(static_cast<std::uint8_t>(bits))), true);
        break;
      default:
        return;
    }
    std::memcpy(bytes.data() + at, &bits, width);
  }
}

WrappedCodec::WrappedCodec(SharedCodec inner, std::vector<Component> components)
    : Codec(inner->scheme(), std::move(components), inner->natural_shape(), inner->granule(), inner->exactness()),
      inner_(std::move(inner)) {}

void WrappedCodec::byte_runs(const Box& aligned, std::vector<codec::ByteRun>& runs) const {
  inner_->byte_runs(aligned, runs);
}

void WrappedCodec::decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
                          std::byte* out) const {
  inner_->decode(aligned, parts, target, out);
}

bool WrappedCodec::encode(const Box& aligned, std::span<const std::span<const std::byte>> parts,
                          std::span<const float> values, std::byte* weight_out) const {
  return inner_->encode(aligned, parts, values, weight_out);
}

void InputCodec::decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
                        std::byte* out) const {
  CodecParts changed = copy_parts(parts);
  change_(*inner_, aligned, changed);
  inner_->decode(aligned, views_of(changed), target, out);
}

ScaleCodec::ScaleCodec(SharedCodec inner, Change change)
    : WrappedCodec(std::move(inner)),
      scale_(static_cast<std::uint32_t>(suites::component_of(*inner_, Role::scale))),
      change_(std::move(change)) {}

void ScaleCodec::byte_runs(const Box& aligned, std::vector<codec::ByteRun>& runs) const {
  if (aligned.is_empty()) {
    return;
  }
  std::vector<codec::ByteRun> needed;
  inner_->byte_runs(aligned, needed);
  bool is_listed = false;
  for (const codec::ByteRun& run : needed) {
    if (run.component != scale_) {
      runs.push_back(run);
    } else if (!is_listed) {
      runs.push_back({scale_, 0, codec::component_bytes(components()[scale_])});
      is_listed = true;
    }
  }
}

CodecParts ScaleCodec::needed_parts(const Box& aligned, std::span<const std::span<const std::byte>> parts) const {
  CodecParts changed = copy_parts(parts);
  std::vector<std::byte> all = std::move(changed[scale_]);
  change_(components()[scale_], all);
  changed[scale_].clear();
  std::vector<codec::ByteRun> needed;
  inner_->byte_runs(aligned, needed);
  for (const codec::ByteRun& run : needed) {
    if (run.component == scale_) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(run.offset);
      changed[scale_].insert(changed[scale_].end(), begin, begin + static_cast<std::ptrdiff_t>(run.bytes));
    }
  }
  return changed;
}

void ScaleCodec::decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
                        std::byte* out) const {
  if (!aligned.is_empty()) {
    inner_->decode(aligned, views_of(needed_parts(aligned, parts)), target, out);
  }
}

bool ScaleCodec::encode(const Box& aligned, std::span<const std::span<const std::byte>> parts,
                        std::span<const float> values, std::byte* weight_out) const {
  return aligned.is_empty() || inner_->encode(aligned, views_of(needed_parts(aligned, parts)), values, weight_out);
}

void LocalGridCodec::decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
                            std::byte* out) const {
  const codec::Scheme& rule = scheme();
  const unsigned rank = aligned.start.rank();
  const std::size_t scale = suites::component_of(*inner_, Role::scale);
  inner_->decode(aligned, parts, target, out);
  if (aligned.is_empty() || rank != 2 || rule.block_rows < 2 || scale == SIZE_MAX) {
    return;
  }
  const std::uint64_t first = aligned.start[0] / rule.block_rows;
  const std::uint64_t blocks = (aligned.start[0] + aligned.length[0] - 1) / rule.block_rows - first + 1;
  const std::size_t window = parts[scale].size() / blocks;
  const std::uint64_t cols = aligned.length[1];
  const std::size_t width = bits_of(target) / 8;
  const std::size_t weight = suites::component_of(*inner_, Role::weight);
  for (std::uint64_t row = 0; row < aligned.length[0]; ++row) {
    Box one = aligned;
    one.start[0] = aligned.start[0] + row;
    one.length[0] = 1;
    std::vector<std::span<const std::byte>> views(parts.begin(), parts.end());
    views[weight] = parts[weight].subspan(row * cols, cols);
    views[scale] = parts[scale].subspan(std::min(row / rule.block_rows, blocks - 1) * window, window);
    inner_->decode(one, views, target, out + row * cols * width);
  }
}

void OutputCodec::decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
                         std::byte* out) const {
  std::vector<std::uint32_t> values(aligned.element_count());
  inner_->decode(aligned, parts, DType::f32, reinterpret_cast<std::byte*>(values.data()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t value = value_ ? value_(values[i]) : values[i];
    if (target == DType::f32) {
      std::memcpy(out + 4 * i, &value, 4);
    } else {
      const std::uint16_t narrow = narrow_ ? narrow_(value, target) : narrowed(value, target);
      std::memcpy(out + 2 * i, &narrow, 2);
    }
  }
}

Elements elements_of(const codec::Codec& codec, const Box& box, std::span<const std::span<const std::byte>> parts) {
  Elements out;
  const CodecParts given = copy_parts(parts);
  if (codec.scheme().id == "bnb4") {
    elements_of_bnb4(codec, box, given, out);
    return out;
  }
  if (codec.scheme().id == "bnb8") {
    elements_of_bnb8(codec, box, given, out);
    return out;
  }
  const auto with_units = [&](CodecParts changed, Role role) {
    if (const std::size_t at = component_of(codec, role); at != SIZE_MAX) {
      fill_with_one(codec.components()[at], changed[at]);
    }
    return changed;
  };
  out.q = decode_floats(codec, box, with_units(with_units(given, Role::scale), Role::global_scale));
  CodecParts ones = given;
  clear_zeros(codec, box, ones);
  fill_codes(codec, box, ones, 1);
  out.s = decode_floats(codec, box, ones);
  if (component_of(codec, Role::global_scale) != SIZE_MAX) {
    out.first = decode_floats(codec, box, with_units(ones, Role::global_scale));
    // What the second level is, not what becomes of it: codec-specific only in that one multiplies, one divides.
    out.second = decode_floats(codec, box, with_units(ones, Role::scale));
    if (codec.scheme().id == "nvfp4_ct") {
      const std::size_t at = component_of(codec, Role::global_scale);
      float global = 1;
      std::memcpy(&global, given[at].data(), 4);
      out.second.assign(out.second.size(), global);
    }
  }
  if (component_of(codec, Role::zero_point) != SIZE_MAX) {
    CodecParts zero_codes = given;
    fill_codes(codec, box, zero_codes, 0);
    out.shift = decode_floats(codec, box, zero_codes);
  }
  return out;
}

void ArithmeticCodec::decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
                             std::byte* out) const {
  if (aligned.is_empty()) {
    return;
  }
  const Elements elements = elements_of(*inner_, aligned, parts);
  for (std::size_t i = 0; i < elements.q.size(); ++i) {
    const double exact = combine_(elements, i);
    if (target == DType::f32) {
      const std::uint32_t bits = codec::canonical_f32_bits(codec::bits_of_float(static_cast<float>(exact)));
      std::memcpy(out + 4 * i, &bits, 4);
    } else {
      const std::uint16_t bits = narrowed(codec::bits_of_float(to_odd(exact)), target);
      std::memcpy(out + 2 * i, &bits, 2);
    }
  }
}

}  // namespace weightproof::suites
