// SPDX-License-Identifier: Apache-2.0
// Coalesced reads: straight into place where everything of a request is a run in host memory, through the read buffer
// where something of it is not, through a slot where it goes to a device.
#include <algorithm>
#include <cstring>

#include "loader/core/error.hpp"
#include "loader/exec/engine_internal.hpp"

namespace weightproof::exec {
namespace {

/// With digests a run is read in blocks of this size, and each is digested while it is in the cache.
constexpr std::uint64_t k_hot_bytes = 512 * 1024;
static_assert(k_populate_bytes % k_hot_bytes == 0);

}  // namespace

void Worker::record_read(std::uint32_t file, std::uint64_t offset, std::uint64_t bytes) {
  counters.read_bytes += bytes;
  if (engine_.options.has_ledger) ledger.read.push_back({file, offset, bytes});
}

void Worker::read(std::uint32_t file, std::uint64_t offset, std::span<std::byte> bytes) {
  const Timed timed(phases.read);
  engine_.sources.file(file).read(offset, bytes);
  record_read(file, offset, bytes.size());
}

void Worker::populate(const plan::PlannedTensor& tensor, std::uint64_t begin, std::uint64_t end) {
  if (engine_.arena == nullptr || engine_.arena->is_populated()) return;
  const Timed timed(phases.populate);
  engine_.arena->populate(tensor.arena_offset + begin, tensor.arena_offset + end);
}

void Worker::populate_move(std::uint32_t index) {
  if (engine_.arena == nullptr || engine_.arena->is_populated()) return;
  const plan::Move& move = plan_.moves()[index];
  const plan::PlannedTensor& tensor = plan_.tensors()[move.tensor];
  const View view = plan_.target_view(move);
  std::uint64_t last = view.offset();
  for (unsigned axis = 0; axis < view.rank(); ++axis) {
    if (view.extents()[axis] == 0) return;
    last += (view.extents()[axis] - 1) * view.strides()[axis];
  }
  const std::uint64_t bits = bits_of(tensor.dtype);
  populate(tensor, view.offset() * bits / 8, ((last + 1) * bits + 7) / 8);
}

void Worker::populate_spans(std::span<const std::span<std::byte>> spans) {
  const Timed timed(phases.populate);
  const std::span<std::byte> all = engine_.arena->span();
  for (const std::span<std::byte>& span : spans) {
    // What is read past goes to the sink, which is not of the arena.
    if (span.data() < all.data() || span.data() >= all.data() + all.size()) continue;
    const auto begin = static_cast<std::uint64_t>(span.data() - all.data());
    engine_.arena->populate(begin, begin + span.size());
  }
}

void Worker::populate_entries(const plan::ReadRequest& request) {
  if (engine_.arena == nullptr || engine_.arena->is_populated()) return;
  for (const plan::ScatterEntry& entry : plan_.entries_of(request)) {
    const plan::Move& move = plan_.moves()[entry.move];
    // A run needs its own pages; what is strided may need any that its move reaches.
    if (move.reason != plan::Reason::contiguous) {
      populate_move(entry.move);
      continue;
    }
    const plan::PlannedTensor& tensor = plan_.tensors()[move.tensor];
    const std::uint64_t bits = bits_of(tensor.dtype);
    const std::uint64_t first = plan_.catalog().tensors()[move.row].begin + move.source_offset * bits / 8;
    const std::uint64_t begin = move.target_offset * bits / 8 + (entry.file_offset - first);
    populate(tensor, begin, begin + entry.bytes);
  }
}

void Worker::run_request(std::uint32_t index, unsigned stage) {
  const plan::ReadRequest& request = plan_.requests()[index];
  bool has_compare = false;
  bool is_in_place = true;
  bool is_for_device = engine_.options.lane != nullptr;
  if (!engine_.has_only_runs) {
    for (const plan::ScatterEntry& entry : plan_.entries_of(request)) {
      const plan::Move& move = plan_.moves()[entry.move];
      const bool is_run = move.reason == plan::Reason::contiguous;
      has_compare = has_compare || move.action == plan::Action::compare;
      is_in_place = is_in_place && is_run && engine_.base != nullptr;
      is_for_device = is_for_device && is_run && engine_.base == nullptr;
    }
    is_in_place = is_in_place && !has_compare;
    is_for_device = is_for_device && !has_compare;
    for (const plan::ScatterEntry& entry : plan_.entries_of(request)) {
      if (!is_for_device) break;
      const Target target = engine_.target_of(entry.move);
      is_for_device = target.is_device() && target.is_dense;
    }
  }
  if (has_compare != (stage == 1)) return;
  if (is_in_place) {
    read_in_place(request);
  } else if (is_for_device) {
    read_to_device(request);
  } else {
    populate_entries(request);
    read_staged(index, request, stage);
  }
  ++counters.requests;
  engine_.advance(request.bytes);
}

void Worker::read_in_place(const plan::ReadRequest& request) {
  const std::span<const plan::ScatterEntry> entries = plan_.entries_of(request);
  const storage::File& file = engine_.sources.file(request.file);
  // Into fresh memory a run is read in blocks of what is populated at once, and ends where that ends: the pages are in
  // the cache when their bytes come.
  const bool is_fresh = engine_.arena != nullptr && !engine_.arena->is_populated();
  const std::uint64_t block = engine_.digests() != nullptr ? k_hot_bytes : is_fresh ? k_populate_bytes : UINT64_MAX;
  struct Piece {
    std::uint32_t move;
    std::uint64_t offset;  // in the tensor
    std::uint64_t bytes;
    std::byte* place;
  };
  std::array<Piece, k_spans> pieces;
  std::size_t piece_count = 0;
  std::size_t span_count = 0;
  PieceFault fault;
  std::uint64_t begin = request.offset;   // of the file, not yet read
  std::uint64_t cursor = request.offset;  // ... not yet given a place
  const auto flush = [&] {
    if (span_count != 0) {
      engine_.check();
      engine_.mark_writing();
      if (is_fresh) populate_spans(std::span(spans_).first(span_count));
      const Timed timed(phases.read);
      file.read_scattered(begin, std::span(spans_).first(span_count));
      record_read(request.file, begin, cursor - begin);
    }
    fault.apply();
    fault = {};
    for (std::size_t i = 0; i < piece_count; ++i) {
      const Piece& piece = pieces[i];
      const plan::Move& move = plan_.moves()[piece.move];
      counters.written_bytes += piece.bytes;
      if (engine_.is_hot(move.tensor)) {
        const Timed timed(phases.digest);
        engine_.digests()->arrived(move.tensor, piece.offset, {piece.place, static_cast<std::size_t>(piece.bytes)});
        counters.hot_digests += piece.bytes;
      }
      if (engine_.options.has_ledger) record_bytes(engine_.target_of(piece.move), piece.offset, piece.bytes);
      engine_.finish(piece.move, piece.bytes, phases.digest);
    }
    piece_count = span_count = 0;
    begin = cursor;
  };
  // Neighbours in the file that are neighbours in memory are one span.
  const auto add_span = [&](std::byte* place, std::uint64_t bytes) {
    if (span_count != 0 && spans_[span_count - 1].data() + spans_[span_count - 1].size() == place) {
      std::span<std::byte>& last = spans_[span_count - 1];
      last = {last.data(), last.size() + static_cast<std::size_t>(bytes)};
    } else {
      spans_[span_count++] = {place, static_cast<std::size_t>(bytes)};
    }
    cursor += bytes;
  };
  std::uint64_t before_offset = 0;  // of the entry that reaches furthest, and where it was put
  std::uint64_t before_end = 0;
  std::byte* before_place = nullptr;
  for (const plan::ScatterEntry& entry : entries) {
    const plan::Move& move = plan_.moves()[entry.move];
    const plan::PlannedTensor& tensor = plan_.tensors()[move.tensor];
    const std::uint64_t bits = bits_of(tensor.dtype);
    const std::uint64_t first = plan_.catalog().tensors()[move.row].begin + move.source_offset * bits / 8;
    const std::uint64_t in_tensor = move.target_offset * bits / 8 + (entry.file_offset - first);
    std::byte* const place = engine_.base + tensor.arena_offset + in_tensor;
    counters.requested_bytes += entry.bytes;
    while (entry.file_offset > cursor) {
      if (span_count == k_spans) flush();
      WEIGHTPROOF_ASSERT(!sink_.empty());
      add_span(sink_.data(), std::min<std::uint64_t>(entry.file_offset - cursor, sink_.size()));
    }
    std::uint64_t done = 0;
    const std::uint64_t end = entry.file_offset + entry.bytes;
    if (entry.file_offset < cursor) {
      // Two moves take the same bytes: they are copied from where they were read to.
      done = std::min(end, cursor) - entry.file_offset;
      flush();
      if (before_offset <= entry.file_offset && entry.file_offset + done <= before_end) {
        std::memcpy(place, before_place + (entry.file_offset - before_offset), static_cast<std::size_t>(done));
        count_copy(move.tensor, done);
      } else {
        read(request.file, entry.file_offset, {place, static_cast<std::size_t>(done)});
      }
      pieces[piece_count++] = {entry.move, in_tensor, done, place};
    }
    while (done < entry.bytes) {
      if (span_count == k_spans || piece_count == k_spans || cursor - begin >= block) flush();
      std::uint64_t bytes = std::min<std::uint64_t>(entry.bytes - done, block);
      if (is_fresh) bytes = std::min(bytes, block - (tensor.arena_offset + in_tensor + done) % block);
      add_span(place + done, bytes);
      pieces[piece_count++] = {entry.move, in_tensor + done, bytes, place + done};
      if (engine_.options.faults != nullptr && engine_.options.faults->tensor == move.tensor) {
        const unsigned size = std::max(1u, bits_of(tensor.dtype) / 8);
        Nest part;
        part.rank = 1;
        part.axes[0] = {bytes / size, 1, 1};
        part.target = (in_tensor + done) / size;
        fault = fault_of(engine_.target_of(entry.move), part, size);
        flush();
      }
      done += bytes;
    }
    if (end > before_end) {
      before_offset = entry.file_offset;
      before_end = end;
      before_place = place;
    }
  }
  flush();
}

void Worker::read_to_device(const plan::ReadRequest& request) {
  Slot& slot = next_slot();
  const std::span<std::byte> bytes = slot.buffer.span().first(request.bytes);
  read(request.file, request.offset, bytes);
  engine_.check();
  engine_.mark_writing();
  std::array<LaneCopy, 256> copies;
  std::size_t count = 0;
  const std::span<const plan::ScatterEntry> entries = plan_.entries_of(request);
  // What a batch carries is remembered once the lane has it.
  const auto send = [&](std::size_t end) {
    submit(slot, std::span(copies).first(count));
    for (std::size_t i = end - count; i < end; ++i) slot.pending.push_back({entries[i].move, entries[i].bytes});
    count = 0;
  };
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const plan::ScatterEntry& entry = entries[i];
    const Target target = engine_.target_of(entry.move);
    const std::uint64_t bits = bits_of(target.tensor->dtype);
    const std::uint64_t first =
        plan_.catalog().tensors()[target.move->row].begin + target.move->source_offset * bits / 8;
    std::byte* const place =
        target.destination.base + target.move->target_offset * bits / 8 + (entry.file_offset - first);
    if (count == copies.size()) send(i);
    copies[count++] = {place, bytes.data() + (entry.file_offset - request.offset), entry.bytes, 1, 0, 0};
    counters.requested_bytes += entry.bytes;
    counters.written_bytes += entry.bytes;
    record_bytes(target, target.move->target_offset * bits / 8 + (entry.file_offset - first), entry.bytes);
  }
  send(entries.size());
}

void Worker::read_staged(std::uint32_t index, const plan::ReadRequest& request, unsigned stage) {
  WEIGHTPROOF_ASSERT(request.bytes <= read_buffer_.size());
  const std::span<std::byte> bytes = read_buffer_.first(request.bytes);
  read(request.file, request.offset, bytes);
  const std::span<const plan::ScatterEntry> entries = plan_.entries_of(request);
  // What is written goes first: a comparison may be with a tensor of this very request.
  for (const plan::Action action : {plan::Action::write, plan::Action::compare}) {
    for (std::uint32_t i = 0; i < entries.size(); ++i) {
      const plan::ScatterEntry& entry = entries[i];
      if (plan_.moves()[entry.move].action != action) continue;
      engine_.check();
      if (action == plan::Action::compare) {
        drain_slots();
        if (!engine_.is_written(plan_.moves()[entry.move].tensor)) {
          engine_.defer({index, request.first_entry + i});
          continue;
        }
      }
      counters.requested_bytes += entry.bytes;
      take_entry(entry, bytes.data() + (entry.file_offset - request.offset), engine_.target_of(entry.move));
    }
    if (stage == 0) break;
  }
  end_lease(bytes);
}

void Worker::run_deferred(const Deferred& deferred) {
  const plan::ReadRequest& request = plan_.requests()[deferred.request];
  const plan::ScatterEntry& entry = plan_.entries()[deferred.entry];
  const std::span<std::byte> bytes = read_buffer_.first(entry.bytes);
  read(request.file, entry.file_offset, bytes);
  counters.requested_bytes += entry.bytes;
  take_entry(entry, bytes.data(), engine_.target_of(entry.move));
  end_lease(bytes);
}

void Worker::take_entry(const plan::ScatterEntry& entry, const std::byte* bytes, const Target& target) {
  const StoredTensor& row = plan_.catalog().tensors()[target.move->row];
  const std::uint64_t bits = bits_of(row.dtype);
  std::uint64_t begin = entry.file_offset - row.begin;
  if (bits % 8 != 0 || (target.move->reason == plan::Reason::contiguous && target.is_dense)) {
    // One run on both sides, taken as bytes: elements may be smaller, and a piece may end inside of one.
    Nest part;
    part.rank = 1;
    part.axes[0] = {entry.bytes, 1, 1};
    part.target = target.move->target_offset * bits / 8 + (begin - target.move->source_offset * bits / 8);
    record_bytes(target, part.target, entry.bytes);
    return store(target, part, bytes, 1);
  }
  const std::uint64_t size = bits / 8;
  WEIGHTPROOF_ASSERT(begin % size == 0 && entry.bytes % size == 0);
  begin /= size;
  take_elements(target, nest_of(target), begin, begin + entry.bytes / size, bytes, row.dtype);
}

}  // namespace weightproof::exec
