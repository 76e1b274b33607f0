// SPDX-License-Identifier: Apache-2.0
// layout.norm_offset: norm weights are stored as w or as 1+w by the family's convention, never as a mixture. From one
// file alone that can only be suspected: where all norms of a kind lie close together and one lies a whole 1 away.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

#include "loader/codec/scalar.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/quantization.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

constexpr std::uint64_t k_elements_min = 32;  // a mean of fewer says little
constexpr std::uint64_t k_bytes_max = 1U << 20U;
constexpr std::size_t k_kind_min = 3;
constexpr double k_spread_max = 0.05;  // of the means of a kind around their median
constexpr double k_offset_tolerance = 0.1;

struct Norm {
  const StoredTensor* row = nullptr;
  std::string kind;
  double mean = 0;
};

bool is_norm(const StoredTensor& row) {
  const bool is_float = row.dtype == DType::bf16 || row.dtype == DType::f16 || row.dtype == DType::f32;
  return row.is_described && is_float && row.shape.rank() == 1 && row.shape[0] >= k_elements_min &&
         row.bytes <= k_bytes_max && row.key.ends_with(".weight") && row.key.find("norm") != std::string_view::npos;
}

// "model.layers.#.input_layernorm.weight"
std::string kind_of(std::string_view key) {
  std::string kind;
  for (const char c : key) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit) {
      kind += c;
    } else if (kind.empty() || kind.back() != '#') {
      kind += kind.ends_with('.') ? '#' : c;
    }
  }
  return kind;
}

double mean_of(const StoredTensor& row, ComponentReader& reader) {
  std::vector<std::byte> bytes(row.bytes);
  reader.read(row, 0, bytes);
  const std::size_t width = bits_of(row.dtype) / 8;
  double sum = 0;
  for (std::size_t at = 0; at < bytes.size(); at += width) {
    std::uint32_t bits = 0;
    if (width == 4) {
      std::memcpy(&bits, &bytes[at], 4);
    } else {
      std::uint16_t code = 0;
      std::memcpy(&code, &bytes[at], 2);
      bits = row.dtype == DType::bf16 ? codec::bf16_to_f32_bits(code) : codec::f16_to_f32_bits(code);
    }
    sum += static_cast<double>(std::bit_cast<float>(bits));
  }
  return sum / static_cast<double>(row.shape[0]);
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The offset of one norm from its peers, where these lie close enough together for a 1 to mean something.
std::optional<double> offset_from(const Norm& norm, const std::vector<const Norm*>& peers) {
  if (peers.size() < k_kind_min) {
    return std::nullopt;
  }
  std::vector<double> means;
  for (const Norm* peer : peers) {
    means.push_back(peer->mean);
  }
  const double median = median_of(means);
  std::vector<double> distances;
  for (const double mean : means) {
    distances.push_back(std::fabs(mean - median));
  }
  const double offset = norm.mean - median;
  const bool is_one = std::fabs(std::fabs(offset) - 1.0) <= k_offset_tolerance;
  return is_one && median_of(distances) <= k_spread_max ? std::optional(offset) : std::nullopt;
}

std::string signed_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%+.3f", value);
  return text;
}

CheckRecord norm_offset(Context& context) {
  CheckBuilder builder("layout.norm_offset");
  std::vector<Norm> norms;
  ComponentReader reader(context.checkpoint, context.options.calls);
  for (const StoredTensor& row : context.checkpoint.catalog.tensors()) {
    if (!is_norm(row) || !context.selects(row.key)) {
      continue;
    }
    try {
      const double mean = mean_of(row, reader);
      if (std::isfinite(mean)) {
        norms.push_back({&row, kind_of(row.key), mean});
      }
    } catch (const Error& error) {
      // io.error and io.stale say it of every tensor of the file.
      return builder.skip("undecided where " + printable(error.message()));
    }
  }
  std::map<std::string, std::vector<const Norm*>> by_kind;
  std::map<std::uint64_t, std::vector<const Norm*>> by_length;
  for (const Norm& norm : norms) {
    by_kind[norm.kind].push_back(&norm);
    by_length[norm.row->shape[0]].push_back(&norm);
  }
  std::string message;
  for (const Norm& norm : norms) {
    // A kind of which there is one alone (the last norm) is held against the others of its length.
    const auto& kind = by_kind[norm.kind];
    const auto& peers = kind.size() >= k_kind_min ? kind : by_length[norm.row->shape[0]];
    const std::optional<double> offset = offset_from(norm, peers);
    if (!offset) {
      continue;
    }
    builder.subject(norm.row->key);
    if (message.empty()) {
      message = printable(norm.row->key) + " lies " + signed_text(*offset) + " from the " + grouped(peers.size()) +
                " norms like it: the 1 of 1+w was added twice or left out";
      builder.evidence("offset", *offset);
    }
  }
  builder.examined(norms.size());
  return builder.warn_if_subjects(message);
}

constexpr std::array k_checks = {VerifyCheck{"layout.norm_offset", &norm_offset}};

}  // namespace

std::span<const VerifyCheck> norm_checks() { return k_checks; }

}  // namespace weightproof::suites
