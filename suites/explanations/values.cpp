// SPDX-License-Identifier: Apache-2.0
// Values that a rule turned into others: rounding, ratios, offsets, reversed bytes, shifted bytes, lost bits.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <set>

#include "loader/codec/scalar.hpp"
#include "suites/explanations/names.hpp"
#include "suites/explanations/recogniser_internal.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites {
namespace {

constexpr std::size_t k_shift_bytes_max = 256;
constexpr std::size_t k_sample_bytes = 4096;

std::string number_text(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

std::string share_text(std::uint64_t part, std::uint64_t whole) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%.3g %%",
                whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text.data();
}

// "everywhere", or how much of the tensor the rule holds for.
std::string extent_text(const ElementVotes& votes) {
  if (votes.differing >= votes.nonzero) {
    return "everywhere";
  }
  return "in the " + counted(votes.differing, "element", "elements") + " that differ (" +
         share_text(votes.differing, votes.elements) + ")";
}

bool all_hold(const std::vector<ConstantFit>& fits) {
  std::set<double> values;
  for (const ConstantFit& fit : fits) {
    if (!fit.holds) {
      return false;
    }
    if (fit.has_value && values.size() < 3) {
      values.insert(fit.value);
    }
  }
  return values.size() >= 2;
}

// "2 (2^1)" where it is a power of two.
std::string ratio_text(double ratio) {
  int exponent = 0;
  const double mantissa = std::frexp(std::fabs(ratio), &exponent);
  std::string out = number_text(ratio);
  if (mantissa == 0.5 && exponent != 1) {
    out += " (2^" + std::to_string(exponent - 1) + ")";
  }
  return out;
}

void draw_fit(const char* what, double value, Explanation& out) {
  reports::Histogram histogram;
  histogram.what = what;
  histogram.bins = {{"less", 0, true}, {number_text(value), 1, true}, {"more", 0, true}};
  out.histogram = std::move(histogram);
}

std::vector<std::byte> piece(const TensorSource& source, std::uint64_t begin, std::uint64_t end, unsigned width) {
  const std::uint64_t from = begin / width * width;
  std::vector<std::byte> out(static_cast<std::size_t>((end - from + width - 1) / width * width));
  source.read(from, out);
  out.erase(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(begin - from));
  out.resize(static_cast<std::size_t>(end - begin));
  return out;
}

// True where `found` at [at, at + n) is `declared` moved by `shift` bytes.
bool fits_shift(const Gathered& seen, std::uint64_t begin, std::uint64_t end, std::int64_t shift) {
  const auto from = static_cast<std::uint64_t>(static_cast<std::int64_t>(begin) - shift);
  const auto to = static_cast<std::uint64_t>(static_cast<std::int64_t>(end) - shift);
  return piece(*seen.actual, begin, end, seen.width) == piece(*seen.expected, from, to, seen.width);
}

// "; 3 others, NaN or infinite in the source, differ too" where there are such.
std::string nonfinite_text(const ElementVotes& votes) {
  return votes.differing_nonfinite == 0
             ? std::string()
             : "; " + counted(votes.differing_nonfinite, "other that was", "others that were") +
                   " to be NaN or infinite differ too";
}

// Named by the vote over what the values were made of.
bool recognise_by_source(const ElementVotes& votes, const std::string& dtype, Explanation& out) {
  struct Named {
    const char* kind;
    const char* title;
  };
  constexpr std::array<Named, k_rounding_modes> names = {{{"flushed", "Subnormals flushed to zero in "},
                                                          {"truncated", "Truncated instead of rounded to "},
                                                          {"ties_away", "Ties rounded away in "},
                                                          {"rounded_up", "Rounded away from zero to "},
                                                          {"rounded_ceiling", "Rounded upward to "},
                                                          {"rounded_floor", "Rounded downward to "},
                                                          {"double_rounded", "Rounded twice to "}}};
  const RoundingVote& vote = votes.rounding;
  if (!vote.is_wrong()) {
    return false;
  }
  const auto mode = static_cast<std::size_t>(*vote.winner());
  for (std::size_t each = 0; each < k_rounding_modes; ++each) {
    out.votes.push_back({std::string(to_string(static_cast<RoundingMode>(each))),
                         static_cast<double>(vote.voters - vote.objects[each]) / static_cast<double>(vote.voters)});
  }
  const std::string rule(to_string(*vote.winner()));
  std::string text = "All " + grouped(vote.voters) + " values are what rounding " + rule + " makes of the source; " +
                     grouped(vote.objects[0] + vote.flushed) + " of them are not the nearest";
  if (mode == 0) {
    text =
        counted(vote.flushed, "subnormal value is", "subnormal values are") + " zero; all others are rounded " + rule;
  }
  name(out, names[mode].kind, names[mode].title + dtype, text + nonfinite_text(votes) + ".", Certainty::certain);
  return true;
}

}  // namespace

bool recognise_shift(const Gathered& seen, Explanation& out) {
  const ElementVotes& votes = *seen.votes;
  const std::uint64_t bytes = seen.elements * seen.width;
  const std::uint64_t first = votes.first.value_or(0) * seen.width;
  const std::uint64_t begin = std::max<std::uint64_t>(first, k_shift_bytes_max);
  const std::uint64_t end = std::min(begin + k_sample_bytes, bytes > k_shift_bytes_max ? bytes - k_shift_bytes_max : 0);
  if (votes.differing < 16 || begin + 64 > end) {
    return false;
  }
  const std::vector<std::byte> sample = piece(*seen.actual, begin, end, seen.width);
  const std::vector<std::byte> around =
      piece(*seen.expected, begin - k_shift_bytes_max, end + k_shift_bytes_max, seen.width);
  if (std::set<std::byte>(sample.begin(), sample.end()).size() < 8) {
    return false;  // anything fits where there is nothing but a few values
  }
  std::int64_t shift = 0;
  for (std::int64_t size = 1; size <= static_cast<std::int64_t>(k_shift_bytes_max) && shift == 0; ++size) {
    for (const std::int64_t candidate : {size, -size}) {
      const auto at = around.begin() + static_cast<std::ptrdiff_t>(k_shift_bytes_max) - candidate;
      if (shift == 0 && std::equal(sample.begin(), sample.end(), at)) {
        shift = candidate;
      }
    }
  }
  if (shift == 0) {
    return false;
  }
  // To the last difference, but for what fell off the end.
  const std::uint64_t last =
      std::min((votes.last + 1) * seen.width, bytes - static_cast<std::uint64_t>(std::max<std::int64_t>(0, -shift)));
  const std::uint64_t from = std::max(first, static_cast<std::uint64_t>(std::max<std::int64_t>(0, shift)));
  constexpr std::uint64_t step = k_window_elements;
  for (std::uint64_t at = from; at < last; at += step) {
    const std::uint64_t until = std::min(at + step, last);
    if (!fits_shift(seen, at, until, shift)) {
      return false;
    }
  }
  const auto size = static_cast<std::uint64_t>(shift < 0 ? -shift : shift);
  const std::string distance =
      size % seen.width == 0 ? counted(size / seen.width, "element", "elements") : counted(size, "byte", "bytes");
  name(out, "shifted", "Shifted by " + distance,
       "Every value from the first difference on stands " + distance + (shift > 0 ? " later" : " earlier") +
           " than declared.",
       Certainty::certain);
  return true;
}

bool recognise_rounding(const Gathered& seen, Explanation& out) {
  const ElementVotes& votes = *seen.votes;
  const std::string dtype(name_of(seen.dtype));
  if (votes.has_source && recognise_by_source(votes, dtype, out)) {
    return true;
  }
  const std::uint64_t differing = votes.differing - votes.differing_nonfinite;
  if (votes.are_flushed && differing > 0) {
    name(out, "flushed", "Subnormals flushed to zero",
         counted(differing, "subnormal value is", "subnormal values are") + " zero" +
             (votes.differing_nonfinite == 0 ? "; all others are right" : nonfinite_text(votes)) + ".",
         Certainty::certain);
    return true;
  }
  if (!votes.has_steps || !votes.are_within_one || differing < 2 || votes.are_one_value) {
    return false;
  }
  out.votes = {{"one step toward zero", 0}, {"one step away from zero", 0}, {"equal", 0}};
  const auto share = [&](std::uint64_t count) {
    return static_cast<double>(count) / static_cast<double>(std::max<std::uint64_t>(votes.elements, 1));
  };
  out.votes[2].share = share(votes.elements - votes.differing);
  if (votes.are_toward_zero) {
    out.votes[0].share = share(differing);
    // Of evenly spread values half are cut down. Far fewer may be the mark of something else.
    const bool is_likely = differing >= 16 && differing * 5 >= votes.nonzero;
    name(out, "truncated", "Truncated instead of rounded to " + dtype,
         "Every value that differs is one step nearer to zero, " + share_text(differing, votes.nonzero) +
             " of those that are not zero: the lower bits were cut off" + nonfinite_text(votes) + ".",
         is_likely ? Certainty::likely : Certainty::possible);
    return true;
  }
  name(out, "double_rounded", "Rounded another way to " + dtype,
       "The values that differ, " + share_text(differing, votes.nonzero) +
           " of those that are not zero, are off by one step in either direction: rounded twice, or from another "
           "precision" +
           nonfinite_text(votes) + ".",
       Certainty::possible);
  out.votes[0].share = share(votes.steps[1] + votes.steps[3]);
  out.votes.erase(out.votes.begin() + 1);
  out.votes[0].name = "one step off";
  return true;
}

bool recognise_values(const Gathered& seen, Explanation& out) {
  const ElementVotes& votes = *seen.votes;
  const bool is_all = votes.differing >= votes.nonzero && votes.differing > 1;
  if (votes.are_zeros) {
    name(out, "zeros", is_all ? "All zeros" : "Zeros in place of values",
         "Zero stands " + extent_text(votes) + ": written by nobody, or lost.",
         votes.differing > 1 ? Certainty::certain : Certainty::likely);
    return true;
  }
  if (votes.are_bytes_reversed && votes.differing > 0) {
    name(out, "byte_swapped", "Bytes of each element reversed",
         "The bytes of every value are in the other order " + extent_text(votes) + ": another endianness.",
         votes.differing > 4 ? Certainty::certain : Certainty::likely);
    return true;
  }
  if (votes.are_negated) {
    name(out, "negated", "Sign reversed", "Every value has the other sign " + extent_text(votes) + ".",
         votes.differing > 1 ? Certainty::certain : Certainty::likely);
    return true;
  }
  if (votes.are_canonical_nan) {
    name(out, "nan_payload", "Other NaN", "NaN stands on both sides, with another sign or payload.",
         Certainty::certain);
    return true;
  }
  if (votes.differing == 1 && votes.are_one_bit) {
    const auto bit = static_cast<std::uint64_t>(std::countr_zero(votes.first_expected ^ votes.first_actual));
    name(out, "bit_flipped", "One bit flipped",
         "One element of " + grouped(votes.elements) + " differs, in bit " + grouped(bit) + " alone.",
         Certainty::certain);
    return true;
  }
  // The NaN that a computation gives; any other one everywhere is a pattern that somebody filled in.
  const std::uint64_t nan = seen.dtype == DType::bf16  ? codec::k_nan_bf16
                            : seen.dtype == DType::f16 ? codec::k_nan_f16
                                                       : codec::k_nan_f32;
  if (votes.are_nan && (!votes.are_one_value || votes.one_value == nan)) {
    name(out, "nan", is_all ? "NaN everywhere" : "NaN in place of values",
         "NaN stands " + extent_text(votes) + ": what the values were computed from is NaN.",
         votes.differing > 1 ? Certainty::certain : Certainty::likely);
    return true;
  }
  if (votes.are_one_value && votes.differing > 4 && votes.differing * 2 > votes.elements) {
    name(out, "filled", "One value everywhere",
         "One value stands " + extent_text(votes) + ": a fill that nothing replaced.", Certainty::likely);
    return true;
  }
  if (votes.ratio.holds && votes.ratio.has_value && votes.differing > 1 &&
      std::fabs(votes.ratio.value - 1) > 2 * votes.ratio_tolerance) {
    draw_fit("actual over expected", votes.ratio.value, out);
    name(out, "ratio", "Wrong scale: ratio " + ratio_text(votes.ratio.value),
         "Actual over expected is " + ratio_text(votes.ratio.value) + ' ' + extent_text(votes) + ".",
         is_all || votes.differing > 64 ? Certainty::certain : Certainty::likely);
    return true;
  }
  if (votes.offset.holds && votes.offset.has_value && votes.differing > 1) {
    draw_fit("actual less expected", votes.offset.value, out);
    name(out, is_norm(seen.key) ? "norm_offset" : "offset", "Constant offset " + number_text(votes.offset.value),
         "Actual less expected is " + number_text(votes.offset.value) + ' ' + extent_text(votes) + ".",
         is_all || votes.differing > 64 ? Certainty::certain : Certainty::likely);
    return true;
  }
  if (!votes.row_ratio.empty() && votes.differing > seen.view.rows && all_hold(votes.row_ratio)) {
    name(out, "row_ratio", "Wrong scale: a ratio for each row",
         "Actual over expected is one number in each row, another in another: a scale along the rows.",
         Certainty::likely);
    return true;
  }
  if (!votes.column_ratio.empty() && votes.differing > seen.view.columns && all_hold(votes.column_ratio)) {
    name(out, "column_ratio", "Wrong scale: a ratio for each column",
         "Actual over expected is one number in each column, another in another: a scale along the columns.",
         Certainty::likely);
    return true;
  }
  return false;
}

}  // namespace weightproof::suites
