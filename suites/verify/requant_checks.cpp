// SPDX-License-Identifier: Apache-2.0
// quant.requant_parity: what was decoded encodes to the codes it came from under the scales it came with; and where a
// checkpoint says by which formula it was quantized, its scales are what that formula gives.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "loader/codec/quantize.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/quant_windows.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

using codec::FreshFormula;
using codec::Role;
using reports::CheckBuilder;
using reports::CheckRecord;

std::size_t position_of(const codec::Codec& decoder, Role role) {
  const auto components = decoder.components();
  return static_cast<std::size_t>(
      std::find_if(components.begin(), components.end(), [role](const auto& each) { return each.role == role; }) -
      components.begin());
}

struct RoundTrip {
  bool has_inverse = true;
  std::optional<Coordinate> at;  ///< first value that did not come back
  std::uint64_t elements = 0;
  std::uint64_t aliases = 0;  ///< other codes of the same values: zeros of integers, NaN, underflow
};

RoundTrip round_trip(const codec::Codec& decoder, const Catalog& keys, ComponentReader& reader) {
  RoundTrip out;
  const std::size_t weight = position_of(decoder, Role::weight);
  for_each_quant_window(decoder, [&](const Box& box) {
    auto parts = read_parts(decoder, box, keys, reader);
    std::vector<float> values(box.element_count());
    decoder.decode(box, views_of_parts(parts), DType::f32, reinterpret_cast<std::byte*>(values.data()));
    std::vector<std::byte> codes(parts[weight].size());
    if (!decoder.encode(box, views_of_parts(parts), values, codes.data())) {
      out.has_inverse = false;
      return false;
    }
    out.elements += values.size();
    if (codes == parts[weight]) {
      return true;
    }
    ++out.aliases;
    parts[weight] = std::move(codes);
    std::vector<float> again(values.size());
    decoder.decode(box, views_of_parts(parts), DType::f32, reinterpret_cast<std::byte*>(again.data()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::memcmp(&values[i], &again[i], 4) != 0 && !(values[i] == 0 && again[i] == 0)) {
        out.at = coordinate_of(box.length, i);
        for (unsigned axis = 0; axis < out.at->rank(); ++axis) {
          (*out.at)[axis] += box.start[axis];
        }
        return false;
      }
    }
    return true;
  });
  return out;
}

/// Scales of one band of rows against the largest value under each. Empty: they follow the formula.
std::string formula_fault(FreshFormula formula, const codec::Codec& decoder, const Catalog& keys,
                          ComponentReader& reader) {
  const Shape& shape = decoder.natural_shape();
  const unsigned rank = shape.rank();
  if (formula == FreshFormula::fp8_block && decoder.scheme().id == "fp8_tensor" && rank >= 2 &&
      shape[rank - 2] <= codec::k_fresh_block && shape[rank - 1] <= codec::k_fresh_block) {
    formula = FreshFormula::fp8_tensor;  // one block is the whole matrix
  }
  const bool is_mx = formula == FreshFormula::mxfp4;
  const bool is_blocks = decoder.scheme().id == "mxfp4_blocks";
  const std::string_view wanted = is_mx && is_blocks                   ? "mxfp4_blocks"
                                  : is_mx                              ? "mxfp4_packed"
                                  : formula == FreshFormula::fp8_block ? "fp8_block"
                                                                       : "fp8_tensor";
  if (decoder.scheme().id != wanted || rank < 2) {
    return "is quantized as " + decoder.scheme().id;
  }
  const std::uint64_t rows = shape[rank - 2];
  const std::uint64_t cols = shape[rank - 1];
  const std::uint64_t step = is_mx ? 16 : codec::k_fresh_block;
  const std::size_t scale = position_of(decoder, Role::scale);
  for (std::uint64_t lead = 0; lead < (rank == 3 ? shape[0] : 1); ++lead) {
    float tensor_max = 0;
    float tensor_scale = 0;
    for (std::uint64_t row = 0; row < rows; row += step) {
      Box box = Box::whole(shape);
      box.start[rank - 2] = row;
      box.length[rank - 2] = std::min(step, rows - row);
      if (rank == 3) {
        box.start[0] = lead;
        box.length[0] = 1;
      }
      const auto parts = read_parts(decoder, box, keys, reader);
      std::vector<float> values(box.element_count());
      decoder.decode(box, views_of_parts(parts), DType::f32, reinterpret_cast<std::byte*>(values.data()));
      const std::uint64_t width = is_mx ? codec::k_fresh_group : formula == FreshFormula::fp8_block ? step : cols;
      std::uint64_t index = 0;
      for (std::uint64_t top = 0; top < box.length[rank - 2]; top += is_mx ? 1 : step) {
        for (std::uint64_t left = 0; left < cols; left += width, ++index) {
          float amax = 0;
          for (std::uint64_t r = top; r < (is_mx ? top + 1 : box.length[rank - 2]); ++r) {
            for (std::uint64_t c = left; c < std::min(cols, left + width); ++c) {
              amax = std::max(amax, std::abs(values[r * cols + c]));
            }
          }
          const std::string place =
              "rows from " + std::to_string(row + top) + ", columns from " + std::to_string(left) + ": ";
          if (is_mx) {
            const int exponent = std::to_integer<int>(parts[scale][index]) - 127;
            const bool fits =
                amax == 0 ? exponent == 0 || exponent == -127 : amax >= std::ldexp(4.0F, exponent) || exponent == -127;
            if (!fits) {
              return place + "the largest value is " + std::to_string(amax) + " under a scale of 2^" +
                     std::to_string(exponent);
            }
            continue;
          }
          float found = 0;
          std::memcpy(&found, parts[scale].data() + (formula == FreshFormula::fp8_block ? index * 4 : 0), 4);
          if (formula == FreshFormula::fp8_tensor) {
            tensor_max = std::max(tensor_max, amax);
            tensor_scale = found;
          } else if (amax == 0 ? found != 1.0F : amax != found * 448.0F && found != 0x1p-126F) {
            return place + "the largest value is " + std::to_string(amax) + " under a scale of " +
                   std::to_string(found);
          }
        }
      }
    }
    if (formula == FreshFormula::fp8_tensor &&
        (tensor_max == 0 ? tensor_scale != 1.0F : tensor_max != tensor_scale * 448.0F && tensor_scale != 0x1p-126F)) {
      return "the largest value is " + std::to_string(tensor_max) + " under a scale of " + std::to_string(tensor_scale);
    }
  }
  return {};
}

CheckRecord requant_parity(Context& context) {
  CheckBuilder builder("quant.requant_parity");
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
  std::string stated;
  if (context.checkpoint.config) {
    const ConfigValue* value = context.checkpoint.config->find("quantization_config.weightproof_formula");
    stated = value != nullptr && value->as_string() ? std::string(*value->as_string()) : std::string();
  }
  const std::optional<FreshFormula> formula = codec::formula_of(stated);
  if (!stated.empty() && !formula) {
    return builder.subject("config.json").actual(stated).fail("quantized by an unknown formula, " + stated);
  }
  ComponentReader reader(context.checkpoint, context.options.calls);
  std::uint64_t elements = 0;
  std::uint64_t without_inverse = 0;
  std::string first;
  for (std::size_t i = 0; i < state.found.tensors.size(); ++i) {
    const codec::QuantizedTensor& tensor = state.found.tensors[i];
    if (!state.codecs[i] || !context.selects(tensor.key)) {
      continue;
    }
    const RoundTrip trip = round_trip(*state.codecs[i], context.keys(), reader);
    elements += trip.elements;
    without_inverse += trip.has_inverse ? 0U : 1U;
    std::string fault;
    if (trip.at) {
      fault = "the value at " + to_string(*trip.at) + " does not encode to itself";
    } else if (formula) {
      fault = formula_fault(*formula, *state.codecs[i], context.keys(), reader);
    }
    if (!fault.empty()) {
      builder.subject(tensor.key);
      if (first.empty()) {
        first = tensor.key + (trip.at ? ": " : " does not follow " + stated + ": ") + fault;
      }
    }
    if (context.options.progress) {
      context.options.progress("encoding again", i + 1, state.found.tensors.size());
    }
  }
  builder.examined(elements);
  if (!stated.empty()) {
    builder.evidence("formula", stated);
  }
  if (builder.has_subjects()) {
    return builder.fail(first);
  }
  if (elements == 0 && without_inverse > 0) {
    return builder.skip("codes that index a table of values have no inverse");
  }
  return stated.empty() ? builder.pass() : builder.note("quantized by " + stated + ", whose scales these are");
}

constexpr std::array k_checks = {VerifyCheck{"quant.requant_parity", &requant_parity}};

}  // namespace

std::span<const VerifyCheck> requant_checks() { return k_checks; }

}  // namespace weightproof::suites
