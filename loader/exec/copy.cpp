// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "loader/core/error.hpp"
#include "loader/exec/copy_internal.hpp"

namespace weightproof::exec {
namespace {

constexpr std::size_t k_line = 64;

/// Loops of a nest in bytes: outer axes, and what is left for a kernel.
struct ByteAxis {
  std::uint64_t extent;
  std::size_t source;
  std::size_t target;
};

template <typename Body>
void for_outer(const ByteAxis* axes, unsigned rank, const std::byte* source, std::byte* target, const Body& body) {
  if (rank == 0) return body(source, target);
  for (std::uint64_t i = 0; i < axes->extent; ++i) {
    for_outer(axes + 1, rank - 1, source + i * axes->source, target + i * axes->target, body);
  }
}

template <std::size_t Bytes>
struct Element {
  unsigned char bytes[Bytes];
};

/// One axis, elements of a fixed size apart by strides.
template <std::size_t Bytes>
void copy_line(const ByteAxis& axis, const std::byte* source, std::byte* target) {
  for (std::uint64_t i = 0; i < axis.extent; ++i) {
    Element<Bytes> element;
    std::memcpy(&element, source + i * axis.source, Bytes);
    std::memcpy(target + i * axis.target, &element, Bytes);
  }
}

#if defined(__GNUC__) && defined(__SSE2__)
using Lane16 = long long __attribute__((vector_size(16)));

void write_line(std::byte* target, const std::byte* line) {
  for (std::size_t at = 0; at < k_line; at += 16) {
    Lane16 lane;
    std::memcpy(&lane, line + at, 16);
    __builtin_ia32_movntdq(reinterpret_cast<Lane16*>(target + at), lane);
  }
}
void finish_lines() { __builtin_ia32_sfence(); }
#else
void write_line(std::byte* target, const std::byte* line) { std::memcpy(target, line, k_line); }
void finish_lines() {}
#endif

/// Vectors of 16 bytes with elements of a size; two rows zipped: a0 b0 a1 b1 ...
template <std::size_t Bytes>
struct Vector;
template <>
struct Vector<1> {
  using Type = std::uint8_t __attribute__((vector_size(16)));
  static Type low(Type a, Type b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  }
  static Type high(Type a, Type b) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  }
};
template <>
struct Vector<2> {
  using Type = std::uint16_t __attribute__((vector_size(16)));
  static Type low(Type a, Type b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
  static Type high(Type a, Type b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
};
template <>
struct Vector<4> {
  using Type = std::uint32_t __attribute__((vector_size(16)));
  static Type low(Type a, Type b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
  static Type high(Type a, Type b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
};
template <>
struct Vector<8> {
  using Type = std::uint64_t __attribute__((vector_size(16)));
  static Type low(Type a, Type b) { return __builtin_shufflevector(a, b, 0, 2); }
  static Type high(Type a, Type b) { return __builtin_shufflevector(a, b, 1, 3); }
};

/// N rows of N elements (16 bytes each) become N columns: zipping row i with row i + N/2, as often as N halves.
template <std::size_t Bytes>
void transpose_square(const std::byte* source, std::size_t source_row, std::byte* target, std::size_t target_row) {
  constexpr std::size_t n = 16 / Bytes;
  using V = Vector<Bytes>;
  typename V::Type rows[n];
  typename V::Type zipped[n];
  for (std::size_t i = 0; i < n; ++i) std::memcpy(&rows[i], source + i * source_row, 16);
  for (std::size_t step = 1; step < n; step *= 2) {
    for (std::size_t i = 0; i < n / 2; ++i) {
      zipped[2 * i] = V::low(rows[i], rows[i + n / 2]);
      zipped[2 * i + 1] = V::high(rows[i], rows[i + n / 2]);
    }
    for (std::size_t i = 0; i < n; ++i) rows[i] = zipped[i];
  }
  for (std::size_t i = 0; i < n; ++i) std::memcpy(target + i * target_row, &rows[i], 16);
}

/// The plain way, for edges.
template <std::size_t Bytes>
void transpose_any(const std::byte* source, std::size_t source_row, std::uint64_t rows, std::byte* target,
                   std::size_t target_row, std::uint64_t columns) {
  for (std::uint64_t column = 0; column < columns; ++column) {
    for (std::uint64_t row = 0; row < rows; ++row) {
      std::memcpy(target + column * target_row + row * Bytes, source + row * source_row + column * Bytes, Bytes);
    }
  }
}

/// rows x columns of the source, columns dense there; column c of the source is row c of the target, dense there.
/// Blocks of one cache line square are turned in a buffer of their own, so that every line of the target is written
/// once and whole, past the caches where it is aligned.
template <std::size_t Bytes>
void transpose(const std::byte* source, std::size_t source_row, std::uint64_t rows, std::byte* target,
               std::size_t target_row, std::uint64_t columns) {
  constexpr std::uint64_t n = k_line / Bytes;
  constexpr std::uint64_t square = 16 / Bytes;
  alignas(k_line) std::byte block[n * k_line];
  // Rows until the lines of the target begin, where all its rows begin alike.
  const auto address = reinterpret_cast<std::uintptr_t>(target);
  const bool is_aligned = target_row % k_line == 0 && address % Bytes == 0;
  const std::uint64_t head =
      is_aligned ? std::min<std::uint64_t>(rows, (k_line - address % k_line) % k_line / Bytes) : 0;
  transpose_any<Bytes>(source, source_row, head, target, target_row, columns);
  std::uint64_t row = head;
  for (; row + n <= rows; row += n) {
    const std::byte* from = source + row * source_row;
    std::byte* to = target + row * Bytes;
    std::uint64_t column = 0;
    for (; column + n <= columns; column += n) {
      for (std::uint64_t r = 0; r < n; r += square) {
        for (std::uint64_t c = 0; c < n; c += square) {
          transpose_square<Bytes>(from + r * source_row + (column + c) * Bytes, source_row,
                                  block + c * k_line + r * Bytes, k_line);
        }
      }
      if (is_aligned) {
        for (std::uint64_t c = 0; c < n; ++c) write_line(to + (column + c) * target_row, block + c * k_line);
      } else {
        for (std::uint64_t c = 0; c < n; ++c) std::memcpy(to + (column + c) * target_row, block + c * k_line, k_line);
      }
    }
    transpose_any<Bytes>(from + column * Bytes, source_row, n, to + column * target_row, target_row, columns - column);
  }
  transpose_any<Bytes>(source + row * source_row, source_row, rows - row, target + row * Bytes, target_row, columns);
  if (is_aligned) finish_lines();
}

/// What is left of a nest once runs that are dense on both sides are one element.
struct Loops {
  std::array<ByteAxis, k_nest_axes_max> axes{};
  unsigned rank = 0;
  std::size_t run = 0;  ///< bytes
};

Loops loops_of(Nest nest, unsigned element_bytes) {
  nest.normalise();
  Loops loops;
  loops.run = element_bytes;
  if (nest.rank != 0 && nest.axes[nest.rank - 1].source == 1 && nest.axes[nest.rank - 1].target == 1) {
    loops.run *= nest.axes[--nest.rank].extent;
  }
  for (unsigned i = 0; i < nest.rank; ++i) {
    loops.axes[loops.rank++] = {nest.axes[i].extent, nest.axes[i].source * element_bytes,
                                nest.axes[i].target * element_bytes};
  }
  return loops;
}

template <std::size_t Bytes>
void copy_elements(Loops& loops, const std::byte* source, std::byte* target) {
  if (loops.rank == 0) {
    std::memcpy(target, source, Bytes);
    return;
  }
  // The last axis is the densest in the source; the densest in the target is sought.
  unsigned dense = loops.rank - 1;
  for (unsigned i = 0; i + 1 < loops.rank; ++i) {
    if (loops.axes[i].target < loops.axes[dense].target) dense = i;
  }
  const ByteAxis line = loops.axes[loops.rank - 1];
  if constexpr (Bytes <= 8) {
    const ByteAxis across = loops.axes[dense];
    if (dense != loops.rank - 1 && line.source == Bytes && across.target == Bytes) {
      for (unsigned i = dense; i + 2 < loops.rank; ++i) loops.axes[i] = loops.axes[i + 1];
      loops.rank -= 2;
      for_outer(loops.axes.data(), loops.rank, source, target, [&](const std::byte* from, std::byte* to) {
        transpose<Bytes>(from, across.source, across.extent, to, line.target, line.extent);
      });
      return;
    }
  }
  for_outer(loops.axes.data(), loops.rank - 1, source, target,
            [&](const std::byte* from, std::byte* to) { copy_line<Bytes>(line, from, to); });
}

}  // namespace

void copy_nest(const Nest& nest, const std::byte* source, std::byte* target, unsigned element_bytes) {
  if (nest.element_count() == 0) return;
  source += nest.source * element_bytes;
  target += nest.target * element_bytes;
  Loops loops = loops_of(nest, element_bytes);
  switch (loops.run) {
    case 1:
      return copy_elements<1>(loops, source, target);
    case 2:
      return copy_elements<2>(loops, source, target);
    case 4:
      return copy_elements<4>(loops, source, target);
    case 8:
      return copy_elements<8>(loops, source, target);
    case 16:
      return copy_elements<16>(loops, source, target);
    default:
      for_outer(loops.axes.data(), loops.rank, source, target,
                [&](const std::byte* from, std::byte* to) { std::memcpy(to, from, loops.run); });
  }
}

std::optional<Difference> first_difference(const Nest& nest, const std::byte* source, const std::byte* target,
                                           unsigned element_bytes) {
  std::optional<Difference> found;
  if (nest.element_count() == 0) return found;
  const Loops loops = loops_of(nest, element_bytes);
  const auto compare = [&](const std::byte* from, std::byte* to) {
    if (std::memcmp(from, to, loops.run) == 0) return;
    std::size_t at = 0;
    while (from[at] == to[at]) ++at;
    const Difference difference{(static_cast<std::uint64_t>(from - source) + at) / element_bytes,
                                (static_cast<std::uint64_t>(to - target) + at) / element_bytes};
    if (!found || difference.source < found->source) found = difference;
  };
  // The target is only read; for_outer() knows one type for it.
  for_outer(loops.axes.data(), loops.rank, source + nest.source * element_bytes,
            const_cast<std::byte*>(target) + nest.target * element_bytes, compare);
  return found;
}

void fill_nest(const Nest& nest, const std::byte* value, std::byte* target, unsigned element_bytes) {
  if (nest.element_count() == 0) return;
  Nest write = nest;
  for (unsigned i = 0; i < write.rank; ++i) write.axes[i].source = write.axes[i].target;
  write.source = write.target;
  const Loops loops = loops_of(write, element_bytes);
  for_outer(loops.axes.data(), loops.rank, target + write.target * element_bytes, target + write.target * element_bytes,
            [&](const std::byte*, std::byte* to) {
              for (std::size_t at = 0; at < loops.run; at += element_bytes) std::memcpy(to + at, value, element_bytes);
            });
}

Nest pack_by_target(const Nest& nest, Nest& packed) {
  Nest out = nest;
  std::stable_sort(out.axes.begin(), out.axes.begin() + out.rank,
                   [](const NestAxis& a, const NestAxis& b) { return a.target > b.target; });
  packed = out;
  packed.target = 0;
  out.source = 0;
  std::uint64_t stride = 1;
  for (unsigned i = out.rank; i-- > 0;) {
    packed.axes[i].target = stride;
    out.axes[i].source = stride;
    stride *= out.axes[i].extent;
  }
  return out;
}

}  // namespace weightproof::exec
