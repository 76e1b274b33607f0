// SPDX-License-Identifier: Apache-2.0
#include "suites/state/elements.hpp"

#include <cstring>

#include "loader/codec/scalar.hpp"
#include "loader/core/error.hpp"

namespace weightproof::suites {
namespace {

template <typename Word>
Word word_at(std::span<const std::byte> run, std::size_t index) {
  Word word{};
  std::memcpy(&word, run.data() + index * sizeof(Word), sizeof(Word));
  return word;
}

template <typename Word>
void put_word(std::span<std::byte> run, std::size_t index, Word word) {
  std::memcpy(run.data() + index * sizeof(Word), &word, sizeof(Word));
}

// NaN of a double keeps its sign and the top of its payload.
std::uint32_t narrow_double(std::uint64_t bits) {
  if ((bits & 0x7FFFFFFFFFFFFFFFULL) > 0x7FF0000000000000ULL) {
    return static_cast<std::uint32_t>((bits >> 32U) & 0x80000000U) | 0x7FC00000U |
           static_cast<std::uint32_t>((bits >> 29U) & 0x3FFFFFU);
  }
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return codec::bits_of_float(static_cast<float>(value));
}

std::uint64_t widen_float(std::uint32_t bits) {
  if (codec::is_nan_bits(bits)) {
    return (static_cast<std::uint64_t>(bits & 0x80000000U) << 32U) | 0x7FF8000000000000ULL |
           (static_cast<std::uint64_t>(bits & 0x3FFFFFU) << 29U);
  }
  const double value = static_cast<double>(codec::float_of_bits(bits));
  std::uint64_t wide = 0;
  std::memcpy(&wide, &value, sizeof wide);
  return wide;
}

std::uint32_t f32_bits_at(DType dtype, std::span<const std::byte> run, std::size_t index) {
  switch (dtype) {
    case DType::f16:
      return codec::f16_to_f32_bits(word_at<std::uint16_t>(run, index));
    case DType::bf16:
      return codec::bf16_to_f32_bits(word_at<std::uint16_t>(run, index));
    case DType::f32:
      return word_at<std::uint32_t>(run, index);
    default:
      return narrow_double(word_at<std::uint64_t>(run, index));
  }
}

template <typename Convert>
void cast_all(DType from, std::span<const std::byte> source, const Convert& convert) {
  const std::size_t count = source.size() * 8 / bits_of(from);
  for (std::size_t i = 0; i < count; ++i) {
    convert(i, f32_bits_at(from, source, i));
  }
}

}  // namespace

bool can_cast(DType from, DType to) { return from == to || (is_ordinary_float(from) && is_ordinary_float(to)); }

void cast_elements(DType from, std::span<const std::byte> source, DType to, std::span<std::byte> target) {
  if (from == to) {
    std::memcpy(target.data(), source.data(), source.size());
    return;
  }
  if (!can_cast(from, to)) {
    ErrorFacts facts;
    facts.expected = "F16, BF16, F32 or F64 on both sides";
    facts.actual = std::string(name_of(from)) + " to " + std::string(name_of(to));
    throw Error(ErrorCode::dtype_unsupported,
                std::string(name_of(from)) + " cannot be cast to " + std::string(name_of(to)), std::move(facts));
  }
  switch (to) {
    case DType::bf16:
      return cast_all(from, source, [&](std::size_t i, std::uint32_t bits) {
        put_word(target, i, codec::f32_bits_to_bf16_keep_nan(bits));
      });
    case DType::f16:
      return cast_all(from, source, [&](std::size_t i, std::uint32_t bits) {
        put_word(target, i, codec::f32_bits_to_f16_keep_nan(bits));
      });
    case DType::f32:
      return cast_all(from, source, [&](std::size_t i, std::uint32_t bits) { put_word(target, i, bits); });
    default:
      return cast_all(from, source, [&](std::size_t i, std::uint32_t bits) { put_word(target, i, widen_float(bits)); });
  }
}

bool has_numbers(DType dtype) { return bits_of(dtype) >= 8 && kind_of(dtype) != DTypeKind::complex; }

double number_at(DType dtype, std::span<const std::byte> run, std::size_t index) {
  const auto small = [&](std::uint32_t (*widen)(std::uint8_t)) {
    return static_cast<double>(codec::float_of_bits(widen(word_at<std::uint8_t>(run, index))));
  };
  switch (dtype) {
    case DType::f64: {
      double value = 0;
      std::memcpy(&value, run.data() + index * 8, 8);
      return value;
    }
    case DType::f32:
    case DType::bf16:
    case DType::f16:
      return static_cast<double>(codec::float_of_bits(f32_bits_at(dtype, run, index)));
    case DType::f8_e4m3:
      return small(&codec::e4m3fn_to_f32_bits);
    case DType::f8_e5m2:
      return small(&codec::e5m2_to_f32_bits);
    case DType::f8_e4m3fnuz:
      return small(&codec::e4m3fnuz_to_f32_bits);
    case DType::f8_e5m2fnuz:
      return small(&codec::e5m2fnuz_to_f32_bits);
    case DType::f8_e8m0:
      return small(&codec::e8m0_to_f32_bits);
    case DType::u8:
    case DType::bool8:
      return static_cast<double>(word_at<std::uint8_t>(run, index));
    case DType::i8:
      return static_cast<double>(word_at<std::int8_t>(run, index));
    case DType::u16:
      return static_cast<double>(word_at<std::uint16_t>(run, index));
    case DType::i16:
      return static_cast<double>(word_at<std::int16_t>(run, index));
    case DType::u32:
      return static_cast<double>(word_at<std::uint32_t>(run, index));
    case DType::i32:
      return static_cast<double>(word_at<std::int32_t>(run, index));
    case DType::u64:
      return static_cast<double>(word_at<std::uint64_t>(run, index));
    case DType::i64:
      return static_cast<double>(word_at<std::int64_t>(run, index));
    default:
      return 0;
  }
}

std::int64_t ordered_position(DType dtype, std::span<const std::byte> run, std::size_t index) {
  const auto order = [](std::uint64_t bits, unsigned width) {
    const std::uint64_t sign = 1ULL << (width - 1);
    const auto magnitude = static_cast<std::int64_t>(bits & (sign - 1));
    return (bits & sign) != 0 ? -magnitude : magnitude;
  };
  switch (dtype) {
    case DType::f16:
    case DType::bf16:
      return order(word_at<std::uint16_t>(run, index), 16);
    case DType::f32:
      return order(word_at<std::uint32_t>(run, index), 32);
    default:
      return order(word_at<std::uint64_t>(run, index), 64);
  }
}

std::string hex_of_element(DType dtype, std::span<const std::byte> run, std::size_t index) {
  constexpr std::string_view digits = "0123456789abcdef";
  const unsigned bits = bits_of(dtype);
  std::string out = "0x";
  if (bits < 8) {
    const auto byte = std::to_integer<unsigned>(run[index * bits / 8]);
    out += digits[byte >> 4U];
    out += digits[byte & 0xFU];
    return out + " (byte)";
  }
  const std::size_t bytes = bits / 8;
  for (std::size_t i = bytes; i-- > 0;) {
    const auto byte = std::to_integer<unsigned>(run[index * bytes + i]);
    out += digits[byte >> 4U];
    out += digits[byte & 0xFU];
  }
  return out;
}

}  // namespace weightproof::suites
