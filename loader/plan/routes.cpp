// SPDX-License-Identifier: Apache-2.0
// Which dtype a tensor gets and which route a move takes.
#include <algorithm>
#include <array>

#include "loader/core/error.hpp"
#include "loader/plan/planner_internal.hpp"

namespace weightproof::plan {
namespace {

DType asked_dtype(TargetDType dtype, DType stored) {
  switch (dtype) {
    case TargetDType::stored:
      return stored;
    case TargetDType::bf16:
      return DType::bf16;
    case TargetDType::f32:
      return DType::f32;
    case TargetDType::f16:
      return DType::f16;
  }
  return stored;
}

/// Narrowest ordinary dtype that holds every value of both.
DType wider(DType a, DType b) {
  if (a == b || !is_ordinary_float(a) || !is_ordinary_float(b)) return a;
  if (a == DType::f64 || b == DType::f64) return DType::f64;
  return DType::f32;  // F32 with anything, or BF16 with F16
}

struct Axis {
  std::uint64_t extent;
  std::uint64_t source;
  std::uint64_t target;
};

/// Axes of more than one element, by descending source stride.
struct PairedAxes {
  std::array<Axis, limits::rank_max> axes;
  unsigned size = 0;
  PairedAxes(const Layout& source, const Layout& target) {
    for (unsigned axis = 0; axis < source.extents.rank(); ++axis) {
      const std::uint64_t extent = source.extents[axis];
      if (extent == 1) continue;
      const Axis added{extent, source.strides[axis], target.strides[axis]};
      unsigned at = size++;
      for (; at > 0 && axes[at - 1].source < added.source; --at) axes[at] = axes[at - 1];
      axes[at] = added;
    }
  }
};

bool is_one_run(const Layout& source, const Layout& target) {
  std::uint64_t expected = 1;
  const PairedAxes paired(source, target);
  for (unsigned i = paired.size; i-- > 0;) {
    const Axis& axis = paired.axes[i];
    if (axis.extent == 0) return true;
    if (axis.source != expected || axis.target != expected) return false;
    expected *= axis.extent;
  }
  return true;
}

bool is_source_run(const Layout& source) {
  std::uint64_t expected = 1;
  const PairedAxes paired(source, source);
  for (unsigned i = paired.size; i-- > 0;) {
    if (paired.axes[i].source != expected) return false;
    expected *= paired.axes[i].extent;
  }
  return true;
}

constexpr std::size_t k_examples = 3;

}  // namespace

bool is_one_run(const View& source, const View& target) {
  if (source.layout() == target.layout() && source.is_contiguous()) return true;
  return is_one_run(source.layout(), target.layout());
}

std::optional<Box> box_of(const View& view, const Shape& shape) {
  const bool is_whole = view.offset() == 0 && view.extents() == shape && view.is_contiguous();
  if (is_whole && view.element_count() != 0) return Box::whole(shape);
  const Extents strides = contiguous_strides(shape);
  if (view.element_count() == 0) return std::nullopt;
  Box box;
  box.start = coordinate_of(shape, view.offset());
  box.length = shape;
  for (unsigned axis = 0; axis < shape.rank(); ++axis) box.length[axis] = 1;
  for (unsigned axis = 0; axis < view.rank(); ++axis) {
    if (view.extents()[axis] == 1) continue;
    bool is_found = false;
    for (unsigned natural = 0; natural < shape.rank() && !is_found; ++natural) {
      if (strides[natural] != view.strides()[axis] || shape[natural] == 1) continue;
      if (box.length[natural] != 1 || view.extents()[axis] > shape[natural] - box.start[natural]) return std::nullopt;
      box.length[natural] = view.extents()[axis];
      is_found = true;
    }
    if (!is_found) return std::nullopt;
  }
  return box;
}

std::string_view to_string(Side side) { return side == Side::hf ? "hf" : "native"; }

std::string_view to_string(Route route) {
  constexpr std::array<std::string_view, 3> k_names = {"direct", "bounded", "materialized"};
  return k_names[static_cast<std::size_t>(route)];
}

std::string_view to_string(Reason reason) {
  constexpr std::array<std::string_view, 9> k_names = {
      "contiguous", "strided_target", "strided_source", "cast", "decode", "constant", "sub_byte", "no_box", "forced"};
  return k_names[static_cast<std::size_t>(reason)];
}

DType Basis::source_dtype(StoredId stored, Row at) const {
  const bool is_decoded = !decode_of.empty() && decode_of[stored] != k_no_id;
  return is_decoded ? asked_dtype(request.dtype, request.decoded_dtype) : row(at).dtype;
}

std::optional<DType> Basis::stored_dtype(std::span<const Move> moves) const {
  std::optional<DType> stored;
  for (const Move& move : moves) {
    if (move.action != Action::write) continue;
    stored = stored ? wider(*stored, move.source_dtype) : move.source_dtype;
  }
  return stored;
}

DType Basis::target_dtype(DTypeRule rule, DType fixed, std::optional<DType> stored) const {
  if (rule == DTypeRule::fixed) return fixed;
  const DType found = stored.value_or(asked_dtype(request.dtype, request.decoded_dtype));
  if (!is_ordinary_float(found) || request.dtype == TargetDType::stored) return found;
  // Kept as found: widened where that was asked for, exactly, and never changed otherwise.
  if (rule == DTypeRule::any && bits_of(asked_dtype(request.dtype, found)) <= bits_of(found)) return found;
  return rule == DTypeRule::f32_state ? DType::f32 : asked_dtype(request.dtype, found);
}

/// Which runs two layouts make does not hang on where they begin: experts and layers repeat the question.
const Planner::KnownPair& Planner::runs_of(LayoutId source, LayoutId target) {
  KnownPair& pair = known_pairs_[(source * 31 + target) % known_pairs_.size()];
  if (pair.source != source || pair.target != target) {
    pair.source = source;
    pair.target = target;
    pair.is_run = is_one_run(View(0, plan_.layouts_[source]), View(0, plan_.layouts_[target]));
    pair.is_source_run = is_source_run(plan_.layouts_[source]);
  }
  return pair;
}

bool Planner::is_box_of_codec(const Move& move) {
  const std::uint32_t kind = basis_.codec_class[move.decode];
  KnownBox& known = known_boxes_[(move.source_layout * 31 + kind) % known_boxes_.size()];
  if (known.layout != move.source_layout || known.codec_class != kind || known.offset != move.source_offset) {
    known.layout = move.source_layout;
    known.codec_class = kind;
    known.offset = move.source_offset;
    known.is_box = box_of(plan_.source_view(move), (*plan_.decodes_)[move.decode].codec->natural_shape()).has_value();
  }
  return known.is_box;
}

void Planner::choose_route(const PlannedTensor& tensor, Move& move) {
  if (move.action == Action::fill) {
    move.source_dtype = tensor.dtype;
    move.reason = Reason::constant;
    return;
  }
  if (move.decode != k_no_id) {
    move.source_dtype = tensor.dtype;
    const bool is_box = is_box_of_codec(move);
    move.route = is_box ? Route::bounded : Route::materialized;
    move.reason = is_box ? Reason::decode : Reason::no_box;
    return;
  }
  const KnownPair& pair = runs_of(move.source_layout, move.target_layout);
  const unsigned bits = bits_of(move.source_dtype);
  const bool is_run = pair.is_run;
  if (bits % 8 != 0) {
    // Bits inside a byte have no address: whole runs from byte to byte can be moved, nothing else can be taken apart.
    const bool is_on_bytes = move.source_offset * bits % 8 == 0 && move.target_offset * bits % 8 == 0 &&
                             plan_.source_view(move).element_count() * bits % 8 == 0;
    if (!is_run || !is_on_bytes) {
      move.route = Route::materialized;
      move.reason = Reason::sub_byte;
      return;
    }
  }
  if (move.source_dtype != tensor.dtype) {
    if (!is_ordinary_float(move.source_dtype) || !is_ordinary_float(tensor.dtype)) {
      ErrorFacts facts;
      facts.keys = {std::string(key_of(move)), std::string(tensor.key)};
      facts.expected = std::string(name_of(tensor.dtype));
      facts.actual = std::string(name_of(move.source_dtype));
      throw Error(
          ErrorCode::dtype_unsupported,
          "tensor '" + facts.keys[0] + "' is stored as " + facts.actual + " and cannot become " + facts.expected,
          std::move(facts));
    }
    move.route = Route::bounded;
    move.reason = Reason::cast;
  } else if (is_run) {
    move.reason = Reason::contiguous;
  } else {
    move.reason = pair.is_source_run ? Reason::strided_target : Reason::strided_source;
  }
}

void Planner::choose_routes() {
  for (PlannedTensor& tensor : plan_.tensors_) {
    const std::optional<std::uint64_t> bytes = byte_count(plan_.shape_of(tensor), tensor.dtype);
    if (!bytes) {
      ErrorFacts facts;
      facts.keys.emplace_back(tensor.key);
      throw Error(ErrorCode::validation_overflow,
                  "tensor '" + std::string(tensor.key) + "' of shape " + to_string(plan_.shape_of(tensor)) +
                      " has no whole number of bytes in 64 bits",
                  std::move(facts));
    }
    tensor.bytes = *bytes;
    for (std::uint32_t m = tensor.first_move; m < tensor.first_move + tensor.move_count; ++m) {
      Move& move = plan_.moves_[m];
      choose_route(tensor, move);
      if (!request_.route || move.action == Action::fill || move.route == *request_.route) continue;
      // Whatever can be done in less memory can be done in more.
      if (move.route < *request_.route) {
        move.route = *request_.route;
        if (move.reason == Reason::contiguous || *request_.route == Route::materialized) move.reason = Reason::forced;
      }
    }
  }
}

void Planner::weigh_routes() {
  for (const Route candidate : {Route::direct, Route::bounded, Route::materialized}) {
    Considered considered;
    considered.route = candidate;
    Reason first_reason = Reason::contiguous;
    for (const Move& move : plan_.moves_) {
      if (move.action == Action::fill || move.route <= candidate) continue;
      if (considered.moves++ == 0) first_reason = move.reason;
      if (considered.examples.size() < k_examples) considered.examples.emplace_back(key_of(move));
    }
    const bool is_asked = request_.route && *request_.route == candidate;
    const bool is_decided =
        !plan_.considered_.empty() && std::any_of(plan_.considered_.begin(), plan_.considered_.end(),
                                                  [](const Considered& c) { return c.is_chosen; });
    if (considered.moves != 0) {
      considered.reason = std::to_string(considered.moves) + (considered.moves == 1 ? " move needs" : " moves need") +
                          " more, the first one by " + std::string(to_string(first_reason));
      if (is_asked) {
        ErrorFacts facts;
        for (const Move& move : plan_.moves_) {
          if (move.action != Action::fill && move.route > candidate) facts.keys.emplace_back(key_of(move));
        }
        facts.hint = "leave the route to auto";
        throw Error(ErrorCode::route_unavailable,
                    "route " + std::string(to_string(candidate)) + " is not possible: " + considered.reason + ", '" +
                        considered.examples.front() + "'",
                    std::move(facts));
      }
    } else if (request_.route && !is_asked) {
      considered.reason = "not asked for";
    } else if (is_decided) {
      considered.reason = "holds more than is needed";
    } else {
      considered.is_chosen = true;
      considered.reason = request_.route ? "asked for" : "holds the least that every move can be done in";
      plan_.route_ = candidate;
    }
    plan_.considered_.push_back(std::move(considered));
  }
}

}  // namespace weightproof::plan
