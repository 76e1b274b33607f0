// SPDX-License-Identifier: Apache-2.0
#include "loader/plan/clip.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "loader/core/error.hpp"

namespace weightproof::plan {
namespace {

constexpr std::uint64_t k_steps_max = 4096;

/// An axis of the view that steps along one axis of the tensor.
struct Digit {
  unsigned axis = 0;  // of the view
  std::uint64_t step = 0;
  std::uint64_t count = 0;
};

struct Narrowing {
  unsigned axis = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// Narrowings of one alternative, one per digit at most.
struct Alternative {
  std::array<Narrowing, limits::rank_max> narrowings;
  unsigned size = 0;
};

struct DigitsOfAxis {
  std::array<Digit, limits::rank_max> digits;  // by descending step
  unsigned size = 0;
};

/// Alternatives for base + sum of digits in [begin, end), appended to `out`.
void solve(const DigitsOfAxis& digits, unsigned at, std::uint64_t base, std::uint64_t begin, std::uint64_t end,
           const Alternative& so_far, std::vector<Alternative>& out) {
  if (at == digits.size) {
    if (base >= begin && base < end) out.push_back(so_far);
    return;
  }
  const Digit& digit = digits.digits[at];
  std::uint64_t inner = 0;  // what the digits below can add
  for (unsigned i = at + 1; i < digits.size; ++i) inner += (digits.digits[i].count - 1) * digits.digits[i].step;
  if (base >= end || base + (digit.count - 1) * digit.step + inner < begin) return;
  const auto steps_to = [&](std::uint64_t from, std::uint64_t to) {
    return to <= from ? 0 : (to - from + digit.step - 1) / digit.step;
  };
  const std::uint64_t touch_begin = steps_to(base + inner, begin);
  const std::uint64_t touch_end = std::min(digit.count, steps_to(base, end));
  // Steps at which everything below lies inside.
  std::uint64_t full_begin = steps_to(base, begin);
  std::uint64_t full_end = base + inner < end ? std::min(digit.count, steps_to(base + inner, end)) : 0;
  if (full_begin >= full_end) full_begin = full_end = touch_end;
  const auto narrowed = [&](std::uint64_t first, std::uint64_t count) {
    Alternative next = so_far;
    if (count != digit.count) next.narrowings[next.size++] = {digit.axis, first, count};
    return next;
  };
  const auto partly = [&](std::uint64_t step) {
    solve(digits, at + 1, base + step * digit.step, begin, end, narrowed(step, 1), out);
  };
  for (std::uint64_t step = touch_begin; step < std::min(full_begin, touch_end); ++step) partly(step);
  if (full_begin < full_end) out.push_back(narrowed(full_begin, full_end - full_begin));
  for (std::uint64_t step = full_end; step < touch_end; ++step) partly(step);
}

class Clipper {
 public:
  Clipper(const Shape& shape, const LocalPiece& piece, const Shape& local_shape, std::vector<ClippedBinding>& out)
      : shape_(shape),
        piece_(piece),
        strides_(contiguous_strides(shape)),
        local_strides_(contiguous_strides(local_shape)),
        out_(out) {}

  void clip(const View& source, const View& target) {
    const Coordinate base = coordinate_of(shape_, target.offset());
    std::array<DigitsOfAxis, limits::rank_max> digits;
    for (unsigned axis = 0; axis < target.rank(); ++axis) {
      const std::uint64_t count = target.extents()[axis];
      if (count == 1) continue;
      const unsigned at = tensor_axis(target.strides()[axis]);
      if (at == shape_.rank()) return step_through(source, target, axis);
      DigitsOfAxis& of = digits[at];
      const Digit digit{axis, target.strides()[axis] / strides_[at], count};
      unsigned place = of.size++;
      for (; place > 0 && of.digits[place - 1].step < digit.step; --place) of.digits[place] = of.digits[place - 1];
      of.digits[place] = digit;
    }
    for (unsigned at = 0; at < shape_.rank(); ++at) {
      std::uint64_t last = base[at];
      for (unsigned i = 0; i < digits[at].size; ++i)
        last += (digits[at].digits[i].count - 1) * digits[at].digits[i].step;
      if (last >= shape_[at]) return step_through(source, target, digits[at].digits[0].axis);
    }
    std::array<std::vector<Alternative>, limits::rank_max> alternatives;
    for (unsigned at = 0; at < shape_.rank(); ++at) {
      const std::uint64_t begin = piece_.global.start[at];
      solve(digits[at], 0, base[at], begin, begin + piece_.global.length[at], {}, alternatives[at]);
      if (alternatives[at].empty()) return;
    }
    combine(alternatives, 0, source, target);
  }

 private:
  /// Axis of the tensor that a stride steps along, or its rank.
  unsigned tensor_axis(std::uint64_t stride) const {
    for (unsigned at = 0; at < shape_.rank(); ++at) {
      if (shape_[at] > 1 && stride >= strides_[at] && stride % strides_[at] == 0 &&
          stride / strides_[at] < shape_[at]) {
        return at;
      }
    }
    return shape_.rank();
  }

  void step_through(const View& source, const View& target, unsigned axis) {
    steps_ += target.extents()[axis];
    if (steps_ > k_steps_max) {
      throw Error(ErrorCode::route_unavailable,
                  "no part can be taken of a view that walks through several axes of its tensor: " + to_string(target) +
                      " of shape " + to_string(shape_),
                  {.expected = "axes of the view that walk along axes of the tensor", .actual = to_string(target)});
    }
    for (std::uint64_t step = 0; step < target.extents()[axis]; ++step) {
      clip(source.narrow(axis, step, 1), target.narrow(axis, step, 1));
    }
  }

  void combine(const std::array<std::vector<Alternative>, limits::rank_max>& alternatives, unsigned at,
               const View& source, const View& target) {
    if (at == shape_.rank()) return emit(source, target);
    for (const Alternative& alternative : alternatives[at]) {
      View from = source;
      View to = target;
      for (unsigned i = 0; i < alternative.size; ++i) {
        const Narrowing& n = alternative.narrowings[i];
        from = from.narrow(n.axis, n.first, n.count);
        to = to.narrow(n.axis, n.first, n.count);
      }
      combine(alternatives, at + 1, from, to);
    }
  }

  void emit(const View& source, const View& target) {
    const Coordinate at = coordinate_of(shape_, target.offset());
    std::uint64_t offset = 0;
    for (unsigned axis = 0; axis < shape_.rank(); ++axis) {
      offset += (at[axis] - piece_.global.start[axis] + piece_.local.start[axis]) * local_strides_[axis];
    }
    Layout layout = target.layout();
    for (unsigned axis = 0; axis < target.rank(); ++axis) {
      const unsigned along = tensor_axis(target.strides()[axis]);
      layout.strides[axis] =
          along == shape_.rank() ? 1 : target.strides()[axis] / strides_[along] * local_strides_[along];
    }
    out_.push_back({source, View(offset, layout)});
  }

  const Shape& shape_;
  const LocalPiece& piece_;
  const Extents strides_;
  const Extents local_strides_;
  std::vector<ClippedBinding>& out_;
  std::uint64_t steps_ = 0;
};

}  // namespace

void clip_binding(const View& source, const View& target, const Shape& shape, const LocalPiece& piece,
                  const Shape& local_shape, std::vector<ClippedBinding>& out) {
  WEIGHTPROOF_ASSERT(source.extents() == target.extents() && piece.global.start.rank() == shape.rank());
  if (target.element_count() == 0 || piece.global.is_empty()) return;
  Clipper(shape, piece, local_shape, out).clip(source, target);
}

bool is_whole(const LocalTensor& local, const Shape& shape) {
  return local.shape == shape && local.pieces.size() == 1 && local.pieces[0].global == Box::whole(shape) &&
         local.pieces[0].local == Box::whole(shape);
}

bool is_absent(const LocalTensor& local, const Shape& shape) {
  return local.pieces.empty() && (local.shape.rank() != shape.rank() || shape.rank() == 0);
}

void require_sound(const LocalTensor& local, const Shape& shape, std::string_view key) {
  const auto is_inside = [](const Box& box, const Shape& whole) {
    if (box.start.rank() != whole.rank() || box.length.rank() != whole.rank()) return false;
    for (unsigned axis = 0; axis < whole.rank(); ++axis) {
      if (box.start[axis] > whole[axis] || box.length[axis] > whole[axis] - box.start[axis]) return false;
    }
    return true;
  };
  for (const LocalPiece& piece : local.pieces) {
    if (is_inside(piece.global, shape) && is_inside(piece.local, local.shape) &&
        piece.global.length == piece.local.length) {
      continue;
    }
    ErrorFacts facts;
    facts.keys.emplace_back(key);
    throw Error(ErrorCode::internal,
                "a placement takes " + to_string(piece.global) + " of '" + std::string(key) + "' of shape " +
                    to_string(shape) + " to " + to_string(piece.local) + " of a local tensor of shape " +
                    to_string(local.shape),
                std::move(facts));
  }
}

}  // namespace weightproof::plan
