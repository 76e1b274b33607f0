// SPDX-License-Identifier: Apache-2.0
// quant.* from bytes: screens over scales.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "loader/codec/scalar.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

using codec::Component;
using codec::Role;
using reports::CheckBuilder;
using reports::CheckRecord;
using reports::Value;

constexpr std::size_t k_window_bytes = std::size_t{1} << 20;

bool is_exponent(DType dtype) { return dtype == DType::f8_e8m0 || dtype == DType::u8; }
bool is_scale(const Component& component) {
  return component.role == Role::scale || component.role == Role::global_scale;
}
/// A quantized absmax (bitsandbytes) is a code, no scale.
bool is_code(const codec::QuantizedTensor& tensor, const Component& component) {
  return tensor.scheme.id == "bnb4" && component.dtype == DType::u8;
}

float scale_value(DType dtype, const std::byte* bytes, std::uint64_t index) {
  std::uint32_t word = 0;
  switch (dtype) {
    case DType::f32:
      std::memcpy(&word, bytes + 4 * index, 4);
      return codec::float_of_bits(word);
    case DType::bf16:
      std::memcpy(&word, bytes + 2 * index, 2);
      return codec::float_of_bits(codec::bf16_to_f32_bits(static_cast<std::uint16_t>(word)));
    case DType::f16:
      std::memcpy(&word, bytes + 2 * index, 2);
      return codec::float_of_bits(codec::f16_to_f32_bits(static_cast<std::uint16_t>(word)));
    case DType::f8_e4m3:
      return codec::float_of_bits(codec::e4m3fn_to_f32_bits(std::to_integer<std::uint8_t>(bytes[index])));
    default:
      return codec::float_of_bits(codec::e8m0_to_f32_bits(std::to_integer<std::uint8_t>(bytes[index])));
  }
}

/// Calls f(tensor, component, element index, value, byte) for every element of every scale that is there to read.
template <typename F>
std::uint64_t for_each_scale(Context& context, F&& f) {
  const QuantizedState& state = context.quantization();
  ComponentReader reader(context.checkpoint, context.options.calls);
  std::vector<std::byte> window;
  std::uint64_t examined = 0;
  for (std::size_t i = 0; i < state.found.tensors.size(); ++i) {
    const codec::QuantizedTensor& tensor = state.found.tensors[i];
    if (!state.codecs[i]) {
      continue;
    }
    for (const Component& component : tensor.components) {
      if (!is_scale(component) || is_code(tensor, component)) {
        continue;
      }
      const StoredTensor* row = context.keys().find(component.key);
      const std::uint64_t width = bits_of(component.dtype) / 8;
      for (std::uint64_t offset = 0; offset < row->bytes; offset += k_window_bytes) {
        window.resize(std::min<std::uint64_t>(k_window_bytes, row->bytes - offset));
        reader.read(*row, offset, window);
        for (std::uint64_t k = 0; k < window.size() / width; ++k) {
          f(i, component, offset / width + k, scale_value(component.dtype, window.data(), k), window[k * width]);
        }
      }
      ++examined;
    }
  }
  return examined;
}

// "x.weight_scale_inv[0,3], the scale of x.weight,"; a single number has no coordinate.
std::string scale_text(const codec::QuantizedTensor& tensor, const Component& scale, std::uint64_t index) {
  const std::string where = element_count(scale.shape) == 1U ? std::string() : coordinate_text(scale.shape, index);
  return printable(scale.key) + where + ", the scale of " + printable(tensor.key) + ",";
}

CheckRecord scale_nan(Context& context) {
  CheckBuilder builder("quant.scale_nan");
  const QuantizedState& state = context.quantization();
  std::vector<std::string> scales;
  std::vector<std::string> weights;
  std::string first;
  std::string what;
  builder.examined(for_each_scale(
      context, [&](std::size_t i, const Component& component, std::uint64_t index, float value, std::byte) {
        if (is_exponent(component.dtype) || std::isfinite(value)) {
          return;
        }
        if (scales.empty() || scales.back() != component.key) {
          builder.subject(component.key);
          scales.push_back(component.key);
          weights.push_back(state.found.tensors[i].key);
        }
        if (first.empty()) {
          what = std::isnan(value) ? "NaN" : "infinite";
          first = scale_text(state.found.tensors[i], component, index) + " is " + what;
        }
      }));
  if (builder.has_subjects()) {
    // The weight is decoded by it: whatever else fails about either has this reason.
    builder.evidence("title", (scales.size() == 1 ? "Scale is " : "Scales are ") + what);
    builder.evidence("explains", Value::array_of(weights));
  }
  return builder.hint("every value under such a scale is lost: export the checkpoint again").fail_if_subjects(first);
}

/// True where the codes under one scale are not all zeros. Schemes whose scales are a grid over [rows, columns].
bool has_codes_under(const QuantizedState& state, std::size_t i, const Component& scale, std::uint64_t index,
                     const Catalog& keys, ComponentReader& reader) {
  const codec::Codec& decoder = *state.codecs[i];
  const codec::Scheme& scheme = decoder.scheme();
  const Shape& shape = decoder.natural_shape();
  if (shape.rank() < 2) {
    return true;
  }
  Box box = Box::whole(shape);
  const unsigned rank = shape.rank();
  if (element_count(scale.shape) != 1U) {
    const std::uint64_t edge_rows = scheme.id == "fp8_block" ? scheme.block_rows : 1;
    const std::uint64_t edge_cols = scheme.id == "fp8_block"         ? scheme.block_cols
                                    : scheme.id.starts_with("nvfp4") ? 16
                                    : scheme.id.starts_with("mxfp4") ? 32
                                    : scheme.group_size != 0         ? scheme.group_size
                                                                     : shape[rank - 1];
    const Coordinate at = coordinate_of(scale.shape, index);
    const unsigned grid = at.rank();
    const std::uint64_t grid_col = grid >= 2 ? at[grid - 1] : 0;
    const std::uint64_t grid_row = grid >= 2 ? at[grid - 2] : at[0];
    if (grid_row * edge_rows >= shape[rank - 2] || grid_col * edge_cols >= shape[rank - 1]) {
      return false;  // padding of the grid
    }
    box.start[rank - 2] = grid_row * edge_rows;
    box.length[rank - 2] = std::min(edge_rows, shape[rank - 2] - box.start[rank - 2]);
    box.start[rank - 1] = grid_col * edge_cols;
    box.length[rank - 1] = std::min(edge_cols, shape[rank - 1] - box.start[rank - 1]);
    if (rank == 3 && grid == 3) {
      box.start[0] = at[0];
      box.length[0] = 1;
    }
  }
  std::vector<codec::ByteRun> runs;
  decoder.byte_runs(decoder.align(box), runs);
  std::vector<std::byte> bytes;
  for (const codec::ByteRun& run : runs) {
    const Component& component = decoder.components()[run.component];
    if (component.role != Role::weight) {
      continue;
    }
    const StoredTensor* row = keys.find(component.key);
    for (std::uint64_t done = 0; done < run.bytes; done += k_window_bytes) {
      bytes.resize(std::min<std::uint64_t>(k_window_bytes, run.bytes - done));
      reader.read(*row, run.offset + done, bytes);
      const bool is_nibbles = scheme.id.starts_with("mxfp4") || scheme.id.starts_with("nvfp4");
      const auto magnitude = static_cast<std::byte>(is_nibbles ? 0x77 : component.dtype == DType::i8 ? 0xff : 0x7f);
      if (std::any_of(bytes.begin(), bytes.end(), [&](std::byte b) { return (b & magnitude) != std::byte{0}; })) {
        return true;
      }
    }
  }
  return false;
}

CheckRecord scale_zero(Context& context) {
  CheckBuilder builder("quant.scale_zero");
  const QuantizedState& state = context.quantization();
  ComponentReader codes(context.checkpoint, context.options.calls);
  std::string last;
  std::string first;
  std::vector<std::string> weights;
  bool is_divisor = false;
  const auto report = [&](std::size_t i, const Component& component, std::uint64_t index, const char* what) {
    if (last != component.key) {
      builder.subject(component.key);
      last = component.key;
      weights.push_back(state.found.tensors[i].key);
    }
    if (first.empty()) {
      first = scale_text(state.found.tensors[i], component, index) + " is zero " + what;
    }
  };
  builder.examined(for_each_scale(
      context, [&](std::size_t i, const Component& component, std::uint64_t index, float value, std::byte) {
        if (value != 0.0F) {
          return;
        }
        if (state.found.tensors[i].scheme.id == "nvfp4_ct" && component.role == Role::global_scale) {
          is_divisor = true;
          report(i, component, index, "and divides");
        } else if (last != component.key && component.role == Role::scale &&
                   has_codes_under(state, i, component, index, context.keys(), codes)) {
          report(i, component, index, "over codes that are not");
        }
      }));
  if (builder.has_subjects()) {
    builder.evidence("explains", Value::array_of(weights));
  }
  if (is_divisor) {
    return builder.fail(first);
  }
  return builder.warn_if_subjects(first);
}

CheckRecord scale_e8m0(Context& context) {
  CheckBuilder builder("quant.scale_e8m0");
  std::string last;
  std::uint64_t zeros = 0;
  std::uint64_t nans = 0;
  builder.examined(
      for_each_scale(context, [&](std::size_t, const Component& component, std::uint64_t, float, std::byte byte) {
        if (!is_exponent(component.dtype) || (byte != std::byte{0} && byte != std::byte{0xff})) {
          return;
        }
        (byte == std::byte{0} ? zeros : nans) += 1;
        if (last != component.key) {
          builder.subject(component.key);
          last = component.key;
        }
      }));
  if (!builder.has_subjects()) {
    return builder.pass();
  }
  builder.evidence("byte_0", zeros).evidence("byte_255", nans);
  return builder
      .explanation(
          "byte 0 is read as 2^-127 and byte 255 as NaN, as the format says; some loaders read zero and infinity")
      .warn_if_subjects(counted(zeros, "exponent byte", "exponent bytes") + " of 0 and " + grouped(nans) +
                        " of 255: loaders disagree on them");
}

constexpr std::array k_checks = {VerifyCheck{"quant.scale_nan", &scale_nan},
                                 VerifyCheck{"quant.scale_zero", &scale_zero},
                                 VerifyCheck{"quant.scale_e8m0", &scale_e8m0}};

}  // namespace

std::span<const VerifyCheck> quant_value_checks() { return k_checks; }

}  // namespace weightproof::suites
