// SPDX-License-Identifier: Apache-2.0
// The first half of the proof: cutting a range of elements and the views inside it.
//
//   flat cut: a position that no view spans cuts the range in two.
//
//   periodic cut: every view is (a set of multiples of W) x (something inside one window of W elements)
//
//     window  0 ........... W-1      positions of the window that no view spans cut it into parts [a,b);
//             |--v0--|-v1-|-v2-|     the elements of one part, over all windows, are again a range, W wide shrunk to
//             b-a
//
//   With W = a row this separates columns, with W = a pair it separates what is interleaved. Only common divisors of
//   strides can be periods that help, so there are few to try.
//
// A nested split is undone by cuts alone: whatever was cut first on one axis is still unspanned there.
#include "loader/core/tiling.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "loader/core/tiling_internal.hpp"

namespace weightproof {
namespace detail {

std::uint64_t view_elements(const View& view) {
  return weightproof::element_count(view.extents()).value_or(UINT64_MAX);
}

std::optional<std::uint64_t> view_last_element(const View& view) {
  std::uint64_t last = view.offset();
  for (unsigned axis = 0; axis < view.rank(); ++axis) {
    std::uint64_t step = 0;
    if (__builtin_mul_overflow(view.extents()[axis] - 1, view.strides()[axis], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return std::nullopt;
    }
  }
  return last;
}

void NormalView::normalize() {
  unsigned kept = 0;
  for (unsigned axis = 0; axis < rank; ++axis) {
    if (extents[axis] == 1) continue;
    const std::uint64_t extent = extents[axis];
    const std::uint64_t stride = strides[axis];
    unsigned at = kept++;
    for (; at > 0 && strides[at - 1] > stride; --at) {
      extents[at] = extents[at - 1];
      strides[at] = strides[at - 1];
    }
    extents[at] = extent;
    strides[at] = stride;
  }
  rank = static_cast<std::uint8_t>(kept);
  if (rank == 0) return;
  unsigned last = 0;
  for (unsigned axis = 1; axis < rank; ++axis) {
    if (strides[axis] == strides[last] * extents[last]) {
      extents[last] *= extents[axis];
    } else {
      ++last;
      extents[last] = extents[axis];
      strides[last] = strides[axis];
    }
  }
  rank = static_cast<std::uint8_t>(last + 1);
}

std::uint64_t NormalView::elements() const {
  std::uint64_t count = 1;
  for (unsigned axis = 0; axis < rank; ++axis) count *= extents[axis];
  return count;
}

std::uint64_t NormalView::span() const {
  std::uint64_t span = 0;
  for (unsigned axis = 0; axis < rank; ++axis) span += (extents[axis] - 1) * strides[axis];
  return span;
}

bool NormalView::is_nested() const {
  std::uint64_t below = 0;
  for (unsigned axis = 0; axis < rank; ++axis) {
    if (strides[axis] <= below) return false;
    below += (extents[axis] - 1) * strides[axis];
  }
  return true;
}

namespace {

constexpr unsigned k_depth_max = 256;

/// A window position range [begin, end) and the views inside it: views[first_view, first_view + view_count).
struct Part {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::size_t first_view = 0;
  std::size_t view_count = 0;
};

struct WindowHull {
  std::uint64_t begin = 0;
  std::uint64_t last = 0;
  std::size_t view = 0;
};

class Cutter {
 public:
  explicit Cutter(std::size_t views)
      : work_(static_cast<std::int64_t>(512 * (std::min<std::size_t>(views, 1 << 24) + 16384))) {}

  /// Do the views cover [begin, end), in which they lie, exactly once?
  Outcome solve(std::uint64_t begin, std::uint64_t end, const std::vector<NormalView>& views, unsigned depth) {
    if (begin == end) return {};
    if (views.empty()) return {Fault{begin, true, 0, 0}, {}};
    if (views.size() == 1) return {single(begin, end, views.front()), {}};
    work_ -= static_cast<std::int64_t>(views.size());
    if (work_ < 0 || depth > k_depth_max) {
      return {{}, "view " + std::to_string(views.front().view) + " and the views beside it are cut too finely"};
    }
    std::vector<Part> parts;
    if (cut_flat(begin, end, views, parts)) return solve_parts(begin, end, 0, views, parts, depth);
    // The smallest period first: cutting inside small windows leaves larger periods what they were. Where that leads
    // nowhere (a view kept to a period by chance, which the views inside a part then miss) the next one is tried.
    std::optional<Outcome> best;
    std::vector<std::uint64_t> periods = common_divisors(views);
    for (; !periods.empty() && work_ > 0; periods.pop_back()) {
      const std::uint64_t period = periods.back();
      if (!cut_windows(period, views, parts)) continue;
      const std::vector<Part> all = parts;
      keep_roundest_cuts(period, views, parts);
      Outcome outcome = solve_parts(begin, end, period, views, parts, depth);
      // Which cuts are those of the split cannot always be told from strides: one at a time, then.
      for (std::size_t i = 1; i < all.size() && all.size() > 2 && !outcome.unprovable.empty() && work_ > 0; ++i) {
        cut_windows(period, views, parts);
        parts = {join(all, 0, i), join(all, i, all.size())};
        Outcome again = solve_parts(begin, end, period, views, parts, depth);
        if (again.unprovable.empty()) outcome = std::move(again);
      }
      if (outcome.unprovable.empty()) return outcome;
      if (!best) best = std::move(outcome);
    }
    Outcome outcome = solve_by_boxes(begin, end, views, work_);
    return outcome.unprovable.empty() || !best ? std::move(outcome) : std::move(*best);
  }

 private:
  static Part join(const std::vector<Part>& parts, std::size_t first, std::size_t limit) {
    Part joined = parts[first];
    for (std::size_t i = first + 1; i < limit; ++i) {
      joined.end = parts[i].end;
      joined.view_count += parts[i].view_count;
    }
    return joined;
  }

  /// The fault of a lone nested view, if any.
  static std::optional<Fault> single(std::uint64_t begin, std::uint64_t end, const NormalView& view) {
    if (view.offset > begin) return Fault{begin, true, 0, 0};
    // In normal form the second axis does not continue the first: behind the first run lies a hole.
    const std::uint64_t run = view.rank == 0 || view.strides[0] != 1 ? 1 : view.extents[0];
    if (run < end - begin) return Fault{begin + run, true, 0, 0};
    return std::nullopt;
  }

  /// Greatest common divisors of the largest 1, 2, ... different strides, descending.
  std::vector<std::uint64_t> common_divisors(const std::vector<NormalView>& views) {
    strides_.clear();
    for (const NormalView& view : views) {
      for (unsigned axis = 0; axis < view.rank; ++axis) {
        if (strides_.empty() || strides_.back() != view.strides[axis]) strides_.push_back(view.strides[axis]);
      }
    }
    std::sort(strides_.begin(), strides_.end(), std::greater<>());
    std::vector<std::uint64_t> divisors;
    std::uint64_t divisor = 0;
    for (const std::uint64_t stride : strides_) {
      const std::uint64_t next = std::gcd(divisor, stride);
      if (next != divisor) divisors.push_back(next);
      divisor = next;
    }
    return divisors;
  }

  bool cut_flat(std::uint64_t begin, std::uint64_t end, const std::vector<NormalView>& views,
                std::vector<Part>& parts) {
    hulls_.clear();
    for (std::size_t i = 0; i < views.size(); ++i) {
      hulls_.push_back({views[i].offset, views[i].offset + views[i].span(), i});
    }
    return part_hulls(begin, end, parts);
  }

  /// False where a view does not respect the period or nothing can be cut.
  bool cut_windows(std::uint64_t period, const std::vector<NormalView>& views, std::vector<Part>& parts) {
    hulls_.clear();
    for (std::size_t i = 0; i < views.size(); ++i) {
      const NormalView& view = views[i];
      std::uint64_t span = 0;
      for (unsigned axis = 0; axis < view.rank; ++axis) {
        if (view.strides[axis] < period) {
          span += (view.extents[axis] - 1) * view.strides[axis];
        } else if (view.strides[axis] % period != 0) {
          return false;
        }
      }
      const std::uint64_t begin = view.offset % period;
      if (span >= period - begin) return false;
      hulls_.push_back({begin, begin + span, i});
    }
    return part_hulls(0, period, parts);
  }

  /// Groups hulls_ into parts of [begin, end) that no hull crosses. False where that is one part.
  bool part_hulls(std::uint64_t begin, std::uint64_t end, std::vector<Part>& parts) {
    work_ -= static_cast<std::int64_t>(hulls_.size());
    std::sort(hulls_.begin(), hulls_.end(), [](const WindowHull& a, const WindowHull& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.view < b.view;
    });
    parts.clear();
    std::uint64_t covered = begin;
    for (std::size_t i = 0; i < hulls_.size(); ++i) {
      if (i == 0 || hulls_[i].begin >= covered) {
        if (hulls_[i].begin > covered) parts.push_back({covered, hulls_[i].begin, i, 0});
        parts.push_back({hulls_[i].begin, 0, i, 0});
      }
      covered = std::max(covered, hulls_[i].last + 1);
      parts.back().end = covered;
      ++parts.back().view_count;
    }
    if (covered < end) parts.push_back({covered, end, hulls_.size(), 0});
    return parts.size() > 1;
  }

  /// Of the cuts of a window only those that the strides inside it divide: a cut beside them would shrink the windows
  /// to a width that smaller periods no longer divide. What is left out now is cut later.
  void keep_roundest_cuts(std::uint64_t period, const std::vector<NormalView>& views, std::vector<Part>& parts) {
    common_divisors(views);  // leaves strides_ sorted
    std::uint64_t divisor = 0;
    for (const std::uint64_t stride : strides_) {
      if (stride >= period) continue;
      divisor = std::gcd(divisor, stride);
      const auto is_round = [divisor](const Part& part) { return part.begin % divisor == 0; };
      if (!std::any_of(parts.begin() + 1, parts.end(), is_round)) continue;
      std::size_t last = 0;
      for (std::size_t i = 1; i < parts.size(); ++i) {
        if (is_round(parts[i])) {
          parts[++last] = parts[i];
        } else {
          parts[last].end = parts[i].end;
          parts[last].view_count += parts[i].view_count;
        }
      }
      parts.resize(last + 1);
      return;
    }
  }

  /// period 0: a flat cut.
  Outcome solve_parts(std::uint64_t begin, std::uint64_t end, std::uint64_t period,
                      const std::vector<NormalView>& views, const std::vector<Part>& parts, unsigned depth) {
    Outcome outcome;
    std::vector<std::size_t> order;
    order.reserve(hulls_.size());
    for (const WindowHull& hull : hulls_) order.push_back(hull.view);
    for (const Part& part : parts) {
      const std::uint64_t width = part.end - part.begin;
      const auto shrink = [&](std::uint64_t index) {
        if (period == 0) return index;
        const std::uint64_t inside = std::clamp(index % period, part.begin, part.end) - part.begin;
        return index / period * width + inside;
      };
      std::vector<NormalView> inside;
      inside.reserve(part.view_count);
      for (std::size_t i = part.first_view; i < part.first_view + part.view_count; ++i) {
        NormalView view = views[order[i]];
        if (period != 0) {
          view.offset = shrink(view.offset);
          for (unsigned axis = 0; axis < view.rank; ++axis) {
            if (view.strides[axis] >= period) view.strides[axis] = view.strides[axis] / period * width;
          }
          view.normalize();
        }
        inside.push_back(view);
      }
      Outcome inner = period == 0 ? solve(part.begin, part.end, inside, depth + 1)
                                  : solve(shrink(begin), shrink(end), inside, depth + 1);
      if (inner.fault) {
        // Order is kept on the way back, so the lowest of the parts is the lowest of all.
        std::uint64_t& index = inner.fault->index;
        if (period != 0) index = index / width * period + part.begin + index % width;
        if (!outcome.fault || index < outcome.fault->index) outcome.fault = inner.fault;
      }
      if (outcome.unprovable.empty()) outcome.unprovable = std::move(inner.unprovable);
    }
    return outcome;
  }

  std::int64_t work_;
  std::vector<WindowHull> hulls_;
  std::vector<std::uint64_t> strides_;
};

/// An element that a view certainly covers twice: one step of an axis is several whole steps of another.
std::optional<std::uint64_t> certain_self_meeting(const NormalView& view) {
  for (unsigned a = 0; a < view.rank; ++a) {
    if (view.strides[a] == 0) return view.offset;
    for (unsigned b = a + 1; b < view.rank; ++b) {
      if (view.strides[b] % view.strides[a] == 0 && view.strides[b] / view.strides[a] < view.extents[a]) {
        return view.offset + view.strides[b];
      }
    }
  }
  return std::nullopt;
}

NormalView normal_view_of(const View& view, std::size_t position) {
  NormalView result;
  result.view = static_cast<std::uint32_t>(position);
  result.offset = view.offset();
  result.rank = static_cast<std::uint8_t>(view.rank());
  for (unsigned axis = 0; axis < view.rank(); ++axis) {
    result.extents[axis] = view.extents()[axis];
    result.strides[axis] = view.strides()[axis];
  }
  result.normalize();
  return result;
}

TilingVerdict verdict_of(const Shape& shape, const Fault& fault) {
  TilingVerdict verdict;
  verdict.tiling = fault.is_hole ? Tiling::hole : Tiling::overlap;
  verdict.coordinate = coordinate_of(shape, fault.index);
  if (!fault.is_hole) {
    verdict.first_view = fault.first_view;
    verdict.second_view = fault.second_view;
  }
  return verdict;
}

}  // namespace
}  // namespace detail

std::string to_string(Tiling tiling) {
  switch (tiling) {
    case Tiling::exact:
      return "exact";
    case Tiling::hole:
      return "hole";
    case Tiling::overlap:
      return "overlap";
    case Tiling::unprovable:
      return "unprovable";
  }
  return "unprovable";
}

TilingVerdict prove_tiling(const Shape& shape, std::span<const View> views, const TilingOptions& options) {
  TilingVerdict verdict;
  const std::optional<std::uint64_t> elements = element_count(shape);
  if (!elements) {
    verdict.reason = "the tensor of shape " + to_string(shape) + " has more elements than 64 bits count";
    return verdict;
  }
  std::vector<detail::NormalView> normal;
  normal.reserve(views.size());
  std::uint64_t covered = 0;
  std::optional<detail::Fault> self_meeting;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const std::uint64_t count = detail::view_elements(views[i]);
    if (count == 0) continue;
    const std::optional<std::uint64_t> last = detail::view_last_element(views[i]);
    if (!last || *last >= *elements) {
      verdict.reason =
          "view " + std::to_string(i) + " " + to_string(views[i]) + " leaves the tensor " + to_string(shape);
      return verdict;
    }
    if (__builtin_add_overflow(covered, count, &covered)) covered = UINT64_MAX;
    normal.push_back(detail::normal_view_of(views[i], i));
    if (normal.back().is_nested()) continue;
    const std::optional<std::uint64_t> meeting = detail::certain_self_meeting(normal.back());
    if (meeting && (!self_meeting || *meeting < self_meeting->index)) {
      const std::uint32_t position = static_cast<std::uint32_t>(i);
      self_meeting = detail::Fault{*meeting, false, position, position};
    }
    if (verdict.reason.empty()) {
      verdict.reason =
          "view " + std::to_string(i) + " " + to_string(views[i]) + " has strides that run into each other";
    }
  }
  if (*elements == 0) {
    verdict.tiling = Tiling::exact;
    return verdict;
  }
  std::optional<detail::Fault> fault = self_meeting;
  if (verdict.reason.empty()) {
    detail::Cutter cutter(normal.size());
    detail::Outcome outcome = cutter.solve(0, *elements, normal, 0);
    fault = outcome.fault;
    if (outcome.unprovable.empty()) {
      if (fault) return detail::verdict_of(shape, *fault);
      verdict.tiling = Tiling::exact;
      return verdict;
    }
    verdict.reason = std::move(outcome.unprovable);
  }
  // Something was left open: small tensors are counted, of larger ones the fault that is certain is told.
  if (*elements <= options.bitmap_elements_max && covered <= 4 * *elements + 1024) {
    return detail::prove_by_bitmap(shape, *elements, views);
  }
  if (fault) return detail::verdict_of(shape, *fault);
  if (covered != *elements) {
    verdict.reason +=
        "; the views hold " + std::to_string(covered) + " elements, the tensor " + std::to_string(*elements);
  }
  return verdict;
}

}  // namespace weightproof
