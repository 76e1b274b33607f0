// SPDX-License-Identifier: Apache-2.0
#include "suites/explanations/numeric_operators.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "loader/codec/scalar.hpp"

namespace weightproof::suites {
namespace {

using codec::Component;
using codec::Role;

constexpr std::uint32_t k_sign = 0x80000000U;
constexpr std::uint32_t k_one_over_127 = 0x3c010204U;

bool is_one_of(const SharedCodec& codec, std::initializer_list<std::string_view> ids) {
  return std::find(ids.begin(), ids.end(), codec->scheme().id) != ids.end();
}
bool is_float8(const SharedCodec& codec) {
  return is_one_of(codec, {"fp8_bare", "fp8_tensor", "fp8_channel", "fp8_block", "mxfp8"});
}
bool is_integer(const SharedCodec& codec) {
  return is_one_of(codec, {"ct_pack", "int8", "torchao_int8", "modelopt_w4", "awq", "gptq"});
}
bool has_role(const SharedCodec& codec, Role role) { return component_of(*codec, role) != SIZE_MAX; }
const Component& component(const codec::Codec& codec, Role role) {
  return codec.components()[component_of(codec, role)];
}
bool has_exponents(const SharedCodec& codec) {
  if (!has_role(codec, Role::scale) || codec->scheme().id == "bnb4") {
    return false;
  }
  const DType dtype = component(*codec, Role::scale).dtype;
  return dtype == DType::u8 || dtype == DType::f8_e8m0;
}

SharedCodec input(const SharedCodec& codec, InputCodec::Change change) {
  return std::make_shared<InputCodec>(codec, std::move(change));
}
SharedCodec output(const SharedCodec& codec, OutputCodec::Value value, OutputCodec::Narrow narrow = {}) {
  return std::make_shared<OutputCodec>(codec, std::move(value), std::move(narrow));
}
SharedCodec arithmetic(const SharedCodec& codec, ArithmeticCodec::Combine combine) {
  return std::make_shared<ArithmeticCodec>(codec, std::move(combine));
}

// ---- codes

SharedCodec nibbles_swapped(const SharedCodec& codec) {
  const bool is_four_bits =
      is_one_of(codec, {"mxfp4_blocks", "mxfp4_packed", "f4", "nvfp4_modelopt", "nvfp4_ct", "bnb4", "modelopt_w4"}) ||
      (is_one_of(codec, {"ct_pack", "gptq", "awq"}) && codec->scheme().bits == 4);
  if (!is_four_bits) {
    return nullptr;
  }
  return input(codec, [](const codec::Codec& inner, const Box&, CodecParts& parts) {
    for (std::byte& byte : parts[component_of(inner, Role::weight)]) {
      byte = byte << 4U | byte >> 4U;
    }
  });
}

SharedCodec lanes_in_order(const SharedCodec& codec) {
  if (codec->scheme().id != "awq") {
    return nullptr;
  }
  return input(codec, [](const codec::Codec& inner, const Box&, CodecParts& parts) {
    constexpr std::array<unsigned, 8> lane = {0, 4, 1, 5, 2, 6, 3, 7};
    for (const Role role : {Role::weight, Role::zero_point}) {
      std::vector<std::byte>& bytes = parts[component_of(inner, role)];
      for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
        std::uint32_t word = 0;
        std::uint32_t moved = 0;
        std::memcpy(&word, bytes.data() + at, 4);
        for (unsigned c = 0; c < 8; ++c) {
          moved |= (word >> (4 * c) & 15U) << (4 * lane[c]);
        }
        std::memcpy(bytes.data() + at, &moved, 4);
      }
    }
  });
}

SharedCodec code_subnormals_flushed(const SharedCodec& codec) {
  const bool is_nibbles = is_one_of(codec, {"mxfp4_blocks", "mxfp4_packed", "f4", "nvfp4_modelopt", "nvfp4_ct"});
  if (!is_nibbles && !is_float8(codec)) {
    return nullptr;
  }
  return input(codec, [is_nibbles](const codec::Codec& inner, const Box&, CodecParts& parts) {
    const DType dtype = component(inner, Role::weight).dtype;
    const unsigned mantissa = dtype == DType::f8_e5m2 || dtype == DType::f8_e5m2fnuz ? 3 : 7;
    const bool is_fnuz = dtype == DType::f8_e4m3fnuz || dtype == DType::f8_e5m2fnuz;
    for (std::byte& byte : parts[component_of(inner, Role::weight)]) {
      auto code = std::to_integer<unsigned>(byte);
      if (is_nibbles) {
        code = (code & 7U) == 1 ? code & ~1U : code;
        code = (code & 0x70U) == 0x10 ? code & ~0x10U : code;
      } else if ((code & 0x7fU) <= mantissa && (code & 0x7fU) != 0) {
        code = is_fnuz ? 0 : code & 0x80U;
      }
      byte = static_cast<std::byte>(code);
    }
  });
}

SharedCodec other_bias(const SharedCodec& codec) {
  if (!is_float8(codec)) {
    return nullptr;
  }
  std::vector<Component> components(codec->components().begin(), codec->components().end());
  DType& dtype = components[component_of(*codec, Role::weight)].dtype;
  dtype = dtype == DType::f8_e4m3       ? DType::f8_e4m3fnuz
          : dtype == DType::f8_e4m3fnuz ? DType::f8_e4m3
          : dtype == DType::f8_e5m2     ? DType::f8_e5m2fnuz
                                        : DType::f8_e5m2;
  return codec::make_codec(codec->scheme(), std::move(components));
}

SharedCodec digit_dropped(const SharedCodec& codec) {
  if (codec->scheme().id != "bnb4") {
    return nullptr;
  }
  return input(codec, [](const codec::Codec& inner, const Box&, CodecParts& parts) {
    for (const Role role : {Role::quant_map, Role::nested_quant_map}) {
      const std::size_t at = component_of(inner, role);
      if (at == SIZE_MAX) {
        continue;
      }
      change_scales(inner.components()[at], parts[at], [](float value) {
        std::array<char, 32> text{};
        std::snprintf(text.data(), text.size(), "%.5g", static_cast<double>(value));
        return std::strtof(text.data(), nullptr);
      });
    }
  });
}

// ---- scales

SharedCodec scale_inverted(const SharedCodec& codec) {
  const Role role = has_role(codec, Role::global_scale)    ? Role::global_scale
                    : has_role(codec, Role::nested_absmax) ? Role::nested_absmax
                                                           : Role::scale;
  if (!has_role(codec, role) || !is_scale_component(*codec, component_of(*codec, role))) {
    return nullptr;
  }
  return input(codec, [role](const codec::Codec& inner, const Box&, CodecParts& parts) {
    const std::size_t at = component_of(inner, role);
    const Component& scale = inner.components()[at];
    if (scale.dtype == DType::u8 || scale.dtype == DType::f8_e8m0) {
      for (std::byte& byte : parts[at]) {
        byte = byte == std::byte{255} ? byte : static_cast<std::byte>(254 - std::to_integer<int>(byte));
      }
    } else {
      change_scales(scale, parts[at], [](float value) { return 1.0F / value; });
    }
  });
}

SharedCodec scale_rounded(const SharedCodec& codec) {
  bool has_wide = false;
  for (std::size_t i = 0; i < codec->components().size(); ++i) {
    const DType dtype = codec->components()[i].dtype;
    has_wide = has_wide || (is_scale_component(*codec, i) && (dtype == DType::f32 || dtype == DType::f16));
  }
  if (!has_wide) {
    return nullptr;
  }
  return input(codec, [](const codec::Codec& inner, const Box&, CodecParts& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const DType dtype = inner.components()[i].dtype;
      if (is_scale_component(inner, i) && (dtype == DType::f32 || dtype == DType::f16)) {
        change_scales(inner.components()[i], parts[i], [](float value) {
          return codec::float_of_bits(codec::bf16_to_f32_bits(codec::f32_bits_to_bf16(codec::bits_of_float(value))));
        });
      }
    }
  });
}

/// Elements of a scale tensor in another order.
SharedCodec rearranged(const SharedCodec& codec, std::uint64_t (*from)(const Shape& shape, std::uint64_t index)) {
  if (!has_role(codec, Role::scale)) {
    return nullptr;
  }
  return std::make_shared<ScaleCodec>(codec, [from](const Component& scale, std::vector<std::byte>& bytes) {
    const std::size_t width = bits_of(scale.dtype) / 8;
    const std::vector<std::byte> before = bytes;
    for (std::uint64_t i = 0; i < bytes.size() / width; ++i) {
      std::memcpy(bytes.data() + i * width, before.data() + from(scale.shape, i) * width, width);
    }
  });
}

SharedCodec scale_axis(const SharedCodec& codec) {
  return rearranged(codec, [](const Shape& shape, std::uint64_t index) {
    if (shape.rank() < 2) {
      return index;
    }
    const std::uint64_t rows = shape[shape.rank() - 2];
    const std::uint64_t cols = shape[shape.rank() - 1];
    const std::uint64_t in_matrix = index % (rows * cols);
    return index - in_matrix + in_matrix % cols * rows + in_matrix / cols;
  });
}

/// One scale per row taken for one per column. Square or not: columns beyond the last row start again.
SharedCodec scale_per_column(const SharedCodec& codec) {
  if (!is_one_of(codec, {"fp8_channel", "int8", "torchao_int8", "bnb8"}) || codec->natural_shape().rank() != 2) {
    return nullptr;
  }
  const std::uint64_t cols = codec->natural_shape()[1];
  const bool is_bnb8 = codec->scheme().id == "bnb8";
  return arithmetic(codec, [cols, is_bnb8](const Elements& e, std::size_t i) {
    const std::uint64_t rows = e.s.size() / cols;
    const float product = e.q[i] * e.s[i % cols % rows * cols];
    return static_cast<double>(is_bnb8 ? product * codec::float_of_bits(k_one_over_127) : product);
  });
}

SharedCodec scale_shifted(const SharedCodec& codec) {
  return rearranged(codec, [](const Shape& shape, std::uint64_t index) {
    const std::uint64_t count = element_count(shape).value_or(1);
    return (index + count - 1) % count;
  });
}

SharedCodec scale_grid_local(const SharedCodec& codec) {
  return codec->scheme().id == "fp8_block" ? std::make_shared<LocalGridCodec>(codec) : nullptr;
}

/// The scales of the first half of the rows for those of the second: gate's for up's.
SharedCodec gate_scale_for_up(const SharedCodec& codec) {
  const std::string& key = component(*codec, Role::weight).key;
  if (key.find("gate_up") == std::string::npos || !has_role(codec, Role::scale)) {
    return nullptr;
  }
  if (codec->scheme().id == "mxfp4_blocks") {  // gate and up rows alternate
    return rearranged(codec, [](const Shape& shape, std::uint64_t index) {
      const std::uint64_t cols = shape[shape.rank() - 1];
      return index / cols % 2 == 0 ? index : index - cols;
    });
  }
  return rearranged(codec, [](const Shape& shape, std::uint64_t index) {
    const std::uint64_t cols = shape.rank() < 2 ? 1 : shape[shape.rank() - 1];
    const std::uint64_t rows = shape.rank() < 2 ? element_count(shape).value_or(1) : shape[shape.rank() - 2];
    const std::uint64_t row = index / cols % rows;
    return rows % 2 == 0 && row >= rows / 2 ? index - rows / 2 * cols : index;
  });
}

SharedCodec exponents_changed(const SharedCodec& codec, bool is_zero_lost, bool is_nan_lost) {
  if (!has_exponents(codec)) {
    return nullptr;
  }
  return arithmetic(codec, [=](const Elements& e, std::size_t i) {
    float scale = e.s[i];
    if (is_zero_lost && codec::bits_of_float(scale) == 0x00400000U) {
      scale = 0;
    }
    if (is_nan_lost && std::isnan(scale)) {
      scale = HUGE_VALF;
    }
    return static_cast<double>(e.q[i] * scale);
  });
}

// ---- arithmetic

SharedCodec zero_point_moved(const SharedCodec& codec, float by) {
  if (!is_integer(codec)) {
    return nullptr;
  }
  return arithmetic(codec,
                    [by](const Elements& e, std::size_t i) { return static_cast<double>((e.q[i] - by) * e.s[i]); });
}

SharedCodec product_in_double(const SharedCodec& codec) {
  if (!has_role(codec, Role::scale)) {
    return nullptr;
  }
  const std::string_view id = codec->scheme().id;
  if (id == "bnb8") {
    return arithmetic(codec, [](const Elements& e, std::size_t i) {
      return static_cast<double>(e.q[i]) * static_cast<double>(e.s[i]) *
             static_cast<double>(codec::float_of_bits(k_one_over_127));
    });
  }
  if (id == "nvfp4_modelopt" || id == "nvfp4_ct") {
    const bool is_product = id == "nvfp4_modelopt";
    return arithmetic(codec, [is_product](const Elements& e, std::size_t i) {
      const double first = e.first[i];
      const double second = e.second[i];
      return static_cast<double>(e.q[i]) * (is_product ? first * second : first / second);
    });
  }
  return arithmetic(codec, [](const Elements& e, std::size_t i) {
    return static_cast<double>(e.q[i]) * static_cast<double>(e.s[i]);
  });
}

SharedCodec product_fused(const SharedCodec& codec) {
  if (codec->scheme().id == "bnb4" && has_role(codec, Role::nested_absmax)) {
    return arithmetic(codec, [](const Elements& e, std::size_t i) {
      const float scale = e.first.empty() ? e.s[i] : std::fma(e.first[i], e.second[i], e.shift[i]);
      return static_cast<double>(e.q[i] * scale);
    });
  }
  if (!is_integer(codec) || !has_role(codec, Role::zero_point)) {
    return nullptr;
  }
  // The zero point folded into an addend: q * s + (-z * s), the addend rounded, the rest not.
  return arithmetic(codec, [](const Elements& e, std::size_t i) {
    const float zero = std::round(-e.shift[i] / e.s[i]);
    return static_cast<double>(std::isfinite(zero) ? std::fma(e.q[i] + zero, e.s[i], e.shift[i]) : e.q[i] * e.s[i]);
  });
}

SharedCodec order_swapped(const SharedCodec& codec) {
  if (codec->scheme().id == "nvfp4_modelopt") {
    return arithmetic(codec, [](const Elements& e, std::size_t i) {
      const float product = e.q[i] * e.first[i];
      return static_cast<double>(product * e.second[i]);
    });
  }
  if (codec->scheme().id == "bnb8") {
    return arithmetic(codec, [](const Elements& e, std::size_t i) {
      const float scale = e.s[i] * codec::float_of_bits(k_one_over_127);
      return static_cast<double>(e.q[i] * scale);
    });
  }
  return nullptr;
}

SharedCodec reciprocal(const SharedCodec& codec) {
  if (codec->scheme().id == "nvfp4_ct") {
    return arithmetic(codec, [](const Elements& e, std::size_t i) {
      const float inverse = 1.0F / e.second[i];
      const float scale = e.first[i] * inverse;
      return static_cast<double>(e.q[i] * scale);
    });
  }
  if (codec->scheme().id == "bnb8") {
    return arithmetic(codec, [](const Elements& e, std::size_t i) {
      const float product = e.q[i] * e.s[i];
      return static_cast<double>(product / 127.0F);
    });
  }
  return nullptr;
}

// ---- results

SharedCodec scaled_by(const SharedCodec& codec, float factor) {
  return output(codec, [factor](std::uint32_t bits) {
    return codec::canonical_f32_bits(codec::bits_of_float(codec::float_of_bits(bits) * factor));
  });
}

SharedCodec results_flushed(const SharedCodec& codec) {
  return output(codec, [](std::uint32_t bits) { return (bits & 0x7f800000U) == 0 ? bits & k_sign : bits; });
}

SharedCodec nan_lost(const SharedCodec& codec) {
  return output(codec, [](std::uint32_t bits) { return codec::is_nan_bits(bits) ? 0x43e00000U : bits; });
}

SharedCodec negative_zero_lost(const SharedCodec& codec) {
  return output(codec, [](std::uint32_t bits) { return bits == k_sign ? 0U : bits; });
}

SharedCodec ties_away(const SharedCodec& codec) {
  return output(codec, {}, [](std::uint32_t bits, DType target) {
    if (codec::is_nan_bits(bits)) {
      return target == DType::f16 ? codec::k_nan_f16 : codec::k_nan_bf16;
    }
    return target == DType::f16 ? codec::f32_bits_to_f16(bits | ((bits & 0x1fffU) == 0x1000U ? 1U : 0U))
                                : static_cast<std::uint16_t>((bits + 0x8000U) >> 16U);
  });
}

SharedCodec truncated(const SharedCodec& codec) {
  return output(codec, {}, [](std::uint32_t bits, DType target) {
    if (codec::is_nan_bits(bits)) {
      return target == DType::f16 ? codec::k_nan_f16 : codec::k_nan_bf16;
    }
    return target == DType::f16 ? codec::f32_bits_to_f16(bits & ~0x1fffU) : static_cast<std::uint16_t>(bits >> 16U);
  });
}

SharedCodec via_f16(const SharedCodec& codec) {
  return output(codec, [](std::uint32_t bits) {
    return codec::canonical_f32_bits(codec::f16_to_f32_bits(codec::f32_bits_to_f16(bits)));
  });
}

constexpr std::array k_operators = {
    NumericOperator{"nibbles_swapped", "the two codes of each byte were exchanged", &nibbles_swapped, true, true},
    NumericOperator{"lanes_in_order", "the codes of a word were taken in order, not in AWQ's", &lanes_in_order, true,
                    true},
    NumericOperator{"scale_inverted", "the scale divided where it multiplies, or the other way round", &scale_inverted},
    NumericOperator{"scale_rounded_to_bf16", "the scale was rounded to BF16 before use", &scale_rounded},
    NumericOperator{"factor_two", "every value were doubled", [](const SharedCodec& c) { return scaled_by(c, 2.0F); }},
    NumericOperator{"factor_half", "every value were halved", [](const SharedCodec& c) { return scaled_by(c, 0.5F); }},
    NumericOperator{"other_bias", "FNUZ codes were read as FN codes, or the other way round", &other_bias},
    NumericOperator{"zero_point_plus_one", "every zero point were one too large",
                    [](const SharedCodec& c) { return zero_point_moved(c, 1); }},
    NumericOperator{"zero_point_minus_one", "every zero point were one too small",
                    [](const SharedCodec& c) { return zero_point_moved(c, -1); }},
    NumericOperator{"scale_axis", "the grid of scales was read along the wrong axis", &scale_axis},
    NumericOperator{"scale_per_column", "the scale of a row was used for a column", &scale_per_column},
    NumericOperator{"scale_shifted", "each scale were that of the block before", &scale_shifted},
    NumericOperator{"gate_scale_for_up", "up was scaled by gate's scales", &gate_scale_for_up},
    NumericOperator{"via_f16", "the value was rounded to F16 on the way", &via_f16},
    NumericOperator{"truncated", "the value was truncated, not rounded", &truncated},
    NumericOperator{"ties_away", "ties were rounded away from zero", &ties_away},
    NumericOperator{"order_swapped", "the scales were multiplied in another order", &order_swapped},
    NumericOperator{"reciprocal", "the division was done by a reciprocal, or the other way round", &reciprocal},
    NumericOperator{"product_in_double", "the product was rounded once, from double", &product_in_double},
    NumericOperator{"product_fused", "a product and a sum were rounded as one", &product_fused},
    NumericOperator{"exponent_by_shift", "exponent bytes 0 and 255 were ordinary ones",
                    [](const SharedCodec& c) { return exponents_changed(c, true, true); }},
    NumericOperator{"exponent_zero", "exponent byte 0 meant zero",
                    [](const SharedCodec& c) { return exponents_changed(c, true, false); }},
    NumericOperator{"exponent_infinite", "exponent byte 255 meant infinity",
                    [](const SharedCodec& c) { return exponents_changed(c, false, true); }},
    NumericOperator{"code_subnormals_flushed", "subnormal codes were zeros", &code_subnormals_flushed},
    NumericOperator{"result_subnormals_flushed", "subnormal results were flushed to zero", &results_flushed},
    NumericOperator{"nan_lost", "NaN codes were numbers", &nan_lost},
    NumericOperator{"negative_zero_lost", "zeros lost their sign", &negative_zero_lost},
    NumericOperator{"table_digit_dropped", "the table of values had too few digits", &digit_dropped},
    NumericOperator{"scale_grid_local", "blocks were counted from the part instead of the tensor", &scale_grid_local,
                    false},
};

}  // namespace

std::span<const NumericOperator> numeric_operators() { return k_operators; }

const NumericOperator* find_numeric_operator(std::string_view id) {
  for (const NumericOperator& row : k_operators) {
    if (row.id == id) {
      return &row;
    }
  }
  return nullptr;
}

bool has_order(const SharedCodec& codec) {
  return codec != nullptr && std::any_of(k_operators.begin(), k_operators.end(), [&codec](const NumericOperator& row) {
           return row.is_order && row.apply(codec) != nullptr;
         });
}

}  // namespace weightproof::suites
