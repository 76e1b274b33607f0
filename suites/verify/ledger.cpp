// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/ledger.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "loader/core/limits.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites {
namespace {

constexpr unsigned k_word_bits = 64;

// Bits [begin, end) of a word, end <= 64.
std::uint64_t bits_between(unsigned begin, unsigned end) {
  const std::uint64_t below_end = end == k_word_bits ? ~std::uint64_t{0} : (std::uint64_t{1} << end) - 1;
  return below_end & ~((std::uint64_t{1} << begin) - 1);
}

// Calls `use(first, count)` for every run of consecutive elements of the view.
template <typename Use>
void for_each_run(const View& view, const Use& use) {
  const unsigned rank = view.rank();
  if (view.element_count() == 0) {
    return;
  }
  const bool has_run = rank != 0 && (view.strides()[rank - 1] == 1 || view.extents()[rank - 1] == 1);
  const unsigned outer = has_run ? rank - 1 : rank;
  const std::uint64_t length = has_run ? view.extents()[rank - 1] : 1;
  std::array<std::uint64_t, limits::rank_max> at{};
  std::uint64_t first = view.offset();
  for (;;) {
    use(first, length);
    unsigned axis = outer;
    for (; axis > 0; --axis) {
      first += view.strides()[axis - 1];
      if (++at[axis - 1] < view.extents()[axis - 1]) {
        break;
      }
      first -= view.strides()[axis - 1] * view.extents()[axis - 1];
      at[axis - 1] = 0;
    }
    if (axis == 0) {
      return;
    }
  }
}

}  // namespace

void ByteRanges::add(std::uint64_t begin, std::uint64_t end) {
  if (begin >= end) {
    return;
  }
  auto next = ranges_.upper_bound(begin);
  if (next != ranges_.begin()) {
    const auto before = std::prev(next);
    if (before->second >= begin) {
      begin = before->first;
      end = std::max(end, before->second);
      next = ranges_.erase(before);
    }
  }
  while (next != ranges_.end() && next->first <= end) {
    end = std::max(end, next->second);
    next = ranges_.erase(next);
  }
  ranges_.emplace(begin, end);
}

std::optional<std::uint64_t> ByteRanges::first_missing(std::uint64_t begin, std::uint64_t end) const {
  if (begin >= end) {
    return std::nullopt;
  }
  const auto next = ranges_.upper_bound(begin);
  if (next == ranges_.begin()) {
    return begin;
  }
  const std::uint64_t reached = std::prev(next)->second;
  if (reached >= end) {
    return std::nullopt;
  }
  return std::max(begin, reached);
}

std::uint64_t ByteRanges::covered(std::uint64_t begin, std::uint64_t end) const {
  std::uint64_t bytes = 0;
  auto range = ranges_.upper_bound(begin);
  if (range != ranges_.begin()) {
    --range;
  }
  for (; range != ranges_.end() && range->first < end; ++range) {
    const std::uint64_t from = std::max(begin, range->first);
    const std::uint64_t to = std::min(end, range->second);
    bytes += to > from ? to - from : 0;
  }
  return bytes;
}

void ElementMarks::reset(std::uint64_t elements) {
  elements_ = elements;
  words_.assign(static_cast<std::size_t>((elements + k_word_bits - 1) / k_word_bits), 0);
}

std::optional<std::uint64_t> ElementMarks::mark(std::uint64_t begin, std::uint64_t count) {
  std::optional<std::uint64_t> first;
  const std::uint64_t end = begin + count;
  while (begin < end) {
    std::uint64_t& word = words_.at(static_cast<std::size_t>(begin / k_word_bits));
    const unsigned from = static_cast<unsigned>(begin % k_word_bits);
    const unsigned to = static_cast<unsigned>(std::min<std::uint64_t>(k_word_bits, from + (end - begin)));
    const std::uint64_t bits = bits_between(from, to);
    if (!first && (word & bits) != 0) {
      first = begin / k_word_bits * k_word_bits + static_cast<unsigned>(std::countr_zero(word & bits));
    }
    word |= bits;
    begin += to - from;
  }
  return first;
}

std::optional<std::uint64_t> ElementMarks::first_clear() const {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (words_[i] == ~std::uint64_t{0}) {
      continue;
    }
    const std::uint64_t element = i * k_word_bits + static_cast<unsigned>(std::countr_one(words_[i]));
    return element < elements_ ? std::optional(element) : std::nullopt;
  }
  return std::nullopt;
}

void LedgerChecker::add(const plan::Plan& plan, const exec::Ledger& ledger, std::span<const Coordinate> origin,
                        std::vector<LedgerFault>& faults) {
  std::vector<exec::SourceRange> ranges = ledger.read;
  std::sort(ranges.begin(), ranges.end(), [](const exec::SourceRange& a, const exec::SourceRange& b) {
    return a.file != b.file ? a.file < b.file : a.offset < b.offset;
  });
  for (const exec::SourceRange& range : ranges) {
    read_.at(range.file).add(range.offset, range.offset + range.bytes);
  }
  ranges_ += ranges.size();
  regions_ += ledger.written.size();

  std::vector<const exec::WrittenRegion*> order;
  for (const exec::WrittenRegion& region : ledger.written) {
    order.push_back(&region);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->tensor < b->tensor; });
  auto next = order.begin();
  for (std::uint32_t i = 0; i < plan.tensors().size(); ++i) {
    const plan::PlannedTensor& tensor = plan.tensors()[i];
    const Shape& shape = plan.shape_of(tensor);
    const bool is_by_bytes = bits_of(tensor.dtype) % 8 != 0;
    const std::uint64_t elements = element_count(shape).value_or(0);
    const std::uint64_t units = is_by_bytes ? tensor.bytes : elements;
    const auto place = [&](std::uint64_t unit) {
      const std::uint64_t element = is_by_bytes ? unit * 8 / bits_of(tensor.dtype) : unit;
      Coordinate at = coordinate_of(shape, element);
      for (unsigned axis = 0; axis < at.rank() && axis < origin[i].rank(); ++axis) {
        at[axis] += origin[i][axis];
      }
      return to_string(at);
    };
    marks_.reset(units);
    std::optional<std::uint64_t> twice;
    std::optional<std::uint64_t> outside;
    for (; next != order.end() && (*next)->tensor == i; ++next) {
      for_each_run((*next)->region, [&](std::uint64_t first, std::uint64_t count) {
        if (first >= units || count > units - first) {
          outside = outside ? outside : std::optional(first);
          return;
        }
        const auto again = marks_.mark(first, count);
        twice = twice ? twice : again;
      });
    }
    if (outside) {
      faults.push_back({std::string(tensor.key), " was written beyond its end"});
    } else if (twice) {
      faults.push_back({std::string(tensor.key), place(*twice) + " was written twice"});
    } else if (const auto hole = marks_.first_clear()) {
      faults.push_back({std::string(tensor.key), place(*hole) + " was written by nobody"});
    }
  }
}

void LedgerChecker::finish(const std::vector<bool>& is_declared, std::vector<LedgerFault>& faults) const {
  const auto rows = catalog_.tensors();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const StoredTensor& row = rows[i];
    const std::uint64_t end = row.begin + row.bytes;
    if (!is_declared[i]) {
      if (const auto missing = read_[row.file].first_missing(row.begin, end)) {
        faults.push_back({std::string(row.key), ": its byte " + grouped(*missing - row.begin) + " of " +
                                                    grouped(row.bytes) + " was never read"});
      }
    } else if (row.bytes > limits::read_gap_bytes_max && read_[row.file].covered(row.begin, end) == row.bytes) {
      faults.push_back({std::string(row.key), " is left out on purpose and was read all the same"});
    }
  }
}

}  // namespace weightproof::suites
