// SPDX-License-Identifier: Apache-2.0
#include "adapters/experts.hpp"

#include <algorithm>
#include <charconv>
#include <string>

#include "loader/core/error.hpp"

namespace weightproof::adapters {
namespace {

/// The same pairs of elements, in the order in which they lie in the stored tensor: both sides of a transposed pair of
/// views become plain again, so that what is one run is seen as one.
void bind_in_stored_order(SchemaBuilder& builder, StoredId stored, const View& from, NativeId native, const View& to) {
  std::array<unsigned, limits::rank_max> order{};
  const unsigned rank = from.rank();
  bool is_sorted = true;
  for (unsigned axis = 0; axis < rank; ++axis) {
    order[axis] = axis;
    if (axis != 0 && from.strides()[axis - 1] < from.strides()[axis]) is_sorted = false;
  }
  if (is_sorted) {
    builder.bind(stored, from, native, to);
    return;
  }
  std::stable_sort(order.begin(), order.begin() + rank,
                   [&](unsigned a, unsigned b) { return from.strides()[a] > from.strides()[b]; });
  const std::span<const unsigned> axes(order.data(), rank);
  builder.bind(stored, from.permute(axes), native, to.permute(axes));
}

std::string_view numbered(std::string& buffer, std::string_view name, std::uint64_t number) {
  char digits[24];
  const char* end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
  buffer.assign(name).append(digits, static_cast<std::size_t>(end - digits));
  return buffer;
}

}  // namespace

Experts::Experts(Describer& d, const ExpertSpec& spec, ExpertStorage storage, std::string_view native_scope)
    : d_(d), spec_(spec), storage_(storage), rows_(spec.is_gated ? 2 * spec.width : spec.width) {
  if (spec.experts > k_experts_max) {
    ErrorFacts facts;
    facts.file = "config.json";
    facts.expected = "at most " + std::to_string(k_experts_max);
    facts.actual = std::to_string(spec.experts);
    throw Error(ErrorCode::limit_exceeded, "the config asks for more experts than any model has", std::move(facts));
  }
  const Scope scope(d, "", native_scope);
  SchemaBuilder& builder = d.builder();
  const std::uint64_t e = spec.experts;
  const NativeId first = builder.last_native() + 1;
  ParallelRule rule;
  rule.kind = storage == ExpertStorage::te ? ParallelKind::expert : ParallelKind::experts;
  rule.experts = static_cast<std::uint32_t>(e);
  if (storage == ExpertStorage::grouped) {
    gate_up_ = d.native("gate_and_up_projs", {e, spec.input, rows_});
    down_ = d.native("down_projs", {e, spec.width, spec.input});
    gate_up_view_ = builder.whole(gate_up_).transpose(1, 2);
    down_view_ = builder.whole(down_).transpose(1, 2);
    if (spec.has_bias) {
      gate_up_bias_ = d.native("gate_up_proj_bias", {e, rows_});
      down_bias_ = d.native("down_proj_bias", {e, spec.input});
      gate_up_bias_view_ = builder.whole(gate_up_bias_);
      down_bias_view_ = builder.whole(down_bias_);
    }
  } else if (storage == ExpertStorage::mok) {
    if (spec.has_bias || !spec.is_gated || spec.has_interleaved_gate) {
      ErrorFacts facts;
      facts.expected = "gated experts without biases, gate and up apart";
      facts.actual = spec.has_bias ? "biases" : (spec.is_gated ? "interleaved gate and up" : "ungated experts");
      facts.hint = "use --expert-storage grouped";
      throw Error(ErrorCode::route_unavailable, "expert storage mok cannot hold this model's experts",
                  std::move(facts));
    }
    gate_up_ = d.native("routed_gate_weights", {e, spec.width, spec.input});
    up_ = d.native("routed_up_weights", {e, spec.width, spec.input});
    down_ = d.native("routed_down_weights", {e, spec.input, spec.width});
    gate_up_view_ = builder.whole(gate_up_);
    up_view_ = builder.whole(up_);
    down_view_ = builder.whole(down_);
  } else {
    std::string name;
    te_.reserve(e * (spec.has_bias ? 4 : 2));
    for (std::uint64_t i = 0; i < e; ++i)
      te_.push_back(d.native(numbered(name, "gate_up_linear.weight", i), {rows_, spec.input}));
    for (std::uint64_t i = 0; i < e; ++i)
      te_.push_back(d.native(numbered(name, "down_linear.weight", i), {spec.input, spec.width}));
    for (std::uint64_t i = 0; spec.has_bias && i < e; ++i)
      te_.push_back(d.native(numbered(name, "gate_up_linear.bias", i), {rows_}));
    for (std::uint64_t i = 0; spec.has_bias && i < e; ++i)
      te_.push_back(d.native(numbered(name, "down_linear.bias", i), {spec.input}));
    gate_up_view_ = View::whole({rows_, spec.input});
    down_view_ = View::whole({spec.input, spec.width});
    gate_up_bias_view_ = View::whole({rows_});
    down_bias_view_ = View::whole({spec.input});
  }
  if (storage != ExpertStorage::te && e != 0) {
    first_gate_up_ = gate_up_view_.select(0, 0);
    first_down_ = down_view_.select(0, 0);
    const bool is_apart = storage == ExpertStorage::mok;
    first_gate_ = is_apart ? first_gate_up_ : first_gate_up_.narrow(0, 0, spec.width);
    first_up_ = is_apart        ? up_view_.select(0, 0)
                : spec.is_gated ? first_gate_up_.narrow(0, spec.width, spec.width)
                                : first_gate_up_;
  }
  for (NativeId native = first; native <= builder.last_native(); ++native) {
    const std::uint64_t expert = e == 0 ? 0 : (native - first) % e;
    builder.parallel(native, rule, rule.kind == ParallelKind::expert ? static_cast<std::uint32_t>(expert) : k_no_id);
  }
}

/// Experts lie one after the other: each has the first one's view, further on.
View Experts::expert_of(const View& all, const View& first, std::uint64_t expert) {
  if (expert >= all.extents()[0]) return all.select(0, expert);  // says what is wrong
  return View(first.offset() + expert * all.strides()[0], first.layout());
}

View Experts::gate_up_of(std::uint64_t expert, NativeId& native) const {
  if (storage_ == ExpertStorage::te) {
    native = te_[expert];
    return gate_up_view_;
  }
  native = gate_up_;
  return expert_of(gate_up_view_, first_gate_up_, expert);
}

View Experts::down_of(std::uint64_t expert, NativeId& native) const {
  if (storage_ == ExpertStorage::te) {
    native = te_[spec_.experts + expert];
    return down_view_;
  }
  native = down_;
  return expert_of(down_view_, first_down_, expert);
}

void Experts::bind_gate(std::uint64_t expert, StoredId stored, const View& view) {
  if (storage_ == ExpertStorage::te) {
    d_.builder().bind(stored, view, te_[expert], gate_up_view_.narrow(0, 0, spec_.width));
  } else {
    d_.builder().bind(stored, view, gate_up_, expert_of(gate_up_view_, first_gate_, expert));
  }
}

void Experts::bind_up(std::uint64_t expert, StoredId stored, const View& view) {
  if (storage_ == ExpertStorage::mok) {
    d_.builder().bind(stored, view, up_, expert_of(up_view_, first_up_, expert));
  } else if (storage_ == ExpertStorage::te) {
    d_.builder().bind(stored, view, te_[expert],
                      spec_.is_gated ? gate_up_view_.narrow(0, spec_.width, spec_.width) : gate_up_view_);
  } else {
    d_.builder().bind(stored, view, gate_up_, expert_of(gate_up_view_, first_up_, expert));
  }
}

void Experts::bind_gate_up(std::uint64_t expert, StoredId stored, const View& view) {
  if (storage_ == ExpertStorage::mok) {
    bind_gate(expert, stored, view.narrow(0, 0, spec_.width));
    bind_up(expert, stored, view.narrow(0, spec_.width, spec_.width));
    return;
  }
  NativeId native = k_no_id;
  const View rows = gate_up_of(expert, native);
  bind_in_stored_order(d_.builder(), stored, view, native, rows);
}

void Experts::bind_down(std::uint64_t expert, StoredId stored, const View& view) {
  NativeId native = k_no_id;
  const View rows = down_of(expert, native);
  bind_in_stored_order(d_.builder(), stored, view, native, rows);
}

void Experts::bind_gate_bias(std::uint64_t expert, StoredId stored, const View& view) {
  const bool is_te = storage_ == ExpertStorage::te;
  const View row = is_te ? gate_up_bias_view_ : gate_up_bias_view_.select(0, expert);
  d_.builder().bind(stored, view, is_te ? te_[2 * spec_.experts + expert] : gate_up_bias_,
                    row.narrow(0, 0, spec_.width));
}

void Experts::bind_up_bias(std::uint64_t expert, StoredId stored, const View& view) {
  const bool is_te = storage_ == ExpertStorage::te;
  const View row = is_te ? gate_up_bias_view_ : gate_up_bias_view_.select(0, expert);
  d_.builder().bind(stored, view, is_te ? te_[2 * spec_.experts + expert] : gate_up_bias_,
                    spec_.is_gated ? row.narrow(0, spec_.width, spec_.width) : row);
}

void Experts::bind_down_bias(std::uint64_t expert, StoredId stored, const View& view) {
  const bool is_te = storage_ == ExpertStorage::te;
  d_.builder().bind(stored, view, is_te ? te_[3 * spec_.experts + expert] : down_bias_,
                    is_te ? down_bias_view_ : down_bias_view_.select(0, expert));
}

void Experts::bind_all_gate(StoredId stored, const View& view) {
  if (storage_ == ExpertStorage::te) {
    for (std::uint64_t e = 0; e < spec_.experts; ++e) bind_gate(e, stored, view.select(0, e));
    return;
  }
  const View rows = storage_ == ExpertStorage::mok ? gate_up_view_ : gate_up_view_.narrow(1, 0, spec_.width);
  bind_in_stored_order(d_.builder(), stored, view, gate_up_, rows);
}

void Experts::bind_all_up(StoredId stored, const View& view) {
  if (storage_ == ExpertStorage::te) {
    for (std::uint64_t e = 0; e < spec_.experts; ++e) bind_up(e, stored, view.select(0, e));
    return;
  }
  if (storage_ == ExpertStorage::mok) {
    bind_in_stored_order(d_.builder(), stored, view, up_, up_view_);
    return;
  }
  const View rows = spec_.is_gated ? gate_up_view_.narrow(1, spec_.width, spec_.width) : gate_up_view_;
  bind_in_stored_order(d_.builder(), stored, view, gate_up_, rows);
}

void Experts::bind_all_gate_up(StoredId stored, const View& view) {
  if (storage_ == ExpertStorage::te) {
    for (std::uint64_t e = 0; e < spec_.experts; ++e) bind_gate_up(e, stored, view.select(0, e));
  } else if (storage_ == ExpertStorage::mok) {
    bind_all_gate(stored, view.narrow(1, 0, spec_.width));
    bind_all_up(stored, view.narrow(1, spec_.width, spec_.width));
  } else {
    bind_in_stored_order(d_.builder(), stored, view, gate_up_, gate_up_view_);
  }
}

void Experts::bind_all_down(StoredId stored, const View& view) {
  if (storage_ == ExpertStorage::te) {
    for (std::uint64_t e = 0; e < spec_.experts; ++e) bind_down(e, stored, view.select(0, e));
  } else {
    bind_in_stored_order(d_.builder(), stored, view, down_, down_view_);
  }
}

void Experts::bind_all_gate_up_bias(StoredId stored, const View& view) {
  if (storage_ == ExpertStorage::te) {
    for (std::uint64_t e = 0; e < spec_.experts; ++e) {
      d_.builder().bind(stored, view.select(0, e), te_[2 * spec_.experts + e], gate_up_bias_view_);
    }
  } else {
    d_.builder().bind(stored, view, gate_up_bias_, gate_up_bias_view_);
  }
}

void Experts::bind_all_down_bias(StoredId stored, const View& view) {
  if (storage_ == ExpertStorage::te) {
    for (std::uint64_t e = 0; e < spec_.experts; ++e) {
      d_.builder().bind(stored, view.select(0, e), te_[3 * spec_.experts + e], down_bias_view_);
    }
  } else {
    d_.builder().bind(stored, view, down_bias_, down_bias_view_);
  }
}

void per_expert(Describer& d, const ExpertSpec& spec, ExpertStorage storage, std::string_view stored_scope,
                std::string_view native_scope, const ExpertNames& names) {
  Experts experts(d, spec, storage, native_scope);
  const View gate = View::whole({spec.width, spec.input});
  const View down = View::whole({spec.input, spec.width});
  const View bias = View::whole({spec.width});
  const View down_bias = View::whole({spec.input});
  for (std::uint64_t e = 0; e < spec.experts; ++e) {
    const Scope scope(d, stored_scope, "", e);
    if (spec.is_gated) experts.bind_gate(e, d.stored_linear(names.gate, spec.width, spec.input), gate);
    experts.bind_up(e, d.stored_linear(names.up, spec.width, spec.input), gate);
    experts.bind_down(e, d.stored_linear(names.down, spec.input, spec.width), down);
    if (!spec.has_bias) continue;
    if (spec.is_gated) experts.bind_gate_bias(e, d.stored_bias(names.gate, spec.width), bias);
    experts.bind_up_bias(e, d.stored_bias(names.up, spec.width), bias);
    experts.bind_down_bias(e, d.stored_bias(names.down, spec.input), down_bias);
  }
}

void stacked_experts(Describer& d, const ExpertSpec& spec, ExpertStorage storage, std::string_view stored_scope,
                     std::string_view native_scope) {
  Experts experts(d, spec, storage, native_scope);
  const Scope scope(d, stored_scope, "");
  const std::uint64_t rows = spec.is_gated ? 2 * spec.width : spec.width;
  const StoredId gate_up = d.stored("gate_up_proj", {spec.experts, rows, spec.input});
  const StoredId down = d.stored("down_proj", {spec.experts, spec.input, spec.width});
  experts.bind_all_gate_up(gate_up, d.builder().whole_stored(gate_up));
  experts.bind_all_down(down, d.builder().whole_stored(down));
}

void transposed_stacked_experts(Describer& d, const ExpertSpec& spec, ExpertStorage storage,
                                std::string_view stored_scope, std::string_view native_scope) {
  Experts experts(d, spec, storage, native_scope);
  const Scope scope(d, stored_scope, "");
  const std::uint64_t rows = spec.is_gated ? 2 * spec.width : spec.width;
  const StoredId gate_up = d.stored("gate_up_proj", {spec.experts, spec.input, rows});
  const StoredId down = d.stored("down_proj", {spec.experts, spec.width, spec.input});
  experts.bind_all_gate_up(gate_up, d.builder().whole_stored(gate_up).transpose(1, 2));
  experts.bind_all_down(down, d.builder().whole_stored(down).transpose(1, 2));
}

}  // namespace weightproof::adapters
