// SPDX-License-Identifier: Apache-2.0
// The second half of the proof: views as boxes over the digits of one radix chain.
//
//   weights 1 | w1 | w2 | ...   each divides the next; index = d0 + d1*w1 + d2*w2 + ..., d_t < w_{t+1}/w_t
//
// A view whose strides are weights is a product of digit intervals: a box. Where an interval runs over the end of its
// digit it is split into head, middle and tail.
#include <algorithm>

#include "loader/core/tiling_internal.hpp"

namespace weightproof::detail {
namespace {

constexpr std::size_t k_digits_max = 20;
constexpr std::size_t k_boxes_per_view_max = 64;

struct DigitBox {
  std::array<std::uint64_t, k_digits_max> start{};
  std::array<std::uint64_t, k_digits_max> length{};
  std::uint64_t first = 0;  ///< lowest and highest element
  std::uint64_t last = 0;
  std::uint32_t view = 0;
};

struct Chain {
  std::vector<std::uint64_t> weights;  ///< ascending, weights[0] == 1
  std::size_t digits() const { return weights.size(); }
  /// The last digit has no end.
  std::uint64_t radix(std::size_t digit) const {
    return digit + 1 < weights.size() ? weights[digit + 1] / weights[digit] : UINT64_MAX;
  }
};

/// Adds `amount` to the number that the digits from `digit` up write. False on overflow of the last digit.
bool add_to_digits(const Chain& chain, DigitBox& box, std::size_t digit, std::uint64_t amount) {
  for (; amount != 0; ++digit) {
    if (digit >= chain.digits()) return false;
    if (box.length[digit] != 1) return false;
    const std::uint64_t radix = chain.radix(digit);
    if (radix == UINT64_MAX) return !__builtin_add_overflow(box.start[digit], amount, &box.start[digit]);
    const std::uint64_t sum = box.start[digit] + amount % radix;
    box.start[digit] = sum % radix;
    amount = amount / radix + sum / radix;
  }
  return true;
}

/// Lets digit `digit` of the box run over `extent` values. False where that is no small number of boxes.
bool extend(const Chain& chain, const DigitBox& box, std::size_t digit, std::uint64_t extent,
            std::vector<DigitBox>& out) {
  if (extent == 0) return true;
  if (out.size() >= k_boxes_per_view_max || digit >= chain.digits()) return false;
  if (extent == 1) {
    out.push_back(box);
    return true;
  }
  if (box.length[digit] != 1) return false;
  const std::uint64_t radix = chain.radix(digit);
  const std::uint64_t start = box.start[digit];
  DigitBox part = box;
  if (extent <= radix - start) {
    part.length[digit] = extent;
    out.push_back(part);
    return true;
  }
  if (start != 0) {  // head
    part.length[digit] = radix - start;
    out.push_back(part);
    extent -= radix - start;
    part = box;
    part.start[digit] = 0;
    if (!add_to_digits(chain, part, digit + 1, 1)) return false;
  }
  DigitBox middle = part;
  middle.length[digit] = radix;
  if (!extend(chain, middle, digit + 1, extent / radix, out)) return false;
  if (extent % radix != 0) {  // tail
    part.length[digit] = extent % radix;
    if (!add_to_digits(chain, part, digit + 1, extent / radix)) return false;
    out.push_back(part);
  }
  return true;
}

bool append_boxes(const Chain& chain, const NormalView& view, std::vector<DigitBox>& boxes) {
  DigitBox origin;
  origin.view = view.view;
  std::uint64_t rest = view.offset;
  for (std::size_t t = chain.digits(); t-- > 0;) {
    origin.start[t] = rest / chain.weights[t];
    rest %= chain.weights[t];
    origin.length[t] = 1;
  }
  std::vector<DigitBox> parts = {origin};
  for (unsigned axis = 0; axis < view.rank; ++axis) {
    const std::size_t digit = static_cast<std::size_t>(
        std::lower_bound(chain.weights.begin(), chain.weights.end(), view.strides[axis]) - chain.weights.begin());
    std::vector<DigitBox> next;
    for (const DigitBox& part : parts) {
      if (!extend(chain, part, digit, view.extents[axis], next)) return false;
    }
    parts = std::move(next);
  }
  for (DigitBox& part : parts) {
    for (std::size_t t = 0; t < chain.digits(); ++t) {
      part.first += part.start[t] * chain.weights[t];
      part.last += (part.start[t] + part.length[t] - 1) * chain.weights[t];
    }
    boxes.push_back(part);
  }
  return true;
}

/// Lowest element of both boxes.
std::optional<std::uint64_t> meeting_point(const Chain& chain, const DigitBox& a, const DigitBox& b) {
  std::uint64_t index = 0;
  for (std::size_t t = 0; t < chain.digits(); ++t) {
    const std::uint64_t start = std::max(a.start[t], b.start[t]);
    if (start >= a.start[t] + a.length[t] || start >= b.start[t] + b.length[t]) return std::nullopt;
    index += start * chain.weights[t];
  }
  return index;
}

/// Elements of the box below `limit`.
std::uint64_t count_below(const Chain& chain, const DigitBox& box, std::uint64_t limit) {
  if (box.last < limit) limit = box.last + 1;
  std::uint64_t inner = 1;
  for (std::size_t t = 0; t < chain.digits(); ++t) inner *= box.length[t];
  std::uint64_t count = 0;
  std::uint64_t rest = limit;
  for (std::size_t t = chain.digits(); t-- > 0;) {
    const std::uint64_t digit = rest / chain.weights[t];
    rest %= chain.weights[t];
    inner /= box.length[t];
    if (digit < box.start[t]) return count;
    if (digit >= box.start[t] + box.length[t]) return count + box.length[t] * inner;
    count += (digit - box.start[t]) * inner;
  }
  return count;
}

std::string named(const NormalView& view) { return "view " + std::to_string(view.view); }

}  // namespace

Outcome solve_by_boxes(std::uint64_t begin, std::uint64_t end, const std::vector<NormalView>& views,
                       std::int64_t& work) {
  Outcome outcome;
  Chain chain;
  chain.weights.push_back(1);
  for (const NormalView& view : views) {
    chain.weights.insert(chain.weights.end(), view.strides.begin(), view.strides.begin() + view.rank);
  }
  std::sort(chain.weights.begin(), chain.weights.end());
  chain.weights.erase(std::unique(chain.weights.begin(), chain.weights.end()), chain.weights.end());
  for (std::size_t t = 1; t < chain.digits(); ++t) {
    if (chain.weights[t] % chain.weights[t - 1] == 0) continue;
    for (const NormalView& view : views) {
      const auto strides_end = view.strides.begin() + view.rank;
      if (std::find(view.strides.begin(), strides_end, chain.weights[t]) == strides_end) continue;
      outcome.unprovable = named(view) + " has stride " + std::to_string(chain.weights[t]) +
                           ", which does not fit stride " + std::to_string(chain.weights[t - 1]) +
                           " of the views beside it";
      return outcome;
    }
  }
  if (chain.digits() > k_digits_max) {
    outcome.unprovable = named(views.front()) + " and the views beside it have too many different strides";
    return outcome;
  }

  std::vector<DigitBox> boxes;
  for (const NormalView& view : views) {
    if (!append_boxes(chain, view, boxes)) {
      outcome.unprovable = named(view) + " is no small number of boxes of the strides beside it";
      return outcome;
    }
  }
  std::sort(boxes.begin(), boxes.end(), [](const DigitBox& a, const DigitBox& b) {
    return a.first != b.first ? a.first < b.first : a.view < b.view;
  });

  Fault fault;
  fault.index = end;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    for (std::size_t j = i + 1; j < boxes.size() && boxes[j].first <= boxes[i].last; ++j) {
      if (--work < 0) {
        outcome.unprovable = named(views.front()) + " and the views beside it are too many to compare";
        return outcome;
      }
      if (boxes[i].view == boxes[j].view) continue;
      const std::optional<std::uint64_t> meeting = meeting_point(chain, boxes[i], boxes[j]);
      if (!meeting || *meeting > fault.index) continue;
      const std::uint32_t a = std::min(boxes[i].view, boxes[j].view);
      const std::uint32_t b = std::max(boxes[i].view, boxes[j].view);
      if (*meeting == fault.index && std::pair(a, b) >= std::pair(fault.first_view, fault.second_view)) continue;
      fault = Fault{*meeting, false, a, b};
    }
  }
  // Below the first overlap the boxes are disjoint, so a count of elements finds the first hole there.
  const auto is_full_below = [&](std::uint64_t limit) {
    std::uint64_t covered = 0;
    for (const DigitBox& box : boxes) covered += count_below(chain, box, limit);
    return covered == limit - begin;
  };
  work -= static_cast<std::int64_t>(boxes.size());
  if (!is_full_below(fault.index)) {
    std::uint64_t full = begin;
    std::uint64_t not_full = fault.index;
    while (not_full - full > 1) {
      work -= static_cast<std::int64_t>(boxes.size());
      const std::uint64_t middle = full + (not_full - full) / 2;
      (is_full_below(middle) ? full : not_full) = middle;
    }
    fault = Fault{full, true, 0, 0};
  }
  if (fault.index < end) outcome.fault = fault;
  return outcome;
}

}  // namespace weightproof::detail
