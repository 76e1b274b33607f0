// SPDX-License-Identifier: Apache-2.0
#include "suites/explanations/numeric_diff.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "loader/codec/scalar.hpp"
#include "loader/core/limits.hpp"

namespace weightproof::suites {
namespace {

/// Beyond this many elements nothing is decoded again: probes look at whole tensors.
constexpr std::uint64_t k_elements_max = std::uint64_t{1} << 26U;
constexpr std::uint64_t k_first_window_bytes = 64 * 1024;

bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

/// Calls use(window of left, window of right) until it says no. The first window is small: most guesses end there.
bool for_each_pair(const DecodedState& a, const StateTensor& left, const DecodedState& b, const StateTensor& right,
                   const std::function<bool(std::span<const std::byte>, std::span<const std::byte>)>& use) {
  const std::uint64_t elements = element_count(left.shape).value_or(0);
  const std::size_t width_a = bits_of(left.dtype) / 8;
  const std::size_t width_b = bits_of(right.dtype) / 8;
  std::vector<std::byte> ours;
  std::vector<std::byte> theirs;
  std::uint64_t step = k_first_window_bytes / 4;
  for (std::uint64_t at = 0; at < elements;) {
    const std::uint64_t count = std::min(step, elements - at);
    ours.resize(count * width_a);
    theirs.resize(count * width_b);
    a.read(left, at * width_a, ours);
    b.read(right, at * width_b, theirs);
    if (!use(ours, theirs)) {
      return false;
    }
    at += count;
    step = limits::read_bytes_max / 4;
  }
  return true;
}

bool is_same_run(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b) {
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) {
    return true;
  }
  // NaN is NaN, whoever wrote it.
  const std::size_t width = bits_of(dtype) / 8;
  const std::uint32_t infinity = dtype == DType::f32 ? 0x7f800000U : dtype == DType::bf16 ? 0x7f80U : 0x7c00U;
  const std::uint32_t magnitude = dtype == DType::f32 ? 0x7fffffffU : 0x7fffU;
  for (std::size_t at = 0; at < a.size(); at += width) {
    std::uint32_t x = 0;
    std::uint32_t y = 0;
    std::memcpy(&x, a.data() + at, width);
    std::memcpy(&y, b.data() + at, width);
    if (x != y && ((x & magnitude) <= infinity || (y & magnitude) <= infinity)) {
      return false;
    }
  }
  return true;
}

std::uint32_t narrow_bits(DType dtype, std::uint32_t wide) {
  return dtype == DType::f16 ? codec::f32_bits_to_f16(wide) : codec::f32_bits_to_bf16(wide);
}
float value_of(DType dtype, std::uint32_t bits) {
  const auto narrow = static_cast<std::uint16_t>(bits);
  return codec::float_of_bits(dtype == DType::f16 ? codec::f16_to_f32_bits(narrow) : codec::bf16_to_f32_bits(narrow));
}

void vote(DType dtype, std::uint32_t wide, std::uint32_t found, RoundingVote& votes) {
  const float value = codec::float_of_bits(wide);
  const std::uint32_t nearest = narrow_bits(dtype, wide);
  if (codec::is_nan_bits(wide) || value_of(dtype, nearest) == value) {
    votes.none += nearest != found && !codec::is_nan_bits(wide) ? 1U : 0U;
    return;
  }
  // The two neighbours in magnitude.
  const std::uint32_t below = std::abs(value_of(dtype, nearest)) > std::abs(value) ? nearest - 1 : nearest;
  const std::uint32_t above = below + 1;
  const double gap_below = std::abs(static_cast<double>(value) - static_cast<double>(value_of(dtype, below)));
  const double gap_above = std::abs(static_cast<double>(value_of(dtype, above)) - static_cast<double>(value));
  const std::uint32_t away = gap_below < gap_above ? below : above;
  const bool is_negative = (wide >> 31U) != 0;
  ++votes.decisive;
  votes.nearest_even += found == nearest ? 1U : 0U;
  votes.nearest_away += found == away ? 1U : 0U;
  votes.toward_zero += found == below ? 1U : 0U;
  votes.up += found == (is_negative ? below : above) ? 1U : 0U;
  votes.down += found == (is_negative ? above : below) ? 1U : 0U;
  votes.none += found != below && found != above ? 1U : 0U;
}

/// The side that can be read in F32 with more digits than the other one has, as a tensor to be read so.
std::optional<StateTensor> as_wide(const StateTensor& tensor) {
  if (!tensor.codec && tensor.dtype != DType::f32) {
    return std::nullopt;
  }
  StateTensor wide = tensor;
  wide.dtype = DType::f32;
  wide.bytes = element_count(wide.shape).value_or(0) * 4;
  return wide;
}

std::optional<RoundingVote> count_votes(const DecodedState& a, const StateTensor& left, const DecodedState& b,
                                        const StateTensor& right) {
  const auto wide = as_wide(left);
  if (!wide || !is_half(right.dtype) || right.codec) {
    return std::nullopt;
  }
  RoundingVote votes;
  for_each_pair(a, *wide, b, right, [&](std::span<const std::byte> ours, std::span<const std::byte> theirs) {
    for (std::size_t i = 0; i < theirs.size() / 2; ++i) {
      std::uint32_t value = 0;
      std::uint16_t found = 0;
      std::memcpy(&value, ours.data() + 4 * i, 4);
      std::memcpy(&found, theirs.data() + 2 * i, 2);
      vote(right.dtype, value, found, votes);
    }
    return true;
  });
  return votes;
}

void add_probe(const DecodedState& a, const StateTensor& left, const DecodedState& b, const StateTensor& right,
               const char* which, NumericEvidence& evidence) {
  if (!evidence.mistake.empty() || !left.codec || (!is_half(right.dtype) && right.dtype != DType::f32)) {
    return;
  }
  StateTensor probe = left;
  probe.dtype = right.dtype;
  probe.bytes = element_count(probe.shape).value_or(0) * bits_of(probe.dtype) / 8;
  const NumericOperator* found = recognise_mistake(left.codec, [&](const SharedCodec& mistaken) {
    probe.codec = mistaken;
    return for_each_pair(a, probe, b, right, [&](std::span<const std::byte> ours, std::span<const std::byte> theirs) {
      return is_same_run(right.dtype, ours, theirs);
    });
  });
  if (found != nullptr) {
    evidence.mistake = found->id;
    evidence.explanation = "the " + std::string(which) + " side is what the other decodes to as if " +
                           std::string(found->says) + " (" + std::string(found->id) + ")";
  }
}

}  // namespace

std::uint64_t UlpHistogram::total() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts) {
    sum += count;
  }
  return sum;
}

std::size_t UlpHistogram::bucket_of(std::uint64_t steps) {
  if (steps <= 2) {
    return static_cast<std::size_t>(steps);
  }
  if (steps > (std::uint64_t{1} << 20U)) {
    return k_buckets - 2;
  }
  return static_cast<std::size_t>(std::bit_width(steps - 1)) + 1;
}

std::string UlpHistogram::label(std::size_t bucket) {
  if (bucket <= 2) {
    return std::to_string(bucket);
  }
  if (bucket == k_buckets - 1) {
    return "none";
  }
  if (bucket == k_buckets - 2) {
    return "above 1048576";
  }
  const std::uint64_t end = std::uint64_t{1} << (bucket - 1);
  return std::to_string(end / 2 + 1) + "-" + std::to_string(end);
}

std::string_view RoundingVote::winner() const {
  if (decisive == 0 || none != 0) {
    return {};
  }
  return nearest_even == decisive   ? "to nearest, ties to even"
         : nearest_away == decisive ? "to nearest, ties away from zero"
         : toward_zero == decisive  ? "toward zero"
         : up == decisive           ? "upward"
         : down == decisive         ? "downward"
                                    : "";
}

const NumericOperator* recognise_mistake(const SharedCodec& codec,
                                         const std::function<bool(const SharedCodec& mistaken)>& is_match) {
  for (const NumericOperator& row : numeric_operators()) {
    if (!row.is_probe) {
      continue;
    }
    if (const SharedCodec mistaken = row.apply(codec); mistaken != nullptr && is_match(mistaken)) {
      return &row;
    }
  }
  return nullptr;
}

NumericEvidence numeric_evidence(const DecodedState& a, const StateTensor& left, const DecodedState& b,
                                 const StateTensor& right) {
  NumericEvidence out;
  if (left.shape != right.shape || element_count(left.shape).value_or(0) > k_elements_max) {
    return out;
  }
  out.rounding = count_votes(a, left, b, right);
  if (!out.rounding) {
    out.rounding = count_votes(b, right, a, left);
  }
  add_probe(a, left, b, right, "second", out);
  add_probe(b, right, a, left, "first", out);
  if (out.explanation.empty() && out.rounding && out.rounding->nearest_even != out.rounding->decisive &&
      !out.rounding->winner().empty()) {
    out.explanation = "rounded " + std::string(out.rounding->winner());
  }
  return out;
}

}  // namespace weightproof::suites
