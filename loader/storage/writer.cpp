// SPDX-License-Identifier: Apache-2.0
#include "loader/storage/writer.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "loader/core/error.hpp"
#include "loader/core/limits.hpp"
#include "loader/storage/header_internal.hpp"
#include "loader/storage/utf8_internal.hpp"

namespace weightproof::storage {
namespace {

constexpr std::string_view k_hex_digits = "0123456789abcdef";

void append_unit(std::string& out, std::uint32_t unit) {
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += k_hex_digits[(unit >> shift) & 15U];
}

// One code point of well-formed UTF-8; advances `at`.
std::uint32_t take_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(at);
  const unsigned tail = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
  std::uint32_t point = tail == 3 ? lead & 0x07U : tail == 2 ? lead & 0x0FU : tail == 1 ? lead & 0x1FU : lead;
  for (unsigned i = 1; i <= tail; ++i) point = (point << 6) | (byte(at + i) & 0x3FU);
  at += tail + 1;
  return point;
}

/// JSON string with the escapes of the format's reference writer; `is_ascii` escapes everything outside ASCII as well.
void append_string(std::string& out, std::string_view text, bool is_ascii) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const unsigned char byte = static_cast<unsigned char>(text[at]);
    if (byte >= 0x80 || (byte == 0x7F && is_ascii)) {
      if (!is_ascii) {
        out += text[at++];
        continue;
      }
      const std::uint32_t point = take_point(text, at);
      if (point >= 0x10000) {
        append_unit(out, 0xD800U + ((point - 0x10000U) >> 10));
        append_unit(out, 0xDC00U + ((point - 0x10000U) & 0x3FFU));
      } else {
        append_unit(out, point);
      }
      continue;
    }
    ++at;
    switch (byte) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (byte < 0x20) {
          append_unit(out, byte);
        } else {
          out += static_cast<char>(byte);
        }
    }
  }
  out += '"';
}

[[noreturn]] void refuse(ErrorCode code, std::string_view key, const std::string& what) {
  ErrorFacts facts;
  facts.keys.emplace_back(key);
  throw Error(code, "cannot write tensor " + detail::shown_name(key) + ": " + what, std::move(facts));
}

void require_utf8(std::string_view text) {
  if (detail::find_invalid_utf8(text) != std::string_view::npos) {
    refuse(ErrorCode::invalid_header, text, "the text is not UTF-8");
  }
}

std::uint64_t require_bytes(const TensorSpec& tensor) {
  const std::optional<std::uint64_t> elements = element_count(tensor.shape);
  std::uint64_t bits = 0;
  if (!elements || __builtin_mul_overflow(*elements, std::uint64_t{bits_of(tensor.dtype)}, &bits)) {
    refuse(ErrorCode::validation_overflow, tensor.name,
           "the size of shape " + to_string(tensor.shape) + " does not fit 64 bits");
  }
  if (bits % 8 != 0) {
    refuse(
        ErrorCode::misaligned_slice, tensor.name,
        std::to_string(*elements) + " elements of " + std::string(name_of(tensor.dtype)) + " do not fill whole bytes");
  }
  return bits / 8;
}

void require_distinct(std::span<const TensorSpec> tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return tensors[a].name < tensors[b].name; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (tensors[order[i]].name == tensors[order[i - 1]].name) {
      refuse(ErrorCode::duplicate_key, tensors[order[i]].name, "the name is given twice");
    }
  }
}

Metadata sorted_metadata(const Metadata& metadata) {
  Metadata sorted = metadata;
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    require_utf8(sorted[i].first);
    require_utf8(sorted[i].second);
    if (i != 0 && sorted[i].first == sorted[i - 1].first) {
      refuse(ErrorCode::duplicate_key, "__metadata__",
             "the name " + detail::shown_name(sorted[i].first) + " is given twice");
    }
  }
  return sorted;
}

void append_metadata(std::string& out, const Metadata& metadata) {
  out += "\"__metadata__\":{";
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    if (i != 0) out += ',';
    append_string(out, metadata[i].first, false);
    out += ':';
    append_string(out, metadata[i].second, false);
  }
  out += '}';
}

void append_numbers(std::string& out, std::span<const std::uint64_t> numbers, std::string_view separator) {
  out += '[';
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i != 0) out += separator;
    out += std::to_string(numbers[i]);
  }
  out += ']';
}

void append_entry(std::string& out, const TensorSpec& tensor, const PlannedTensor& planned, HeaderStyle style) {
  const std::array<std::uint64_t, 2> offsets = {planned.begin, planned.end};
  if (style == HeaderStyle::consolidator) {
    append_string(out, tensor.name, true);
    out += ": {\"shape\": ";
    append_numbers(out, tensor.shape.span(), ", ");
    out += ", \"dtype\": \"";
    out += name_of(tensor.dtype);
    out += "\", \"data_offsets\": ";
    append_numbers(out, offsets, ", ");
  } else {
    append_string(out, tensor.name, false);
    out += ":{\"dtype\":\"";
    out += name_of(tensor.dtype);
    out += "\",\"shape\":";
    append_numbers(out, tensor.shape.span(), ",");
    out += ",\"data_offsets\":";
    append_numbers(out, offsets, ",");
  }
  out += '}';
}

}  // namespace

HeaderPlan plan_header(std::span<const TensorSpec> tensors, const std::optional<Metadata>& metadata,
                       HeaderStyle style) {
  if (tensors.size() > limits::tensors_per_file_max) {
    throw Error(ErrorCode::limit_exceeded, "cannot write " + std::to_string(tensors.size()) + " tensors into one file");
  }
  if (style == HeaderStyle::consolidator && metadata) {
    refuse(ErrorCode::invalid_header_deserialization, "__metadata__", "this header style has no metadata");
  }
  require_distinct(tensors);
  HeaderPlan plan;
  plan.tensors.resize(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    require_utf8(tensors[i].name);
    if (tensors[i].name == "__metadata__") {
      refuse(ErrorCode::invalid_header_deserialization, tensors[i].name, "the name is reserved by the format");
    }
    plan.tensors[i].source = i;
  }
  if (style == HeaderStyle::reference) {
    std::sort(plan.tensors.begin(), plan.tensors.end(), [&](const PlannedTensor& a, const PlannedTensor& b) {
      const TensorSpec& left = tensors[a.source];
      const TensorSpec& right = tensors[b.source];
      return left.dtype != right.dtype ? left.dtype > right.dtype : left.name < right.name;
    });
  }
  for (PlannedTensor& planned : plan.tensors) {
    const TensorSpec& tensor = tensors[planned.source];
    planned.begin = plan.data_bytes;
    if (__builtin_add_overflow(planned.begin, require_bytes(tensor), &planned.end)) {
      refuse(ErrorCode::validation_overflow, tensor.name, "the size of all tensors does not fit 64 bits");
    }
    plan.data_bytes = planned.end;
  }

  const std::string_view separator = style == HeaderStyle::consolidator ? ", " : ",";
  const Metadata sorted = metadata ? sorted_metadata(*metadata) : Metadata{};
  std::string& out = plan.bytes;
  out.assign(8, '\0');
  out += '{';
  bool is_first = true;
  const auto separate = [&] {
    if (!is_first) out += separator;
    is_first = false;
  };
  if (metadata && style == HeaderStyle::reference) {
    separate();
    append_metadata(out, sorted);
  }
  for (const PlannedTensor& planned : plan.tensors) {
    separate();
    append_entry(out, tensors[planned.source], planned, style);
  }
  if (metadata && style == HeaderStyle::automodel) {
    separate();
    append_metadata(out, sorted);
  }
  out += '}';
  if (style != HeaderStyle::consolidator) {
    while (out.size() % 8 != 0) out += ' ';
  }
  const std::uint64_t header_bytes = out.size() - 8;
  if (header_bytes > limits::header_bytes_max) {
    throw Error(ErrorCode::header_too_large, "the header would take " + std::to_string(header_bytes) +
                                                 " bytes; at most " + std::to_string(limits::header_bytes_max) +
                                                 " are allowed; use more shards");
  }
  for (unsigned i = 0; i < 8; ++i) out[i] = static_cast<char>(static_cast<unsigned char>(header_bytes >> (8 * i)));
  return plan;
}

std::string index_text(std::span<const std::pair<std::string, std::string>> weight_map, std::uint64_t total_size,
                       std::uint64_t total_parameters, IndexStyle style) {
  std::vector<std::size_t> order(weight_map.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<std::size_t> sorted = order;
  std::sort(sorted.begin(), sorted.end(),
            [&](std::size_t a, std::size_t b) { return weight_map[a].first < weight_map[b].first; });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (weight_map[sorted[i]].first == weight_map[sorted[i - 1]].first) {
      refuse(ErrorCode::duplicate_key, weight_map[sorted[i]].first, "the index would name it twice");
    }
  }
  if (style == IndexStyle::sorted) order = std::move(sorted);

  std::string out = "{\n  \"metadata\": {\n";
  if (style == IndexStyle::sorted) out += "    \"total_parameters\": " + std::to_string(total_parameters) + ",\n";
  out += "    \"total_size\": " + std::to_string(total_size) + "\n  },\n  \"weight_map\": {";
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& [key, file] = weight_map[order[i]];
    require_utf8(key);
    require_utf8(file);
    out += i == 0 ? "\n    " : ",\n    ";
    append_string(out, key, true);
    out += ": ";
    append_string(out, file, true);
  }
  if (!order.empty()) out += "\n  ";
  out += "}\n}";
  if (style == IndexStyle::sorted) out += '\n';
  return out;
}

}  // namespace weightproof::storage
