// SPDX-License-Identifier: Apache-2.0
// Writes safetensors headers byte-identical with the format's reference writer, and other writers' layouts where an
// existing file is to be reproduced.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "loader/core/dtype.hpp"
#include "loader/core/shape.hpp"

namespace weightproof::storage {

struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

/// Text style of a header; `reference` is what we write ourselves.
enum class HeaderStyle : std::uint8_t {
  reference,    ///< rank descending then name; metadata first; padded to 8; compact
  automodel,    ///< given order; metadata last; padded to 8; compact
  consolidator  ///< given order; no metadata; no padding; ", " and ": "; ASCII escapes; shape, dtype, data_offsets
};

struct PlannedTensor {
  std::size_t source = 0;   ///< position in the given specs
  std::uint64_t begin = 0;  ///< relative to the data buffer
  std::uint64_t end = 0;
};

struct HeaderPlan {
  std::string bytes;                   ///< the 8 length bytes and the header text
  std::vector<PlannedTensor> tensors;  ///< in data order
  std::uint64_t data_bytes = 0;
};

using Metadata = std::vector<std::pair<std::string, std::string>>;

/// Metadata keys are sorted by bytes. Names and metadata must be UTF-8. Errors: header_too_large, validation_overflow,
/// misaligned_slice, duplicate_key (a name given twice), invalid_header (not UTF-8), invalid_header_deserialization (a
/// tensor named '__metadata__', or a style that has no metadata given some), limit_exceeded.
HeaderPlan plan_header(std::span<const TensorSpec> tensors, const std::optional<Metadata>& metadata,
                       HeaderStyle style = HeaderStyle::reference);

/// Text style of an index; `sorted` is what we write ourselves.
enum class IndexStyle : std::uint8_t {
  sorted,  ///< as transformers: sorted keys, both totals, final newline
  torch    ///< as torch's consolidation: given order, total_size alone, no final newline
};

/// model.safetensors.index.json text, indent 2, everything outside ASCII escaped. Errors: duplicate_key.
std::string index_text(std::span<const std::pair<std::string, std::string>> weight_map, std::uint64_t total_size,
                       std::uint64_t total_parameters, IndexStyle style = IndexStyle::sorted);

}  // namespace weightproof::storage
