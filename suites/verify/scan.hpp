// SPDX-License-Identifier: Apache-2.0
// Streams the weight bytes of a checkpoint through small buffers, once, on several threads: memory does not grow with
// the checkpoint. Which bytes form a read depends on the files alone, so results do not depend on the threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "loader/core/error.hpp"
#include "loader/core/limits.hpp"
#include "loader/storage/checkpoint.hpp"
#include "suites/verify/scan_tile.hpp"

namespace weightproof::suites {

struct ScanOptions {
  unsigned threads = 1;
  std::size_t read_bytes = limits::read_bytes_max;
  storage::FileCalls* calls = nullptr;  ///< null: the system's
  /// Bytes done and in all; called from any thread.
  std::function<void(std::uint64_t, std::uint64_t)> progress;
};

/// A fact worth a word about one tensor. Tensors without any do not appear.
struct NotableTensor {
  std::uint32_t tensor = 0;  ///< position in the catalog
  TileFacts facts;
  std::optional<Outlier> outlier;
};

struct ScanResult {
  std::vector<NotableTensor> notable;  ///< in catalog order
  std::uint64_t tensors = 0;           ///< examined to the end
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;
  std::uint64_t reads = 0;
  std::vector<Error> errors;          ///< at most one for each file: failed reads, changed files; in file order
  std::vector<std::uint32_t> unread;  ///< tensors that an error kept from being examined, in catalog order
  bool has_float_mode_fault = false;  ///< a worker flushed subnormals
};

/// Scans the given rows of `checkpoint.catalog` (all of sound, present files). Throws nothing for bad files: their
/// errors are in the result.
ScanResult scan_values(const storage::Checkpoint& checkpoint, std::span<const std::uint32_t> tensors,
                       const ScanOptions& options);

/// Result of comparing two stored tensors byte by byte.
struct ByteComparison {
  std::uint64_t bytes = 0;
  std::uint64_t differing_elements = 0;
  std::optional<std::uint64_t> first_element;  ///< row-major index of the first that differs
  std::vector<std::byte> first_a;              ///< its bytes on either side
  std::vector<std::byte> first_b;
};
/// Streams both ranges; they have equal sizes. `element_bytes` of a sub-byte dtype is 1. Throws io_error, file_changed.
ByteComparison compare_ranges(const storage::File& a, std::uint64_t begin_a, const storage::File& b,
                              std::uint64_t begin_b, std::uint64_t bytes, std::size_t element_bytes);

/// True where this thread keeps subnormal numbers: neither flush-to-zero nor denormals-are-zero.
bool keeps_subnormals();

/// Number of worker threads: `asked`, or what the machine has where it is 0.
unsigned thread_count(std::uint64_t asked);

}  // namespace weightproof::suites
