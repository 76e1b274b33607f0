// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/native_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "loader/core/error.hpp"

namespace weightproof::suites {
namespace {

constexpr std::uint64_t k_alignment = 64;

struct Interval {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

}  // namespace

Box hull_of(const View& view, const Shape& shape) {
  Box box;
  box.start = coordinate_of(shape, view.offset());
  box.length = shape;
  const Extents strides = contiguous_strides(shape);
  std::uint64_t last = view.offset();
  for (unsigned axis = 0; axis < shape.rank(); ++axis) {
    box.length[axis] = 1;
  }
  bool is_by_axes = true;
  for (unsigned axis = 0; axis < view.rank(); ++axis) {
    const std::uint64_t steps = view.extents()[axis] - 1;
    const std::uint64_t stride = view.strides()[axis];
    last += steps * stride;
    if (steps == 0) {
      continue;
    }
    unsigned home = 0;
    while (home < shape.rank() && strides[home] > stride) {
      ++home;
    }
    if (home == shape.rank() || stride % strides[home] != 0) {
      is_by_axes = false;
      continue;
    }
    box.length[home] += steps * (stride / strides[home]);
  }
  for (unsigned axis = 0; axis < shape.rank(); ++axis) {
    is_by_axes = is_by_axes && box.start[axis] + box.length[axis] <= shape[axis];
  }
  if (is_by_axes) {
    return box;
  }
  // Steps that carry from one axis into the next: everything between the first and the last element.
  const Coordinate end = coordinate_of(shape, last);
  bool is_fixed = true;
  for (unsigned axis = 0; axis < shape.rank(); ++axis) {
    box.length[axis] = is_fixed ? end[axis] - box.start[axis] + 1 : shape[axis];
    box.start[axis] = is_fixed ? box.start[axis] : 0;
    is_fixed = is_fixed && box.length[axis] == 1;
  }
  return box;
}

LocalTensor cover(const Shape& shape, std::span<const Box> boxes) {
  LocalTensor out;
  if (shape.rank() == 0) {
    out.pieces.push_back({Box::whole(shape), Box::whole(shape)});
    return out;
  }
  Box hull = boxes.front();
  std::vector<Interval> rows;
  for (const Box& box : boxes) {
    rows.push_back({box.start[0], box.start[0] + box.length[0]});
    for (unsigned axis = 1; axis < shape.rank(); ++axis) {
      const std::uint64_t end = std::max(hull.start[axis] + hull.length[axis], box.start[axis] + box.length[axis]);
      hull.start[axis] = std::min(hull.start[axis], box.start[axis]);
      hull.length[axis] = end - hull.start[axis];
    }
  }
  std::sort(rows.begin(), rows.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> joined;
  for (const Interval& row : rows) {
    if (!joined.empty() && row.begin <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, row.end);
    } else {
      joined.push_back(row);
    }
  }
  std::uint64_t next = 0;
  for (const Interval& row : joined) {
    Box global = hull;
    global.start[0] = row.begin;
    global.length[0] = row.end - row.begin;
    Box local = global;
    for (unsigned axis = 0; axis < shape.rank(); ++axis) {
      local.start[axis] = 0;
    }
    local.start[0] = next;
    next += global.length[0];
    out.pieces.push_back({global, local});
  }
  out.shape = hull.length;
  out.shape[0] = next;
  return out;
}

NativeMemory::NativeMemory(const plan::Plan& whole) {
  CatalogBuilder builder;
  builder.reserve(whole.tensors().size());
  builder.add_file("native state");
  for (const plan::PlannedTensor& tensor : whole.tensors()) {
    StoredTensor row;
    row.key = tensor.key;
    row.shape = whole.shape_of(tensor);
    row.dtype = tensor.dtype;
    row.begin = bytes_;
    row.bytes = tensor.bytes;
    row.is_described = true;
    builder.add_copy(row);
    bytes_ += (tensor.bytes + k_alignment - 1) / k_alignment * k_alignment;
  }
  catalog_ = std::make_shared<const Catalog>(std::move(builder).finish());
  descriptor_ = ::memfd_create("weightproof-native-state", MFD_CLOEXEC);
  if (descriptor_ < 0 || ::ftruncate(descriptor_, static_cast<off_t>(bytes_)) != 0) {
    throw Error(ErrorCode::io_error, "no file in memory can be made: " + std::generic_category().message(errno));
  }
}

NativeMemory::~NativeMemory() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

void NativeMemory::hold(std::vector<NativePart> parts) {
  parts_ = std::move(parts);
  std::sort(parts_.begin(), parts_.end(), [](const NativePart& a, const NativePart& b) { return a.row < b.row; });
}

int NativeMemory::open(const char*, int) { return ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0); }

std::int64_t NativeMemory::pread(int, void* buffer, std::size_t bytes, std::int64_t offset) {
  const auto at = static_cast<std::uint64_t>(offset);
  const std::size_t size = at >= bytes_ ? 0 : static_cast<std::size_t>(std::min<std::uint64_t>(bytes, bytes_ - at));
  read(at, {static_cast<std::byte*>(buffer), size});
  return static_cast<std::int64_t>(size);
}

std::int64_t NativeMemory::preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) {
  std::int64_t done = 0;
  for (int i = 0; i < count; ++i) {
    const std::int64_t got = pread(fd, parts[i].iov_base, parts[i].iov_len, offset + done);
    done += got;
    if (static_cast<std::size_t>(got) < parts[i].iov_len) {
      break;
    }
  }
  return done;
}

void NativeMemory::read(std::uint64_t offset, std::span<std::byte> target) const {
  std::memset(target.data(), 0, target.size());
  const std::uint64_t end = offset + target.size();
  const auto rows = catalog_->tensors();
  auto part = std::partition_point(parts_.begin(), parts_.end(), [&](const NativePart& each) {
    return rows[each.row].begin + rows[each.row].bytes <= offset;
  });
  for (; part != parts_.end() && rows[part->row].begin < end; ++part) {
    const StoredTensor& row = rows[part->row];
    const std::uint64_t from = std::max(offset, row.begin);
    const std::uint64_t to = std::min(end, row.begin + row.bytes);
    if (from < to) {
      read_tensor(row, *part, from - row.begin,
                  target.subspan(static_cast<std::size_t>(from - offset), static_cast<std::size_t>(to - from)));
    }
  }
}

// Run by run of the innermost axis that is taken in part; a tensor that is there whole is one run.
void NativeMemory::read_tensor(const StoredTensor& row, const NativePart& part, std::uint64_t first,
                               std::span<std::byte> target) const {
  const unsigned bits = bits_of(row.dtype);
  if (row.shape.rank() == 0 || part.local.shape == row.shape) {
    std::memcpy(target.data(), part.bytes.data() + first, target.size());
    return;
  }
  const std::uint64_t size = bits / 8;
  const std::uint64_t end = first + target.size();
  for (const LocalPiece& piece : part.local.pieces) {
    // Axes behind the last one that is cut are whole: together with it they are one run.
    unsigned axis = row.shape.rank() - 1;
    std::uint64_t inner = size;
    while (axis > 0 && piece.global.length[axis] == row.shape[axis]) {
      inner *= row.shape[axis--];
    }
    const std::uint64_t run = piece.global.length[axis] * inner;
    std::uint64_t outer = 1;
    for (unsigned i = 0; i < axis; ++i) {
      outer *= piece.global.length[i];
    }
    // Runs follow each other in the local tensor; in the whole one they ascend.
    const std::uint64_t place = linear_index(part.local.shape, piece.local.start) * size;
    const auto begin_of = [&](std::uint64_t i) {
      Coordinate at = piece.global.start;
      for (unsigned a = axis; a-- > 0;) {
        at[a] = piece.global.start[a] + i % piece.global.length[a];
        i /= piece.global.length[a];
      }
      return linear_index(row.shape, at) * size;
    };
    std::uint64_t low = 0;
    for (std::uint64_t high = outer; low < high;) {
      const std::uint64_t middle = low + (high - low) / 2;
      (begin_of(middle) + run <= first ? low : high) = begin_of(middle) + run <= first ? middle + 1 : middle;
    }
    for (std::uint64_t i = low; i < outer; ++i) {
      const std::uint64_t begin = begin_of(i);
      if (begin >= end) {
        break;
      }
      const std::uint64_t from = std::max(begin, first);
      const std::uint64_t to = std::min(begin + run, end);
      std::memcpy(target.data() + (from - first), part.bytes.data() + place + i * run + (from - begin),
                  static_cast<std::size_t>(to - from));
    }
  }
}

}  // namespace weightproof::suites
