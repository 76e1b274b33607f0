// SPDX-License-Identifier: Apache-2.0
// Scalar formats against exact tables, exhaustively where the format is small.
#include <cmath>

#include "loader/codec/scalar.hpp"
#include "loader/codec/tests/golden_testing.hpp"

namespace weightproof::codec {
namespace {

std::uint32_t hex(const nlohmann::json& text) {
  return static_cast<std::uint32_t>(std::stoul(text.get<std::string>(), nullptr, 16));
}

struct Format {
  const char* name;
  std::uint32_t (*widen)(std::uint8_t);
  std::size_t codes;
};

TEST(Scalar, EveryCodeOfEverySmallFormat) {
  const nlohmann::json tables = testing::read_json("decode_tables.json");
  const Format formats[] = {{"F8_E4M3", e4m3fn_to_f32_bits, 256},       {"F8_E5M2", e5m2_to_f32_bits, 256},
                            {"F8_E4M3FNUZ", e4m3fnuz_to_f32_bits, 256}, {"F8_E5M2FNUZ", e5m2fnuz_to_f32_bits, 256},
                            {"F8_E8M0", e8m0_to_f32_bits, 256},         {"F4_E2M1", e2m1_to_f32_bits, 16}};
  for (const Format& format : formats) {
    SCOPED_TRACE(format.name);
    const nlohmann::json* table = nullptr;
    for (const auto& [name, value] : tables.items())
      if (name == format.name || (std::string(format.name) == "F4_E2M1" && (name == "F4" || name == "E2M1")))
        table = &value;
    ASSERT_NE(table, nullptr);
    const nlohmann::json& bits = table->is_object() ? (*table)["f32_bits"] : *table;
    ASSERT_EQ(bits.size(), format.codes);
    for (std::size_t code = 0; code < format.codes; ++code) {
      const std::uint32_t want = hex(bits[code]);
      const std::uint32_t got = format.widen(static_cast<std::uint8_t>(code));
      if (is_nan_bits(want)) {
        EXPECT_EQ(got, k_nan_f32) << code;
      } else {
        EXPECT_EQ(got, want) << code;
      }
    }
  }
}

TEST(Scalar, EncodingASmallFloatGivesItsCodeBack) {
  for (unsigned code = 0; code < 256; ++code) {
    const auto c = static_cast<std::uint8_t>(code);
    if (!is_nan_bits(e4m3fn_to_f32_bits(c))) {
      EXPECT_EQ(f32_bits_to_e4m3fn(e4m3fn_to_f32_bits(c), false), c);
    }
    if (!is_nan_bits(e5m2_to_f32_bits(c))) {
      EXPECT_EQ(f32_bits_to_e5m2(e5m2_to_f32_bits(c), false), c);
    }
    if (code < 16) {
      EXPECT_EQ(f32_bits_to_e2m1(e2m1_to_f32_bits(c)), c);
    }
  }
}

TEST(Scalar, SixteenBitFormatsRoundTripEveryCode) {
  for (unsigned code = 0; code < 65536; ++code) {
    const auto c = static_cast<std::uint16_t>(code);
    const std::uint32_t wide = bf16_to_f32_bits(c);
    EXPECT_EQ(f32_bits_to_bf16(wide), is_nan_bits(wide) ? k_nan_bf16 : c);
    const std::uint32_t half = f16_to_f32_bits(c);
    EXPECT_EQ(f32_bits_to_f16(half), is_nan_bits(half) ? k_nan_f16 : c) << code;
  }
}

TEST(Scalar, RoundingRows) {
  const nlohmann::json golden = testing::read_json("rounding_f32.json");
  const nlohmann::json& rows = golden["rows"];
  struct Column {
    const char* name;
    unsigned digits;
    std::uint32_t (*encode)(std::uint32_t);
    std::uint32_t has_own_nan;  ///< several NaN codes exist: ours is nan_code, with the sign in eight bits
    std::uint32_t nan_code;
  };
  const Column columns[] = {
      {"bf16", 4, [](std::uint32_t b) -> std::uint32_t { return f32_bits_to_bf16(b); }, 1, 0x7fc0},
      {"bf16_nan_payload_kept", 4, [](std::uint32_t b) -> std::uint32_t { return f32_bits_to_bf16_keep_nan(b); }, 0, 0},
      {"f16", 4, [](std::uint32_t b) -> std::uint32_t { return f32_bits_to_f16(b); }, 1, 0x7e00},
      {"e4m3", 2, [](std::uint32_t b) -> std::uint32_t { return f32_bits_to_e4m3fn(b, false); }, 0, 0},
      {"e4m3_sat", 2, [](std::uint32_t b) -> std::uint32_t { return f32_bits_to_e4m3fn(b, true); }, 0, 0},
      {"e5m2", 2, [](std::uint32_t b) -> std::uint32_t { return f32_bits_to_e5m2(b, false); }, 1, 0x7f},
      {"e5m2_sat", 2, [](std::uint32_t b) -> std::uint32_t { return f32_bits_to_e5m2(b, true); }, 1, 0x7f},
      {"e4m3fnuz", 2, [](std::uint32_t b) -> std::uint32_t { return f32_bits_to_e4m3fnuz(b, false); }, 0, 0},
      {"e4m3fnuz_sat", 2, [](std::uint32_t b) -> std::uint32_t { return f32_bits_to_e4m3fnuz(b, true); }, 0, 0},
      {"e5m2fnuz", 2, [](std::uint32_t b) -> std::uint32_t { return f32_bits_to_e5m2fnuz(b, false); }, 0, 0},
      {"e5m2fnuz_sat", 2, [](std::uint32_t b) -> std::uint32_t { return f32_bits_to_e5m2fnuz(b, true); }, 0, 0},
      {"e8m0_nearest", 2, [](std::uint32_t b) -> std::uint32_t { return f32_bits_to_e8m0_nearest(b); }, 0, 0},
      {"e2m3_sat", 2, [](std::uint32_t b) -> std::uint32_t { return f32_bits_to_e2m3(b); }, 0, 0},
      {"e3m2_sat", 2, [](std::uint32_t b) -> std::uint32_t { return f32_bits_to_e3m2(b); }, 0, 0},
      {"e2m1_sat", 2, [](std::uint32_t b) -> std::uint32_t { return f32_bits_to_e2m1(b); }, 0, 0}};
  std::map<std::string, std::size_t> at;
  for (std::size_t i = 0; i < golden["columns"].size(); ++i) at[golden["columns"][i].get<std::string>()] = i;
  std::size_t compared = 0;
  for (const auto& row : rows) {
    const std::uint32_t bits = hex(row[0]);
    for (const Column& column : columns) {
      const nlohmann::json& want = row[at.at(column.name)];
      if (want.is_null()) continue;  // NaN into a format without one: the caller refuses it before encoding
      std::uint32_t expected = hex(want);
      if (column.has_own_nan != 0 && is_nan_bits(bits))
        expected = column.nan_code | (column.digits == 2 ? (bits >> 24) & 0x80u : 0u);
      ASSERT_EQ(column.encode(bits), expected) << column.name << " of " << row[0];
      ++compared;
    }
  }
  std::printf("rounding: %zu rows, %zu values compared\n", rows.size(), compared);
  EXPECT_EQ(rows.size(), 9744u);
}

TEST(Scalar, TheProcessDoesNotFlushSubnormals) {
  volatile float smallest = float_of_bits(0x00800000u);
  EXPECT_EQ(bits_of_float(smallest * 0.5f), 0x00400000u);
}

}  // namespace
}  // namespace weightproof::codec
