// SPDX-License-Identifier: Apache-2.0
#include "suites/explanations/numeric_diff.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "loader/core/limits.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites {
namespace {

/// Of a larger tensor so many elements are looked at, from the beginning.
constexpr std::uint64_t k_elements_max = std::uint64_t{1} << 26U;
/// So many tell an order of codes from another one by how near they come.
constexpr std::uint64_t k_order_elements_max = std::uint64_t{1} << 20U;
constexpr std::uint64_t k_first_window_bytes = 64 * 1024;

bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

/// Calls use(window of left, window of right) until it says no. The first window is small: most guesses end there.
bool for_each_pair(const DecodedState& a, const StateTensor& left, const DecodedState& b, const StateTensor& right,
                   const std::function<bool(std::span<const std::byte>, std::span<const std::byte>)>& use,
                   std::uint64_t elements_max = k_elements_max) {
  const std::uint64_t elements = std::min(element_count(left.shape).value_or(0), elements_max);
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

StateTensor in_f32(const StateTensor& tensor) {
  StateTensor wide = tensor;
  wide.dtype = DType::f32;
  wide.bytes = element_count(wide.shape).value_or(0) * 4;
  return wide;
}

// The right side, as rounded from the left one. Nothing where that cannot be: the left is read in F32, exactly or, of
// F64, as an export goes.
std::optional<RoundingVote> count_votes(const DecodedState& a, const StateTensor& left, const DecodedState& b,
                                        const StateTensor& right) {
  const bool is_other = left.codec || (is_ordinary_float(left.dtype) && left.dtype != right.dtype);
  if (!is_other || !is_half(right.dtype) || right.codec) {
    return std::nullopt;
  }
  RoundingVote votes;
  for_each_pair(a, in_f32(left), b, right, [&](std::span<const std::byte> ours, std::span<const std::byte> theirs) {
    for (std::size_t i = 0; i < theirs.size() / 2; ++i) {
      float value = 0;
      std::uint16_t found = 0;
      std::memcpy(&value, ours.data() + 4 * i, 4);
      std::memcpy(&found, theirs.data() + 2 * i, 2);
      votes.add(value, found, right.dtype);
    }
    return true;
  });
  return votes;
}

// Either side may be the one that was rounded. The second is what is judged: it is asked first.
std::optional<RoundingVote> rounding_of(const DecodedState& a, const StateTensor& left, const DecodedState& b,
                                        const StateTensor& right) {
  std::optional<RoundingVote> votes = count_votes(a, left, b, right);
  if (votes && votes->winner()) {
    return votes;
  }
  std::optional<RoundingVote> reverse = count_votes(b, right, a, left);
  if (!reverse || (votes && !reverse->winner())) {
    return votes;
  }
  reverse->is_first_rounded = true;
  return reverse;
}

std::string text_of(const RoundingVote& votes, const DecodedState& a, const DecodedState& b) {
  const std::string rule(to_string(*votes.winner()));
  const std::string flushed =
      votes.has_flushed() ? ", " + counted(votes.flushed, "subnormal value", "subnormal values") + " flushed to zero"
                          : std::string();
  return votes.is_first_rounded ? a.called() + " is what " + b.called() + " holds, rounded " + rule + flushed
                                : "rounded " + rule + flushed;
}

void add_probe(const DecodedState& a, const StateTensor& left, const DecodedState& b, const StateTensor& right,
               NumericEvidence& evidence) {
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
    evidence.order = found->is_order ? found->id : std::string_view();
    evidence.explanation = b.called() + " holds what " + a.called() + " decodes to as if " + std::string(found->says) +
                           " (" + std::string(found->id) + ")";
  }
}

/// Sum of the squares of what lies between two sides, both read in F32.
double distance(const DecodedState& a, const StateTensor& left, const DecodedState& b, const StateTensor& right) {
  double sum = 0;
  for_each_pair(
      a, left, b, right,
      [&sum](std::span<const std::byte> ours, std::span<const std::byte> theirs) {
        for (std::size_t at = 0; at < ours.size(); at += 4) {
          float x = 0;
          float y = 0;
          std::memcpy(&x, ours.data() + at, 4);
          std::memcpy(&y, theirs.data() + at, 4);
          const double gap = static_cast<double>(x) - static_cast<double>(y);
          sum += std::isfinite(gap) ? gap * gap : 0;
        }
        return true;
      },
      k_order_elements_max);
  return sum;
}

/// Codes beside the weights that they were made of: no order gives those exactly, the right one comes near.
void vote_order(const DecodedState& a, const StateTensor& left, const DecodedState& b, const StateTensor& right,
                NumericEvidence& evidence) {
  const bool is_plain = !right.codec && (is_half(right.dtype) || right.dtype == DType::f32);
  if (!evidence.mistake.empty() || !is_plain || !has_order(left.codec)) {
    return;
  }
  StateTensor probe = in_f32(left);
  const StateTensor other = in_f32(right);
  // Half of the distance, squared: what is merely another number of bits is not told apart by so much.
  double nearest = distance(a, probe, b, other) / 4;
  for (const NumericOperator& row : numeric_operators()) {
    probe.codec = row.is_order ? row.apply(left.codec) : nullptr;
    if (probe.codec == nullptr) {
      continue;
    }
    if (const double found = distance(a, probe, b, other); found < nearest) {
      nearest = found;
      evidence.order = row.id;
      evidence.explanation = a.called() + " comes by far the nearest to " + b.called() + " as if " +
                             std::string(row.says) + " (" + std::string(row.id) + ")";
    }
  }
}

// Codes of one side beside values of the other that have none, or codes of another scheme.
std::optional<CodesVote> codes_of(const DecodedState& a, const StateTensor& left, const DecodedState& b,
                                  const StateTensor& right) {
  const auto is_asked = [](const StateTensor& codes, const StateTensor& values) {
    return codes.codec &&
           (values.codec ? values.codec->scheme().id != codes.codec->scheme().id : is_ordinary_float(values.dtype));
  };
  std::optional<CodesVote> vote;
  if (is_asked(right, left)) {
    vote = vote_on_codes(b, right, a, left);
  }
  if (!vote && is_asked(left, right)) {
    vote = vote_on_codes(a, left, b, right);
    if (vote) {
      vote->is_first_coded = true;
    }
  }
  return vote;
}

std::string number_text(float value) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%.9g", static_cast<double>(value));
  return text.data();
}

std::string text_of(const CodesVote& vote, const DecodedState& a, const DecodedState& b, const Shape& shape) {
  const std::string& coded = vote.is_first_coded ? a.called() : b.called();
  const std::string& plain = vote.is_first_coded ? b.called() : a.called();
  const std::string made = coded + " holds " + plain + " requantized as " + vote.scheme + ": ";
  if (vote.is_nearest()) {
    return made + "every element is the nearest code under its scale";
  }
  return made + grouped(vote.nearest) + " of " + counted(vote.elements, "element is", "elements are") +
         " the nearest code under the scale; the first that is not, " + to_string(coordinate_of(shape, vote.first)) +
         ", holds " + number_text(vote.first_found) + " for " + number_text(vote.first_value) + ", and " +
         number_text(vote.first_nearest) + " is nearer";
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
  if (left.shape != right.shape) {
    return out;
  }
  out.rounding = rounding_of(a, left, b, right);
  add_probe(a, left, b, right, out);
  add_probe(b, right, a, left, out);
  if (out.mistake.empty()) {
    out.codes = codes_of(a, left, b, right);
  }
  if (!out.codes || !out.codes->is_nearest()) {
    vote_order(a, left, b, right, out);
    vote_order(b, right, a, left, out);
  }
  if (!out.order.empty()) {
    out.codes.reset();
  }
  if (out.codes) {
    out.explanation = text_of(*out.codes, a, b, left.shape);
    return out;
  }
  if (out.explanation.empty() && out.rounding && out.rounding->winner() &&
      (out.rounding->is_wrong() || out.rounding->is_first_rounded)) {
    out.explanation = text_of(*out.rounding, a, b);
  }
  const bool is_vote = !out.order.empty() && out.mistake.empty();
  const std::uint64_t looked_at = is_vote ? k_order_elements_max : k_elements_max;
  if (!out.explanation.empty() && element_count(left.shape).value_or(0) > looked_at) {
    out.explanation += ", as far as its first " + grouped(looked_at) + " elements show";
  }
  return out;
}

}  // namespace weightproof::suites
