// SPDX-License-Identifier: Apache-2.0
#include "loader/core/dtype.hpp"

#include <array>

namespace weightproof {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  unsigned bits;
  DTypeKind kind;
};

constexpr DTypeRow k_rows[] = {
#define X(enumerator, name, bits, kind) {DType::enumerator, name, bits, DTypeKind::kind},
#include "loader/core/dtypes.def"
#undef X
};
static_assert(std::size(k_rows) == k_dtype_count);

constexpr std::array<DType, k_dtype_count> k_dtypes = [] {
  std::array<DType, k_dtype_count> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = k_rows[i].dtype;
  return all;
}();

struct ConfigName {
  std::string_view name;
  DType dtype;
};

constexpr ConfigName k_config_names[] = {
    {"bfloat16", DType::bf16},
    {"bf16", DType::bf16},
    {"float16", DType::f16},
    {"fp16", DType::f16},
    {"half", DType::f16},
    {"f16", DType::f16},
    {"float32", DType::f32},
    {"fp32", DType::f32},
    {"float", DType::f32},
    {"f32", DType::f32},
    {"float64", DType::f64},
    {"fp64", DType::f64},
    {"double", DType::f64},
    {"f64", DType::f64},
    {"float8_e4m3fn", DType::f8_e4m3},
    {"float8_e5m2", DType::f8_e5m2},
    {"float8_e8m0fnu", DType::f8_e8m0},
    {"float8_e4m3fnuz", DType::f8_e4m3fnuz},
    {"float8_e5m2fnuz", DType::f8_e5m2fnuz},
    {"float4_e2m1fn_x2", DType::f4},
    {"bool", DType::bool8},
    {"uint8", DType::u8},
    {"int8", DType::i8},
    {"int16", DType::i16},
    {"short", DType::i16},
    {"uint16", DType::u16},
    {"int32", DType::i32},
    {"int", DType::i32},
    {"uint32", DType::u32},
    {"int64", DType::i64},
    {"long", DType::i64},
    {"uint64", DType::u64},
    {"complex64", DType::c64},
};

}  // namespace

std::string_view name_of(DType dtype) { return k_rows[static_cast<std::size_t>(dtype)].name; }
unsigned bits_of(DType dtype) { return k_rows[static_cast<std::size_t>(dtype)].bits; }
DTypeKind kind_of(DType dtype) { return k_rows[static_cast<std::size_t>(dtype)].kind; }

std::optional<DType> dtype_from_name(std::string_view name) {
  // Nearly every row of a real header says one of these two.
  if (name == "BF16") return DType::bf16;
  if (name == "F32") return DType::f32;
  for (const DTypeRow& row : k_rows) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::span<const DType> all_dtypes() { return k_dtypes; }

std::optional<DType> dtype_from_config_name(std::string_view name) {
  constexpr std::string_view k_prefix = "torch.";
  if (name.starts_with(k_prefix)) name.remove_prefix(k_prefix.size());
  for (const ConfigName& row : k_config_names) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace weightproof
