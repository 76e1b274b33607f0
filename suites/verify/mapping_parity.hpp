// SPDX-License-Identifier: Apache-2.0
// Two statements of one mapping, element by element: the loader's bindings push a stored view to a native one, the
// reference pulls one native coordinate from one stored coordinate. Neither knows the other; here they meet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loader/core/catalog.hpp"
#include "loader/core/schema.hpp"
#include "loader/plan/coverage.hpp"
#include "reference/mapping.hpp"

namespace weightproof::suites {

enum class ParityDepth : std::uint8_t {
  every_element,
  view_corners  ///< first and last coordinate of every axis of every view: real shapes, where elements are billions
};

struct MappingDifference {
  std::string key;      ///< the native tensor; the stored one where no native tensor is concerned
  std::string message;  ///< what either side says
};

struct MappingParity {
  std::uint64_t native_tensors = 0;
  std::uint64_t elements = 0;                  ///< of native tensors: ours and the reference's place compared
  std::uint64_t passed_through = 0;            ///< of tensors that pass through
  std::uint64_t returned_elements = 0;         ///< stored elements that the reference finds again after going to native
  std::vector<MappingDifference> differences;  ///< at most one per tensor and kind, in the order of the schema
  bool is_equal() const { return differences.empty(); }
};

/// Compares all native tensors, what passes through, ties, drops and keys that nobody knows; and takes every stored
/// element of the reference to native and back. `coverage` says which stored tensors are there; keys of `mapping` are
/// the logical tensors of `catalog`. Throws reference::Failure.
MappingParity compare_mappings(const Schema& schema, const Catalog& catalog, const plan::KeyCoverage& coverage,
                               const reference::Mapping& mapping, ParityDepth depth);

/// Logical tensors of a checkpoint as the reference wants them: what is stored as itself with the shape of its header
/// (of the schema, where there is none), what codecs yield under the weight's name.
std::vector<reference::Key> logical_keys(const Schema& schema, const Catalog& catalog,
                                         const std::vector<plan::DecodedTensor>& decoded);

/// Elements that `every_element` compares, without comparing them.
std::uint64_t native_element_count(const Schema& schema);

}  // namespace weightproof::suites
