// SPDX-License-Identifier: Apache-2.0
// What is stored: one row per stored tensor. The planner sees only this, never files. Rows come from headers
// (everything known), from an index alone (names only), or are synthetic. Thread rule: immutable once built; keys live
// as long as the catalog or a copy of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/dtype.hpp"
#include "loader/core/shape.hpp"

namespace weightproof {

struct StoredTensor {
  std::string_view key;
  Shape shape;              ///< meaningful where `is_described`
  std::uint64_t begin = 0;  ///< absolute byte offset in the file
  std::uint64_t bytes = 0;
  std::uint32_t file = 0;     ///< index into Catalog::files()
  DType dtype = DType::u8;    ///< meaningful where `is_described`
  bool is_described = false;  ///< shape, dtype and range are known (false: from an index without headers)
};

class Catalog {
 public:
  Catalog() = default;

  std::span<const StoredTensor> tensors() const { return tensors_; }
  const std::vector<std::string>& files() const { return files_; }  ///< relative to the checkpoint root
  /// Null when absent. O(1).
  const StoredTensor* find(std::string_view key) const;
  /// Position in tensors(), or SIZE_MAX.
  std::size_t index_of(std::string_view key) const;
  /// index_of() for many keys at once, several times as fast on large catalogs: positions[i] belongs to keys[i],
  /// UINT32_MAX where absent. Both spans have one length.
  void find_all(std::span<const std::string_view> keys, std::span<std::uint32_t> positions) const;
  std::size_t size() const { return tensors_.size(); }
  /// True where every row is described.
  bool is_described() const { return is_described_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  friend class CatalogBuilder;
  std::vector<StoredTensor> tensors_;
  std::vector<std::string> files_;
  std::vector<std::uint32_t> slots_;  // open addressing, see key_table_internal.hpp
  std::vector<std::shared_ptr<const void>> keep_alive_;
  bool is_described_ = true;
  std::uint64_t bytes_ = 0;
};

/// Rows keep the order in which they were added. add() of a key that is already there throws Error(duplicate_tensor)
/// naming both files, unless the caller asked find() first and decided; past limits::tensors_max it throws
/// Error(limit_exceeded).
class CatalogBuilder {
 public:
  void reserve(std::size_t tensors);
  std::uint32_t add_file(std::string relative_path);
  /// Keys must stay valid: `keep` holds whatever owns their characters.
  void keep_alive(std::shared_ptr<const void> keep);
  void add(const StoredTensor& tensor);
  /// Copies the key.
  void add_copy(StoredTensor tensor);
  const StoredTensor* find(std::string_view key) const;
  Catalog finish() &&;

 private:
  Catalog catalog_;
  std::shared_ptr<std::vector<std::unique_ptr<char[]>>> owned_;  // blocks of copied keys
  std::size_t block_used_ = 0;
  std::size_t block_size_ = 0;
  std::vector<std::uint32_t> hashes_;  // of the keys, by position
};

}  // namespace weightproof
