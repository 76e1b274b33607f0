// SPDX-License-Identifier: Apache-2.0
// Where tensors lie, and what memory the load takes beside them.
#include <algorithm>
#include <array>

#include "loader/core/error.hpp"
#include "loader/plan/decode_items.hpp"
#include "loader/plan/planner_internal.hpp"

namespace weightproof::plan {
namespace {

constexpr std::uint64_t k_packing = 64;
constexpr std::uint64_t k_page = 4096;
/// From this size on up to one page of padding is spent to put a tensor where direct I/O can read it into place.
constexpr std::uint64_t k_congruent_bytes_min = 1024 * 1024;
constexpr std::uint64_t k_read_sizes[] = {limits::read_bytes_max, 1024 * 1024, 256 * 1024, 64 * 1024};

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

/// One tile of a decode box: the granule, grown from the innermost axis as far as `tile_elements` allows.
Extents tile_lengths(const codec::Codec& codec, const Box& aligned, std::uint64_t tile_elements) {
  Extents lengths = codec.granule();
  std::uint64_t elements = 1;
  for (unsigned axis = 0; axis < lengths.rank(); ++axis) {
    lengths[axis] = std::clamp<std::uint64_t>(lengths[axis], 1, std::max<std::uint64_t>(aligned.length[axis], 1));
    elements *= lengths[axis];
  }
  for (unsigned axis = lengths.rank(); axis-- > 0;) {
    const std::uint64_t granule = lengths[axis];
    const std::uint64_t others = elements / granule;
    const std::uint64_t fitting =
        std::max<std::uint64_t>(tile_elements / std::max<std::uint64_t>(others, 1) / granule, 1);
    lengths[axis] = std::min(aligned.length[axis], fitting * granule);
    elements = others * lengths[axis];
    if (lengths[axis] < aligned.length[axis]) break;  // outer axes stay at one granule
  }
  return lengths;
}

Box aligned_box(const Plan& plan, const Move& move) {
  const codec::Codec& codec = *plan.decodes()[move.decode].codec;
  const std::optional<Box> box = box_of(plan.source_view(move), codec.natural_shape());
  return codec.align(box ? *box : Box::whole(codec.natural_shape()));
}

std::uint64_t tile_elements_of(DType target) { return limits::tile_bytes_max / (bits_of(target) / 8); }

}  // namespace

Box DecodeGrid::tile(std::uint64_t position) const {
  Box box = whole;
  for (unsigned axis = lengths.rank(); axis-- > 0;) {
    const std::uint64_t steps = (whole.length[axis] + lengths[axis] - 1) / lengths[axis];
    const std::uint64_t at = position % steps * lengths[axis];
    position /= steps;
    box.start[axis] = whole.start[axis] + at;
    box.length[axis] = std::min(lengths[axis], whole.length[axis] - at);
  }
  return box;
}

DecodeGrid decode_grid(const Plan& plan, const Move& move, std::uint64_t tile_elements) {
  if (move.decode == k_no_id) throw Error(ErrorCode::internal, "a move without a codec has no decode tiles");
  DecodeGrid grid;
  grid.whole = aligned_box(plan, move);
  if (grid.whole.is_empty()) return grid;
  grid.lengths = tile_lengths(*plan.decodes()[move.decode].codec, grid.whole, tile_elements);
  grid.count = 1;
  for (unsigned axis = 0; axis < grid.lengths.rank(); ++axis) {
    grid.count *= (grid.whole.length[axis] + grid.lengths[axis] - 1) / grid.lengths[axis];
  }
  return grid;
}

DecodeGrid decode_grid(const Plan& plan, const Move& move) {
  return decode_grid(plan, move, tile_elements_of(plan.tensors()[move.tensor].dtype));
}

std::vector<Box> decode_tiles(const Plan& plan, const Move& move, std::uint64_t tile_elements) {
  const DecodeGrid grid = decode_grid(plan, move, tile_elements);
  std::vector<Box> tiles;
  tiles.reserve(grid.count);
  for (std::uint64_t i = 0; i < grid.count; ++i) tiles.push_back(grid.tile(i));
  return tiles;
}

void Planner::place_in_arena() {
  std::uint64_t end = 0;
  for (PlannedTensor& tensor : plan_.tensors_) {
    std::uint64_t offset = round_up(end, k_packing);
    if (tensor.move_count == 1 && tensor.bytes >= k_congruent_bytes_min) {
      const Move& move = plan_.moves_[tensor.first_move];
      if (move.reason == Reason::contiguous && move.row != k_no_row && row(move.row).begin % k_packing == 0) {
        offset += (row(move.row).begin + k_page - offset % k_page) % k_page;
      }
    }
    tensor.arena_offset = offset;
    if (offset < end || __builtin_add_overflow(offset, tensor.bytes, &end) || end > UINT64_MAX / 2) {
      ErrorFacts facts;
      facts.keys.emplace_back(tensor.key);
      throw Error(ErrorCode::validation_overflow,
                  "all tensors together do not fit 64 bits, beginning with '" + std::string(tensor.key) + "'",
                  std::move(facts));
    }
    plan_.memory_.final_tensor_bytes += tensor.bytes;
  }
  plan_.memory_.final_bytes = round_up(end, k_packing);
  plan_.traffic_.write_bytes = plan_.memory_.final_tensor_bytes;
}

/// `runs` gets those of the whole box.
Planner::CodecCost Planner::codec_cost(const Move& move, const Box& whole, std::vector<codec::ByteRun>& runs) const {
  const DType dtype = plan_.tensors_[move.tensor].dtype;
  const codec::Codec& codec = *(*plan_.decodes_)[move.decode].codec;
  CodecCost cost;
  const auto is_weight = [&codec](const codec::ByteRun& run) {
    return codec.components()[run.component].role == codec::Role::weight;
  };
  if (move.route != Route::materialized) {
    // As the tiles are read: each its codes; of its companions those that the tile before has not left behind.
    const DecodeGrid grid = decode_grid(plan_, move);
    std::vector<codec::ByteRun> before;
    for (std::uint64_t i = 0; i < grid.count; ++i) {
      if (i % k_tiles_at_once == 0) before.clear();
      runs.clear();
      codec.byte_runs(grid.tile(i), runs);
      std::uint64_t encoded = 0;
      std::uint64_t companions = 0;
      for (const codec::ByteRun& run : runs) (is_weight(run) ? encoded : companions) += run.bytes;
      runs.erase(std::remove_if(runs.begin(), runs.end(), is_weight), runs.end());
      cost.read_bytes += encoded;
      for_each_new_companion(before, runs,
                             [&](const codec::ByteRun& run, std::uint64_t) { cost.read_bytes += run.bytes; });
      before.swap(runs);
      cost.encoded_bytes = std::max(cost.encoded_bytes, encoded);
      cost.companion_bytes = std::max(cost.companion_bytes, companions);
    }
    cost.tile_bytes = *byte_count(grid.lengths, dtype);
  }
  runs.clear();
  codec.byte_runs(whole, runs);
  for (const codec::ByteRun& run : runs) cost.wanted_bytes += run.bytes;
  if (move.route == Route::materialized) cost.read_bytes = cost.wanted_bytes;
  return cost;
}

void Planner::measure_codec_moves() {
  // Equal codecs and equal boxes cost the same; layers and experts repeat them.
  struct QuestionHash {
    std::size_t operator()(const std::vector<std::uint64_t>& words) const { return hash_words(words); }
  };
  std::unordered_map<std::vector<std::uint64_t>, CodecCost, QuestionHash> known;
  std::vector<std::uint64_t> question;
  // The question before, in numbers that decide it: neighbours mostly ask the same.
  struct Before {
    std::uint32_t codec_class = k_no_id;
    LayoutId layout = k_no_id;
    std::uint64_t offset = 0;
    DType dtype = DType::bf16;
    Route route = Route::bounded;
    CodecCost cost;
  };
  std::array<Before, 16> before;
  std::vector<std::uint32_t> takers(is_part_ ? plan_.decodes_->size() : 0, 0);
  for (const Move& move : plan_.moves_) {
    if (is_part_ && move.decode != k_no_id) ++takers[move.decode];
  }
  std::vector<codec::ByteRun> runs;
  for (const Move& move : plan_.moves_) {
    if (move.action == Action::fill) continue;
    PlannedTensor& tensor = plan_.tensors_[move.tensor];
    const bool is_whole = move.route == Route::materialized;
    if (move.decode == k_no_id) {
      const std::uint64_t taken =
          element_count(plan_.layouts_[move.source_layout].extents).value_or(0) * bits_of(move.source_dtype) / 8;
      if (move.action == Action::compare) plan_.traffic_.compare_bytes += taken;
      if (move.action == Action::write) tensor.source_bytes += taken;
    }
    if (is_whole) {
      std::uint64_t held = row(move.row).bytes;
      if (move.decode != k_no_id) {
        const DecodeSource& source = (*plan_.decodes_)[move.decode];
        held = *element_count(source.codec->natural_shape()) * bits_of(tensor.dtype) / 8;
        for (const Row at : source.rows) held += row(at).bytes;
      }
      whole_bytes_ = std::max(whole_bytes_, held);
    }
    if (move.decode == k_no_id) continue;
    const std::uint32_t kind = basis_.codec_class[move.decode];
    Before& asked = before[(kind * 7 + move.source_layout) % before.size()];
    const bool is_asked = !is_part_ && asked.codec_class == kind && asked.layout == move.source_layout &&
                          asked.offset == move.source_offset && asked.dtype == tensor.dtype &&
                          asked.route == move.route;
    const auto count = [&](const CodecCost& cost) {
      if (move.action == Action::write) tensor.source_bytes += cost.wanted_bytes;
      decode_read_bytes_ += cost.read_bytes;
      decode_encoded_bytes_ = std::max(decode_encoded_bytes_, cost.encoded_bytes);
      decode_companion_bytes_ = std::max(decode_companion_bytes_, cost.companion_bytes);
      decode_tile_bytes_ = std::max(decode_tile_bytes_, cost.tile_bytes);
    };
    if (is_asked) {
      decode_wanted_bytes_ += asked.cost.wanted_bytes;
      count(asked.cost);
      continue;
    }
    const DecodeSource& source = (*plan_.decodes_)[move.decode];
    const codec::Codec& codec = *source.codec;
    const Box whole = is_whole ? codec.align(Box::whole(codec.natural_shape())) : aligned_box(plan_, move);
    if (whole.is_empty()) continue;
    question.assign({kind, static_cast<std::uint64_t>(tensor.dtype), is_whole ? 1u : 0u});
    question.insert(question.end(), whole.start.begin(), whole.start.end());
    question.insert(question.end(), whole.length.begin(), whole.length.end());
    const bool is_shared = is_part_ && (takers[move.decode] > 1 || basis_.shares_rows[move.decode]);
    const auto at = known.find(question);
    const CodecCost cost = at != known.end() && !is_shared ? at->second : codec_cost(move, whole, runs);
    if (at == known.end()) known.emplace(question, cost);
    if (is_shared) {
      for (const codec::ByteRun& run : runs)
        decode_bytes_.push_back({source.rows[run.component], run.offset, run.offset + run.bytes});
    } else {
      decode_wanted_bytes_ += cost.wanted_bytes;
    }
    count(cost);
    if (!is_part_) asked = {kind, move.source_layout, move.source_offset, tensor.dtype, move.route, cost};
  }
}

/// Each byte once, however many moves take it.
std::uint64_t Planner::wanted_by_decodes() {
  std::sort(decode_bytes_.begin(), decode_bytes_.end(),
            [](const RowBytes& a, const RowBytes& b) { return a.row != b.row ? a.row < b.row : a.begin < b.begin; });
  std::uint64_t bytes = decode_wanted_bytes_;
  Row row = k_no_row;
  std::uint64_t end = 0;
  for (const RowBytes& run : decode_bytes_) {
    if (run.row != row) end = 0;
    row = run.row;
    if (run.end > end) bytes += run.end - std::max(run.begin, end);
    end = std::max(end, run.end);
  }
  return bytes;
}

std::uint64_t Planner::metadata_bytes() const {
  return basis_.metadata_bytes + plan_.tensors_.size() * (sizeof(PlannedTensor) + sizeof(std::uint32_t)) +
         plan_.moves_.size() * (sizeof(Move) + k_load_bytes_per_move) + plan_.entries_.size() * sizeof(ScatterEntry) +
         plan_.requests_.size() * sizeof(ReadRequest) + plan_.layouts_.size() * sizeof(Layout);
}

void Planner::state_memory(std::uint32_t threads) {
  Memory& memory = plan_.memory_;
  const bool has_strided_cast = std::any_of(plan_.moves_.begin(), plan_.moves_.end(), [&](const Move& move) {
    return move.reason == Reason::cast && !is_one_run(plan_.source_view(move), plan_.target_view(move));
  });
  memory.read_buffer_bytes = std::max(memory.read_buffer_bytes, decode_encoded_bytes_);
  memory.tile_bytes = std::max<std::uint64_t>(decode_tile_bytes_, has_strided_cast ? limits::tile_bytes_max : 0);
  memory.whole_bytes = whole_bytes_;
  const std::uint64_t per_thread = memory.read_buffer_bytes + memory.tile_bytes + memory.sink_bytes;
  const auto at_most = [&](std::uint64_t each, std::uint64_t limit) {
    if (each != 0) threads = static_cast<std::uint32_t>(std::min<std::uint64_t>(threads, limit / each));
  };
  at_most(per_thread, limits::staging_bytes_max);
  at_most(decode_companion_bytes_, limits::companion_bytes_max);
  threads = std::max<std::uint32_t>(threads, 1);
  memory.threads = threads;
  memory.staging_bytes = threads * per_thread;
  memory.companion_bytes = threads * decode_companion_bytes_;
  memory.metadata_bytes = metadata_bytes();
  memory.metadata_per_header_byte = request_.header_bytes == 0 ? 0
                                                               : static_cast<double>(memory.metadata_bytes) /
                                                                     static_cast<double>(request_.header_bytes);
}

void Planner::fit_budget() {
  Memory& memory = plan_.memory_;
  memory.budget_bytes = request_.budget_bytes;
  if (!request_.budget_bytes) {
    plan_reads(limits::read_bytes_max);
    state_memory(request_.threads);
  } else {
    // The least of all sizes is the minimum; the largest reads that fit are taken, on as many threads as fit then.
    std::uint64_t chosen = 0;
    memory.minimum_budget_bytes = UINT64_MAX;
    for (const std::uint64_t read_bytes : k_read_sizes) {
      plan_reads(read_bytes);
      state_memory(1);
      memory.minimum_budget_bytes = std::min(memory.minimum_budget_bytes, memory.beyond_final_bytes());
      if (chosen == 0 && memory.beyond_final_bytes() <= *request_.budget_bytes) chosen = read_bytes;
    }
    if (chosen == 0) {
      ErrorFacts facts;
      facts.expected = std::to_string(memory.minimum_budget_bytes) + " bytes or more";
      facts.actual = std::to_string(*request_.budget_bytes) + " bytes";
      facts.notes.push_back("metadata takes " + std::to_string(memory.metadata_bytes) + " bytes of it");
      throw Error(ErrorCode::budget_too_small,
                  "a budget of " + std::to_string(*request_.budget_bytes) +
                      " bytes beyond the final storage is too small; the least for this load is " +
                      std::to_string(memory.minimum_budget_bytes),
                  std::move(facts));
    }
    plan_reads(chosen);
    state_memory(request_.threads);
    while (memory.beyond_final_bytes() > *request_.budget_bytes && memory.threads > 1) state_memory(memory.threads - 1);
  }
  Traffic& traffic = plan_.traffic_;
  traffic.read_bytes += decode_read_bytes_;
  // Bytes of codecs and of whole tensors count once, however many moves take them.
  std::vector<bool> is_counted(plan_.catalog_->size(), false);
  for (const Move& move : plan_.moves_) {
    if (move.action == Action::fill) continue;
    if (move.decode != k_no_id) {
      if (is_part_) continue;
      const std::vector<Row>& rows = (*plan_.decodes_)[move.decode].rows;
      const std::vector<bool>& is_unused = basis_.unused_of_class[basis_.codec_class[move.decode]];
      for (std::size_t c = 0; c < rows.size(); ++c) {
        if (is_counted[rows[c]] || is_unused[c]) continue;
        is_counted[rows[c]] = true;
        traffic.wanted_bytes += row(rows[c]).bytes;
      }
    } else if (move.route == Route::materialized) {
      traffic.read_bytes += row(move.row).bytes;
      if (is_counted[move.row]) continue;
      is_counted[move.row] = true;
      traffic.wanted_bytes += row(move.row).bytes;
    }
  }
  if (is_part_) traffic.wanted_bytes += wanted_by_decodes();
}

}  // namespace weightproof::plan
