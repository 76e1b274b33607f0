// SPDX-License-Identifier: Apache-2.0
#include "loader/plan/planner.hpp"

#include <algorithm>
#include <numeric>

#include "loader/core/error.hpp"
#include "loader/plan/planner_internal.hpp"

namespace weightproof::plan {
namespace {

CoverageOptions with_decodes(const Request& request, const Schema& schema) {
  CoverageOptions options = request.keys;
  options.decoded.clear();
  for (const DecodeSource& source : request.decodes) {
    if (source.stored >= schema.stored_tensors().size() || source.codec == nullptr ||
        source.rows.size() != source.codec->components().size()) {
      throw Error(ErrorCode::internal, "a decode names no stored tensor, no codec, or not one row per component");
    }
    options.decoded.push_back({source.stored, source.codec->natural_shape(), source.rows});
  }
  return options;
}

bool is_whole(const LocalTensor& local, const Shape& shape) {
  return local.shape == shape && local.pieces.size() == 1 && local.pieces[0].global == Box::whole(shape) &&
         local.pieces[0].local == Box::whole(shape);
}

}  // namespace

std::shared_ptr<const Catalog> merge_sources(std::span<const Source> sources) {
  if (sources.empty()) throw Error(ErrorCode::usage, "a plan needs at least one checkpoint");
  if (sources.size() == 1) return sources[0].catalog;
  CatalogBuilder builder;
  std::size_t tensors = 0;
  for (const Source& source : sources) tensors += source.catalog->size();
  builder.reserve(tensors);
  std::uint32_t first_file = 0;
  for (const Source& source : sources) {
    builder.keep_alive(source.catalog);
    for (const std::string& file : source.catalog->files()) builder.add_file(source.name + "/" + file);
    for (StoredTensor tensor : source.catalog->tensors()) {
      tensor.file += first_file;
      builder.add(tensor);
    }
    first_file += static_cast<std::uint32_t>(source.catalog->files().size());
  }
  return std::make_shared<const Catalog>(std::move(builder).finish());
}

Plan make_plan(std::shared_ptr<const Schema> schema, std::span<const Source> sources, const RankPlacement& placement,
               const Request& request) {
  return Planner(std::move(schema), sources, placement, request).make();
}

Planner::Planner(std::shared_ptr<const Schema> schema, std::span<const Source> sources, const RankPlacement& placement,
                 const Request& request)
    : schema_(*schema), request_(request) {
  plan_.schema_ = std::move(schema);
  plan_.catalog_ = merge_sources(sources);
  for (const Source& source : sources) plan_.sources_.push_back(source.name);
  plan_.side_ = request.side;
  plan_.probes_ = request.probes;
  check_inputs(placement);
}

void Planner::check_inputs(const RankPlacement& placement) {
  if (!plan_.catalog_->is_described()) {
    ErrorFacts facts;
    facts.hint = "give the weight files; with names alone only key coverage can be asked";
    throw Error(ErrorCode::usage, "a plan needs the headers of the files, and this checkpoint is known by names alone",
                std::move(facts));
  }
  for (const StoredTensor& tensor : plan_.catalog_->tensors()) {
    const std::optional<std::uint64_t> bytes = byte_count(tensor.shape, tensor.dtype);
    if (bytes && *bytes == tensor.bytes && tensor.begin <= UINT64_MAX / 2 && tensor.bytes <= UINT64_MAX / 2 &&
        tensor.file < plan_.catalog_->files().size()) {
      continue;
    }
    ErrorFacts facts;
    facts.keys.emplace_back(tensor.key);
    facts.expected = bytes ? std::to_string(*bytes) + " bytes" : "a shape whose bytes fit 64 bits";
    facts.actual = std::to_string(tensor.bytes) + " bytes from offset " + std::to_string(tensor.begin);
    throw Error(ErrorCode::tensor_invalid_info,
                "tensor '" + facts.keys[0] + "' has " + facts.actual + "; shape and dtype ask for " + facts.expected,
                std::move(facts));
  }
  if (!placement.locals.empty() && placement.locals.size() != schema_.native_tensors().size()) {
    throw Error(ErrorCode::internal, "a placement states " + std::to_string(placement.locals.size()) + " tensors of " +
                                         std::to_string(schema_.native_tensors().size()));
  }
  for (NativeId id = 0; id < placement.locals.size(); ++id) {
    const NativeTensor& tensor = schema_.native_tensors()[id];
    if (is_whole(placement.locals[id], schema_.shape_of(tensor))) continue;
    ErrorFacts facts;
    facts.keys.emplace_back(tensor.key);
    facts.rank = static_cast<int>(placement.rank);
    facts.expected = "every tensor whole";
    throw Error(ErrorCode::route_unavailable,
                "rank " + std::to_string(placement.rank) + " asks for a part of '" + std::string(tensor.key) +
                    "'; parts of tensors cannot be planned",
                std::move(facts));
  }
}

LayoutId Planner::intern(const Layout& layout) {
  if (last_layout_ != k_no_id && plan_.layouts_[last_layout_] == layout) return last_layout_;
  plan_.layouts_.push_back(layout);
  return last_layout_ = static_cast<LayoutId>(plan_.layouts_.size() - 1);
}

std::string_view Planner::key_of(const Move& move) const {
  if (move.stored != k_no_id) return schema_.stored_tensors()[move.stored].key;
  return move.row != k_no_row ? row(move.row).key : plan_.tensors_[move.tensor].key;
}

Plan Planner::make() {
  const CoverageOptions options = with_decodes(request_, schema_);
  plan_.coverage_ = check_keys(schema_, *plan_.catalog_, options);
  require_complete(schema_, *plan_.catalog_, plan_.coverage_);
  plan_.proof_ = prove_schema(schema_, &plan_.coverage_);
  if (!plan_.proof_.is_exact()) throw error_of(schema_, plan_.proof_.faults.front());

  plan_.layouts_ = std::vector<Layout>(schema_.layouts().begin(), schema_.layouts().end());
  plan_.decodes_ = request_.decodes;
  if (!plan_.decodes_.empty()) {
    decode_of_.assign(schema_.stored_tensors().size(), k_no_id);
    for (std::uint32_t i = 0; i < plan_.decodes_.size(); ++i) decode_of_[plan_.decodes_[i].stored] = i;
  }
  order_rows();
  add_tensors();
  if (plan_.tensors_.empty()) {
    throw Error(ErrorCode::subset_empty, "nothing is left to load: no tensor can be filled from the selected keys");
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

void Planner::order_rows() {
  const std::span<const StoredTensor> rows = plan_.catalog_->tensors();
  const auto before = [&](const StoredTensor& a, const StoredTensor& b) {
    return a.file != b.file ? a.file < b.file : a.begin < b.begin;
  };
  if (std::is_sorted(rows.begin(), rows.end(), before)) return;
  row_order_.resize(rows.size());
  std::iota(row_order_.begin(), row_order_.end(), Row{0});
  std::stable_sort(row_order_.begin(), row_order_.end(), [&](Row a, Row b) { return before(rows[a], rows[b]); });
  rank_of_.resize(rows.size());
  for (std::uint32_t rank = 0; rank < row_order_.size(); ++rank) rank_of_[row_order_[rank]] = rank;
}

/// Tensors in the order in which their first bytes lie in the files; what comes from no file goes last.
void Planner::add_tensors() {
  constexpr std::uint32_t k_none = UINT32_MAX;
  const bool is_native = request_.side == Side::native;
  const std::span<const Binding> bindings = schema_.bindings();
  const std::size_t count = is_native ? schema_.native_tensors().size() : schema_.stored_tensors().size();
  const std::uint32_t last = static_cast<std::uint32_t>(plan_.catalog_->size());
  std::vector<std::uint32_t> ranks(count, k_none);
  if (is_native) {
    first_binding_.assign(count + 1, 0);
    for (const Binding& binding : bindings) ++first_binding_[binding.native + 1];
    for (std::size_t i = 1; i < first_binding_.size(); ++i) first_binding_[i] += first_binding_[i - 1];
    binding_ids_.resize(bindings.size());
    std::vector<std::uint32_t> next(first_binding_.begin(), first_binding_.end() - 1);
    for (NativeId native = 0; native < count; ++native) {
      if (plan_.proof_.left_out[native] == LeftOut::no) ranks[native] = last;
    }
    for (std::uint32_t id = 0; id < bindings.size(); ++id) {
      const Binding& binding = bindings[id];
      binding_ids_[next[binding.native]++] = id;
      if (plan_.proof_.actions[id] != Action::write || ranks[binding.native] == k_none) continue;
      ranks[binding.native] = std::min(ranks[binding.native], rank_of(plan_.coverage_.row_of[binding.stored]));
    }
  } else {
    for (StoredId id = 0; id < count; ++id) {
      if (plan_.coverage_.row_of[id] != k_no_row) ranks[id] = rank_of(plan_.coverage_.row_of[id]);
    }
  }
  std::vector<Row> passed;
  for (const MatchedRows& pass : plan_.coverage_.passed_through) {
    for (const Row at : pass.rows) {
      passed.push_back(at);
      ranks.push_back(rank_of(at));
    }
  }

  std::vector<std::uint32_t> next(std::size_t{last} + 2, 0);
  std::size_t tensors = 0;
  for (const std::uint32_t rank : ranks) {
    if (rank == k_none) continue;
    ++next[rank + 1];
    ++tensors;
  }
  for (std::size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
  std::vector<std::uint32_t> order(tensors);
  for (std::uint32_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] != k_none) order[next[ranks[i]]++] = i;
  }
  plan_.tensors_.reserve(tensors);
  plan_.moves_.reserve(is_native ? bindings.size() + passed.size() : tensors);
  for (const std::uint32_t i : order) {
    if (i >= count) {
      add_passed_through(passed[i - count]);
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
  move.row = plan_.coverage_.row_of[id];
  move.decode = decode_of_.empty() ? k_no_id : decode_of_[id];
  move.source_layout = move.target_layout = stored.shape;
  move.source_dtype = source_dtype(move);
  PlannedTensor tensor;
  tensor.key = stored.key;
  tensor.id = id;
  tensor.shape = stored.shape;
  tensor.first_move = static_cast<std::uint32_t>(plan_.moves_.size());
  tensor.dtype = target_dtype(stored.dtype_rule, stored.dtype, std::span(&move, 1));
  plan_.moves_.push_back(move);
  add_tensor(tensor);
}

void Planner::add_native_tensor(NativeId id) {
  const NativeTensor& native = schema_.native_tensors()[id];
  PlannedTensor tensor;
  tensor.key = native.key;
  tensor.id = id;
  tensor.shape = native.shape;
  tensor.first_move = static_cast<std::uint32_t>(plan_.moves_.size());
  for (std::uint32_t i = first_binding_[id]; i < first_binding_[id + 1]; ++i) {
    const Binding& binding = schema_.bindings()[binding_ids_[i]];
    Move move;
    move.action = plan_.proof_.actions[binding_ids_[i]];
    if (move.action == Action::inactive) continue;
    move.tensor = static_cast<std::uint32_t>(plan_.tensors_.size());
    move.rule = binding.rule;
    move.target_offset = binding.native_offset;
    move.target_layout = binding.native_layout;
    if (move.action == Action::fill) {
      move.value = binding.value;
      move.source_layout = binding.native_layout;
    } else {
      move.stored = binding.stored;
      move.row = plan_.coverage_.row_of[binding.stored];
      move.decode = decode_of_.empty() ? k_no_id : decode_of_[binding.stored];
      move.source_offset = binding.stored_offset;
      move.source_layout = binding.stored_layout;
      move.source_dtype = source_dtype(move);
    }
    plan_.moves_.push_back(move);
  }
  tensor.dtype = target_dtype(native.dtype_rule, native.dtype, std::span(plan_.moves_).subspan(tensor.first_move));
  add_tensor(tensor);
}

void Planner::add_passed_through(Row at) {
  Move move;
  move.tensor = static_cast<std::uint32_t>(plan_.tensors_.size());
  move.row = at;
  move.source_layout = move.target_layout = intern(View::whole(row(at).shape).layout());
  move.source_dtype = row(at).dtype;
  PlannedTensor tensor;
  tensor.key = row(at).key;
  tensor.shape = move.source_layout;
  tensor.first_move = static_cast<std::uint32_t>(plan_.moves_.size());
  tensor.dtype = row(at).dtype;
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
  for (const MatchedRows& drop : plan_.coverage_.dropped) add(drop.pattern, drop.reason, drop.rows);
  add("", "not selected", plan_.coverage_.excluded);
  add("", "unexpected, allowed", plan_.coverage_.unexpected_allowed);
  // Rows of the model that feed only tensors which are left out, and parts of such rows.
  std::uint64_t accounted = plan_.traffic_.wanted_bytes;
  for (const Unread& unread : plan_.unread_) accounted += unread.bytes;
  if (accounted < plan_.catalog_->bytes()) {
    std::vector<bool> taken(plan_.catalog_->size(), false);
    for (const Move& move : plan_.moves_) {
      if (move.row != k_no_row) taken[move.row] = true;
    }
    std::uint64_t tensors = 0;
    for (const Row at : plan_.coverage_.row_of) tensors += at != k_no_row && !taken[at] ? 1u : 0u;
    const bool is_codec_rest = !plan_.decodes_.empty() && tensors == 0;
    plan_.unread_.push_back(
        {"", is_codec_rest ? "companions that decoding needs none of" : "needed only by tensors that are left out",
         tensors, plan_.catalog_->bytes() - accounted});
  }
}

}  // namespace weightproof::plan
