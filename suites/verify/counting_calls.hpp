// SPDX-License-Identifier: Apache-2.0
// What loads really ask the system for, whatever the loader says of itself: how often files are opened, and which bytes
// of which file are read. What may be read, and which stored tensors were read beyond it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "loader/plan/plan.hpp"
#include "loader/storage/file.hpp"

namespace weightproof::suites {

/// Bytes that a load may read: 1.02 times what it wants, since later tiles read scales and code books again, and so
/// many bytes of company for each range of it.
std::uint64_t reads_bound(std::uint64_t wanted, std::uint64_t ranges, std::uint64_t bytes_per_range);

/// The bound of one plan, which reads through gaps of at most `gap_bytes_max`: where nothing is decoded no more than
/// 1.02 times all that is stored. A gap may hold codes, and those are read for themselves as well; what is compared
/// with a tensor that comes later is read again.
std::uint64_t reads_bound(const plan::Plan& plan, std::uint64_t gap_bytes_max);

/// A tensor to name for what concerns a load as a whole. Precondition: the plan has one.
std::string_view largest_of(const plan::Plan& plan);

/// The stored tensors of each file, in order.
class FileRows {
 public:
  FileRows() = default;
  /// `catalog` outlives this.
  explicit FileRows(const Catalog& catalog);
  const Catalog& catalog() const { return *catalog_; }
  /// Calls `use(row, begin, end)` for what each tensor has of the range, in bytes of the file.
  template <typename Use>
  void for_each(std::uint32_t file, std::uint64_t begin, std::uint64_t end, const Use& use) const {
    for (std::size_t i = first_behind(file, begin); i < rows_[file].size(); ++i) {
      const StoredTensor& tensor = catalog_->tensors()[rows_[file][i]];
      if (tensor.begin >= end) {
        break;
      }
      use(rows_[file][i], std::max(begin, tensor.begin), std::min(end, tensor.begin + tensor.bytes));
    }
  }

 private:
  // The first tensor of the file that ends behind `offset`.
  std::size_t first_behind(std::uint32_t file, std::uint64_t offset) const;
  const Catalog* catalog_ = nullptr;
  std::vector<std::vector<plan::Row>> rows_;  // of each file; without those that have no bytes
};

/// Takes no memory while it counts. Thread-safe, but for watch() and set_inner(), which come before the first call.
class CountingCalls final : public storage::FileCalls {
 public:
  explicit CountingCalls(storage::FileCalls& inner = storage::FileCalls::system()) : inner_(&inner) {}
  void set_inner(storage::FileCalls& inner) { inner_ = &inner; }
  /// Counts tensor by tensor what is read of these files, which lie under `root`. `catalog` outlives this.
  void watch(const Catalog& catalog, const std::filesystem::path& root);

  int open(const char* path, int flags) override;
  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override;
  std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) override;

  /// Begins a new count of what is read. Files stay known and opens are counted on.
  void start();
  std::uint64_t opens() const;
  /// Read since start().
  std::uint64_t bytes() const;
  /// The same of one tensor of what is watched.
  std::uint64_t bytes_of(plan::Row row) const;

  /// Where more than `bound` was read since start(): stored tensors of which more was read than the plan says, and
  /// where that does not explain it those of which the plan reads most beyond what it wants. In the order of the
  /// catalog, which is the plan's and is watched. Empty where what was read too much lies outside of all tensors.
  std::vector<std::string> overread(const plan::Plan& plan, std::uint64_t bound) const;

 private:
  std::int64_t counted(int fd, std::int64_t bytes, std::int64_t offset);

  storage::FileCalls* inner_;
  FileRows rows_;
  std::map<std::string, std::uint32_t, std::less<>> file_of_path_;
  mutable std::mutex mutex_;
  std::map<int, std::uint32_t> file_of_;  // of an open descriptor; of other files none
  std::vector<std::uint64_t> row_bytes_;  // of each tensor, read since start()
  std::uint64_t opens_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace weightproof::suites
