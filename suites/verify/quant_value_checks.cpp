// SPDX-License-Identifier: Apache-2.0
// quant.* from bytes: screens over scales, and decoded values against the independent reference, window by window.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "loader/codec/kernels.hpp"
#include "loader/codec/scalar.hpp"
#include "reference/failure.hpp"
#include "reference/model.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

using codec::Component;
using codec::Role;
using reports::CheckBuilder;
using reports::CheckRecord;

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

CheckRecord scale_nan(Context& context) {
  CheckBuilder builder("quant.scale_nan");
  std::string last;
  std::string first;
  builder.examined(for_each_scale(
      context, [&](std::size_t, const Component& component, std::uint64_t index, float value, std::byte) {
        if (is_exponent(component.dtype) || std::isfinite(value)) {
          return;
        }
        if (last != component.key) {
          builder.subject(component.key);
          last = component.key;
        }
        if (first.empty()) {
          first = component.key + " at " + coordinate_text(component.shape, index) + " is " +
                  (std::isnan(value) ? "NaN" : "infinite");
        }
      }));
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
  bool is_divisor = false;
  const auto report = [&](const Component& component, std::uint64_t index, const char* what) {
    if (last != component.key) {
      builder.subject(component.key);
      last = component.key;
    }
    if (first.empty()) {
      first = component.key + " at " + coordinate_text(component.shape, index) + " is zero " + what;
    }
  };
  builder.examined(for_each_scale(
      context, [&](std::size_t i, const Component& component, std::uint64_t index, float value, std::byte) {
        if (value != 0.0F) {
          return;
        }
        if (state.found.tensors[i].scheme.id == "nvfp4_ct" && component.role == Role::global_scale) {
          is_divisor = true;
          report(component, index, "and divides");
        } else if (last != component.key && component.role == Role::scale &&
                   has_codes_under(state, i, component, index, context.keys(), codes)) {
          report(component, index, "over codes that are not");
        }
      }));
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

reference::Box reference_box(const Box& box) {
  return {reference::Shape(box.start.begin(), box.start.end()), reference::Shape(box.length.begin(), box.length.end())};
}

/// Windows of whole rows of the last axis, at most about a mebibyte decoded, on the codec's granule.
template <typename F>
bool for_each_window(const codec::Codec& decoder, F&& f) {
  const Shape& shape = decoder.natural_shape();
  const unsigned rank = shape.rank();
  if (element_count(shape).value_or(0) == 0) {
    return true;
  }
  const std::uint64_t cols = shape[rank - 1];
  const std::uint64_t rows = rank >= 2 ? shape[rank - 2] : 1;
  const std::uint64_t leads = rank == 3 ? shape[0] : 1;
  const std::uint64_t step_cols = std::min<std::uint64_t>(cols, k_window_bytes / 4);
  const std::uint64_t step_rows = std::max<std::uint64_t>(1, k_window_bytes / 4 / step_cols);
  for (std::uint64_t lead = 0; lead < leads; ++lead) {
    for (std::uint64_t row = 0; row < rows; row += step_rows) {
      for (std::uint64_t col = 0; col < cols; col += step_cols) {
        Box box = Box::whole(shape);
        box.start[rank - 1] = col;
        box.length[rank - 1] = std::min(step_cols, cols - col);
        if (rank >= 2) {
          box.start[rank - 2] = row;
          box.length[rank - 2] = std::min(step_rows, rows - row);
        }
        if (rank == 3) {
          box.start[0] = lead;
          box.length[0] = 1;
        }
        if (!f(decoder.align(box))) {
          return false;
        }
      }
    }
  }
  return true;
}

/// First difference of one tensor between codec and reference.
struct Difference {
  Coordinate at;
  std::string ours;
  std::string theirs;
};

std::string hex_of(const std::byte* bytes, std::size_t width) {
  std::string text;
  for (std::size_t i = width; i-- > 0;) {
    constexpr const char* digits = "0123456789abcdef";
    text += digits[std::to_integer<unsigned>(bytes[i]) >> 4];
    text += digits[std::to_integer<unsigned>(bytes[i]) & 15U];
  }
  return text;
}

std::optional<Difference> compare_tensor(const codec::QuantizedTensor& tensor, const codec::Codec& decoder,
                                         const Catalog& keys, ComponentReader& reader, const reference::Model& model,
                                         DType target, std::uint64_t& elements) {
  std::optional<Difference> difference;
  const std::size_t width = bits_of(target) / 8;
  const reference::Dtype reference_target = reference::dtype_named(name_of(target)).value();
  // Where a scheme renames the weight ("x_blocks" holds x) the reference keeps the stored name.
  const auto& logical = model.overlay().tensors;
  const bool has_name = std::any_of(logical.begin(), logical.end(),
                                    [&](const reference::Logical& entry) { return entry.name == tensor.key; });
  const std::string& name = has_name ? tensor.key : decoder.components()[0].key;
  for_each_window(decoder, [&](const Box& box) {
    std::vector<codec::ByteRun> runs;
    decoder.byte_runs(box, runs);
    std::vector<std::vector<std::byte>> parts(decoder.components().size());
    for (const codec::ByteRun& run : runs) {
      std::vector<std::byte>& part = parts[run.component];
      const std::size_t at = part.size();
      part.resize(at + run.bytes);
      reader.read(*keys.find(decoder.components()[run.component].key), run.offset, std::span(part).subspan(at));
    }
    const std::vector<std::span<const std::byte>> views(parts.begin(), parts.end());
    std::vector<std::byte> ours(box.element_count() * width);
    decoder.decode(box, views, target, ours.data());
    const reference::Bytes theirs = model.logical_region(name, reference_box(box), reference_target);
    elements += box.element_count();
    if (theirs.size() != ours.size()) {
      difference =
          Difference{box.start, std::to_string(ours.size()) + " bytes", std::to_string(theirs.size()) + " bytes"};
      return false;
    }
    const auto [a, b] = std::mismatch(ours.begin(), ours.end(), theirs.begin());
    if (a == ours.end()) {
      return true;
    }
    const auto element = static_cast<std::uint64_t>(a - ours.begin()) / width;
    Coordinate at = coordinate_of(box.length, element);
    for (unsigned axis = 0; axis < at.rank(); ++axis) {
      at[axis] += box.start[axis];
    }
    difference = Difference{at, hex_of(&ours[element * width], width), hex_of(&theirs[element * width], width)};
    return false;
  });
  return difference;
}

// The one check that asks two independent statements of every number format about every stored value.
CheckRecord dequant_parity(Context& context) {
  CheckBuilder builder("quant.dequant_parity");
  const QuantizedState& state = context.quantization();
  if (state.found.tensors.empty()) {
    return builder.skip("no tensor is quantized");
  }
  if (!context.faults.empty()) {
    return builder.skip("undecided where " + context.fault_text());
  }
  if (!state.undecodable.empty()) {
    return builder.skip("values cannot be decoded: " + state.undecodable);
  }
  try {
    reference::ModelOptions options;
    if (context.options.perturbation.reference) {
      context.options.perturbation.reference(options);
    }
    const reference::Model model = reference::Model::open(
        context.checkpoint.shards.size() == 1 && context.checkpoint.kind == storage::CheckpointKind::single_file
            ? context.checkpoint.path_of(0)
            : context.checkpoint.root,
        options);
    ComponentReader reader(context.checkpoint, context.options.calls);
    std::uint64_t elements = 0;
    std::uint64_t undecided = 0;
    for (std::size_t i = 0; i < state.found.tensors.size(); ++i) {
      const codec::QuantizedTensor& tensor = state.found.tensors[i];
      if (!context.selects(tensor.key)) {
        continue;
      }
      if (!state.codecs[i]) {
        ++undecided;
        continue;
      }
      for (const DType target : {DType::bf16, DType::f32}) {
        if (const auto difference =
                compare_tensor(tensor, *state.codecs[i], context.keys(), reader, model, target, elements)) {
          if (!builder.has_subjects()) {
            builder.expected(difference->theirs)
                .actual(difference->ours)
                .evidence("coordinate", reports::Value::array_of(
                                            std::vector<std::uint64_t>(difference->at.begin(), difference->at.end())));
            builder.message(tensor.key + " (" + tensor.scheme.id + ") differs from the reference at " +
                            to_string(difference->at) + " in " + std::string(name_of(target)));
          }
          builder.subject(tensor.key);
          break;
        }
      }
      if (context.options.progress) {
        context.options.progress("decoding twice", i + 1, state.found.tensors.size());
      }
    }
    builder.examined(elements).evidence("kernels", std::string(codec::kernels().name));
    if (builder.has_subjects()) {
      return builder.fail(counted(builder.subject_count(), "tensor decodes", "tensors decode") +
                          " to other values than the reference");
    }
    if (undecided > 0) {
      return builder.skip(counted(undecided, "quantized tensor has", "quantized tensors have") +
                          " no codec, see quant.scale_shape and quant.scale_missing");
    }
    return builder.pass();
  } catch (const reference::Failure& failure) {
    const bool has_finding =
        std::any_of(state.diagnostics.begin(), state.diagnostics.end(),
                    [](const Diagnostic& diagnostic) { return diagnostic.severity == Severity::fail; });
    if (has_finding) {
      return builder.skip(std::string("the reference refuses what other checks name: ") + failure.what());
    }
    return builder.code(failure.kind())
        .error(std::string("the reference cannot read this checkpoint: ") + failure.what());
  }
}

constexpr std::array k_checks = {
    VerifyCheck{"quant.scale_nan", &scale_nan}, VerifyCheck{"quant.scale_zero", &scale_zero},
    VerifyCheck{"quant.scale_e8m0", &scale_e8m0}, VerifyCheck{"quant.dequant_parity", &dequant_parity}};

}  // namespace

std::span<const VerifyCheck> quant_value_checks() { return k_checks; }

}  // namespace weightproof::suites
