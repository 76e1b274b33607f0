// SPDX-License-Identifier: Apache-2.0
// The safetensors header: our own scanner, because it must be fast (one pass, no tree), strict, and able to say where.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/core/diagnostic.hpp"
#include "loader/core/dtype.hpp"
#include "loader/core/shape.hpp"
#include "loader/storage/file.hpp"

namespace weightproof::storage {

struct HeaderTensor {
  std::string_view name;  ///< decoded; points into Header
  Shape shape;
  std::uint64_t begin = 0;  ///< relative to the data buffer
  std::uint64_t end = 0;
  std::uint32_t header_offset = 0;  ///< of the entry in the header text, for messages
  DType dtype = DType::u8;
};

/// Result of reading one header. `tensors` is in header order and complete only where `error` is empty. Memory: at most
/// 4 x header bytes + a constant, header text included. Thread rule: immutable.
struct Header {
  std::string file;                ///< relative name, for messages
  std::uint64_t header_bytes = 0;  ///< N
  std::uint64_t file_bytes = 0;
  std::vector<HeaderTensor> tensors;
  std::vector<std::pair<std::string, std::string>> metadata;  ///< __metadata__, file order
  bool has_metadata = false;
  std::vector<Diagnostic> diagnostics;  ///< notes and warnings, never fail
  std::optional<Error> error;           ///< first violated rule, in the format's order
  std::shared_ptr<const void> text;     ///< keeps the names alive
  FileIdentity identity;

  std::uint64_t data_begin() const { return 8 + header_bytes; }
};

/// Scans header text (without the 8 length bytes). `text_owner` keeps `text` alive in the result. Never throws for bad
/// input.
Header scan_header(std::string_view text, std::uint64_t file_bytes, std::string file,
                   std::shared_ptr<const void> text_owner);

/// Reads and scans the header of a file; recognises what is not safetensors at all (Git LFS pointer, zip or pickle,
/// HTML page) in the hint. Throws only io_error.
Header read_header(const File& file);

/// Prefix bytes that name a known other kind of file, or empty: "a Git LFS pointer", "a zip archive (a PyTorch
/// pickle)", ...
std::string_view recognise_foreign_bytes(std::span<const std::byte> first_bytes);

}  // namespace weightproof::storage
