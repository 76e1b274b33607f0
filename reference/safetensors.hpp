// SPDX-License-Identifier: Apache-2.0
// The reference's own reader of safetensors files: parse the whole header, check it strictly, remember where every
// tensor lies, read boxes of elements. Not thread safe: one Checkpoint belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/failure.hpp"
#include "reference/numbers.hpp"

namespace weightproof::reference {

using Shape = std::vector<std::uint64_t>;
using Bytes = std::vector<std::byte>;

/// Product of the extents; an empty shape is one element.
std::uint64_t count_of(const Shape& shape);
std::string text_of(const Shape& shape);

/// A box of elements: start and extent per axis.
struct Box {
  Shape start, extent;
};
Box whole(const Shape& shape);

struct TensorEntry {
  std::string key;
  Dtype dtype = Dtype::u8;
  Shape shape;
  std::size_t file = 0;              // Index into Checkpoint::files().
  std::uint64_t begin = 0, end = 0;  // Byte range in that file.
};

struct Header {
  std::vector<TensorEntry> tensors;  // In data order; begin and end count from the start of the file.
  std::vector<std::pair<std::string, std::string>> metadata;
};

/// Checks and reads a header. `text` holds the first min(file_bytes, 8 + header length) bytes of the file at least.
/// Throws Failure whose kind is the class of the violated rule (HeaderTooSmall, HeaderTooLarge, InvalidHeaderLength,
/// InvalidHeader, InvalidHeaderDeserialization, DUPLICATE_KEY, InvalidOffset, ValidationOverflow, MisalignedSlice,
/// TensorInvalidInfo, MetadataIncompleteBuffer).
Header parse_header(std::span<const std::byte> text, std::uint64_t file_bytes);

/// A byte source that stays open. Reads that run past the end throw Failure(FILE_CHANGED).
class File {
 public:
  explicit File(const std::filesystem::path& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::uint64_t bytes() const { return bytes_; }
  void read(std::uint64_t offset, std::span<std::byte> into) const;

 private:
  std::string name_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

class Checkpoint {
 public:
  /// A directory, a .safetensors file, an index file or a cache directory of the hub. Throws Failure
  /// (NO_CHECKPOINT_FOUND, INDEX_INVALID, SHARD_MISSING, INDEX_TENSOR_NOT_IN_SHARD, INDEX_INCOMPLETE,
  /// UNSAFE_SHARD_PATH, DUPLICATE_TENSOR, LEGACY_PICKLE_CHECKPOINT, ADAPTER_WITHOUT_BASE, NATIVE_DCP_CHECKPOINT,
  /// REVISION_AMBIGUOUS, or a header class).
  static Checkpoint open(const std::filesystem::path& path);

  /// Sorted by key.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const TensorEntry* find(std::string_view key) const;
  const TensorEntry& at(std::string_view key) const;
  const std::vector<std::filesystem::path>& files() const { return files_; }
  const std::filesystem::path& directory() const { return directory_; }
  /// __metadata__ of all files, later files last.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// Bytes [offset, offset + into.size()) of one tensor's data.
  void read_bytes(const TensorEntry& entry, std::uint64_t offset, std::span<std::byte> into) const;
  /// The elements of a box, dense and row-major. Sub-byte types: every row of the box must begin and end on a byte.
  Bytes read_elements(std::string_view key, const Box& box) const;

 private:
  std::filesystem::path directory_;
  std::vector<std::filesystem::path> files_;
  std::vector<TensorEntry> tensors_;
  std::map<std::string, std::string> metadata_;
  mutable std::map<std::size_t, std::unique_ptr<File>> open_files_;
  static Checkpoint open_selected(const std::filesystem::path& path);
  const File& file(std::size_t index) const;
  void add_file(const std::filesystem::path& path, std::vector<TensorEntry>& into);
};

/// The names of an index file, in file order, with the shard each is mapped to. Throws Failure.
std::vector<std::pair<std::string, std::string>> read_index(const std::filesystem::path& index);
/// A whole small file as text. Throws Failure(IO_ERROR).
std::string read_text(const std::filesystem::path& path, std::uint64_t bytes_max = std::uint64_t{1} << 30);

}  // namespace weightproof::reference
