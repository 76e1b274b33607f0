// SPDX-License-Identifier: Apache-2.0
#include "loader/plan/planner.hpp"

#include <algorithm>

#include "loader/core/error.hpp"
#include "loader/plan/clip.hpp"
#include "loader/plan/planner_internal.hpp"
#include "loader/plan/ranks.hpp"

namespace weightproof::plan {
namespace {

bool is_part(const Schema& schema, const RankPlacement& placement) {
  if (!placement.has_passthrough) return true;
  for (NativeId id = 0; id < placement.locals.size(); ++id) {
    if (!is_whole(placement.locals[id], schema.shape_of(schema.native_tensors()[id]))) return true;
  }
  return false;
}

}  // namespace

std::uint64_t gap_bytes_max(const Schema& schema, const RankPlacement& placement) {
  return is_part(schema, placement) ? k_part_gap_bytes_max : limits::read_gap_bytes_max;
}

Planner::Planner(const Basis& basis, const RankPlacement& placement)
    : basis_(basis), schema_(*basis.schema), placement_(placement), request_(basis.request) {
  plan_.schema_ = basis.schema;
  plan_.catalog_ = basis.catalog;
  plan_.sources_ = basis.sources;
  plan_.coverage_ = basis.coverage;
  plan_.proof_ = basis.proof;
  plan_.decodes_ = basis.decodes;
  plan_.side_ = request_.side;
  plan_.probes_ = request_.probes;
  check_inputs();
}

void Planner::check_inputs() {
  const std::vector<LocalTensor>& locals = placement_.locals;
  if (!locals.empty() && locals.size() != schema_.native_tensors().size()) {
    throw Error(ErrorCode::internal, "a placement states " + std::to_string(locals.size()) + " tensors of " +
                                         std::to_string(schema_.native_tensors().size()));
  }
  is_part_ = is_part(schema_, placement_);
  gap_bytes_max_ = is_part_ ? k_part_gap_bytes_max : limits::read_gap_bytes_max;
  for (NativeId id = 0; id < locals.size(); ++id) {
    const NativeTensor& tensor = schema_.native_tensors()[id];
    if (is_whole(locals[id], schema_.shape_of(tensor))) continue;
    require_sound(locals[id], schema_.shape_of(tensor), tensor.key);
    if (request_.side == Side::native) continue;
    ErrorFacts facts;
    facts.keys.emplace_back(tensor.key);
    facts.rank = static_cast<int>(placement_.rank);
    facts.expected = "the native layout, or every tensor whole";
    facts.actual = "a part of a native tensor in the hf layout";
    throw Error(ErrorCode::route_unavailable,
                "rank " + std::to_string(placement_.rank) + " holds a part of '" + std::string(tensor.key) +
                    "': stored tensors have no parts, native ones do",
                std::move(facts));
  }
}

LayoutId Planner::intern(const Layout& layout) {
  if (last_layout_ != k_no_id && plan_.layouts_[last_layout_] == layout) return last_layout_;
  if (layout_ids_.empty()) {
    for (LayoutId id = 0; id < plan_.layouts_.size(); ++id) layout_ids_.emplace(plan_.layouts_[id], id);
  }
  const auto [at, is_new] = layout_ids_.emplace(layout, static_cast<LayoutId>(plan_.layouts_.size()));
  if (is_new) plan_.layouts_.push_back(layout);
  return last_layout_ = at->second;
}

std::string_view Planner::key_of(const Move& move) const {
  if (move.stored != k_no_id) return schema_.stored_tensors()[move.stored].key;
  return move.row != k_no_row ? row(move.row).key : plan_.tensors_[move.tensor].key;
}

Plan Planner::make() {
  plan_.layouts_ = std::vector<Layout>(schema_.layouts().begin(), schema_.layouts().end());
  if (basis_.missing) require_present();
  add_tensors();
  if (is_part_) prove_locals();
  if (plan_.tensors_.empty() && !is_part_) {
    throw Error(ErrorCode::subset_empty, "nothing is left to load: no tensor can be filled from the selected keys",
                {.hint = "a native tensor is filled whole or not at all; select all keys that it is made of"});
  }
  choose_routes();
  weigh_routes();
  place_in_arena();
  measure_codec_moves();
  order_codec_moves();
  fit_budget();
  list_unread();

  const bool is_native = request_.side == Side::native;
  plan_.tensor_of_.assign(is_native ? schema_.native_tensors().size() : schema_.stored_tensors().size(), 0);
  for (std::uint32_t i = 0; i < plan_.tensors_.size(); ++i) {
    const PlannedTensor& tensor = plan_.tensors_[i];
    if (tensor.id != k_no_id) {
      plan_.tensor_of_[tensor.id] = i + 1;
    } else {
      plan_.passed_through_.emplace_back(plan_.moves_[tensor.first_move].row, i);
    }
  }
  std::sort(plan_.passed_through_.begin(), plan_.passed_through_.end());
  return std::move(plan_);
}

/// Tensors in the order in which their first bytes lie in the files; what comes from no file goes last.
void Planner::add_tensors() {
  constexpr std::uint32_t k_none = UINT32_MAX;
  const bool is_native = request_.side == Side::native;
  const std::size_t count = is_native ? schema_.native_tensors().size() : schema_.stored_tensors().size();
  const std::uint32_t last = static_cast<std::uint32_t>(plan_.catalog_->size());
  std::vector<std::uint32_t> ranks(count, k_none);
  if (is_native) {
    gather_moves();
    for (NativeId native = 0; native < count; ++native) {
      const Gathered& gathered = gathered_[native];
      if (!gathered.is_held) continue;
      ranks[native] = last;
      for (std::uint32_t m = gathered.first; m < gathered.first + gathered.count; ++m) {
        if (gathered_moves_[m].action == Action::write)
          ranks[native] = std::min(ranks[native], rank_of(gathered_moves_[m].row));
      }
    }
  } else {
    for (StoredId id = 0; id < count; ++id) {
      if (plan_.coverage_->row_of[id] != k_no_row) ranks[id] = rank_of(plan_.coverage_->row_of[id]);
    }
  }
  std::vector<std::pair<Row, const Passthrough*>> passed;
  for (std::size_t i = 0; i < plan_.coverage_->passed_through.size(); ++i) {
    if (!placement_.has_passthrough) break;
    for (const Row at : plan_.coverage_->passed_through[i].rows) {
      passed.emplace_back(at, &schema_.passthroughs()[i]);
      ranks.push_back(rank_of(at));
    }
  }

  std::vector<std::uint32_t> order;
  if (is_part_) {
    for (std::uint32_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i] != k_none) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return ranks[a] < ranks[b]; });
  } else {
    // By counting.
    std::vector<std::uint32_t> next(std::size_t{last} + 2, 0);
    std::size_t tensors = 0;
    for (const std::uint32_t rank : ranks) {
      if (rank == k_none) continue;
      ++next[rank + 1];
      ++tensors;
    }
    for (std::size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
    order.resize(tensors);
    for (std::uint32_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i] != k_none) order[next[ranks[i]]++] = i;
    }
  }
  const std::size_t tensors = order.size();
  plan_.tensors_.reserve(tensors);
  plan_.moves_.reserve(is_native ? gathered_moves_.size() + passed.size() : tensors);
  for (const std::uint32_t i : order) {
    if (i >= count) {
      add_passed_through(passed[i - count].first, *passed[i - count].second);
    } else if (is_native) {
      add_native_tensor(i);
    } else {
      add_hf_tensor(i);
    }
  }
}

/// The tensor of the moves that were appended last.
void Planner::add_tensor(PlannedTensor tensor) {
  tensor.move_count = static_cast<std::uint32_t>(plan_.moves_.size()) - tensor.first_move;
  plan_.tensors_.push_back(tensor);
}

void Planner::add_hf_tensor(StoredId id) {
  const LogicalTensor& stored = schema_.stored_tensors()[id];
  Move move;
  move.tensor = static_cast<std::uint32_t>(plan_.tensors_.size());
  move.stored = id;
  move.row = plan_.coverage_->row_of[id];
  move.decode = basis_.decode_of.empty() ? k_no_id : basis_.decode_of[id];
  move.source_layout = move.target_layout = stored.shape;
  move.source_dtype = basis_.source_dtype(id, move.row);
  PlannedTensor tensor;
  tensor.key = stored.key;
  tensor.id = id;
  tensor.shape = stored.shape;
  tensor.first_move = static_cast<std::uint32_t>(plan_.moves_.size());
  tensor.dtype = basis_.target_dtype(stored.dtype_rule, stored.dtype, basis_.stored_dtype(std::span(&move, 1)));
  plan_.moves_.push_back(move);
  add_tensor(tensor);
}

void Planner::add_native_tensor(NativeId id) {
  const NativeTensor& native = schema_.native_tensors()[id];
  const Gathered& gathered = gathered_[id];
  PlannedTensor tensor;
  tensor.key = native.key;
  tensor.id = id;
  tensor.shape = native.shape;
  if (!placement_.locals.empty() && placement_.locals[id].shape != schema_.shape_of(native)) {
    tensor.shape = intern(View::whole(placement_.locals[id].shape).layout());
  }
  tensor.first_move = static_cast<std::uint32_t>(plan_.moves_.size());
  tensor.dtype = basis_.dtypes[id];
  for (std::uint32_t m = gathered.first; m < gathered.first + gathered.count; ++m) {
    plan_.moves_.push_back(gathered_moves_[m]);
    plan_.moves_.back().tensor = static_cast<std::uint32_t>(plan_.tensors_.size());
  }
  add_tensor(tensor);
}

void Planner::add_passed_through(Row at, const Passthrough& rule) {
  Move move;
  move.tensor = static_cast<std::uint32_t>(plan_.tensors_.size());
  move.row = at;
  move.source_layout = move.target_layout = intern(View::whole(row(at).shape).layout());
  move.source_dtype = row(at).dtype;
  PlannedTensor tensor;
  tensor.key = row(at).key;
  if (request_.side == Side::native && rule.native_prefix != rule.prefix) {
    plan_.renamed_.push_back(
        std::make_shared<const std::string>(rule.native_prefix + std::string(tensor.key.substr(rule.prefix.size()))));
    tensor.key = *plan_.renamed_.back();
  }
  tensor.shape = move.source_layout;
  tensor.first_move = static_cast<std::uint32_t>(plan_.moves_.size());
  tensor.dtype = basis_.target_dtype(DTypeRule::weight, row(at).dtype, row(at).dtype);
  plan_.moves_.push_back(move);
  add_tensor(tensor);
}

/// Every stored byte that is not read stands here with the reason.
void Planner::list_unread() {
  const auto add = [&](std::string pattern, std::string reason, std::span<const Row> rows) {
    if (rows.empty()) return;
    Unread unread{std::move(pattern), std::move(reason), rows.size(), 0};
    for (const Row at : rows) unread.bytes += row(at).bytes;
    plan_.unread_.push_back(std::move(unread));
  };
  for (const MatchedRows& drop : plan_.coverage_->dropped) add(drop.pattern, drop.reason, drop.rows);
  add("", "not selected", plan_.coverage_->excluded);
  add("", "unexpected, allowed", plan_.coverage_->unexpected_allowed);
  // Rows of the model that feed only tensors which are left out, and parts of such rows.
  std::uint64_t accounted = plan_.traffic_.wanted_bytes;
  for (const Unread& unread : plan_.unread_) accounted += unread.bytes;
  if (accounted < plan_.catalog_->bytes()) {
    std::vector<Row> taken;
    for (const Move& move : plan_.moves_) {
      if (move.stored != k_no_id) taken.push_back(move.row);
    }
    std::sort(taken.begin(), taken.end());
    taken.erase(std::unique(taken.begin(), taken.end()), taken.end());
    const std::uint64_t tensors = basis_.rows_asked - taken.size();
    const bool is_codec_rest = !plan_.decodes_->empty() && tensors == 0;
    plan_.unread_.push_back({"",
                             is_part_        ? "held by other ranks"
                             : is_codec_rest ? "companions that decoding needs none of"
                                             : "needed only by tensors that are left out",
                             tensors, plan_.catalog_->bytes() - accounted});
  }
}

}  // namespace weightproof::plan
