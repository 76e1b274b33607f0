// SPDX-License-Identifier: Apache-2.0
// The header of one file: eight bytes of length, one JSON object, then data. The checks follow in the order of their
// list.
#include <algorithm>
#include <cstring>
#include <set>

#include "reference/json.hpp"
#include "reference/safetensors.hpp"

namespace weightproof::reference {
namespace {

constexpr std::uint64_t k_header_bytes_max = 100'000'000;

[[noreturn]] void refuse(const std::string& sentence) { throw Failure("InvalidHeaderDeserialization", sentence); }

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
    const unsigned lead = byte(i);
    const std::size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
    if (length == 0 || i + length > text.size()) return false;
    std::uint32_t point = length == 1 ? lead : lead & (0x7fu >> length);
    for (std::size_t k = 1; k < length; ++k) {
      if (byte(i + k) >> 6 != 2) return false;
      point = point << 6 | (byte(i + k) & 0x3f);
    }
    const std::uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < smallest[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return false;
    i += length;
  }
  return true;
}

std::uint64_t natural(const Json& value, const std::string& where) {
  if (const std::uint64_t* n = value.natural()) return *n;
  refuse("'" + where + "' holds something that is not a natural number");
}

// begin and end are still relative to the data here.
TensorEntry read_entry(const std::string& key, const Json& value) {
  if (!value.is_object()) refuse("entry '" + key + "' is not an object");
  TensorEntry entry;
  entry.key = key;
  int dtypes = 0, shapes = 0, offsets = 0;
  for (const auto& [field, content] : *value.object()) {
    if (field == "dtype") {
      ++dtypes;
      const auto dtype = content.text() ? dtype_named(*content.text()) : std::nullopt;
      if (!dtype) refuse("'" + key + "' has an unknown dtype");
      entry.dtype = *dtype;
    } else if (field == "shape") {
      ++shapes;
      if (!content.array()) refuse("shape of '" + key + "' is not an array");
      for (const Json& extent : *content.array()) entry.shape.push_back(natural(extent, key));
    } else if (field == "data_offsets") {
      ++offsets;
      if (!content.array() || content.array()->size() != 2) refuse("data_offsets of '" + key + "' are not two numbers");
      entry.begin = natural((*content.array())[0], key);
      entry.end = natural((*content.array())[1], key);
    }
  }
  if (dtypes != 1 || shapes != 1 || offsets != 1) refuse("'" + key + "' lacks or repeats a field");
  return entry;
}

void read_metadata(const Json& value, Header& header) {
  if (value.is_null()) return;
  if (!value.is_object()) refuse("__metadata__ is not an object");
  std::set<std::string> seen;
  for (const auto& [name, content] : *value.object()) {
    if (!content.text()) refuse("__metadata__ '" + name + "' is not a string");
    if (!seen.insert(name).second) throw Failure("DUPLICATE_KEY", "__metadata__ names '" + name + "' twice");
    header.metadata.emplace_back(name, *content.text());
  }
}

// Bytes of a dense tensor, or Failure. Any product of the non-zero extents must fit, so must elements * bits.
std::uint64_t dense_bytes(const TensorEntry& entry) {
  std::uint64_t nonzero = 1;
  bool is_empty = false;
  for (std::uint64_t extent : entry.shape) {
    if (extent == 0)
      is_empty = true;
    else if (__builtin_mul_overflow(nonzero, extent, &nonzero))
      throw Failure("ValidationOverflow", "shape of '" + entry.key + "' overflows");
  }
  const std::uint64_t elements = is_empty ? 0 : nonzero;
  std::uint64_t bits = 0;
  if (__builtin_mul_overflow(elements, std::uint64_t{bits_of(entry.dtype)}, &bits))
    throw Failure("ValidationOverflow", "size of '" + entry.key + "' overflows");
  if (bits % 8 != 0) throw Failure("MisalignedSlice", "'" + entry.key + "' ends inside a byte");
  return bits / 8;
}

}  // namespace

Header parse_header(std::span<const std::byte> bytes, std::uint64_t file_bytes) {
  if (file_bytes < 8 || bytes.size() < 8) throw Failure("HeaderTooSmall", "the file is shorter than 8 bytes");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  if (length > k_header_bytes_max) throw Failure("HeaderTooLarge", "header of " + std::to_string(length) + " bytes");
  if (8 + length > file_bytes || 8 + length > bytes.size())
    throw Failure("InvalidHeaderLength",
                  "header of " + std::to_string(length) + " bytes runs past the end of the file");

  std::string text(static_cast<std::size_t>(length), '\0');
  if (length != 0) std::memcpy(text.data(), bytes.data() + 8, text.size());
  if (!is_utf8(text)) throw Failure("InvalidHeader", "the header is not UTF-8");
  const Json root = parse_json(text);
  if (!root.is_object()) refuse("the header is not an object");

  Header header;
  int metadata_count = 0;
  for (const auto& [key, value] : *root.object()) {
    if (key != "__metadata__") {
      header.tensors.push_back(read_entry(key, value));
    } else {
      if (++metadata_count > 1) refuse("__metadata__ twice");
      read_metadata(value, header);
    }
  }
  std::set<std::string_view> seen;
  for (const TensorEntry& entry : header.tensors)
    if (!seen.insert(entry.key).second) throw Failure("DUPLICATE_KEY", "the header names '" + entry.key + "' twice");

  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t running = 0;
  for (TensorEntry& entry : header.tensors) {
    if (entry.begin != running || entry.end < entry.begin)
      throw Failure("InvalidOffset", "data of '" + entry.key + "' leaves a hole or overlaps");
    if (dense_bytes(entry) != entry.end - entry.begin)
      throw Failure("TensorInvalidInfo", "'" + entry.key + "' has " + std::to_string(entry.end - entry.begin) +
                                             " bytes, its shape and dtype need " + std::to_string(dense_bytes(entry)));
    running = entry.end;
  }
  // file_bytes >= 8 + length was checked, so this cannot overflow.
  if (running != file_bytes - 8 - length)
    throw Failure("MetadataIncompleteBuffer", "the header describes " + std::to_string(running) +
                                                  " bytes of data, the file has " +
                                                  std::to_string(file_bytes - 8 - length));
  for (TensorEntry& entry : header.tensors) {
    entry.begin += 8 + length;
    entry.end += 8 + length;
  }
  return header;
}

}  // namespace weightproof::reference
