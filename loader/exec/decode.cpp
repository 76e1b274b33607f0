// SPDX-License-Identifier: Apache-2.0
// Decoded tensors, tile by tile in global coordinates: codes into the read buffer, scales and the like into their own,
// values straight into place where the tile is one run there, by way of a tile otherwise.
#include <algorithm>

#include "loader/core/error.hpp"
#include "loader/exec/engine_internal.hpp"
#include "loader/plan/decode_items.hpp"

namespace weightproof::exec {
namespace {

/// Axis of the decoded tensor that an axis of the view walks. The planner took the move for a box, so there is one.
unsigned natural_axis(const Shape& shape, const Extents& strides, std::uint64_t stride) {
  for (unsigned axis = 0; axis < shape.rank(); ++axis) {
    if (strides[axis] == stride && shape[axis] != 1) return axis;
  }
  throw Error(ErrorCode::internal, "a decode move is no box of the decoded tensor");
}

std::uint64_t bytes_of(std::span<const codec::ByteRun> runs) {
  std::uint64_t bytes = 0;
  for (const codec::ByteRun& run : runs) bytes += run.bytes;
  return bytes;
}

}  // namespace

void Worker::run_decodes(unsigned stage) {
  while (const auto item = engine_.next_decode(stage)) {
    engine_.check();
    run_decode(*item);
  }
}

void Worker::run_decode(const DecodeItem& item) {
  const Target target = engine_.target_of(item.move);
  end_lease(companions_.span());
  companion_runs_.clear();
  const plan::DecodeGrid grid = plan::decode_grid(plan_, *target.move);
  for (std::uint64_t i = item.first; i < item.first + item.count; ++i) {
    engine_.check();
    decode_tile(target, grid.tile(i));
  }
}

void Worker::read_run(const plan::DecodeSource& source, const codec::ByteRun& run, std::span<std::byte> into) {
  const Timed timed(phases.read);
  const StoredTensor& row = plan_.catalog().tensors()[source.rows[run.component]];
  if (run.offset > row.bytes || run.bytes > row.bytes - run.offset || run.bytes > into.size()) {
    ErrorFacts facts;
    facts.keys.emplace_back(row.key);
    throw Error(ErrorCode::internal, "a codec asks for bytes outside of '" + facts.keys[0] + "'", std::move(facts));
  }
  counters.requested_bytes += run.bytes;
  engine_.sources.file(row.file).read(row.begin + run.offset, into.first(run.bytes));
  record_read(row.file, row.begin + run.offset, run.bytes);
  engine_.advance(run.bytes);
}

void Worker::decode_tile(const Target& target, const Box& tile) {
  const plan::Move& move = *target.move;
  const plan::DecodeSource& source = plan_.decodes()[move.decode];
  const codec::Codec& codec = *source.codec;
  const Shape& natural = codec.natural_shape();
  const DType dtype = target.tensor->dtype;
  const unsigned size = bits_of(dtype) / 8;

  // The tile's part of the view, both sides narrowed alike; its source counted in the tile.
  const Extents natural_strides = contiguous_strides(natural);
  const Extents tile_strides = contiguous_strides(tile.length);
  View from = plan_.source_view(move);
  View to = plan_.target_view(move);
  const Coordinate first = coordinate_of(natural, from.offset());
  Layout in_tile{from.extents(), from.strides()};
  std::array<bool, limits::rank_max> is_walked{};
  std::uint64_t tile_offset = 0;
  for (unsigned axis = 0; axis < from.rank(); ++axis) {
    if (from.extents()[axis] == 1) continue;
    const unsigned at = natural_axis(natural, natural_strides, from.strides()[axis]);
    const std::uint64_t view_end = first[at] + from.extents()[axis];
    const std::uint64_t begin = std::max(tile.start[at], first[at]);
    const std::uint64_t end = std::min(tile.start[at] + tile.length[at], view_end);
    if (begin >= end) return;  // the granule took the tile past the view
    to = to.narrow(axis, begin - first[at], end - begin);
    in_tile.extents[axis] = end - begin;
    in_tile.strides[axis] = tile_strides[at];
    tile_offset += (begin - tile.start[at]) * tile_strides[at];
    is_walked[at] = true;
  }
  for (unsigned at = 0; at < natural.rank(); ++at) {
    if (is_walked[at]) continue;
    if (first[at] < tile.start[at] || first[at] >= tile.start[at] + tile.length[at]) return;
    tile_offset += (first[at] - tile.start[at]) * tile_strides[at];
  }

  runs_.clear();
  codec.byte_runs(tile, runs_);
  weight_runs_.clear();
  const auto is_weight = [&](const codec::ByteRun& run) {
    return codec.components()[run.component].role == codec::Role::weight;
  };
  std::copy_if(runs_.begin(), runs_.end(), std::back_inserter(weight_runs_), is_weight);
  runs_.erase(std::remove_if(runs_.begin(), runs_.end(), is_weight), runs_.end());
  if (bytes_of(weight_runs_) > read_buffer_.size() || bytes_of(runs_) > companions_.size()) {
    throw Error(ErrorCode::internal, "a decode tile does not fit the buffers of the plan");
  }
  std::uint64_t position = 0;
  for (const codec::ByteRun& run : weight_runs_) {
    read_run(source, run, read_buffer_.subspan(position));
    position += run.bytes;
  }
  plan::for_each_new_companion(companion_runs_, runs_, [&](const codec::ByteRun& run, std::uint64_t at) {
    read_run(source, run, companions_.span().subspan(at));
  });
  companion_runs_ = runs_;
  parts_.assign(codec.components().size(), {});
  const auto give = [&](std::span<const codec::ByteRun> runs, std::span<const std::byte> held) {
    for (const codec::ByteRun& run : runs) {
      std::span<const std::byte>& part = parts_[run.component];
      // Runs of one component follow one another, so they are one span.
      part = part.empty() ? held.first(run.bytes) : std::span(part.data(), part.size() + run.bytes);
      held = held.subspan(run.bytes);
    }
  };
  give(weight_runs_, read_buffer_);
  give(companion_runs_, companions_.span());

  const std::optional<Nest> made =
      make_nest(View(tile_offset, in_tile), to, plan_.shape_of(*target.tensor), target.destination.strides);
  if (!made) nest_of(target);  // throws the reason
  Nest nest = *made;
  nest.normalise();
  const std::uint64_t elements = tile.element_count();
  const bool is_run = nest.rank == 0 || (nest.rank == 1 && nest.axes[0].source == 1 && nest.axes[0].target == 1);
  if (is_run) {
    populate(*target.tensor, nest.target * size, (nest.target + nest.element_count()) * size);
  } else {
    populate_move(target.index);
  }
  ++counters.tiles;
  record_write(target, to);
  if (is_run && nest.element_count() == elements && move.action == plan::Action::write && !target.is_device() &&
      engine_.options.faults == nullptr) {
    engine_.mark_writing();
    {
      const Timed timed(phases.transform);
      codec.decode(tile, parts_, dtype, target.destination.base + nest.target * size);
    }
    counters.written_bytes += elements * size;
    if (engine_.is_hot(move.tensor)) {
      const Timed timed(phases.digest);
      engine_.digests()->arrived(move.tensor, nest.target * size,
                                 {target.destination.base + nest.target * size, elements * size});
      counters.hot_digests += elements * size;
    }
    engine_.finish(target.index, elements * size, phases.digest);
  } else {
    WEIGHTPROOF_ASSERT(elements * size <= tile_.size());
    {
      const Timed timed(phases.transform);
      codec.decode(tile, parts_, dtype, tile_.data());
    }
    store(target, nest, tile_.data(), size);
    end_lease(tile_.first(elements * size));
  }
  end_lease(read_buffer_);
}

}  // namespace weightproof::exec
