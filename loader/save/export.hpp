// SPDX-License-Identifier: Apache-2.0
// Writes a safetensors checkpoint: files, index, carried files; read back and compared; then published in one step. A
// failed export leaves nothing under the target's name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "loader/core/dtype.hpp"
#include "loader/core/shape.hpp"
#include "loader/save/layout.hpp"
#include "loader/save/publish.hpp"
#include "loader/save/shards.hpp"
#include "loader/storage/writer.hpp"

namespace weightproof::save {

struct ExportTensor {
  std::string key;
  DType dtype = DType::f32;
  Shape shape;
  std::uint64_t storage = UINT64_MAX;  ///< tensors of one storage go into one file; UINT64_MAX: alone
};

/// Where the bytes come from. Called by several threads at once.
class ExportSource {
 public:
  virtual ~ExportSource() = default;
  /// Said before the first read of a file: the tensors of it, in the order in which they will be asked for (nearly so
  /// with several threads). Reads of earlier files are over.
  virtual void begin_file(std::span<const std::size_t> tensors) { static_cast<void>(tensors); }
  /// Fills `target` with the dense row-major little-endian bytes of tensor `tensor` (position in the list given to the
  /// export) from `offset`. Throws Error.
  virtual void read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> target) = 0;
};

/// Bytes that lie in memory; they must stay there.
class MemorySource : public ExportSource {
 public:
  explicit MemorySource(std::vector<std::span<const std::byte>> tensors) : tensors_(std::move(tensors)) {}
  void read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> target) override;

 private:
  std::vector<std::span<const std::byte>> tensors_;
};

/// The stored tensors of a checkpoint, in the order of its catalog. Files are opened once; a file that changed since
/// its header was read is refused (file_changed).
class CheckpointSource : public ExportSource {
 public:
  explicit CheckpointSource(const storage::Checkpoint& checkpoint);
  void read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> target) override;
  /// What an export of it lists.
  static std::vector<ExportTensor> tensors_of(const storage::Checkpoint& checkpoint);

 private:
  const storage::Checkpoint& checkpoint_;
  std::vector<storage::File> files_;
};

/// A file that goes along unchanged.
struct CarriedFile {
  std::string name;
  std::string text;
};

struct ExportOptions {
  std::uint64_t shard_bytes = k_shard_bytes_default;  ///< hub rule; not used with `layout`
  std::optional<SavedLayout> layout;                  ///< files as there; must name exactly the tensors given
  storage::HeaderStyle style = storage::HeaderStyle::reference;
  std::optional<storage::Metadata> metadata = storage::Metadata{{"format", "pt"}};
  std::vector<CarriedFile> carried;
  Replace replace = Replace::never;
  bool is_verified = true;  ///< read back and compared before publishing
  unsigned threads = 1;
  std::size_t window_bytes = 4 * 1024 * 1024;  ///< buffer of one thread
  WriteCalls* calls = nullptr;                 ///< null: the system's
  std::stop_token stop;
  std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)> progress;  ///< called by any thread
};

struct ExportedFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t tensors = 0;
};

struct ExportResult {
  std::vector<ExportedFile> files;     ///< weight files
  std::string index_name;              ///< empty: none was written
  std::uint64_t total_size = 0;        ///< payload
  std::uint64_t total_parameters = 0;  ///< elements as stored
  std::uint64_t bytes_written = 0;
  std::uint64_t bytes_verified = 0;
};

/// `target` is a directory to be, or a file to be where its name ends in ".safetensors" (one file, no index, nothing
/// carried). Errors: target_exists, io_error, duplicate_key, export_verify_failed (names the tensor and the element),
/// tensor_not_mapped (layout and tensors differ), load_failed_partial (stopped), whatever the source throws.
ExportResult export_checkpoint(std::span<const ExportTensor> tensors, ExportSource& source,
                               const std::filesystem::path& target, const ExportOptions& options = {});

}  // namespace weightproof::save
