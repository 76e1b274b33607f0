// SPDX-License-Identifier: Apache-2.0
// What the entries of a header must be to each other: names differ, ranges tile the data buffer, sizes follow from
// shape and dtype.
#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "loader/storage/header_internal.hpp"
#include "loader/storage/huge_pages_internal.hpp"

namespace weightproof::storage::detail {
namespace {

constexpr std::size_t k_names_ahead = 16;

struct Twins {
  std::uint32_t first = 0;
  std::uint32_t second = 0;
};

std::optional<Twins> find_twins(const std::vector<HeaderTensor>& tensors, std::span<const std::uint32_t> hashes) {
  if (tensors.size() < 2) return std::nullopt;
  // A slot holds a hash and a position + 1. Two thirds full at most.
  const std::size_t slots = std::bit_ceil(tensors.size() + tensors.size() / 2);
  const std::uint64_t mask = slots - 1;
  std::vector<std::uint64_t> table;
  table.reserve(slots);
  advise_huge_pages(table.data(), slots * sizeof(table[0]));
  table.resize(slots, 0);
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    // Slots lie all over a table larger than the caches: they are asked for some names ahead.
    if (tensors.size() - i > k_names_ahead) __builtin_prefetch(&table[hashes[i + k_names_ahead] & mask], 1);
    for (std::uint64_t slot = hashes[i] & mask;; slot = (slot + 1) & mask) {
      const std::uint64_t held = table[slot];
      if (held == 0) {
        table[slot] = (std::uint64_t{hashes[i]} << 32) | (i + 1U);
        break;
      }
      if ((held >> 32) != hashes[i]) continue;
      const std::uint32_t other = static_cast<std::uint32_t>(held) - 1U;
      if (tensors[other].name == tensors[i].name) return Twins{other, i};
    }
  }
  return std::nullopt;
}

Error range_error(ErrorCode code, const Header& header, const HeaderTensor& tensor, const std::string& what,
                  std::string expected, std::string actual, std::string hint) {
  ErrorFacts facts;
  facts.file = header.file;
  facts.byte_offset = 8 + std::uint64_t{tensor.header_offset};
  facts.keys.emplace_back(tensor.name);
  facts.expected = std::move(expected);
  facts.actual = std::move(actual);
  facts.hint = std::move(hint);
  return Error(code, "tensor " + shown_name(tensor.name) + ": " + what, std::move(facts));
}

std::string range_text(const HeaderTensor& tensor) {
  return "[" + std::to_string(tensor.begin) + "," + std::to_string(tensor.end) + ")";
}

// Rules 6 to 9 for one tensor.
std::optional<Error> validate_tensor(const Header& header, const HeaderTensor& tensor, unsigned element_bits,
                                     std::uint64_t running_end) {
  if (tensor.begin != running_end) {
    const bool is_overlap = tensor.begin < running_end;
    return range_error(ErrorCode::invalid_offset, header, tensor,
                       "data_offsets begin at " + std::to_string(tensor.begin) + ", but the data before it ends at " +
                           std::to_string(running_end) + (is_overlap ? ": an overlap" : ": a hole"),
                       std::to_string(running_end), std::to_string(tensor.begin),
                       is_overlap ? "two tensors share bytes; write the file again from its source"
                                  : "bytes belong to no tensor; write the file again from its source");
  }
  if (tensor.end < tensor.begin) {
    return range_error(
        ErrorCode::invalid_offset, header, tensor,
        "data_offsets end at " + std::to_string(tensor.end) + ", before they begin at " + std::to_string(tensor.begin),
        "an end of at least " + std::to_string(tensor.begin), std::to_string(tensor.end), {});
  }
  std::uint64_t elements = 1;
  bool is_empty = false;
  for (const std::uint64_t extent : tensor.shape) {
    if (extent == 0) {
      is_empty = true;
    } else if (__builtin_mul_overflow(elements, extent, &elements)) {
      return range_error(ErrorCode::validation_overflow, header, tensor,
                         "the number of elements of shape " + to_string(tensor.shape) + " does not fit 64 bits",
                         "a product of the non-zero dimensions below 2^64", to_string(tensor.shape), {});
    }
  }
  if (is_empty) elements = 0;
  std::uint64_t bits = 0;
  if (__builtin_mul_overflow(elements, std::uint64_t{element_bits}, &bits)) {
    return range_error(ErrorCode::validation_overflow, header, tensor,
                       "the number of bits of shape " + to_string(tensor.shape) + " " +
                           std::string(name_of(tensor.dtype)) + " does not fit 64 bits",
                       "a size in bits below 2^64", to_string(tensor.shape), {});
  }
  if (bits % 8 != 0) {
    return range_error(
        ErrorCode::misaligned_slice, header, tensor,
        std::to_string(elements) + " elements of " + std::string(name_of(tensor.dtype)) + " do not fill whole bytes",
        "a number of bits divisible by 8", std::to_string(bits) + " bits", {});
  }
  if (tensor.end - tensor.begin != bits / 8) {
    return range_error(ErrorCode::tensor_invalid_info, header, tensor,
                       "shape " + to_string(tensor.shape) + " " + std::string(name_of(tensor.dtype)) + " needs " +
                           std::to_string(bits / 8) + " bytes, but data_offsets " + range_text(tensor) + " hold " +
                           std::to_string(tensor.end - tensor.begin),
                       std::to_string(bits / 8), std::to_string(tensor.end - tensor.begin), {});
  }
  return std::nullopt;
}

Error length_error(const Header& header, std::uint64_t data_end) {
  const std::uint64_t held = header.file_bytes - header.data_begin();
  ErrorFacts facts;
  facts.file = header.file;
  facts.expected = std::to_string(data_end) + " data bytes";
  facts.actual = std::to_string(held) + " data bytes";
  if (data_end < held) {
    facts.byte_offset = header.data_begin() + data_end;
    facts.check = "format.trailing";
    facts.hint = "the last bytes belong to no tensor; write the file again from its source";
    return Error(ErrorCode::metadata_incomplete_buffer,
                 "the tensors end after " + std::to_string(data_end) + " data bytes, but the file holds " +
                     std::to_string(held) + ": " + std::to_string(held - data_end) + " trailing bytes",
                 std::move(facts));
  }
  facts.byte_offset = header.file_bytes;
  facts.check = "format.truncated";
  facts.hint = "the file was cut off, most likely while it was copied or downloaded; fetch it again";
  KeyList lost;
  for (const HeaderTensor& tensor : header.tensors) {
    if (tensor.end > held) lost.add(tensor.name, 8 + std::uint64_t{tensor.header_offset});
  }
  facts.keys = lost.keys;
  return Error(ErrorCode::metadata_incomplete_buffer,
               "the tensors end after " + std::to_string(data_end) + " data bytes, but the file holds only " +
                   std::to_string(held) + ": " + std::to_string(lost.count) + " of " +
                   std::to_string(header.tensors.size()) + " tensors are not whole (" + names_text(lost) + ")",
               std::move(facts));
}

// Adds the note on unaligned data, if it applies.
void note_alignment(Header& header, KeyList unaligned) {
  const std::uint64_t data_begin = header.data_begin();
  if (data_begin % 8 == 0 && unaligned.count == 0) return;
  Diagnostic note;
  note.check = "format.alignment";
  note.severity = Severity::note;
  note.message = "the data starts at byte " + std::to_string(data_begin);
  if (data_begin % 8 != 0) note.message += ", not a multiple of 8";
  if (unaligned.count != 0) {
    note.message += "; " + std::to_string(unaligned.count) +
                    " tensors do not start at a multiple of their element size (" + names_text(unaligned) + ")";
  }
  note.facts.file = header.file;
  note.facts.byte_offset = data_begin % 8 != 0 ? data_begin : unaligned.first_offset;
  note.facts.keys = std::move(unaligned.keys);
  note.facts.expected = "a multiple of 8";
  note.facts.actual = std::to_string(data_begin);
  note.facts.hint = "correct, but such data can not be used in place through typed pointers";
  header.diagnostics.push_back(std::move(note));
}

}  // namespace

std::string shown_name(std::string_view name) {
  constexpr std::size_t shown_max = 160;
  std::string text = "'";
  for (const char c : name.substr(0, shown_max)) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      constexpr std::string_view digits = "0123456789abcdef";
      text += "\\x";
      text += digits[byte >> 4];
      text += digits[byte & 15];
    } else {
      text += c;
    }
  }
  if (name.size() > shown_max) {
    // Never cut inside a character.
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0U) == 0x80U) text.pop_back();
    if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0U) text.pop_back();
    text += "...";
  }
  return text + "'";
}

std::string names_text(const KeyList& list) {
  constexpr std::size_t shown_max = 5;
  std::string text;
  const std::size_t shown = std::min(list.keys.size(), shown_max);
  for (std::size_t i = 0; i < shown; ++i) {
    if (i != 0) text += (i + 1 == shown && list.count == shown) ? " and " : ", ";
    text += shown_name(list.keys[i]);
  }
  if (list.count > shown) text += " and " + std::to_string(list.count - shown) + " more";
  return text;
}

std::optional<Error> find_duplicate_name(const Header& header, std::span<const std::uint32_t> hashes) {
  const std::optional<Twins> twins = find_twins(header.tensors, hashes);
  if (!twins) return std::nullopt;
  const HeaderTensor& first = header.tensors[twins->first];
  const HeaderTensor& second = header.tensors[twins->second];
  ErrorFacts facts;
  facts.file = header.file;
  facts.byte_offset = 8 + std::uint64_t{second.header_offset};
  facts.keys.emplace_back(second.name);
  facts.expected = "one entry per name";
  facts.actual = "entries at bytes " + std::to_string(8 + std::uint64_t{first.header_offset}) + " and " +
                 std::to_string(8 + std::uint64_t{second.header_offset});
  facts.hint = "readers disagree on which of the two counts; write the file again from its source";
  return Error(ErrorCode::duplicate_key,
               "tensor " + shown_name(second.name) + " stands twice in the header, with data " + range_text(first) +
                   " and " + range_text(second),
               std::move(facts));
}

std::optional<Error> validate_ranges(Header& header, bool is_sorted) {
  const std::vector<HeaderTensor>& tensors = header.tensors;
  std::vector<std::uint32_t> order;
  if (!is_sorted) {
    order.resize(tensors.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      if (tensors[a].begin != tensors[b].begin) return tensors[a].begin < tensors[b].begin;
      if (tensors[a].end != tensors[b].end) return tensors[a].end < tensors[b].end;
      return a < b;
    });
  }
  const std::uint64_t data_begin = header.data_begin();
  std::uint64_t running_end = 0;
  KeyList unaligned;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const HeaderTensor& tensor = tensors[is_sorted ? i : order[i]];
    const unsigned bits = bits_of(tensor.dtype);
    if (std::optional<Error> error = validate_tensor(header, tensor, bits, running_end)) return error;
    running_end = tensor.end;
    // Element sizes are powers of two; those below a byte have no alignment.
    if (((data_begin + tensor.begin) & ((bits >> 3) - (bits >= 8 ? 1U : 0U))) != 0) {
      unaligned.add(tensor.name, data_begin + tensor.begin);
    }
  }
  if (running_end != header.file_bytes - header.data_begin()) return length_error(header, running_end);
  note_alignment(header, std::move(unaligned));
  return std::nullopt;
}

}  // namespace weightproof::storage::detail
