// SPDX-License-Identifier: Apache-2.0
#include "suites/state/compare.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "suites/explanations/rounding.hpp"
#include "suites/state/digests.hpp"
#include "suites/state/elements.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites {
namespace {

constexpr std::uint64_t k_window_elements = 512 * 1024;
constexpr std::uint64_t k_transpose_bytes_max = 256ULL << 20U;

std::string number_text(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

std::string element_text(DType dtype, std::span<const std::byte> run, std::size_t index) {
  std::string out = hex_of_element(dtype, run, index);
  return has_numbers(dtype) ? out + " (" + number_text(number_at(dtype, run, index)) + ")" : out;
}

bool same_value(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

// Votes on what turned one side into the other, over the elements seen.
struct Recognition {
  bool has_first = false;
  double ratio = 0;
  double offset = 0;
  bool is_ratio = true;
  bool is_offset = true;
  bool is_negated = true;
  bool is_zero_b = true;
  bool is_swapped = true;
  bool is_rounded = true;  // what a cast to the other dtype gives
  std::uint64_t seen = 0;

  void add(double a, double b) {
    ++seen;
    is_zero_b = is_zero_b && b == 0;
    is_negated = is_negated && b == -a;
    if (a != 0 && b != 0 && std::isfinite(a) && std::isfinite(b)) {
      if (!has_first) {
        ratio = b / a;
        offset = b - a;
        has_first = true;
      }
      is_ratio = is_ratio && std::abs(b - ratio * a) <= std::abs(b) * 0x1p-7;
      is_offset = is_offset && std::abs(b - a - offset) <= std::abs(offset) * 0x1p-5;
    } else {
      is_ratio = is_ratio && a == 0 && b == 0;
      is_offset = is_offset && std::abs(b - a - offset) <= std::abs(offset) * 0x1p-5;
    }
  }

  /// `second`: what the second side is called.
  std::string text(const std::string& second) const {
    if (seen == 0) {
      return {};
    }
    if (is_zero_b) {
      return second + " holds zeros alone";
    }
    if (is_swapped) {
      return "the bytes of each element are reversed";
    }
    if (is_rounded) {
      return "rounded to nearest, as a cast to that dtype does";
    }
    if (is_negated) {
      return "every value has the other sign";
    }
    if (has_first && is_ratio && std::abs(ratio - 1) > 0x1p-6) {
      return "a constant ratio of " + number_text(ratio) + " everywhere";
    }
    if (has_first && is_offset && seen > 1) {
      return "a constant offset of " + number_text(offset) + " everywhere";
    }
    return {};
  }
};

// True where b holds a's elements with the last two axes exchanged. Small enough tensors alone.
bool is_transposed(const DecodedState& a, const StateTensor& left, const DecodedState& b, const StateTensor& right) {
  const unsigned rank = left.shape.rank();
  if (rank < 2 || rank != right.shape.rank() || left.dtype != right.dtype || bits_of(left.dtype) < 8 ||
      left.bytes > k_transpose_bytes_max || left.bytes != right.bytes) {
    return false;
  }
  for (unsigned axis = 0; axis + 2 < rank; ++axis) {
    if (left.shape[axis] != right.shape[axis]) {
      return false;
    }
  }
  const std::uint64_t rows = left.shape[rank - 2];
  const std::uint64_t cols = left.shape[rank - 1];
  if (right.shape[rank - 2] != cols || right.shape[rank - 1] != rows || rows < 2 || cols < 2) {
    return false;
  }
  std::vector<std::byte> whole_a(static_cast<std::size_t>(left.bytes));
  std::vector<std::byte> whole_b(static_cast<std::size_t>(right.bytes));
  a.read(left, 0, whole_a);
  b.read(right, 0, whole_b);
  const std::size_t width = bits_of(left.dtype) / 8;
  const std::uint64_t matrices = left.bytes / width / (rows * cols);
  for (std::uint64_t m = 0; m < matrices; ++m) {
    for (std::uint64_t r = 0; r < rows; ++r) {
      for (std::uint64_t c = 0; c < cols; ++c) {
        const std::uint64_t from = (m * rows * cols + r * cols + c) * width;
        const std::uint64_t to = (m * rows * cols + c * rows + r) * width;
        if (std::memcmp(whole_a.data() + from, whole_b.data() + to, width) != 0) {
          return false;
        }
      }
    }
  }
  return true;
}

bool is_byte_swapped(std::span<const std::byte> a, std::span<const std::byte> b, std::size_t index, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) {
    if (a[index * width + i] != b[index * width + width - 1 - i]) {
      return false;
    }
  }
  return width > 1;
}

// Whether roundings may carry one value to the other. A directed rounding, the widest, stays within one step: BF16 has
// a mantissa of 8 bits, so its step is at most 2^-7 of the value; F16 has 11, and 2^-10, but what ends in F16 may have
// gone through BF16, whose 8 bits it then holds as they are: 2^-7 is the bound of both, and of F32 that was narrow in
// between. Below 2^-14 the step of F16 shrinks no further: 2^-24 for whatever ends there or went through it. Which side
// was rounded is not known, so the larger of the two values counts.
bool is_rounding(double x, double y) {
  return std::abs(x - y) <= std::max(std::abs(x), std::abs(y)) * 0x1p-7 + 0x1p-24;
}

// Subnormal in either dtype: what is flushed to zero where subnormals are not computed with.
bool is_subnormal(DType a, DType b, double x) {
  return x != 0 && std::abs(x) < std::max(least_normal(a), least_normal(b));
}

// The largest number of an ordinary float.
double largest_number(DType dtype) {
  return dtype == DType::f16    ? 65504.0
         : dtype == DType::bf16 ? 0x1.FEp127
         : dtype == DType::f32  ? 0x1.FFFFFEp127
                                : std::numeric_limits<double>::max();
}

class Comparison {
 public:
  Comparison(const DecodedState& a, const StateTensor& left, const DecodedState& b, const StateTensor& right,
             const Tolerance& tolerance)
      : a_(a), b_(b), left_(left), right_(right), tolerance_(tolerance) {}

  TensorDifference run() {
    out_.key = left_.key;
    out_.dtype_a = name_of(left_.dtype);
    out_.dtype_b = name_of(right_.dtype);
    out_.shape_a = left_.shape;
    out_.shape_b = right_.shape;
    out_.elements = element_count(left_.shape).value_or(0);
    if (left_.shape != right_.shape) {
      out_.equality = Equality::different;
      out_.differing = out_.elements;
      out_.explanation = is_transposed(a_, left_, b_, right_) ? "transposed" : "another shape";
      return out_;
    }
    const bool has_same_dtype = left_.dtype == right_.dtype;
    const bool is_numeric = has_numbers(left_.dtype) && has_numbers(right_.dtype);
    if (!has_same_dtype && !is_numeric) {
      out_.equality = Equality::different;
      out_.differing = out_.elements;
      out_.explanation = "dtypes that cannot be compared";
      return out_;
    }
    stream(has_same_dtype, is_numeric);
    if (out_.differing == 0) {
      out_.equality = has_same_dtype ? Equality::equal : Equality::equal_values;
    } else if (beyond_ == 0 && !tolerance_.is_exact()) {
      out_.equality = Equality::within;
    } else {
      out_.equality = Equality::different;
      out_.explanation = is_transposed(a_, left_, b_, right_) ? "transposed" : recognition_.text(b_.called());
    }
    return out_;
  }

 private:
  void stream(bool has_same_dtype, bool is_numeric) {
    const unsigned bits_a = bits_of(left_.dtype);
    const unsigned bits_b = bits_of(right_.dtype);
    const std::uint64_t step = bits_a < 8 ? k_window_elements / 24 * 24 : k_window_elements;
    if (has_same_dtype && is_ordinary_float(left_.dtype)) {
      out_.ulps.emplace();
    }
    std::vector<std::byte> window_a;
    std::vector<std::byte> window_b;
    for (std::uint64_t at = 0; at < out_.elements; at += step) {
      const std::uint64_t count = std::min(step, out_.elements - at);
      window_a.resize(static_cast<std::size_t>(count * bits_a / 8));
      window_b.resize(static_cast<std::size_t>(count * bits_b / 8));
      a_.read(left_, at * bits_a / 8, window_a);
      b_.read(right_, at * bits_b / 8, window_b);
      if (has_same_dtype && std::memcmp(window_a.data(), window_b.data(), window_a.size()) == 0) {
        has_equal_windows_ = true;
        if (out_.ulps) {
          out_.ulps->add(0, count);
        }
        continue;
      }
      if (!is_numeric) {
        compare_bytes(window_a, window_b, at, bits_a);
        continue;
      }
      note_cast(window_a, window_b, has_same_dtype);
      for (std::size_t i = 0; i < count; ++i) {
        compare_element(window_a, window_b, i, at + i, has_same_dtype);
      }
    }
    if (has_equal_windows_) {
      // Nothing that holds "everywhere" can hold where windows are equal.
      recognition_.is_swapped = recognition_.is_rounded = recognition_.is_negated = recognition_.is_ratio =
          recognition_.is_offset = false;
      recognition_.is_zero_b = false;
    }
  }

  // `nearest`: what a cast of x to the second side's dtype gives.
  void note_fate(double x, double y, double nearest, std::uint64_t index) {
    const auto note = [index](ValueFates::Fate& fate) {
      fate.first = fate.count == 0 ? index : fate.first;
      ++fate.count;
    };
    ValueFates& fates = out_.fates;
    if (std::isnan(x) || std::isinf(x)) {
      note(fates.nan);
    } else if (x == 0 && y == 0) {
      note(fates.zero);
    } else if (std::isinf(y)) {
      note(fates.overflow);
    } else if (y == 0 && is_subnormal(left_.dtype, right_.dtype, x)) {
      if (nearest != 0) {
        note(fates.flushed);
      }
    } else if (is_ordinary_float(right_.dtype) && std::abs(x) > largest_number(right_.dtype) &&
               std::abs(y) == largest_number(right_.dtype) && std::signbit(x) == std::signbit(y)) {
      if (std::isinf(nearest)) {
        note(fates.saturated);
      }
    } else if (!is_rounding(x, y)) {
      ++fates.far;
    }
  }

  void note_cast(std::span<const std::byte> a, std::span<const std::byte> b, bool has_same_dtype) {
    cast_.clear();
    if (has_same_dtype || !is_ordinary_float(left_.dtype) || !is_ordinary_float(right_.dtype)) {
      recognition_.is_rounded = false;
      return;
    }
    cast_.resize(b.size());
    cast_elements(left_.dtype, a, right_.dtype, cast_);
    recognition_.is_rounded = recognition_.is_rounded && std::memcmp(cast_.data(), b.data(), b.size()) == 0;
  }

  void compare_bytes(std::span<const std::byte> a, std::span<const std::byte> b, std::uint64_t at, unsigned bits) {
    const std::size_t width = std::max<std::size_t>(1, bits / 8);
    const std::uint64_t per_unit = bits < 8 ? 8 / bits : 1;
    recognition_.is_swapped = recognition_.is_rounded = false;
    for (std::size_t i = 0; i < a.size() / width; ++i) {
      if (std::memcmp(a.data() + i * width, b.data() + i * width, width) == 0) {
        continue;
      }
      ++beyond_;
      if (!out_.first) {
        out_.first = at + i * per_unit;
        out_.first_a = bits < 8 ? hex_of_element(DType::u8, a, i) : hex_of_element(left_.dtype, a, i);
        out_.first_b = bits < 8 ? hex_of_element(DType::u8, b, i) : hex_of_element(right_.dtype, b, i);
      }
      ++out_.differing;
    }
  }

  void compare_element(std::span<const std::byte> a, std::span<const std::byte> b, std::size_t i, std::uint64_t index,
                       bool has_same_dtype) {
    const double x = number_at(left_.dtype, a, i);
    const double y = number_at(right_.dtype, b, i);
    recognition_.add(x, y);
    const std::size_t width = bits_of(left_.dtype) / 8;
    const bool has_same_bytes = has_same_dtype && std::memcmp(a.data() + i * width, b.data() + i * width, width) == 0;
    recognition_.is_swapped = recognition_.is_swapped && has_same_dtype && is_byte_swapped(a, b, i, width);
    out_.fates.silent += !std::isfinite(x) || (x == 0 && y == 0) ? 1U : 0U;
    if (has_same_bytes || (!has_same_dtype && same_value(x, y))) {
      if (out_.ulps) {
        out_.ulps->add(0);
      }
      return;
    }
    ++out_.differing;
    note_fate(x, y, cast_.empty() ? x : number_at(right_.dtype, cast_, i), index);
    const double gap = std::abs(x - y);
    const double size = std::abs(x);
    if (std::isfinite(gap)) {
      out_.max_abs = std::max(out_.max_abs.value_or(0), gap);
      if (size > 0) {
        out_.max_rel = std::max(out_.max_rel.value_or(0), gap / size);
      }
    }
    std::uint64_t steps = UINT64_MAX;
    if (has_same_dtype && is_ordinary_float(left_.dtype) && std::isfinite(x) && std::isfinite(y)) {
      const std::int64_t p = ordered_position(left_.dtype, a, i);
      const std::int64_t q = ordered_position(right_.dtype, b, i);
      steps = p > q ? static_cast<std::uint64_t>(p) - static_cast<std::uint64_t>(q)
                    : static_cast<std::uint64_t>(q) - static_cast<std::uint64_t>(p);
      out_.max_ulp = std::max(out_.max_ulp.value_or(0), steps);
    }
    if (out_.ulps && std::isnan(x) && std::isnan(y)) {
      out_.ulps->add(0);
    } else if (out_.ulps && steps == UINT64_MAX) {
      out_.ulps->add_unmeasurable();
    } else if (out_.ulps) {
      out_.ulps->add(steps);
    }
    const bool is_within = (tolerance_.ulp > 0 && steps <= tolerance_.ulp) ||
                           (std::isfinite(gap) && gap <= tolerance_.atol + tolerance_.rtol * size &&
                            !(tolerance_.atol == 0 && tolerance_.rtol == 0)) ||
                           (std::isnan(x) && std::isnan(y) && !tolerance_.is_exact());
    if (!is_within) {
      ++beyond_;
    }
    if (!out_.first) {
      out_.first = index;
      out_.first_a = element_text(left_.dtype, a, i);
      out_.first_b = element_text(right_.dtype, b, i);
    }
  }

  const DecodedState& a_;
  const DecodedState& b_;
  const StateTensor& left_;
  const StateTensor& right_;
  const Tolerance& tolerance_;
  TensorDifference out_;
  Recognition recognition_;
  std::vector<std::byte> cast_;
  std::uint64_t beyond_ = 0;
  bool has_equal_windows_ = false;
};

}  // namespace

std::string_view to_string(Equality equality) {
  constexpr std::array<std::string_view, 4> names = {"equal", "equal_values", "within", "different"};
  return names[static_cast<std::size_t>(equality)];
}

TensorDifference compare_tensors(const DecodedState& a, const StateTensor& left, const DecodedState& b,
                                 const StateTensor& right, const Tolerance& tolerance) {
  TensorDifference out = Comparison(a, left, b, right, tolerance).run();
  if (out.differing > 0 && left.shape == right.shape) {
    NumericEvidence evidence = numeric_evidence(a, left, b, right);
    out.rounding = evidence.rounding;
    out.codes = evidence.codes;
    out.mistake = evidence.mistake;
    out.order = evidence.order;
    // What a decoder did wrong says more than what its values then look like.
    if (!evidence.explanation.empty() && (left.codec || right.codec || out.explanation.empty())) {
      out.explanation = std::move(evidence.explanation);
    }
  }
  return out;
}

std::uint64_t StateDifference::count(Equality equality) const {
  return static_cast<std::uint64_t>(std::count_if(
      tensors.begin(), tensors.end(), [equality](const TensorDifference& row) { return row.equality == equality; }));
}

bool StateDifference::is_within() const {
  return only_in_a.empty() && only_in_b.empty() && count(Equality::different) == 0;
}

StateDifference compare_states(const DecodedState& a, const DecodedState& b, const Tolerance& tolerance,
                               unsigned threads, const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  StateDifference out;
  std::vector<std::pair<const StateTensor*, const StateTensor*>> pairs;
  std::uint64_t total = 0;
  for (const StateTensor& tensor : a.tensors()) {
    if (const StateTensor* other = b.find(tensor.key)) {
      pairs.emplace_back(&tensor, other);
      total += tensor.bytes;
    } else {
      out.only_in_a.push_back(tensor.key);
    }
  }
  for (const StateTensor& tensor : b.tensors()) {
    if (a.find(tensor.key) == nullptr) {
      out.only_in_b.push_back(tensor.key);
    }
  }
  std::sort(out.only_in_a.begin(), out.only_in_a.end());
  std::sort(out.only_in_b.begin(), out.only_in_b.end());
  std::sort(pairs.begin(), pairs.end(), [](const auto& x, const auto& y) { return x.first->key < y.first->key; });
  out.tensors.resize(pairs.size());
  std::atomic<std::uint64_t> done{0};
  for_each_index(pairs.size(), threads, [&](std::size_t i) {
    out.tensors[i] = compare_tensors(a, *pairs[i].first, b, *pairs[i].second, tolerance);
    done += pairs[i].first->bytes;
    if (progress) {
      progress(done, total);
    }
  });
  return out;
}

}  // namespace weightproof::suites
