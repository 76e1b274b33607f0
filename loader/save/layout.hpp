// SPDX-License-Identifier: Apache-2.0
// How a checkpoint is laid out in files: names, order of the tensors, text of headers and index. Taken from an existing
// checkpoint it lets an export reproduce that checkpoint's files byte for byte, whoever wrote them; as text it travels
// with a native state from which the checkpoint is to be written again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/storage/checkpoint.hpp"
#include "loader/storage/writer.hpp"

namespace weightproof::save {

struct FileLayout {
  std::string name;
  std::vector<std::string> keys;  ///< in the order that the style takes them
  /// Of these, one each: what a native state has to become again.
  std::vector<DType> dtypes;
  std::vector<Shape> shapes;
  storage::HeaderStyle style = storage::HeaderStyle::reference;
  std::optional<storage::Metadata> metadata;
  /// Header text of a file that follows none of the known styles: kept, and used where keys, dtypes and shapes are what
  /// it says. Empty otherwise.
  std::string header_text;
  friend bool operator==(const FileLayout&, const FileLayout&) = default;
};

struct SavedLayout {
  std::vector<FileLayout> files;
  std::string index_name;  ///< empty: no index
  storage::IndexStyle index_style = storage::IndexStyle::sorted;
  /// Order of the index in IndexStyle::torch.
  std::vector<std::string> index_keys;
  /// Text of an index that follows no known style, used where it says the same files and the same total.
  std::string index_text;
  std::uint64_t payload_bytes = 0;  ///< of all tensors
  friend bool operator==(const SavedLayout&, const SavedLayout&) = default;
};

/// Layout of a checkpoint that was read with its headers. Errors: io_error; usage where headers are missing.
SavedLayout layout_of(const storage::Checkpoint& checkpoint);

/// JSON text, indent 2, and back. parse_layout throws config_invalid, duplicate_key.
std::string layout_text(const SavedLayout& layout);
SavedLayout parse_layout(std::string_view text, std::string_view file);

}  // namespace weightproof::save
