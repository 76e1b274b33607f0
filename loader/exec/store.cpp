// SPDX-License-Identifier: Apache-2.0
// From a buffer to where it belongs: cast, copy, compare, fill; on the host or by way of a slot to a device.
#include <algorithm>
#include <cstring>

#include "loader/core/error.hpp"
#include "loader/exec/cast_internal.hpp"
#include "loader/exec/engine_internal.hpp"

namespace weightproof::exec {
namespace {

std::string hex(const std::byte* bytes, std::size_t count) {
  constexpr std::string_view k_digits = "0123456789abcdef";
  std::string text = "0x";
  for (std::size_t i = count; i-- > 0;) {
    text += k_digits[std::to_integer<unsigned>(bytes[i]) >> 4];
    text += k_digits[std::to_integer<unsigned>(bytes[i]) & 15];
  }
  return text;
}

/// Calls `use` with nests of at most `elements_max` elements that together are `nest`.
template <typename Use>
void for_each_chunk(const Nest& nest, std::uint64_t elements_max, const Use& use) {
  const std::uint64_t count = nest.element_count();
  if (count <= elements_max) {
    if (count != 0) use(nest);
    return;
  }
  // Along the outermost axis; single steps of it are cut again.
  const std::uint64_t inner = count / nest.axes[0].extent;
  const std::uint64_t steps = std::max<std::uint64_t>(elements_max / inner, 1);
  for (std::uint64_t at = 0; at < nest.axes[0].extent; at += steps) {
    Nest part = nest;
    part.source += at * nest.axes[0].source;
    part.target += at * nest.axes[0].target;
    part.axes[0].extent = std::min(steps, nest.axes[0].extent - at);
    if (part.axes[0].extent == 1) {
      std::copy(part.axes.begin() + 1, part.axes.begin() + part.rank, part.axes.begin());
      --part.rank;
    }
    for_each_chunk(part, elements_max, use);
  }
}

/// Calls `use` with rows of device copies that write `nest` from a dense block; bytes of both sides from their origins.
template <typename Use>
void for_each_lane_copy(Nest nest, std::byte* device, const std::byte* host, unsigned element_bytes, const Use& use) {
  nest.normalise();
  std::size_t width = element_bytes;
  if (nest.rank != 0 && nest.axes[nest.rank - 1].source == 1 && nest.axes[nest.rank - 1].target == 1) {
    width *= nest.axes[--nest.rank].extent;
  }
  NestAxis rows;
  if (nest.rank != 0) rows = nest.axes[--nest.rank];
  std::array<std::uint64_t, k_nest_axes_max> at{};
  std::uint64_t source = nest.source;
  std::uint64_t target = nest.target;
  for (;;) {
    use(LaneCopy{device + target * element_bytes, host + source * element_bytes, width,
                 static_cast<std::size_t>(rows.extent), static_cast<std::size_t>(rows.target * element_bytes),
                 static_cast<std::size_t>(rows.source * element_bytes)});
    unsigned axis = nest.rank;
    for (; axis > 0; --axis) {
      const NestAxis& step = nest.axes[axis - 1];
      source += step.source;
      target += step.target;
      if (++at[axis - 1] < step.extent) break;
      source -= step.source * step.extent;
      target -= step.target * step.extent;
      at[axis - 1] = 0;
    }
    if (axis == 0) return;
  }
}

}  // namespace

Nest Worker::nest_of(const Target& target) const {
  const std::optional<Nest> nest = make_nest(plan_.source_view(*target.move), plan_.target_view(*target.move),
                                             plan_.shape_of(*target.tensor), target.destination.strides);
  if (!nest) {
    ErrorFacts facts;
    facts.keys.emplace_back(target.tensor->key);
    facts.expected = "strides that the view " + to_string(plan_.target_view(*target.move)) + " can be written through";
    facts.actual = to_string(target.destination.strides);
    facts.hint = "load this tensor into dense memory";
    throw Error(ErrorCode::route_unavailable,
                "'" + facts.keys[0] + "' cannot be written through strides " + facts.actual, std::move(facts));
  }
  Nest result = *nest;
  result.normalise();
  return result;
}

void Worker::count_copy(std::uint32_t tensor, std::uint64_t bytes) {
  ++counters.copies;
  counters.copied_bytes += bytes;
  if (engine_.options.has_ledger) ledger.copied[tensor] += bytes;
}

void Worker::record_write(const Target& target, const View& region) {
  if (!engine_.options.has_ledger || target.move->action == plan::Action::compare) return;
  ledger.written.push_back({target.move->tensor, target.index, region});
}

void Worker::record_bytes(const Target& target, std::uint64_t offset, std::uint64_t bytes) {
  const unsigned bits = bits_of(target.tensor->dtype);
  const std::uint64_t unit = bits % 8 == 0 ? bits / 8 : 1;
  record_write(target, View(offset / unit, {Extents{bytes / unit}, Extents{1}}));
}

/// The regions of the dense tensor, whatever strides it has where it lies.
void Worker::record_elements(const Target& target, const Nest& nest, std::uint64_t begin, std::uint64_t end) {
  if (!engine_.options.has_ledger || target.move->action == plan::Action::compare) return;
  Nest dense = nest;
  if (!target.is_dense) {
    const Shape& shape = plan_.shape_of(*target.tensor);
    dense =
        *make_nest(plan_.source_view(*target.move), plan_.target_view(*target.move), shape, contiguous_strides(shape));
    dense.normalise();
  }
  for_each_part(dense, begin, end, [&](const Nest& part) {
    Layout layout;
    for (unsigned i = 0; i < part.rank; ++i) {
      layout.extents.push_back(part.axes[i].extent);
      layout.strides.push_back(part.axes[i].target);
    }
    record_write(target, View(part.target, layout));
  });
}

void Worker::take_elements(const Target& target, const Nest& nest, std::uint64_t begin, std::uint64_t end,
                           const std::byte* bytes, DType dtype) {
  const DType wanted = target.tensor->dtype;
  const unsigned size = bits_of(wanted) / 8;
  record_elements(target, nest, begin, end);
  if (dtype == wanted) {
    for_each_part(nest, begin, end, [&](Nest part) {
      part.source -= begin;
      store(target, part, bytes, size);
    });
    return;
  }
  const unsigned stored_size = bits_of(dtype) / 8;
  const bool is_run = nest.rank == 0 || (nest.rank == 1 && nest.axes[0].source == 1 && nest.axes[0].target == 1);
  if (is_run && target.move->action == plan::Action::write && !target.is_device() &&
      engine_.options.faults == nullptr) {
    // Straight into place.
    for_each_part(nest, begin, end, [&](const Nest& part) {
      const std::uint64_t count = part.element_count();
      engine_.mark_writing();
      {
        const Timed timed(phases.transform);
        convert(bytes + (part.source - begin) * stored_size, dtype, target.destination.base + part.target * size,
                wanted, static_cast<std::size_t>(count));
      }
      count_copy(target.move->tensor, count * size);
      counters.written_bytes += count * size;
      if (engine_.is_hot(target.move->tensor)) {
        const Timed timed(phases.digest);
        engine_.digests()->arrived(target.move->tensor, part.target * size,
                                   {target.destination.base + part.target * size, count * size});
        counters.hot_digests += count * size;
      }
      engine_.finish(target.index, count * size, phases.digest);
    });
    return;
  }
  alignas(64) std::array<std::byte, 16 * 1024> small;
  const std::span<std::byte> block = tile_.size() >= small.size() ? tile_ : std::span<std::byte>(small);
  const std::uint64_t block_elements = block.size() / std::max(size, stored_size);
  for (std::uint64_t at = begin; at < end; at += block_elements) {
    engine_.check();
    const std::uint64_t count = std::min(block_elements, end - at);
    {
      const Timed timed(phases.transform);
      convert(bytes + (at - begin) * stored_size, dtype, block.data(), wanted, static_cast<std::size_t>(count));
    }
    for_each_part(nest, at, at + count, [&](Nest part) {
      part.source -= at;
      store(target, part, block.data(), size);
    });
    end_lease(block.first(count * size));
  }
}

void Worker::store(const Target& target, const Nest& part, const std::byte* bytes, unsigned element_bytes) {
  const std::uint64_t stored = part.element_count() * element_bytes;
  if (stored == 0) return;
  if (target.move->action == plan::Action::compare) {
    const Timed timed(phases.compare);
    target.is_device() ? compare_on_device(target, part, bytes, element_bytes)
                       : compare(target, part, bytes, element_bytes);
    counters.compared_bytes += stored;
    engine_.finish(target.index, stored, phases.digest);
    return;
  }
  engine_.mark_writing();
  counters.written_bytes += stored;
  if (target.is_device()) return store_on_device(target, part, bytes, element_bytes);
  const PieceFault fault = fault_of(target, part, element_bytes);
  for (unsigned left = fault.kind() == Fault::copy_twice ? 2 : 1; left != 0; --left) {
    const Timed timed(phases.transform);
    copy_nest(part, bytes, target.destination.base, element_bytes);
    count_copy(target.move->tensor, stored);
  }
  fault.apply();
  if (engine_.is_hot(target.move->tensor)) {
    // Of such a tensor every part is one run.
    const Timed timed(phases.digest);
    engine_.digests()->arrived(target.move->tensor, part.target * element_bytes,
                               {target.destination.base + part.target * element_bytes, stored});
    counters.hot_digests += stored;
  }
  engine_.finish(target.index, stored, phases.digest);
}

PieceFault Worker::fault_of(const Target& target, const Nest& part, unsigned element_bytes) {
  if (engine_.options.faults == nullptr) return {};
  const Fault fault = engine_.next_fault(target.move->tensor);
  if (fault == Fault::none) return {};
  ++counters.faults;
  const Shape& shape = plan_.shape_of(*target.tensor);
  const std::uint64_t row = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  const unsigned size = std::max(1u, bits_of(target.tensor->dtype) / 8);
  return {fault, part, target.destination.base, element_bytes, row * size / element_bytes};
}

void Worker::store_on_device(const Target& target, const Nest& part, const std::byte* bytes, unsigned element_bytes) {
  for_each_chunk(part, limits::read_bytes_max / element_bytes, [&](const Nest& chunk) {
    engine_.check();
    Slot& slot = next_slot();
    Nest packed;
    const Nest out = pack_by_target(chunk, packed);
    {
      const Timed timed(phases.transform);
      copy_nest(packed, bytes, slot.buffer.data(), element_bytes);
    }
    count_copy(target.move->tensor, chunk.element_count() * element_bytes);
    std::array<LaneCopy, 256> copies;
    std::size_t count = 0;
    for_each_lane_copy(out, target.destination.base, slot.buffer.data(), element_bytes, [&](const LaneCopy& copy) {
      if (count == copies.size()) {
        submit(slot, copies);
        count = 0;
      }
      copies[count++] = copy;
    });
    submit(slot, std::span(copies).first(count));
    slot.pending.push_back({target.index, chunk.element_count() * element_bytes});
  });
}

void Worker::throw_different(const Target& target, std::uint64_t target_element, const std::byte* found,
                             const std::byte* held, unsigned element_bytes) {
  const StoredTensor& row = plan_.catalog().tensors()[target.move->row];
  ErrorFacts facts;
  facts.file = plan_.catalog().files()[row.file];
  facts.keys = {std::string(row.key), std::string(target.tensor->key)};
  if (target.is_dense && element_bytes * 8 == bits_of(target.tensor->dtype)) {
    const Coordinate at = coordinate_of(plan_.shape_of(*target.tensor), target_element);
    facts.coordinate.assign(at.begin(), at.end());
  }
  facts.expected = hex(held, element_bytes);
  facts.actual = hex(found, element_bytes);
  if (target.move->rule != k_no_id) facts.notes.push_back("rule: " + plan_.schema().rule(target.move->rule));
  facts.hint = "the two names must hold the same values, or the config must not tie them";
  std::string where = facts.coordinate.empty() ? "" : " at [";
  for (std::size_t i = 0; i < facts.coordinate.size(); ++i) {
    where += (i == 0 ? "" : ",") + std::to_string(facts.coordinate[i]);
  }
  if (!facts.coordinate.empty()) where += "]";
  throw Error(ErrorCode::tied_values_differ,
              "'" + facts.keys[0] + "' must equal '" + facts.keys[1] + "' and differs" + where + ": " + facts.actual +
                  " instead of " + facts.expected,
              std::move(facts));
}

void Worker::compare(const Target& target, const Nest& part, const std::byte* bytes, unsigned element_bytes) {
  const std::optional<Difference> difference = first_difference(part, bytes, target.destination.base, element_bytes);
  if (!difference) return;
  // Runs are compared as bytes; what is named is an element.
  const unsigned whole = std::max(1u, bits_of(target.tensor->dtype) / 8);
  const unsigned scale = element_bytes < whole ? whole : 1;
  const std::uint64_t shift = difference->target % scale;
  throw_different(target, difference->target / scale, bytes + (difference->source - shift) * element_bytes,
                  target.destination.base + (difference->target - shift) * element_bytes, element_bytes * scale);
}

void Worker::compare_on_device(const Target& target, const Nest& part, const std::byte* bytes, unsigned element_bytes) {
  drain_slots();
  Slot& slot = next_slot();
  for_each_chunk(part, limits::read_bytes_max / element_bytes, [&](const Nest& chunk) {
    for_each_lane_copy(chunk, target.destination.base, bytes, element_bytes, [&](const LaneCopy& copy) {
      for (std::size_t row = 0; row < copy.rows; ++row) {
        engine_.check();
        const std::byte* device = copy.device + row * copy.device_pitch;
        const std::byte* found = copy.host + row * copy.host_pitch;
        engine_.options.lane->read_back(slot.buffer.data(), device, copy.width);
        if (std::memcmp(slot.buffer.data(), found, copy.width) == 0) continue;
        const unsigned whole = std::max(1u, bits_of(target.tensor->dtype) / 8);
        const auto at =
            static_cast<std::size_t>(std::mismatch(found, found + copy.width, slot.buffer.data()).first - found);
        const std::size_t element = at / whole * whole;
        throw_different(target, (static_cast<std::uint64_t>(device - target.destination.base) + element) / whole,
                        found + element, slot.buffer.data() + element, whole);
      }
    });
  });
  slot.is_lent = false;
}

void Worker::fill(std::uint32_t index) {
  const Target target = engine_.target_of(index);
  const std::uint64_t left = engine_.left_of(index);
  if (left == 0) return;
  const unsigned bits = bits_of(target.tensor->dtype);
  std::array<std::byte, 8> value{};
  Nest nest;
  unsigned size = bits / 8;
  if (bits % 8 == 0) {
    encode_value(target.move->value, target.tensor->dtype, value.data());
    nest = nest_of(target);
  } else {
    // Zero is zero in whatever width; the run must lie on bytes.
    const View view = plan_.target_view(*target.move);
    if (target.move->value != 0 || !view.is_contiguous() || view.offset() * bits % 8 != 0 ||
        view.element_count() * bits % 8 != 0) {
      ErrorFacts facts;
      facts.keys.emplace_back(target.tensor->key);
      throw Error(ErrorCode::dtype_unsupported,
                  "a constant in '" + facts.keys[0] + "' cannot be written into parts of bytes", std::move(facts));
    }
    size = 1;
    nest.rank = 1;
    nest.axes[0] = {left, 1, 1};
    nest.target = view.offset() * bits / 8;
  }
  populate(*target.tensor, 0, target.tensor->bytes);
  engine_.mark_writing();
  record_write(target, plan_.target_view(*target.move));
  counters.written_bytes += left;
  if (!target.is_device()) {
    const Timed timed(phases.transform);
    fill_nest(nest, value.data(), target.destination.base, size);
    engine_.finish(index, left, phases.digest);
    return;
  }
  // A block of the value, sent as often as it is needed.
  std::vector<std::byte> block(std::min<std::uint64_t>(left, 64 * 1024) / size * size);
  for (std::size_t at = 0; at < block.size(); at += size) std::memcpy(block.data() + at, value.data(), size);
  for_each_chunk(nest, block.size() / size, [&](const Nest& chunk) {
    Nest packed;
    Nest from = pack_by_target(chunk, packed);
    from.normalise();
    store_on_device(target, from, block.data(), size);
  });
}

}  // namespace weightproof::exec
