// SPDX-License-Identifier: Apache-2.0
// What is held whole: stored tensors whose elements are smaller than a byte, views that are no box of a decoded tensor,
// and whatever was asked to be materialized. Also constants, which come from nowhere.
#include <algorithm>

#include "loader/core/error.hpp"
#include "loader/exec/engine_internal.hpp"

namespace weightproof::exec {

void Worker::run_whole(unsigned stage) {
  if (stage == 1) return;
  if (stage == 0) {
    for (std::uint32_t i = 0; i < plan_.moves().size(); ++i) {
      if (plan_.moves()[i].action != plan::Action::fill) continue;
      engine_.check();
      fill(i);
    }
  }
  const plan::Action wanted = stage == 0 ? plan::Action::write : plan::Action::compare;
  for (const std::uint32_t move : plan_.whole_order()) {
    if (plan_.moves()[move].action != wanted) continue;
    engine_.check();
    run_whole_move(move);
  }
}

void Worker::run_whole_move(std::uint32_t index) {
  const Target target = engine_.target_of(index);
  const plan::Move& move = *target.move;
  if (engine_.left_of(index) == 0) return;
  const std::span<std::byte> held = engine_.whole.span();
  populate(*target.tensor, 0, target.tensor->bytes);
  const auto read_whole = [&](std::uint32_t file, std::uint64_t offset, std::span<std::byte> into) {
    for (std::size_t at = 0; at < into.size(); at += limits::read_bytes_max) {
      engine_.check();
      const std::size_t bytes = std::min<std::size_t>(limits::read_bytes_max, into.size() - at);
      read(file, offset + at, into.subspan(at, bytes));
      counters.requested_bytes += bytes;
      engine_.advance(bytes);
    }
  };
  if (move.decode == k_no_id) {
    const StoredTensor& row = plan_.catalog().tensors()[move.row];
    WEIGHTPROOF_ASSERT(row.bytes <= held.size());
    const std::span<std::byte> bytes = held.first(row.bytes);
    read_whole(row.file, row.begin, bytes);
    if (bits_of(row.dtype) % 8 != 0) {
      take_bits(target, bytes.data());
    } else {
      take_elements(target, nest_of(target), 0, *element_count(row.shape), bytes.data(), row.dtype);
    }
    end_lease(bytes);
    return;
  }
  const plan::DecodeSource& source = plan_.decodes()[move.decode];
  const codec::Codec& codec = *source.codec;
  const Box box = codec.align(Box::whole(codec.natural_shape()));
  const unsigned size = bits_of(target.tensor->dtype) / 8;
  const std::uint64_t values = box.element_count() * size;
  WEIGHTPROOF_ASSERT(values <= held.size());
  std::vector<codec::ByteRun> runs;
  codec.byte_runs(box, runs);
  std::vector<std::span<const std::byte>> parts(codec.components().size());
  std::uint64_t at = values;
  for (const codec::ByteRun& run : runs) {
    const StoredTensor& row = plan_.catalog().tensors()[source.rows[run.component]];
    WEIGHTPROOF_ASSERT(run.bytes <= held.size() - at);
    const std::span<std::byte> into = held.subspan(at, run.bytes);
    read_whole(row.file, row.begin + run.offset, into);
    std::span<const std::byte>& part = parts[run.component];
    part = part.empty() ? std::span<const std::byte>(into) : std::span(part.data(), part.size() + run.bytes);
    at += run.bytes;
  }
  {
    const Timed timed(phases.transform);
    codec.decode(box, parts, target.tensor->dtype, held.data());
  }
  ++counters.tiles;
  record_write(target, plan_.target_view(move));
  store(target, nest_of(target), held.data(), size);
  drain_slots();
  end_lease(held.first(at));
}

/// Element by element: bits are counted from the lowest of the first byte.
void Worker::take_bits(const Target& target, const std::byte* bytes) {
  const unsigned bits = bits_of(target.tensor->dtype);
  if (target.is_device()) {
    ErrorFacts facts;
    facts.keys.emplace_back(target.tensor->key);
    facts.hint = "load this tensor into host memory";
    throw Error(ErrorCode::route_unavailable,
                "'" + facts.keys[0] + "' has elements of " + std::to_string(bits) +
                    " bits that cannot be put together on a device",
                std::move(facts));
  }
  const View from = plan_.source_view(*target.move);
  const View to = plan_.target_view(*target.move);
  const bool is_compare = target.move->action == plan::Action::compare;
  std::byte* const base = target.destination.base;
  const auto bit_at = [](const std::byte* at, std::uint64_t bit) {
    return (std::to_integer<unsigned>(at[bit / 8]) >> (bit % 8)) & 1u;
  };
  if (!is_compare) engine_.mark_writing();
  const Timed timed(is_compare ? phases.compare : phases.transform);
  const std::uint64_t count = from.element_count();
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i % 65536 == 0) engine_.check();
    const Coordinate at = coordinate_of(from.extents(), i);
    const std::uint64_t source = from.storage_index(at) * bits;
    const std::uint64_t place = to.storage_index(at) * bits;
    std::byte found{};
    std::byte held{};
    for (unsigned b = 0; b < bits; ++b) {
      const unsigned value = bit_at(bytes, source + b);
      found |= std::byte(value << b);
      held |= std::byte(bit_at(base, place + b) << b);
      if (is_compare) continue;
      std::byte& into = base[(place + b) / 8];
      const auto mask = std::byte(1u << ((place + b) % 8));
      into = value != 0 ? into | mask : into & ~mask;
    }
    if (is_compare && found != held) throw_different(target, to.storage_index(at), &found, &held, 1);
  }
  const std::uint64_t done = engine_.left_of(target.index);
  if (is_compare) {
    counters.compared_bytes += done;
  } else {
    count_copy(target.move->tensor, done);
    counters.written_bytes += done;
    record_write(target, to);
  }
  engine_.finish(target.index, done, phases.digest);
}

}  // namespace weightproof::exec
