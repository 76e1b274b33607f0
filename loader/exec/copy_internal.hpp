// SPDX-License-Identifier: Apache-2.0
// Strided copies between memory that the processor reaches. Cost: one pass; transposes go by blocks that fill whole
// cache lines of the target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "loader/exec/nest_internal.hpp"

namespace weightproof::exec {

/// Copies the elements of the nest. `source` and `target` are the addresses that offsets of the nest count from;
/// element_bytes is 1, 2, 4 or 8. Memory does not overlap.
void copy_nest(const Nest& nest, const std::byte* source, std::byte* target, unsigned element_bytes);

struct Difference {
  std::uint64_t source = 0;  ///< element, counted as the nest counts
  std::uint64_t target = 0;
};

/// The difference that comes first in the source. Nothing where all elements are equal.
std::optional<Difference> first_difference(const Nest& nest, const std::byte* source, const std::byte* target,
                                           unsigned element_bytes);

/// Writes one element value to all target elements of the nest.
void fill_nest(const Nest& nest, const std::byte* value, std::byte* target, unsigned element_bytes);

/// The nest whose source is what copy_nest() writes when it packs `nest` densely in the order of its target, and whose
/// target is that of `nest`; `packed` is the nest from the old source to the dense block.
Nest pack_by_target(const Nest& nest, Nest& packed);

}  // namespace weightproof::exec
