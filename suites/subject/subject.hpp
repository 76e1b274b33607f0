// SPDX-License-Identifier: Apache-2.0
// What a suite tests: something that turns a checkpoint into native state and back. Our loader on a route, a mutant of
// it, the reference, a foreign process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loader/core/box.hpp"
#include "loader/core/dtype.hpp"
#include "loader/core/shape.hpp"

namespace weightproof::suites {

struct SubjectTensor {
  std::string key;
  DType dtype = DType::bf16;
  Shape shape;
};

/// What a subject says of what it took so far; empty where it cannot tell.
struct SubjectCounters {
  std::optional<std::uint64_t> read_bytes;
  std::optional<std::uint64_t> opens;
  std::optional<std::uint64_t> peak_bytes;  ///< of host memory, what is handed out included
};

/// Asked by one thread at a time. What goes wrong is an Error.
class Subject {
 public:
  virtual ~Subject() = default;
  /// "loader, route direct": for messages.
  virtual std::string name() const = 0;
  /// The native tensors, in an order that stays.
  virtual const std::vector<SubjectTensor>& describe() = 0;
  /// Fills `target` with the dense row-major little-endian bytes of `box` of tensor `tensor` (position in describe()).
  /// A box of elements smaller than a byte is the whole tensor.
  virtual void region(std::size_t tensor, const Box& box, std::span<std::byte> target) = 0;
  /// Writes the native state back as stored tensors: a directory to be.
  virtual void export_to(const std::filesystem::path& target) = 0;
  virtual SubjectCounters counters() const = 0;
};

struct SubjectDifference {
  std::string key;
  std::string where;  ///< coordinate of the first element that differs; empty where the tensor as a whole does
  std::string what;
};

/// All of both, region by region, in windows of at most `window_bytes` each. Tensors are matched by key; one that the
/// other lacks, or has in another dtype or shape, is a difference.
std::vector<SubjectDifference> compare_subjects(
    Subject& expected, Subject& actual, std::uint64_t window_bytes,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& progress = {});

}  // namespace weightproof::suites
