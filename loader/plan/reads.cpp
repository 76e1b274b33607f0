// SPDX-License-Identifier: Apache-2.0
// Read requests: which bytes of which file, in what order, and which move takes them.
//
//   a move's stored elements  ->  pieces: ranges of at most one request, cut where the stored tensor has its rows
//   pieces of all moves       ->  sorted by file and offset, joined over small gaps into requests
#include <algorithm>
#include <array>

#include "loader/core/error.hpp"
#include "loader/plan/planner_internal.hpp"

namespace weightproof::plan {
namespace {

/// Runs of one move beyond which its whole hull is read instead.
constexpr std::uint64_t k_runs_max = 1u << 20;

/// Bytes of the largest whole number of trailing blocks of the stored tensor that one request holds.
std::uint64_t piece_grid(const StoredTensor& tensor, std::uint64_t read_bytes_max) {
  const unsigned bits = bits_of(tensor.dtype);
  if (bits % 8 != 0) return read_bytes_max;
  std::uint64_t block = bits / 8;
  for (unsigned axis = tensor.shape.rank(); axis-- > 0;) {
    if (tensor.shape[axis] == 0 || block > read_bytes_max / tensor.shape[axis]) break;
    block *= tensor.shape[axis];
  }
  return read_bytes_max / block * block;
}

struct Run {
  std::uint64_t first = 0;  // element
  std::uint64_t count = 0;
};

/// Calls `use` with the runs of stored elements that cover the view, read through where gaps are small, ascending.
template <typename Use>
void for_each_run(const View& view, std::uint64_t gap_elements_max, Use use) {
  struct Axis {
    std::uint64_t stride;
    std::uint64_t extent;
  };
  // By ascending stride.
  std::array<Axis, limits::rank_max> axes;
  std::size_t count = 0;
  for (unsigned axis = 0; axis < view.rank(); ++axis) {
    const Axis added{view.strides()[axis], view.extents()[axis]};
    if (added.extent == 1) continue;
    std::size_t place = count++;
    for (; place > 0 && axes[place - 1].stride > added.stride; --place) axes[place] = axes[place - 1];
    axes[place] = added;
  }
  // Runs that are left where the axes from this one on are walked; what lies inside of it is one run.
  const auto runs_from = [&](std::size_t first) {
    std::uint64_t runs = 1;
    for (std::size_t i = first; i < count && runs <= k_runs_max; ++i) runs *= std::min(axes[i].extent, k_runs_max + 1);
    return runs;
  };
  std::uint64_t length = 1;
  std::size_t inner = 0;
  for (; inner < count; ++inner) {
    const Axis& axis = axes[inner];
    if (axis.stride > length && axis.stride - length > gap_elements_max && runs_from(inner) <= k_runs_max) break;
    length = std::max(length, (axis.extent - 1) * axis.stride + length);
  }
  std::array<std::uint64_t, limits::rank_max> at{};
  std::uint64_t first = view.offset();
  for (;;) {
    use(Run{first, length});
    std::size_t axis = inner;
    for (; axis < count; ++axis) {
      first += axes[axis].stride;
      if (++at[axis] < axes[axis].extent) break;
      first -= axes[axis].stride * axes[axis].extent;
      at[axis] = 0;
    }
    if (axis == count) return;
  }
}

}  // namespace

/// Calls `use` with the pieces of a move, ascending: begin and end in the stored tensor.
template <typename Use>
void Planner::for_each_piece(const Move& move, std::uint64_t read_bytes_max, Use use) const {
  const StoredTensor& tensor = row(move.row);
  const View source = plan_.source_view(move);
  const std::uint64_t elements = source.element_count();
  if (elements == 0) return;
  const std::uint64_t bits = bits_of(tensor.dtype);
  const std::uint64_t grid = move.reason == Reason::contiguous ? read_bytes_max : piece_grid(tensor, read_bytes_max);
  const auto add = [&](std::uint64_t begin, std::uint64_t end) {
    // Only the first piece of a run may begin off the grid.
    std::uint64_t piece_end = begin / grid * grid + grid;
    for (; piece_end < end; begin = piece_end, piece_end += grid) use(begin, piece_end);
    use(begin, end);
  };
  if (move.reason == Reason::contiguous || bits % 8 != 0) {
    const std::uint64_t begin = move.source_offset * bits / 8;
    const std::uint64_t end = begin + elements * bits / 8;
    if (begin != end) add(begin, end);
    return;
  }
  const std::uint64_t size = bits / 8;
  for_each_run(source, gap_bytes_max_ / size,
               [&](const Run& run) { add(run.first * size, (run.first + run.count) * size); });
}

/// Pieces come by file and offset. The request being made is at the end of the list.
void Planner::coalesce(const Piece& piece, bool is_staged, std::uint64_t read_bytes_max) {
  Memory& memory = plan_.memory_;
  const std::uint64_t end = piece.offset + piece.bytes;
  ReadRequest* request = plan_.requests_.empty() ? nullptr : &plan_.requests_.back();
  if (request == nullptr || request->file != piece.file) {
    request = nullptr;
    taken_end_ = 0;
  } else {
    const std::uint64_t request_end = request->offset + request->bytes;
    const std::uint64_t joined = std::max(end, request_end) - request->offset;
    if (piece.offset > request_end + gap_bytes_max_ || joined > read_bytes_max) {
      request = nullptr;
    } else {
      if (piece.offset > request_end) memory.sink_bytes = std::max(memory.sink_bytes, piece.offset - request_end);
      request->bytes = static_cast<std::uint32_t>(joined);
      ++request->entry_count;
      is_request_staged_ = is_request_staged_ || is_staged;
    }
  }
  if (request == nullptr) {
    plan_.requests_.push_back(
        {piece.offset, piece.bytes, piece.file, static_cast<std::uint32_t>(plan_.entries_.size()), 1});
    request = &plan_.requests_.back();
    is_request_staged_ = is_staged;
  }
  plan_.entries_.push_back({piece.offset, piece.bytes, piece.move});
  if (is_request_staged_) memory.read_buffer_bytes = std::max<std::uint64_t>(memory.read_buffer_bytes, request->bytes);
  if (end > taken_end_) {
    plan_.traffic_.wanted_bytes += end - std::max(piece.offset, taken_end_);
    taken_end_ = end;
  }
}

/// Requests of one row, whose moves are given in order.
void Planner::plan_row(std::span<const std::uint32_t> moves, std::uint64_t read_bytes_max) {
  const auto is_staged = [this](std::uint32_t index) {
    return plan_.moves_[index].reason != Reason::contiguous || plan_.moves_[index].action == Action::compare;
  };
  const auto piece_of = [this](std::uint32_t index, std::uint64_t begin, std::uint64_t end) {
    const StoredTensor& tensor = row(plan_.moves_[index].row);
    return Piece{tensor.begin + begin, static_cast<std::uint32_t>(end - begin), tensor.file, index};
  };
  if (moves.size() == 1) {
    // The pieces of one move come in order.
    const std::uint32_t index = moves.front();
    const bool is_through_buffer = is_staged(index);
    for_each_piece(plan_.moves_[index], read_bytes_max, [&](std::uint64_t begin, std::uint64_t end) {
      coalesce(piece_of(index, begin, end), is_through_buffer, read_bytes_max);
    });
    return;
  }
  pieces_.clear();
  for (const std::uint32_t index : moves) {
    for_each_piece(plan_.moves_[index], read_bytes_max,
                   [&](std::uint64_t begin, std::uint64_t end) { pieces_.push_back(piece_of(index, begin, end)); });
  }
  std::sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.move < b.move;
  });
  for (const Piece& piece : pieces_) coalesce(piece, is_staged(piece.move), read_bytes_max);
}

void Planner::plan_reads(std::uint64_t read_bytes_max) {
  const auto is_read = [](const Move& move) {
    return move.action != Action::fill && move.decode == k_no_id && move.route != Route::materialized;
  };
  plan_.requests_.clear();
  plan_.entries_.clear();
  Traffic& traffic = plan_.traffic_;
  traffic.read_bytes = traffic.wanted_bytes = 0;
  plan_.memory_.read_buffer_bytes = plan_.memory_.sink_bytes = 0;
  taken_end_ = 0;
  std::vector<std::uint32_t> moves;
  if (is_part_) {
    // Few rows of many: those that the rank takes of are sorted.
    for (std::uint32_t i = 0; i < plan_.moves_.size(); ++i) {
      if (is_read(plan_.moves_[i])) moves.push_back(i);
    }
    const auto rank = [&](std::uint32_t move) { return rank_of(plan_.moves_[move].row); };
    std::stable_sort(moves.begin(), moves.end(), [&](std::uint32_t a, std::uint32_t b) { return rank(a) < rank(b); });
    for (std::size_t from = 0, to = 0; from < moves.size(); from = to) {
      while (to < moves.size() && rank(moves[to]) == rank(moves[from])) ++to;
      plan_row(std::span(moves).subspan(from, to - from), read_bytes_max);
    }
  } else {
    // Moves of each row, by counting.
    std::vector<std::uint32_t> first(plan_.catalog_->size() + 1, 0);
    for (const Move& move : plan_.moves_) {
      if (is_read(move)) ++first[move.row + 1];
    }
    for (std::size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    moves.resize(first.back());
    std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
    for (std::uint32_t i = 0; i < plan_.moves_.size(); ++i) {
      if (is_read(plan_.moves_[i])) moves[next[plan_.moves_[i].row]++] = i;
    }
    // As if every move were one run: full requests, and one more where the tensors are that large.
    std::uint64_t full = 0;
    for (const std::uint32_t index : moves) {
      const Layout& layout = plan_.layouts_[plan_.moves_[index].source_layout];
      full +=
          element_count(layout.extents).value_or(0) * bits_of(row(plan_.moves_[index].row).dtype) / 8 / read_bytes_max;
    }
    plan_.entries_.reserve(full + moves.size());
    plan_.requests_.reserve(full + std::min<std::uint64_t>(full, moves.size()));
    for (std::size_t rank = 0; rank < plan_.catalog_->size(); ++rank) {
      const Row at = ranked(rank);
      plan_row(std::span(moves).subspan(first[at], first[at + 1] - first[at]), read_bytes_max);
    }
  }
  for (const ReadRequest& request : plan_.requests_) traffic.read_bytes += request.bytes;
  traffic.requests = plan_.requests_.size();
  traffic.entries = plan_.entries_.size();
}

void Planner::order_codec_moves() {
  std::vector<bool> is_opened(plan_.catalog_->files().size() + 1, false);
  for (std::uint32_t i = 0; i < plan_.moves_.size(); ++i) {
    const Move& move = plan_.moves_[i];
    if (move.action == Action::fill) continue;
    if (move.route == Route::materialized) {
      plan_.whole_order_.push_back(i);
    } else if (move.decode != k_no_id) {
      plan_.decode_order_.push_back(i);
    }
    const auto open = [&](Row at) { is_opened[std::min<std::size_t>(row(at).file, is_opened.size() - 1)] = true; };
    if (move.decode == k_no_id) {
      open(move.row);
    } else {
      for (const Row at : (*plan_.decodes_)[move.decode].rows) open(at);
    }
  }
  const auto by_file = [&](std::uint32_t a, std::uint32_t b) {
    const StoredTensor& first = row(plan_.moves_[a].row);
    const StoredTensor& second = row(plan_.moves_[b].row);
    if (first.file != second.file) return first.file < second.file;
    return first.begin != second.begin ? first.begin < second.begin : a < b;
  };
  for (std::vector<std::uint32_t>* order : {&plan_.decode_order_, &plan_.whole_order_}) {
    if (!is_part_ && !std::is_sorted(order->begin(), order->end(), by_file)) {
      // By counting: rows in order are moves in order, but where empty rows share a place.
      std::vector<std::uint32_t> next(plan_.catalog_->size() + 1, 0);
      for (const std::uint32_t move : *order) ++next[rank_of(plan_.moves_[move].row) + 1];
      for (std::size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
      std::vector<std::uint32_t> sorted(order->size());
      for (const std::uint32_t move : *order) sorted[next[rank_of(plan_.moves_[move].row)]++] = move;
      *order = std::move(sorted);
    }
    if (!std::is_sorted(order->begin(), order->end(), by_file)) std::sort(order->begin(), order->end(), by_file);
  }
  plan_.traffic_.files = static_cast<std::uint64_t>(std::count(is_opened.begin(), is_opened.end(), true));
}

}  // namespace weightproof::plan
